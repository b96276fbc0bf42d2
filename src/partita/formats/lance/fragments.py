"""Rows into Lance fragments, and rows out of them: what executors do, and this process for small things.

A file that is written and a deletion that is noted are no part of a leaf before a commit names them.
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
import pyarrow.compute as pc

from partita.arrow.required_fields import cast_array
from partita.arrow.transforms import apply
from partita.errors import SchemaError, TableError
from partita.formats.lance.leaf import Leaf, fragment_json, translated
from partita.formats.lance.names import segments, texts
from partita.formats.lance.namespace import BETWEEN, Root
from partita.formats.lance.state import ONLY, Definition

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance.file import LanceFileWriter

FULL = 1_048_576
"""Rows of a file, as Lance has it."""


@dataclass(frozen=True, slots=True)
class LanceTarget:
    """Where new fragments go: into the leaf of their partition.

    `odd` are the locations of leaves that others named in another way, by the id that Partita would give them.
    """

    root: Root
    fields: tuple[str, ...]
    stored: pa.Schema
    odd: Mapping[str, str] = field(default_factory=dict)

    def text(self, value: pa.Scalar) -> str | None:
        """Spark has made a text of it."""
        return cast("str | None", value.as_py())

    def open(self, partition: tuple[str | None, ...], task: str) -> LanceSink:
        """A new fragment in that partition."""
        return LanceSink(self.leaf(partition), self.stored, f"{uuid4().hex}-{task}.lance")

    def leaf(self, partition: tuple[str | None, ...]) -> Leaf:
        """The leaf of a partition's texts."""
        names = leaf_names(self.fields, partition)
        return Leaf(self.root.storage, self.odd.get(BETWEEN.join(names)) or self.root.location(names))


def leaf_names(fields: tuple[str, ...], partition: tuple[str | None, ...]) -> tuple[str, ...]:
    """The names from the root to the leaf of a partition's texts."""
    return segments(fields, partition) or (ONLY,)


@dataclass(slots=True, eq=False)
class LanceSink:
    """A fragment that is being written."""

    leaf: Leaf
    stored: pa.Schema
    name: str
    rows: int = 0
    shape: Shape | None = None
    writer: LanceFileWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Add rows."""
        from lance.file import LanceFileWriter

        with translated(self.leaf.location):
            if self.writer is None or self.shape is None:
                self.shape = shape_of(self.leaf, self.stored)
                self.writer = LanceFileWriter(
                    f"{self.leaf.uri}/data/{self.name}", self.shape.columns, version=self.shape.version,
                    storage_options=dict(self.leaf.storage.options) or None,
                )  # fmt: skip
            for batch in conformed(_filled(rows, self.shape.columns), self.shape.columns).combine_chunks().to_batches():
                self.writer.write_batch(batch)
        self.rows += rows.num_rows

    @property
    def is_full(self) -> bool:
        """Whether the rest should go into another fragment."""
        return self.rows >= FULL

    def close(self) -> dict[str, object]:
        """Finish it; `details` is the fragment, and the numbers of its columns."""
        if self.writer is None or self.shape is None:
            raise SchemaError(f"no rows were written to {self.leaf.location}")
        with translated(self.leaf.location):
            self.writer.close()
        size = _size(self.leaf, self.name)
        major, minor = (int(part) for part in self.shape.version.split("."))
        file = {
            "path": self.name, "fields": list(self.shape.physical), "base_id": None, "file_size_bytes": size,
            "column_indices": list(self.shape.indices), "file_major_version": major,
            "file_minor_version": minor,
        }  # fmt: skip
        fragment = {
            "id": 0, "files": [file], "overlays": [], "physical_rows": self.rows, "deletion_file": None,
            "row_id_meta": None, "created_at_version_meta": None, "last_updated_at_version_meta": None,
        }  # fmt: skip
        details = json.dumps({"fragment": fragment, "fields": self.shape.ids})
        return {"path": self.leaf.location, "rows": self.rows, "bytes": size, "modified": time.time_ns() // 1_000_000,
                "details": details}  # fmt: skip

    def abort(self) -> None:
        """Leave it: no commit names it, and cleaning up removes it."""
        self.writer = None


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How a leaf's files hold its columns.

    `columns` are in the leaf's own order and `ids` their numbers by name; `physical` are the numbers of what is a
    column in a file, `indices` their places there, and `version` that of the file format.
    """

    columns: pa.Schema
    ids: Mapping[str, int]
    physical: tuple[int, ...]
    indices: tuple[int, ...]
    version: str


def shape_of(leaf: Leaf, stored: pa.Schema) -> Shape:
    """The shape of a leaf that is there, or of one that is made anew."""
    dataset = leaf.find()
    if dataset is None:
        return new_shape(stored)
    version = dataset.data_storage_version
    if version in _UNWRITTEN:
        raise TableError(
            f"the leaf {leaf.location} is of Lance's file version {version}, which is no longer written; "
            "write it anew with Lance, in a data_storage_version of 2.0 or later"
        )
    if has_columns(dataset.schema, stored):
        return _shape(dataset.schema, dataset.lance_schema, version)
    if not dataset.get_fragments():  # it is made anew before the rows become a part of it
        return new_shape(stored, version)
    raise SchemaError(
        f"the leaf {leaf.location} has other columns than its table:\n{difference(dataset.schema, stored)}"
    )


_UNWRITTEN = frozenset({"0.1", "0.2", "legacy"})


def new_shape(stored: pa.Schema, version: str | None = None) -> Shape:
    """The shape of a leaf that Lance makes with these columns."""
    made = _sample(stored, version)
    return _shape(stored, made.lance_schema, made.data_storage_version)


def _shape(columns: pa.Schema, numbered: Any, version: str) -> Shape:
    """The shape of columns that have those numbers: as in a file that Lance itself makes of them."""
    sample = _sample(columns, version)
    [file] = sample.get_fragments()[0].metadata.files
    own = dict(zip(_numbers(sample.lance_schema.fields()), _numbers(numbered.fields()), strict=True))
    return Shape(
        columns,
        {f.name(): f.id() for f in numbered.fields()},
        tuple(own[number] for number in file.fields),
        tuple(file.column_indices),
        version,
    )


def _sample(columns: pa.Schema, version: str | None) -> LanceDataset:
    """A data set of one row with these columns, in memory; made once."""
    key = (columns.serialize().to_pybytes(), version)
    if key not in _SAMPLES:
        import lance

        loose = [_loose(f) for f in columns]
        row = pa.table([_blank(f.type) for f in loose], schema=pa.schema(loose))
        uri = f"memory://{uuid4().hex}.lance"
        _SAMPLES[key] = lance.write_dataset(row, uri, data_storage_version=cast("Any", version))
    return _SAMPLES[key]


_SAMPLES: dict[tuple[bytes, str | None], LanceDataset] = {}


def _loose(field: pa.Field) -> pa.Field:
    """The field with null allowed in it, and in the fields of its structs."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_loose(type_.field(at)) for at in range(type_.num_fields)])
    return field.with_type(type_).with_nullable(True)


def _blank(type_: pa.DataType) -> pa.Array:
    """Null; but for a struct, which version 2.0 has no null of, one of nulls."""
    if not pa.types.is_struct(type_):
        return pa.nulls(1, type_)
    inner = [type_.field(at) for at in range(type_.num_fields)]
    return pa.StructArray.from_arrays([_blank(f.type) for f in inner], fields=inner)


def _numbers(fields: Any) -> Iterator[int]:
    """The numbers of fields and of those inside of them, in order."""
    for one in fields:
        yield one.id()
        yield from _numbers(one.children())


def _size(leaf: Leaf, name: str) -> int:
    path = f"{leaf.location}/data/{name}"
    if leaf.storage.is_local:
        return Path(leaf.storage.uri, path).stat().st_size
    return next((size for found, size in leaf.storage.list(f"{leaf.location}/data") if found == path), 0)


def conformed(rows: pa.Table, stored: pa.Schema) -> pa.Table:
    """The rows in the columns and types of a leaf; what doesn't fit is a `SchemaError`."""
    try:
        columns = [cast_array(_whole(rows[f.name]), f.type) for f in stored]
        return pa.table(columns, names=stored.names).cast(stored)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise SchemaError(f"rows don't fit the table: {error}\n{difference(rows.schema, stored)}") from error


def _filled(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """The rows with null in the columns that only the leaf has."""
    for f in columns:
        if f.name not in rows.column_names:
            rows = rows.append_column(f, pa.nulls(rows.num_rows, f.type))
    return rows


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose arrays have all their buffers.

    Java leaves out those of lists that hold nothing, and Arrow's cast to vectors ends the process there.
    """
    return column.take(pa.array(np.arange(len(column)))) if pa.types.is_nested(column.type) else column


def difference(found: pa.Schema, wanted: pa.Schema) -> str:
    """What one schema has and the other doesn't, a line each."""
    lines = [f"- {f.name}: {f.type}" for f in wanted if f.name not in found.names]
    lines += [f"+ {f.name}: {f.type}" for f in found if f.name not in wanted.names]
    shared = [f for f in wanted if f.name in found.names]
    lines += [f"~ {f.name}: {f.type}, not {found.field(f.name).type}" for f in shared
              if f.type != found.field(f.name).type]  # fmt: skip
    return "\n".join(lines) or "the same columns, in another order"


def same_columns(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether two schemas have the same columns, in whatever order."""
    return len(found) == len(wanted) and all(
        f.name in found.names and found.field(f.name).type == f.type for f in wanted
    )


def has_columns(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a schema has the columns of another, and besides them only such as may be null.

    A leaf has those while the table gets a column, and where that came to nothing.
    """
    more = [f for f in found if f.name not in wanted.names]
    return all(f.nullable for f in more) and same_columns(pa.schema([f for f in found if f not in more]), wanted)


def write_rows(target: LanceTarget, definition: Definition, rows: pa.Table) -> Iterator[dict[str, object]]:
    """Rows written in this process: a row of `partita.spark.write.TOLD` for each fragment."""
    whole = conformed(rows, definition.arrow)
    written = [
        texts(apply(f.function, whole[f.source], family="lance", type=f.source_type), f) for f in definition.spec.fields
    ]
    stored = whole.select(target.stored.names)
    for partition, places in _by_partition(written, whole.num_rows):
        sink = target.open(partition, "0")
        sink.write(stored.take(pa.array(places)))
        yield {**sink.close(), "partition": list(partition)}


def _by_partition(written: list[pa.Array], size: int) -> Iterator[tuple[tuple[str | None, ...], np.ndarray]]:
    if not size:
        return
    codes = np.zeros(size, np.int64)
    for column in written:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        yield tuple(column[places[0]].as_py() for column in written), places


def rows_gone(dataset: LanceDataset, addresses: np.ndarray) -> dict[str, tuple[dict[str, Any], dict[str, Any] | None]]:
    """Fragments without some rows, by number: each before, and after; None where no row is left.

    An address has the number of the fragment in its upper 32 bits, and that of the row in the lower.
    """
    found: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {}
    numbers = addresses >> 32
    for number in np.unique(numbers).tolist():
        fragment = dataset.get_fragment(number)
        if fragment is None:
            raise TableError(f"{dataset.uri} has no fragment {number} in version {dataset.version}")
        offsets = (addresses[numbers == number] & 0xFFFF_FFFF).tolist()
        after = fragment.delete_rows(offsets)
        found[str(number)] = (fragment_json(fragment.metadata), None if after is None else fragment_json(after))
    return found
