"""Small Iceberg tables with real Parquet files, and their metadata as an independent reader sees it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Identifier, Record
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from partita.formats.iceberg.commit import commit_snapshot
from partita.formats.iceberg.files import FILE_PATH_FIELD_ID
from partita.formats.iceberg.snapshot_change import SnapshotChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

Row = dict[str, Any]

EXISTING, ADDED, DELETED = 0, 1, 2
"""The statuses of manifest entries."""

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "amount", LongType(), required=False),
)


def sqlite_catalog(folder: Path, **properties: str) -> SqlCatalog:
    """Open the SQLite catalog of a folder; any process may open it."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def partition_spec(*fields: tuple[int, str, str], spec_id: int = 0) -> PartitionSpec:
    """Return a spec of (source id, transform, name) tuples."""
    numbered = enumerate(fields, 1000)
    partition_fields = [
        PartitionField(source, field_id, parse_transform(text), name) for field_id, (source, text, name) in numbered
    ]
    return PartitionSpec(*partition_fields, spec_id=spec_id)


REGION_SPEC = partition_spec((2, "identity", "region"))


def new_table(
    folder: Path,
    schema: Schema = SCHEMA,
    partitioned: PartitionSpec = REGION_SPEC,
    version: int = 2,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Create a table `db.t` in a catalog of its own."""
    all_properties = {"format-version": str(version), "commit.retry.min-wait-ms": "5", **(properties or {})}
    return sqlite_catalog(folder).create_table("db.t", schema, partition_spec=partitioned, properties=all_properties)


def data_file(
    table: Table, rows: Sequence[Row], spec_id: int | None = None, partition: Sequence[Any] | None = None
) -> DataFile:
    """Write rows to a Parquet file and return its description.

    The spec is the default spec, and the partition that of the first row, unless given.
    """
    schema = table.schema()
    spec_id = table.metadata.default_spec_id if spec_id is None else spec_id
    arrow = schema_to_pyarrow(schema)
    path = f"{table.location()}/data/{uuid4()}.parquet"
    size = _write_parquet(table, path, pa.Table.from_pylist(list(rows), arrow))
    values = _partition_values(table, spec_id, rows[0]) if partition is None else partition
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        record_count=len(rows),
        file_size_in_bytes=size,
        column_sizes={field.field_id: 10 for field in schema.fields},
        value_counts={field.field_id: len(rows) for field in schema.fields},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=[4],
    )
    file.spec_id = spec_id
    return file


def delete_file(
    table: Table,
    points: Mapping[str, Iterable[int]],
    like: DataFile,
    spec_id: int | None = None,
    partition: Sequence[Any] | None = None,
) -> DataFile:
    """Write a position-delete file of row positions by data file and return its description.

    The spec and the partition are those of the data file `like`, unless given.
    """
    pairs = sorted((path, position) for path, positions in points.items() for position in positions)
    rows = pa.table(
        {"file_path": [path for path, _ in pairs], "pos": pa.array([position for _, position in pairs], pa.int64())},
        schema=pa.schema(
            [
                pa.field(
                    "file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH_FIELD_ID)}
                ),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
            ]
        ),
    )
    path = f"{table.location()}/data/{uuid4()}-deletes.parquet"
    size = _write_parquet(table, path, rows)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=like.partition if partition is None else Record(*partition),
        record_count=len(pairs),
        file_size_in_bytes=size,
        lower_bounds={FILE_PATH_FIELD_ID: pairs[0][0].encode()},
        upper_bounds={FILE_PATH_FIELD_ID: pairs[-1][0].encode()},
    )
    file.spec_id = like.spec_id if spec_id is None else spec_id
    return file


def append_files(table: Table, *files: DataFile, **more: Any) -> int:
    """Append files on top of the current snapshot."""
    return commit_snapshot(table, table.metadata.current_snapshot_id, SnapshotChange("append", files, **more))


def commit_change(table: Table, changes: SnapshotChange) -> int:
    """Commit a change on top of the snapshot that the loaded table has."""
    return commit_snapshot(table, table.metadata.current_snapshot_id, changes)


def current_snapshot(table: Table) -> Snapshot:
    """Return the current snapshot of the loaded table."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def reload_table(table: Table) -> Table:
    """Load the table again, as another writer would."""
    return table.catalog.load_table(table.name())


def table_rows(table: Table) -> list[Row]:
    """Read the rows with pyiceberg, ordered by `id`."""
    return sorted(reload_table(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def table_ids(table: Table) -> list[int]:
    return [row["id"] for row in table_rows(table)]


def manifest_list(table: Table) -> list[Row]:
    """Read the manifests of the current snapshot with fastavro."""
    snapshot = reload_table(table).current_snapshot()
    assert snapshot is not None
    return read_avro(table, snapshot.manifest_list)[1]


def read_avro(table: Table, path: str) -> tuple[dict[str, str], list[Row]]:
    """Read the header and the records of an Avro file with fastavro."""
    with Path(path.removeprefix("file://")).open("rb") as file:
        reader = fastavro.reader(file)
        records = list(reader)
        return dict(reader.metadata), [record for record in records if isinstance(record, dict)]


def manifest_entries(table: Table, *, content: int | None = None) -> list[Row]:
    """Read the entries of all manifests of the current snapshot, each with its manifest and spec id."""
    entries = []
    for manifest in manifest_list(table):
        manifest_content = manifest.get("content", 0)
        if content is None or manifest_content == content:
            _, records = read_avro(table, manifest["manifest_path"])
            entries += [
                {**record, "spec_id": manifest["partition_spec_id"], "manifest": manifest} for record in records
            ]
    return entries


def live_files(table: Table) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Return path, spec id and partition of every live file, ordered by path."""
    return sorted(
        (entry["data_file"]["file_path"], entry["spec_id"], tuple(entry["data_file"]["partition"].values()))
        for entry in manifest_entries(table)
        if entry["status"] != 2
    )


def snapshot_summary(table: Table) -> dict[str, str]:
    snapshot = reload_table(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def counted_totals(table: Table) -> dict[str, str]:
    """Return the totals of a summary, counted from the manifests."""
    live = [entry for entry in manifest_entries(table) if entry["status"] != 2]
    files = [entry["data_file"] for entry in live]
    data = [file for file in files if file.get("content", 0) == 0]
    positions = [file for file in files if file.get("content", 0) == 1]
    equality = [file for file in files if file.get("content", 0) == 2]
    return {
        "total-data-files": str(len(data)),
        "total-delete-files": str(len(positions) + len(equality)),
        "total-records": str(sum(file["record_count"] for file in data)),
        "total-files-size": str(sum(file["file_size_in_bytes"] for file in files)),
        "total-position-deletes": str(sum(file["record_count"] for file in positions)),
        "total-equality-deletes": str(sum(file["record_count"] for file in equality)),
    }


def check_totals(table: Table) -> None:
    """Check that the totals of the summary are those of the manifests."""
    summary = snapshot_summary(table)
    counted = counted_totals(table)
    assert {name: summary[name] for name in counted} == counted


def metadata_files(table: Table) -> set[str]:
    """Return the names of the manifests and manifest lists on disk."""
    folder = Path(table.location().removeprefix("file://"), "metadata")
    return {path.name for path in folder.glob("*.avro")}


def referenced_metadata_files(table: Table) -> set[str]:
    """Return the names of the manifests and manifest lists that a snapshot of the table references."""
    fresh = reload_table(table)
    lists = {snapshot.manifest_list for snapshot in fresh.metadata.snapshots}
    manifests = {row["manifest_path"] for path in lists for row in read_avro(table, path)[1]}
    return {Path(path).name for path in lists | manifests}


def _write_parquet(table: Table, path: str, rows: pa.Table) -> int:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    with table.io.new_output(path).create() as file:
        file.write(sink.getvalue())
    return len(sink.getvalue())


def _partition_values(table: Table, spec_id: int, row: Row) -> list[Any]:
    values = []
    for field in table.metadata.specs()[spec_id].fields:
        column = table.schema().find_field(field.source_id)
        values.append(
            field.transform.transform(column.field_type)(transform_input(row.get(column.name), column.field_type))
        )
    return values


def transform_input(value: Any, type_: IcebergType) -> Any:
    """Return a value as Iceberg's transforms take it."""
    from pyiceberg.partitioning import _to_partition_representation

    return _to_partition_representation(type_, value)


def copy_data_file(file: DataFile, path: str) -> DataFile:
    copy = DataFile(*[file[index] for index in range(len(file))])
    copy[1] = path
    copy.spec_id = file.spec_id
    return copy


def strictly_read_ids(table: Table) -> list[int]:
    """Read the ids with a reader that applies a delete file only by spec, partition and sequence number."""
    import pyarrow.parquet as pq

    live = [entry for entry in manifest_entries(table) if entry["status"] != DELETED]
    sequence_numbers = {
        entry["data_file"]["file_path"]: entry["sequence_number"] or entry["manifest"]["sequence_number"]
        for entry in live
    }
    partitions = {
        entry["data_file"]["file_path"]: (entry["spec_id"], repr(entry["data_file"]["partition"])) for entry in live
    }
    deleted: set[tuple[str, int]] = set()
    for entry in live:
        if entry["data_file"]["content"] == 1:
            path = entry["data_file"]["file_path"]
            for row in pq.read_table(path.removeprefix("file://")).to_pylist():
                target = row["file_path"]
                if (
                    target in partitions
                    and partitions[target] == partitions[path]
                    and sequence_numbers[target] <= sequence_numbers[path]
                ):
                    deleted.add((target, row["pos"]))
    ids = []
    for entry in live:
        path = entry["data_file"]["file_path"]
        if entry["data_file"]["content"] == 0:
            rows = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
            ids += [row for index, row in enumerate(rows) if (path, index) not in deleted]
    return sorted(ids)


def current_manifests(table: Table) -> list[ManifestFile]:
    """Return the manifests of the current snapshot, as pyiceberg reads them."""
    return current_snapshot(table).manifests(table.io)


class InterferingCatalog(SqlCatalog):
    """The same catalog, with callbacks right before a commit reaches it and right after it was taken."""

    before: list[Callable[[], object]]
    after: list[Callable[[], object]]
    is_reachable: bool = True

    def load_table(self, identifier: str | Identifier) -> Table:
        if not self.is_reachable:
            raise ConnectionError("no way to the catalog")
        return super().load_table(identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        if self.before:
            self.before.pop(0)()
        response = super().commit_table(table, requirements, updates)
        if self.after:
            self.after.pop(0)()
        return response


def with_interference(
    table: Table, *, before: Sequence[Callable[[], object]] = (), after: Sequence[Callable[[], object]] = ()
) -> Table:
    """Load the table with a catalog whose next commits run the callbacks, one per commit."""
    catalog = InterferingCatalog("lake", **table.catalog.properties)
    catalog.before, catalog.after = list(before), list(after)
    return catalog.load_table(table.name())
