"""Iceberg tables as Partita, the JVM runtime, pyiceberg and a strict reader see them, and checks of their layout."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import VoidTransform

import partita as pt
from partita.formats.iceberg.store import IcebergTableStore
from tests.formats.delta.tables import RowTuples, comparable_value, sorted_rows

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.types import PrimitiveType
    from pyspark.sql import DataFrame, SparkSession

CATALOG_NAME = "partita"
DATA_CONTENT, POSITION_DELETES_CONTENT, EQUALITY_DELETES_CONTENT = 0, 1, 2
PartitionTuple = tuple[Any, ...]

WRITE_MODES: dict[str, dict[str, str]] = {
    "merge on read": {},
    "copy on write": {f"write.{what}.mode": "copy-on-write" for what in ("delete", "update", "merge")},
    "version 1": {"format-version": "1"},
}


def jvm_session(spark: SparkSession, folder: Path | str) -> SparkSession:
    """Return a session of the same JVM in which a lake's own catalog is the runtime's JDBC catalog `partita`."""
    return with_jdbc_catalog(spark, f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000", f"file://{folder}")


def with_jdbc_catalog(
    spark: SparkSession, uri: str, warehouse: str, name: str = CATALOG_NAME, **more: str
) -> SparkSession:
    """Return a session of the same JVM with a JDBC catalog of the Iceberg runtime."""
    settings = {"type": "jdbc", "uri": uri, "warehouse": warehouse, "jdbc.schema-version": "V1", "clients": "1"}
    return with_catalog(spark, name, settings | more)


def with_catalog(spark: SparkSession, name: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of the same JVM with a catalog of the Iceberg runtime."""
    session = spark.newSession()
    session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    # A cached table would not show what other writers commit.
    for key, value in {"cache-enabled": "false", **settings}.items():
        session.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return session


def pyiceberg_table(table: pt.Table) -> IcebergTable:
    """Load the table with pyiceberg."""
    loaded = cast("IcebergTableStore", table._store)._table
    return loaded.catalog.load_table(loaded.name())


def read_with_jvm(jvm: SparkSession, table: pt.Table) -> DataFrame:
    """Read the table with the JVM runtime."""
    return jvm.table(f"{CATALOG_NAME}.{table.name}")


def read_with_pyiceberg(table: pt.Table) -> pa.Table:
    """Read the table with pyiceberg."""
    return pyiceberg_table(table).scan().to_arrow()


def agreed_rows(table: pt.Table, jvm: SparkSession | None = None, *, piled: bool = False) -> RowTuples:
    """Check the layout of a table (`check_layout`) and that all readers agree, and return its rows."""
    check_layout(table, piled=piled)
    rows = sorted_rows(table.read())
    assert sorted_rows(read_with_strict_reader(table)) == rows, "the strict reader"
    assert sorted_rows(read_with_pyiceberg(table)) == rows, "pyiceberg"
    if jvm is not None:
        assert sorted_rows(read_with_jvm(jvm, table)) == rows, "the JVM's runtime"
    return rows


def roll_back(table: pt.Table, version: int) -> None:
    """Make an earlier snapshot the current one again."""
    with pyiceberg_table(table).transaction() as transaction:
        transaction._apply(
            (SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": version}),), ()
        )


# --- what the metadata says


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live file, its spec and partition, and its data sequence number."""

    file: DataFile
    spec_id: int
    sequence: int
    manifest: ManifestFile
    exact: PartitionTuple

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def content(self) -> int:
        return int(self.file.content)

    @property
    def partition(self) -> PartitionTuple:
        return self.exact


def live_files(table: pt.Table, content: int | None = None) -> list[LiveFile]:
    """Return the live files of the current snapshot, as pyiceberg reads the manifests."""
    files = []
    for manifest, file in _live_entries(pyiceberg_table(table)):
        if content is None or file.content == content:
            files.append(file)
            assert file.spec_id == manifest.partition_spec_id
    return files


def _live_entries(loaded: IcebergTable) -> Iterator[tuple[ManifestFile, LiveFile]]:
    snapshot = loaded.current_snapshot()
    for manifest in [] if snapshot is None else snapshot.manifests(loaded.io):
        # pyiceberg's compiled decoder reads a double as a float, so floats are taken from fastavro.
        exact = {
            record["data_file"]["file_path"]: record["data_file"]["partition"]
            for record in _read_avro(manifest.manifest_path)[1]
        }
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
            assert entry.data_file.spec_id == manifest.partition_spec_id
            sequence_number = entry.sequence_number if entry.sequence_number is not None else 0
            fastavro_values = list(exact[entry.data_file.file_path].values())
            exact_values = [
                mine if isinstance(mine, float) else theirs
                for mine, theirs in zip(fastavro_values, _record_values(entry.data_file.partition), strict=True)
            ]
            values = tuple(comparable_value(_partition_value(value)) for value in exact_values)
            yield manifest, LiveFile(entry.data_file, manifest.partition_spec_id, sequence_number, manifest, values)


def live_spec_ids(table: pt.Table, content: int) -> list[int]:
    """Return the spec ids of the live files of a content, ascending."""
    return sorted(file.spec_id for file in live_files(table, content))


def added_spec_ids(table: pt.Table, content: int) -> list[int]:
    """Return the spec ids of the files of a content that the current snapshot added, ascending."""
    loaded = pyiceberg_table(table)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    return sorted(
        manifest.partition_spec_id
        for manifest in snapshot.manifests(loaded.io)
        for entry in manifest.fetch_manifest_entry(loaded.io)
        if entry.status == ManifestEntryStatus.ADDED
        and entry.snapshot_id == snapshot.snapshot_id
        and entry.data_file.content == content
    )


def _record_values(record: Any) -> list[Any]:
    return [record[index] for index in range(len(record))]


def _partition_value(value: Any) -> Any:
    """Return a partition value that tells negative zero from zero, because they are two partitions."""
    return "-0.0" if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0 else value


# --- a strict reader


def read_with_strict_reader(table: pt.Table) -> pa.Table:
    """Read the rows with a reader that applies a delete file only to data files of the same spec and partition."""
    loaded = pyiceberg_table(table)
    schema, files = loaded.schema(), live_files(table)
    deletes = [file for file in files if file.content != DATA_CONTENT]
    tables = [_undeleted_rows(loaded, data, deletes, schema) for data in files if data.content == DATA_CONTENT]
    return pa.concat_tables([schema_to_pyarrow(schema, include_field_ids=False).empty_table(), *tables])


def _undeleted_rows(loaded: IcebergTable, data: LiveFile, deletes: Sequence[LiveFile], schema: Schema) -> pa.Table:
    rows = parquet_rows(loaded, data.path)
    deleted: set[int] = set()
    for delete in deletes:
        is_same_partition = (delete.spec_id, delete.partition) == (data.spec_id, data.partition)
        fields = loaded.specs()[delete.spec_id].fields
        is_global = all(isinstance(field.transform, VoidTransform) for field in fields)
        if delete.content == POSITION_DELETES_CONTENT and is_same_partition and delete.sequence >= data.sequence:
            deleted.update(deleted_positions(loaded, delete).get(data.path, []))
        elif (
            delete.content == EQUALITY_DELETES_CONTENT
            and (is_same_partition or is_global)
            and delete.sequence > data.sequence
        ):
            deleted.update(_equality_deleted_positions(loaded, delete, rows, schema))
    remaining = pa.array([index for index in range(rows.num_rows) if index not in deleted], pa.int64())
    return columns_by_id(rows, schema).take(remaining)


def _equality_deleted_positions(
    loaded: IcebergTable, delete: LiveFile, data: pa.Table, schema: Schema
) -> Iterator[int]:
    ids = list(delete.file.equality_ids or ())
    deleted = {tuple(row) for row in _key_rows(parquet_rows(loaded, delete.path), ids, schema)}
    return (index for index, row in enumerate(_key_rows(data, ids, schema)) if tuple(row) in deleted)


def _key_rows(table: pa.Table, ids: Sequence[int], schema: Schema) -> list[list[Any]]:
    columns = [column_by_id(table, field_id, schema).to_pylist() for field_id in ids]
    return [[comparable_value(value) for value in row] for row in zip(*columns, strict=True)]


def parquet_rows(loaded: IcebergTable, path: str) -> pa.Table:
    """Read the rows of a Parquet file."""
    with loaded.io.new_input(path).open() as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read())).read()


def columns_by_id(table: pa.Table, schema: Schema) -> pa.Table:
    """Return the columns of a schema from the columns of a file, by id; a missing column is null."""
    target = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.table([column_by_id(table, field.field_id, schema) for field in schema.fields], schema=target)


def column_by_id(table: pa.Table, number: int, schema: Schema) -> pa.Array:
    """Return a column of a file with the type that the schema has."""
    name = schema.find_column_name(number)
    target = schema_to_pyarrow(schema, include_field_ids=False).field(name).type
    for index, field in enumerate(table.schema):
        if int((field.metadata or {}).get(b"PARQUET:field_id", -1)) == number:
            return table.column(index).combine_chunks().cast(target)
    return pa.nulls(table.num_rows, target)


def deleted_positions(loaded: IcebergTable, delete: LiveFile) -> dict[str, list[int]]:
    """Return the positions in a position-delete file, by data file."""
    positions: dict[str, list[int]] = {}
    rows = parquet_rows(loaded, delete.path)
    for path, position in zip(rows["file_path"].to_pylist(), rows["pos"].to_pylist(), strict=True):
        positions.setdefault(path, []).append(position)
    return positions


# --- how it is laid out


def check_layout(table: pt.Table, *, piled: bool = False) -> None:
    """Check every countable promise of the format: specs, partitions, deletes, counts, summaries.

    Unless `piled`, which tables of other writers may be, no data file has positions in more than one position-delete
    file.
    """
    loaded = pyiceberg_table(table)
    snapshot = loaded.current_snapshot()
    if snapshot is None:
        return
    manifests = snapshot.manifests(loaded.io)
    for manifest in manifests:
        _check_manifest(loaded, manifest)
    files = live_files(table)
    paths = [file.path for file in files]
    assert len(set(paths)) == len(paths)
    for file in files:
        if file.content == DATA_CONTENT:
            _check_data_file(loaded, file)
    _check_position_deletes(loaded, files, piled=piled)
    _check_totals(loaded, files)


def _check_manifest(loaded: IcebergTable, manifest: ManifestFile) -> None:
    spec = loaded.specs()[manifest.partition_spec_id]
    header, records = _read_avro(manifest.manifest_path)
    assert int(header["partition-spec-id"]) == spec.spec_id
    header_fields = json.loads(header["partition-spec"])
    assert [f["field-id"] for f in header_fields] == [f.field_id for f in spec.fields]
    assert [f["name"] for f in header_fields] == [f.name for f in spec.fields]
    content = "deletes" if manifest.content == ManifestContent.DELETES else "data"
    assert header.get("content", "data") == content
    counts = {status: sum(record["status"] == status for record in records) for status in (0, 1, 2)}
    assert counts == {0: manifest.existing_files_count, 1: manifest.added_files_count, 2: manifest.deleted_files_count}
    live = [record for record in records if record["status"] != 2]
    for record in live:
        assert (record["data_file"].get("content", 0) != 0) == (content == "deletes")
        assert record["status"] == 1 or record.get("sequence_number", 0) is not None
    for index, field in enumerate(spec.fields):
        summary = (manifest.partitions or [])[index]
        values = [list(record["data_file"]["partition"].values())[index] for record in records]
        assert summary.contains_null == (None in values)
        if summary.lower_bound is None or any(value is None for value in values):
            continue
        type_ = spec.partition_type(_newest_schema_with(loaded, field.source_id)).field(field.field_id)
        assert type_ is not None
        primitive = cast("PrimitiveType", type_.field_type)
        least: Any = from_bytes(primitive, summary.lower_bound)
        greatest: Any = from_bytes(primitive, cast("bytes", summary.upper_bound))
        numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
        if numbers and isinstance(least, int):
            assert least <= min(numbers)
            assert max(numbers) <= greatest


def _newest_schema_with(loaded: IcebergTable, column: int) -> Schema:
    """Return the newest schema that has a column."""
    for schema in [loaded.schema(), *reversed(loaded.metadata.schemas)]:
        if column in schema._lazy_id_to_name:
            return schema
    raise AssertionError(column)


def _read_avro(path: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    with Path(re.sub("^file:/+", "/", path)).open("rb") as file:
        reader = fastavro.reader(file)
        return dict(reader.metadata), cast("list[dict[str, Any]]", list(reader))


def _check_data_file(loaded: IcebergTable, live_file: LiveFile) -> None:
    """Check that every row has the file's partition, and that counts and bounds are those of the rows."""
    rows = parquet_rows(loaded, live_file.path)
    assert rows.num_rows == live_file.file.record_count
    spec = loaded.specs()[live_file.spec_id]
    assert len(live_file.partition) == len(spec.fields)
    for field, value in zip(spec.fields, live_file.partition, strict=True):
        schema = _newest_schema_with(loaded, field.source_id)
        source = column_by_id(rows, field.source_id, schema)
        apply = field.transform.transform(schema.find_type(field.source_id))
        results = {comparable_value(_partition_value(apply(each))) for each in _plain_values(source)}
        assert results == {value}, (spec, live_file.path)
    for field_id, nulls in (live_file.file.null_value_counts or {}).items():
        schema = _newest_schema_with(loaded, field_id)
        column = column_by_id(rows, field_id, schema)
        assert column.null_count == nulls
        lower = (live_file.file.lower_bounds or {}).get(field_id)
        values = [
            item
            for item in _plain_values(column)
            if item is not None and not (isinstance(item, float) and math.isnan(item))
        ]
        if lower is not None and values:
            type_ = cast("PrimitiveType", schema.find_type(field_id))
            assert from_bytes(type_, lower) <= min(values)
            upper = (live_file.file.upper_bounds or {}).get(field_id)
            assert upper is None or from_bytes(type_, upper) >= max(values)


def _plain_values(column: pa.Array) -> list[Any]:
    """Return the values as Iceberg's transforms take them."""
    if pa.types.is_date(column.type):
        return cast("list[Any]", column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return cast("list[Any]", column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return cast("list[Any]", column.to_pylist())


def _check_position_deletes(loaded: IcebergTable, files: Sequence[LiveFile], *, piled: bool) -> None:
    data = {file.path: file for file in files if file.content == DATA_CONTENT}
    seen_positions: dict[str, set[int]] = {}
    for delete in files:
        if delete.content != POSITION_DELETES_CONTENT or str(delete.file.file_format).upper().endswith("PUFFIN"):
            continue
        by_path = deleted_positions(loaded, delete)
        assert list(by_path) == sorted(by_path)
        assert sum(map(len, by_path.values())) == delete.file.record_count
        for path, positions in by_path.items():
            assert positions == sorted(set(positions))
            if path not in data:
                # The data file was removed, so its deletes are never read.
                continue
            assert (data[path].spec_id, data[path].partition) == (delete.spec_id, delete.partition)
            assert data[path].sequence <= delete.sequence
            assert positions[-1] < data[path].file.record_count
            assert piled or path not in seen_positions, f"{path} has positions in two files of deletes"
            seen_positions.setdefault(path, set()).update(positions)


def _check_totals(loaded: IcebergTable, files: Sequence[LiveFile]) -> None:
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    summary = snapshot.summary.additional_properties
    counted: Mapping[str, int] = {
        "total-data-files": sum(file.content == DATA_CONTENT for file in files),
        "total-delete-files": sum(file.content != DATA_CONTENT for file in files),
        "total-records": sum(file.file.record_count for file in files if file.content == DATA_CONTENT),
        "total-position-deletes": sum(
            file.file.record_count for file in files if file.content == POSITION_DELETES_CONTENT
        ),
    }
    assert {name: int(summary[name]) for name in counted} == counted


def files_on_disk(table: pt.Table) -> list[str]:
    """Return the paths of every file in the table's folder."""
    root = Path(re.sub("^file:/+", "/", table.uri))
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@contextmanager
def assert_unchanged(table: pt.Table) -> Iterator[None]:
    """Check that a block commits no snapshot and no metadata, and leaves no file behind."""
    version, location, files = table.version, pyiceberg_table(table).metadata_location, files_on_disk(table)
    yield
    assert table.version == version
    assert pyiceberg_table(table).metadata_location == location
    assert files_on_disk(table) == files
