"""Write the data files and deletion files of Lance fragments, on executors or in this process.

Files become part of a leaf only when a commit references them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa

from partita.arrow.required_fields import cast_array
from partita.errors import SchemaError, TableError
from partita.formats.lance.columns import UNPARTITIONED_LEAF_NAME
from partita.formats.lance.leaf_dataset import LeafDataset, fragment_json, translate_lance_errors
from partita.formats.lance.namespace import RootNamespace
from partita.formats.lance.values import ID_SEPARATOR, directory_segments

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.file import LanceFileWriter

MAX_ROWS_PER_FILE = 1_048_576
"""Maximum number of rows of a file, as in Lance."""


@dataclass(frozen=True, slots=True)
class LanceTarget:
    """Where new fragments go: the leaf of their partition.

    `foreign_locations` are the locations of leaves that other writers named differently, by the id that Partita would
    give them.
    """

    root: RootNamespace
    field_names: tuple[str, ...]
    stored_schema: pa.Schema
    foreign_locations: Mapping[str, str] = field(default_factory=dict)

    def open_sink(self, partition: tuple[str | None, ...], task: str) -> LanceSink:
        """Open a new fragment in a partition."""
        return LanceSink(self.leaf(partition), self.stored_schema, f"{uuid4().hex}-{task}.lance")

    def leaf(self, partition: tuple[str | None, ...]) -> LeafDataset:
        """Return the leaf of a partition."""
        names = leaf_identifier(self.field_names, partition)
        return LeafDataset(
            self.root.storage, self.foreign_locations.get(ID_SEPARATOR.join(names)) or self.root.leaf_location(names)
        )


def leaf_identifier(field_names: tuple[str, ...], partition: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the path of names from the root namespace to the leaf of a partition."""
    return directory_segments(field_names, partition) or (UNPARTITIONED_LEAF_NAME,)


@dataclass(slots=True, eq=False)
class LanceSink:
    """Writes one fragment with one data file."""

    leaf: LeafDataset
    stored_schema: pa.Schema
    file_name: str
    row_count: int = 0
    layout: LeafFileLayout | None = None
    writer: LanceFileWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Write rows; columns that only the leaf has are null."""
        from lance.file import LanceFileWriter

        with translate_lance_errors(self.leaf.location):
            if self.writer is None or self.layout is None:
                self.layout = leaf_file_layout(self.leaf, self.stored_schema)
                self.writer = LanceFileWriter(
                    f"{self.leaf.uri}/data/{self.file_name}", self.layout.schema, version=self.layout.file_version,
                    storage_options=dict(self.leaf.storage.options) or None,
                )  # fmt: skip
            for batch in (
                conform_to_schema(_fill_missing_columns(rows, self.layout.schema), self.layout.schema)
                .combine_chunks()
                .to_batches()
            ):
                self.writer.write_batch(batch)
        self.row_count += rows.num_rows

    @property
    def is_full(self) -> bool:
        """Whether further rows should go into another fragment."""
        return self.row_count >= MAX_ROWS_PER_FILE

    def close(self) -> dict[str, object]:
        """Close the file and return its row of `WRITTEN_FILE_SCHEMA`; `details` has the fragment and its field ids."""
        if self.writer is None or self.layout is None:
            raise SchemaError(f"no rows were written to {self.leaf.location}")
        with translate_lance_errors(self.leaf.location):
            self.writer.close()
        size = _file_size(self.leaf, self.file_name)
        major, minor = (int(part) for part in self.layout.file_version.split("."))
        file = {
            "path": self.file_name, "fields": list(self.layout.file_field_ids), "base_id": None,
            "file_size_bytes": size, "column_indices": list(self.layout.column_indices), "file_major_version": major,
            "file_minor_version": minor,
        }  # fmt: skip
        fragment = {
            "id": 0, "files": [file], "overlays": [], "physical_rows": self.row_count, "deletion_file": None,
            "row_id_meta": None, "created_at_version_meta": None, "last_updated_at_version_meta": None,
        }  # fmt: skip
        details = json.dumps({"fragment": fragment, "fields": self.layout.field_ids})
        modified_millis = time.time_ns() // 1_000_000
        return {
            "path": self.leaf.location, "rows": self.row_count, "bytes": size, "modified": modified_millis,
            "details": details,
        }  # fmt: skip

    def abort(self) -> None:
        """Abandon the file: no commit references it, and the removal of orphans deletes it."""
        self.writer = None


@dataclass(frozen=True, slots=True, eq=False)
class LeafFileLayout:
    """How files of a leaf store its columns.

    `schema` has the columns in the leaf's order, `field_ids` their ids by name. `file_field_ids` are the ids of the
    physical columns of a file, `column_indices` their positions in it. `file_version` is that of the file format.
    """

    schema: pa.Schema
    field_ids: Mapping[str, int]
    file_field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
    file_version: str


def leaf_file_layout(leaf: LeafDataset, stored_schema: pa.Schema) -> LeafFileLayout:
    """Return the layout of a leaf, or that of a new one if it doesn't exist or is empty.

    Raises `SchemaError` if the leaf has other columns than the table.
    """
    dataset = leaf.open_if_exists()
    if dataset is None:
        return new_file_layout(stored_schema)
    version = dataset.data_storage_version
    if version in _READ_ONLY_FILE_VERSIONS:
        raise TableError(
            f"the leaf {leaf.location} has Lance's file version {version}, which can't be written any more; "
            "rewrite it with Lance, in a data_storage_version of 2.0 or later"
        )
    if has_columns(dataset.schema, stored_schema):
        return _file_layout(dataset.schema, dataset.lance_schema, version)
    if not dataset.get_fragments():  # the commit overwrites an empty leaf
        return new_file_layout(stored_schema, version)
    difference = schema_difference(dataset.schema, stored_schema)
    raise SchemaError(f"the leaf {leaf.location} has other columns than its table:\n{difference}")


_READ_ONLY_FILE_VERSIONS = frozenset({"0.1", "0.2", "legacy"})


def new_file_layout(stored_schema: pa.Schema, file_version: str | None = None) -> LeafFileLayout:
    """Return the layout of a leaf that Lance creates with these columns."""
    sample = _sample_dataset(stored_schema, file_version)
    return _file_layout(stored_schema, sample.lance_schema, sample.data_storage_version)


def _file_layout(columns: pa.Schema, lance_schema: Any, file_version: str) -> LeafFileLayout:
    """Return the layout of columns with the field ids of a Lance schema, as in a file that Lance itself writes."""
    sample = _sample_dataset(columns, file_version)
    [file] = sample.get_fragments()[0].metadata.files
    ids = dict(zip(_field_ids(sample.lance_schema.fields()), _field_ids(lance_schema.fields()), strict=True))
    return LeafFileLayout(
        columns,
        {f.name(): f.id() for f in lance_schema.fields()},
        tuple(ids[sample_id] for sample_id in file.fields),
        tuple(file.column_indices),
        file_version,
    )


def _sample_dataset(columns: pa.Schema, file_version: str | None) -> LanceDataset:
    """Return an in-memory dataset of one row with these columns; cached."""
    key = (columns.serialize().to_pybytes(), file_version)
    if key not in _SAMPLE_DATASETS:
        import lance

        nullable = [_nullable_field(f) for f in columns]
        row = pa.table([_null_array(f.type) for f in nullable], schema=pa.schema(nullable))
        uri = f"memory://{uuid4().hex}.lance"
        _SAMPLE_DATASETS[key] = lance.write_dataset(row, uri, data_storage_version=cast("Any", file_version))
    return _SAMPLE_DATASETS[key]


_SAMPLE_DATASETS: dict[tuple[bytes, str | None], LanceDataset] = {}


def _nullable_field(field: pa.Field) -> pa.Field:
    """Return a field that is nullable, as are the fields of its structs."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_nullable_field(type_.field(i)) for i in range(type_.num_fields)])
    return field.with_type(type_).with_nullable(True)


def _null_array(type_: pa.DataType) -> pa.Array:
    """Return an array of one null; for a struct one of null fields, since file version 2.0 has no null structs."""
    if not pa.types.is_struct(type_):
        return pa.nulls(1, type_)
    inner = [type_.field(i) for i in range(type_.num_fields)]
    return pa.StructArray.from_arrays([_null_array(f.type) for f in inner], fields=inner)


def _field_ids(fields: Any) -> Iterator[int]:
    """Return the ids of Lance fields and of those inside them, in order."""
    for lance_field in fields:
        yield lance_field.id()
        yield from _field_ids(lance_field.children())


def _file_size(leaf: LeafDataset, name: str) -> int:
    path = f"{leaf.location}/data/{name}"
    if leaf.storage.is_local:
        return Path(leaf.storage.uri, path).stat().st_size
    return next(
        (size for listed_path, size in leaf.storage.list_paths(f"{leaf.location}/data") if listed_path == path), 0
    )


def conform_to_schema(rows: pa.Table, stored_schema: pa.Schema) -> pa.Table:
    """Cast rows to the columns and types of a schema; raise `SchemaError` if they don't fit."""
    try:
        columns = [cast_array(_with_all_buffers(rows[f.name]), f.type) for f in stored_schema]
        return pa.table(columns, names=stored_schema.names).cast(stored_schema)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise SchemaError(
            f"rows don't fit the table: {error}\n{schema_difference(rows.schema, stored_schema)}"
        ) from error


def _fill_missing_columns(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows with nulls in the columns that they lack."""
    for f in columns:
        if f.name not in rows.column_names:
            rows = rows.append_column(f, pa.nulls(rows.num_rows, f.type))
    return rows


def _with_all_buffers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Copy a nested column so that its arrays have all their buffers.

    Java omits the buffers of empty lists, and Arrow's cast to fixed-size lists crashes the process without them.
    """
    return column.take(pa.array(np.arange(len(column)))) if pa.types.is_nested(column.type) else column


def schema_difference(actual: pa.Schema, expected: pa.Schema) -> str:
    """Return the differences of two schemas as text, one per line: missing, unexpected and differing columns."""
    lines = [f"- {f.name}: {f.type}" for f in expected if f.name not in actual.names]
    lines += [f"+ {f.name}: {f.type}" for f in actual if f.name not in expected.names]
    shared_fields = [f for f in expected if f.name in actual.names]
    lines += [f"~ {f.name}: {f.type}, not {actual.field(f.name).type}" for f in shared_fields
              if f.type != actual.field(f.name).type]  # fmt: skip
    return "\n".join(lines) or "the same columns, in another order"


def has_same_columns(actual: pa.Schema, expected: pa.Schema) -> bool:
    """Whether two schemas have the same columns, in any order."""
    return len(actual) == len(expected) and all(
        f.name in actual.names and actual.field(f.name).type == f.type for f in expected
    )


def has_columns(actual: pa.Schema, expected: pa.Schema) -> bool:
    """Whether a schema has the columns of another one, and only nullable ones beside them.

    A leaf has such columns while a column is added to the table, and after that was undone.
    """
    extra = [f for f in actual if f.name not in expected.names]
    common = pa.schema([f for f in actual if f not in extra])
    return all(f.nullable for f in extra) and has_same_columns(common, expected)


def write_deletion_files(
    dataset: LanceDataset, row_addresses: np.ndarray
) -> dict[str, tuple[dict[str, Any], dict[str, Any] | None]]:
    """Write deletion files for some rows; return the changed fragments by id, each before and after.

    A fragment without remaining rows is None after. An address has the fragment id in its upper 32 bits, and the offset
    of the row in the lower ones.
    """
    changed_fragments: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {}
    fragment_ids = row_addresses >> 32
    for fragment_id in np.unique(fragment_ids).tolist():
        fragment = dataset.get_fragment(fragment_id)
        if fragment is None:
            raise TableError(f"{dataset.uri} has no fragment {fragment_id} in version {dataset.version}")
        offsets = (row_addresses[fragment_ids == fragment_id] & 0xFFFF_FFFF).tolist()
        after = fragment.delete_rows(offsets)
        changed_fragments[str(fragment_id)] = (
            fragment_json(fragment.metadata),
            None if after is None else fragment_json(after),
        )
    return changed_fragments
