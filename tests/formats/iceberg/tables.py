"""Iceberg tables in tests: how Partita, the JVM, pyiceberg and a strict reader see one, and how it is laid out."""

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
from partita.formats.iceberg.store import IcebergStore
from tests.formats.delta.tables import Rows, plain, rows

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.types import PrimitiveType
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "partita"
DATA, POSITIONS, EQUALITY = 0, 1, 2
Tuple = tuple[Any, ...]

MODES: dict[str, dict[str, str]] = {
    "merge on read": {},
    "copy on write": {f"write.{what}.mode": "copy-on-write" for what in ("delete", "update", "merge")},
    "version 1": {"format-version": "1"},
}


def jvm_session(spark: SparkSession, folder: Path | str) -> SparkSession:
    """A session of the same JVM in which a lake's own catalog is the runtime's JDBC catalog `partita`."""
    return with_jdbc_catalog(spark, f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000", f"file://{folder}")


def with_jdbc_catalog(spark: SparkSession, uri: str, warehouse: str, name: str = CATALOG, **more: str) -> SparkSession:
    """A session of the same JVM with a JDBC catalog of the runtime's."""
    settings = {"type": "jdbc", "uri": uri, "warehouse": warehouse, "jdbc.schema-version": "V1", "clients": "1"}
    return with_catalog(spark, name, settings | more)


def with_catalog(spark: SparkSession, name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of the same JVM with a catalog of the runtime's."""
    made = spark.newSession()
    made.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    # A table that it keeps would not show what others commit.
    for key, value in {"cache-enabled": "false", **settings}.items():
        made.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return made


def iceberg(table: pt.Table) -> IcebergTable:
    """The table as pyiceberg has it now."""
    own = cast("IcebergStore", table._store)._table
    return own.catalog.load_table(own.name())


def by_jvm(jvm: SparkSession, table: pt.Table) -> DataFrame:
    """The table as the JVM's runtime reads it."""
    return jvm.table(f"{CATALOG}.{table.name}")


def by_pyiceberg(table: pt.Table) -> pa.Table:
    """The table as pyiceberg reads it."""
    return iceberg(table).scan().to_arrow()


def agreed(table: pt.Table, jvm: SparkSession | None = None, *, piled: bool = False) -> Rows:
    """The rows, which all readers agree on, of a table that is laid out as it should be (`check_layout`)."""
    check_layout(table, piled=piled)
    found = rows(table.read())
    assert rows(by_strict(table)) == found, "the strict reader"
    assert rows(by_pyiceberg(table)) == found, "pyiceberg"
    if jvm is not None:
        assert rows(by_jvm(jvm, table)) == found, "the JVM's runtime"
    return found


def roll_back(table: pt.Table, version: int) -> None:
    """Make an earlier snapshot the current one again."""
    with iceberg(table).transaction() as transaction:
        transaction._apply(
            (SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": version}),), ()
        )


# --- what the metadata says


@dataclass(frozen=True, slots=True)
class Listed:
    """A live file, its spec and partition, and its data sequence number."""

    file: DataFile
    spec_id: int
    sequence: int
    manifest: ManifestFile
    exact: Tuple

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def content(self) -> int:
        return int(self.file.content)

    @property
    def partition(self) -> Tuple:
        return self.exact


def listed(table: pt.Table, content: int | None = None) -> list[Listed]:
    """The live files of the current snapshot, as pyiceberg reads the manifests."""
    found = []
    for manifest, file in _entries(iceberg(table)):
        if content is None or file.content == content:
            found.append(file)
            assert file.spec_id == manifest.partition_spec_id
    return found


def _entries(loaded: IcebergTable) -> Iterator[tuple[ManifestFile, Listed]]:
    snapshot = loaded.current_snapshot()
    for manifest in [] if snapshot is None else snapshot.manifests(loaded.io):
        # pyiceberg's compiled decoder reads a double as a float, so that partitions are those that fastavro reads.
        exact = {r["data_file"]["file_path"]: r["data_file"]["partition"] for r in _avro(manifest.manifest_path)[1]}
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
            assert entry.data_file.spec_id == manifest.partition_spec_id
            number = entry.sequence_number if entry.sequence_number is not None else 0
            told = list(exact[entry.data_file.file_path].values())
            kept = [
                mine if isinstance(mine, float) else theirs
                for mine, theirs in zip(told, _values(entry.data_file.partition), strict=True)
            ]
            values = tuple(plain(_stored(value)) for value in kept)
            yield manifest, Listed(entry.data_file, manifest.partition_spec_id, number, manifest, values)


def specs_of(table: pt.Table, content: int) -> list[int]:
    """The spec ids of the live files of a kind, in order."""
    return sorted(found.spec_id for found in listed(table, content))


def added_specs(table: pt.Table, content: int) -> list[int]:
    """The spec ids of the files of a kind that the current snapshot added, in order."""
    loaded = iceberg(table)
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


def _values(record: Any) -> list[Any]:
    return [record[at] for at in range(len(record))]


def _stored(value: Any) -> Any:
    """A partition value, with the two zeros apart, for they are two partitions."""
    return "-0.0" if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0 else value


# --- a strict reader


def by_strict(table: pt.Table) -> pa.Table:
    """The rows, by a reader that heeds a delete only where its spec and partition are those of the data file."""
    loaded = iceberg(table)
    schema, every = loaded.schema(), listed(table)
    deletes = [found for found in every if found.content != DATA]
    parts = [_rows_of(loaded, data, deletes, schema) for data in every if data.content == DATA]
    return pa.concat_tables([schema_to_pyarrow(schema, include_field_ids=False).empty_table(), *parts])


def _rows_of(loaded: IcebergTable, data: Listed, deletes: Sequence[Listed], schema: Schema) -> pa.Table:
    whole = parquet_rows(loaded, data.path)
    gone: set[int] = set()
    for delete in deletes:
        same = (delete.spec_id, delete.partition) == (data.spec_id, data.partition)
        fields = loaded.specs()[delete.spec_id].fields
        everywhere = all(isinstance(field.transform, VoidTransform) for field in fields)
        if delete.content == POSITIONS and same and delete.sequence >= data.sequence:
            gone.update(positions_in(loaded, delete).get(data.path, []))
        elif delete.content == EQUALITY and (same or everywhere) and delete.sequence > data.sequence:
            gone.update(_equal(loaded, delete, whole, schema))
    kept = pa.array([at for at in range(whole.num_rows) if at not in gone], pa.int64())
    return by_ids(whole, schema).take(kept)


def _equal(loaded: IcebergTable, delete: Listed, data: pa.Table, schema: Schema) -> Iterator[int]:
    ids = list(delete.file.equality_ids or ())
    deleted = {tuple(row) for row in _keys(parquet_rows(loaded, delete.path), ids, schema)}
    return (at for at, row in enumerate(_keys(data, ids, schema)) if tuple(row) in deleted)


def _keys(table: pa.Table, ids: Sequence[int], schema: Schema) -> list[list[Any]]:
    columns = [column_by_id(table, number, schema).to_pylist() for number in ids]
    return [[plain(value) for value in row] for row in zip(*columns, strict=True)]


def parquet_rows(loaded: IcebergTable, path: str) -> pa.Table:
    """The rows of a file as they lie in it."""
    with loaded.io.new_input(path).open() as stream:
        return pq.ParquetFile(pa.BufferReader(stream.read())).read()


def by_ids(table: pa.Table, schema: Schema) -> pa.Table:
    """The columns of a schema out of a file's, by their ids; one that the file doesn't have is null."""
    target = schema_to_pyarrow(schema, include_field_ids=False)
    return pa.table([column_by_id(table, field.field_id, schema) for field in schema.fields], schema=target)


def column_by_id(table: pa.Table, number: int, schema: Schema) -> pa.Array:
    """A column of a file, as the schema has it."""
    name = schema.find_column_name(number)
    target = schema_to_pyarrow(schema, include_field_ids=False).field(name).type
    for at, field in enumerate(table.schema):
        if int((field.metadata or {}).get(b"PARQUET:field_id", -1)) == number:
            return table.column(at).combine_chunks().cast(target)
    return pa.nulls(table.num_rows, target)


def positions_in(loaded: IcebergTable, delete: Listed) -> dict[str, list[int]]:
    """The positions that a file of deletes has, by data file."""
    found: dict[str, list[int]] = {}
    read = parquet_rows(loaded, delete.path)
    for path, position in zip(read["file_path"].to_pylist(), read["pos"].to_pylist(), strict=True):
        found.setdefault(path, []).append(position)
    return found


# --- how it is laid out


def check_layout(table: pt.Table, *, piled: bool = False) -> None:
    """Every promise of the format that one can count: specs, tuples, deletes, counts, summaries.

    Unless `piled`, which others' tables may be, no data file has positions in more than one file of deletes.
    """
    loaded = iceberg(table)
    snapshot = loaded.current_snapshot()
    if snapshot is None:
        return
    manifests = snapshot.manifests(loaded.io)
    for manifest in manifests:
        _check_manifest(loaded, manifest)
    every = listed(table)
    paths = [found.path for found in every]
    assert len(set(paths)) == len(paths)
    for found in every:
        if found.content == DATA:
            _check_data(loaded, found)
    _check_positions(loaded, every, piled=piled)
    _check_totals(loaded, every)


def _check_manifest(loaded: IcebergTable, manifest: ManifestFile) -> None:
    spec = loaded.specs()[manifest.partition_spec_id]
    header, records = _avro(manifest.manifest_path)
    assert int(header["partition-spec-id"]) == spec.spec_id
    told = json.loads(header["partition-spec"])
    assert [f["field-id"] for f in told] == [f.field_id for f in spec.fields]
    assert [f["name"] for f in told] == [f.name for f in spec.fields]
    content = "deletes" if manifest.content == ManifestContent.DELETES else "data"
    assert header.get("content", "data") == content
    counts = {status: sum(record["status"] == status for record in records) for status in (0, 1, 2)}
    assert counts == {0: manifest.existing_files_count, 1: manifest.added_files_count, 2: manifest.deleted_files_count}
    live = [record for record in records if record["status"] != 2]
    for record in live:
        assert (record["data_file"].get("content", 0) != 0) == (content == "deletes")
        assert record["status"] == 1 or record.get("sequence_number", 0) is not None
    for at, field in enumerate(spec.fields):
        summary = (manifest.partitions or [])[at]
        values = [list(record["data_file"]["partition"].values())[at] for record in records]
        assert summary.contains_null == (None in values)
        if summary.lower_bound is None or any(value is None for value in values):
            continue
        type_ = spec.partition_type(_schema_of(loaded, field.source_id)).field(field.field_id)
        assert type_ is not None
        primitive = cast("PrimitiveType", type_.field_type)
        least: Any = from_bytes(primitive, summary.lower_bound)
        greatest: Any = from_bytes(primitive, cast("bytes", summary.upper_bound))
        numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
        if numbers and isinstance(least, int):
            assert least <= min(numbers)
            assert max(numbers) <= greatest


def _schema_of(loaded: IcebergTable, column: int) -> Schema:
    """The newest schema that has a column."""
    for schema in [loaded.schema(), *reversed(loaded.metadata.schemas)]:
        if column in schema._lazy_id_to_name:
            return schema
    raise AssertionError(column)


def _avro(path: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    with Path(re.sub("^file:/+", "/", path)).open("rb") as file:
        reader = fastavro.reader(file)
        return dict(reader.metadata), cast("list[dict[str, Any]]", list(reader))


def _check_data(loaded: IcebergTable, found: Listed) -> None:
    """The tuple is that of every row, and the counts and bounds are those of the rows."""
    read = parquet_rows(loaded, found.path)
    assert read.num_rows == found.file.record_count
    spec = loaded.specs()[found.spec_id]
    assert len(found.partition) == len(spec.fields)
    for field, value in zip(spec.fields, found.partition, strict=True):
        schema = _schema_of(loaded, field.source_id)
        source = column_by_id(read, field.source_id, schema)
        apply = field.transform.transform(schema.find_type(field.source_id))
        results = {plain(_stored(apply(each))) for each in _plain_values(source)}
        assert results == {value}, (spec, found.path)
    for number, nulls in (found.file.null_value_counts or {}).items():
        schema = _schema_of(loaded, number)
        column = column_by_id(read, number, schema)
        assert column.null_count == nulls
        lower = (found.file.lower_bounds or {}).get(number)
        values = [v for v in _plain_values(column) if v is not None and not (isinstance(v, float) and math.isnan(v))]
        if lower is not None and values:
            type_ = cast("PrimitiveType", schema.find_type(number))
            assert from_bytes(type_, lower) <= min(values)
            upper = (found.file.upper_bounds or {}).get(number)
            assert upper is None or from_bytes(type_, upper) >= max(values)


def _plain_values(column: pa.Array) -> list[Any]:
    """The values as Iceberg's transforms take them."""
    if pa.types.is_date(column.type):
        return cast("list[Any]", column.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type):
        return cast("list[Any]", column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    return cast("list[Any]", column.to_pylist())


def _check_positions(loaded: IcebergTable, every: Sequence[Listed], *, piled: bool) -> None:
    data = {found.path: found for found in every if found.content == DATA}
    seen: dict[str, set[int]] = {}
    for delete in every:
        if delete.content != POSITIONS or str(delete.file.file_format).upper().endswith("PUFFIN"):
            continue
        by_path = positions_in(loaded, delete)
        assert list(by_path) == sorted(by_path)
        assert sum(map(len, by_path.values())) == delete.file.record_count
        for path, positions in by_path.items():
            assert positions == sorted(set(positions))
            if path not in data:
                # The file is gone, and nothing reads what is said of it.
                continue
            assert (data[path].spec_id, data[path].partition) == (delete.spec_id, delete.partition)
            assert data[path].sequence <= delete.sequence
            assert positions[-1] < data[path].file.record_count
            assert piled or path not in seen, f"{path} has positions in two files of deletes"
            seen.setdefault(path, set()).update(positions)


def _check_totals(loaded: IcebergTable, every: Sequence[Listed]) -> None:
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    counted: Mapping[str, int] = {
        "total-data-files": sum(found.content == DATA for found in every),
        "total-delete-files": sum(found.content != DATA for found in every),
        "total-records": sum(found.file.record_count for found in every if found.content == DATA),
        "total-position-deletes": sum(found.file.record_count for found in every if found.content == POSITIONS),
    }
    assert {name: int(told[name]) for name in counted} == counted


def files_on_disk(table: pt.Table) -> list[str]:
    """Every file in the table's folder."""
    root = Path(re.sub("^file:/+", "/", table.uri))
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@contextmanager
def unchanged(table: pt.Table) -> Iterator[None]:
    """A block that makes no snapshot, no metadata and leaves no file behind."""
    version, location, files = table.version, iceberg(table).metadata_location, files_on_disk(table)
    yield
    assert table.version == version
    assert iceberg(table).metadata_location == location
    assert files_on_disk(table) == files
