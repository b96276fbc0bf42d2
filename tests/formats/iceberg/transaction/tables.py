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

from partita.formats.iceberg.transaction import Changes, commit
from partita.formats.iceberg.transaction.pointers import PATH_COLUMN

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


def catalog_at(folder: Path, **properties: str) -> SqlCatalog:
    """The SQLite catalog of a folder; any process may open it."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", **properties)
    catalog.create_namespace_if_not_exists("db")
    return catalog


def spec(*fields: tuple[int, str, str], spec_id: int = 0) -> PartitionSpec:
    """A spec of (source id, transform, name)."""
    numbered = enumerate(fields, 1000)
    made = [
        PartitionField(source, field_id, parse_transform(text), name) for field_id, (source, text, name) in numbered
    ]
    return PartitionSpec(*made, spec_id=spec_id)


BY_REGION = spec((2, "identity", "region"))


def new_table(
    folder: Path,
    schema: Schema = SCHEMA,
    partitioned: PartitionSpec = BY_REGION,
    version: int = 2,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """A table `db.t` in a catalog of its own."""
    told = {"format-version": str(version), "commit.retry.min-wait-ms": "5", **(properties or {})}
    return catalog_at(folder).create_table("db.t", schema, partition_spec=partitioned, properties=told)


def data_file(
    table: Table, rows: Sequence[Row], spec_id: int | None = None, partition: Sequence[Any] | None = None
) -> DataFile:
    """A Parquet file of the rows, of the default spec unless told; its partition is that of the first row."""
    schema = table.schema()
    spec_id = table.metadata.default_spec_id if spec_id is None else spec_id
    arrow = schema_to_pyarrow(schema)
    path = f"{table.location()}/data/{uuid4()}.parquet"
    size = _write(table, path, pa.Table.from_pylist(list(rows), arrow))
    values = _partition(table, spec_id, rows[0]) if partition is None else partition
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
    """A position-delete file of rows by data file, in the spec and the partition of a data file unless told."""
    pairs = sorted((path, position) for path, positions in points.items() for position in positions)
    rows = pa.table(
        {"file_path": [path for path, _ in pairs], "pos": pa.array([position for _, position in pairs], pa.int64())},
        schema=pa.schema(
            [
                pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_COLUMN)}),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
            ]
        ),
    )
    path = f"{table.location()}/data/{uuid4()}-deletes.parquet"
    size = _write(table, path, rows)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=like.partition if partition is None else Record(*partition),
        record_count=len(pairs),
        file_size_in_bytes=size,
        lower_bounds={PATH_COLUMN: pairs[0][0].encode()},
        upper_bounds={PATH_COLUMN: pairs[-1][0].encode()},
    )
    file.spec_id = like.spec_id if spec_id is None else spec_id
    return file


def append(table: Table, *files: DataFile, **more: Any) -> int:
    """Append files to the table as it is."""
    return commit(table, table.metadata.current_snapshot_id, Changes("append", files, **more))


def change(table: Table, changes: Changes) -> int:
    """Commit changes to the table as it is in hand."""
    return commit(table, table.metadata.current_snapshot_id, changes)


def snapshot_of(table: Table) -> Snapshot:
    """The current snapshot of the table as it is in hand."""
    found = table.current_snapshot()
    assert found is not None
    return found


def again(table: Table) -> Table:
    """The same table, opened by somebody else."""
    return table.catalog.load_table(table.name())


def rows_of(table: Table) -> list[Row]:
    """The rows as pyiceberg reads them, in order of `id`."""
    return sorted(again(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def ids_of(table: Table) -> list[int]:
    return [row["id"] for row in rows_of(table)]


def manifest_list(table: Table) -> list[Row]:
    """The manifests of the current snapshot, as fastavro reads them."""
    snapshot = again(table).current_snapshot()
    assert snapshot is not None
    return avro(table, snapshot.manifest_list)[1]


def avro(table: Table, path: str) -> tuple[dict[str, str], list[Row]]:
    """Header and records of an Avro file, as fastavro reads them."""
    with Path(path.removeprefix("file://")).open("rb") as file:
        reader = fastavro.reader(file)
        records = list(reader)
        return dict(reader.metadata), [record for record in records if isinstance(record, dict)]


def entries_of(table: Table, *, content: int | None = None) -> list[Row]:
    """The entries of all manifests of the current snapshot, each with its manifest's spec and content."""
    found = []
    for manifest in manifest_list(table):
        kind = manifest.get("content", 0)
        if content is None or kind == content:
            _, records = avro(table, manifest["manifest_path"])
            found += [{**record, "spec_id": manifest["partition_spec_id"], "manifest": manifest} for record in records]
    return found


def live_files(table: Table) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Path, spec and partition of every live file, by path."""
    return sorted(
        (entry["data_file"]["file_path"], entry["spec_id"], tuple(entry["data_file"]["partition"].values()))
        for entry in entries_of(table)
        if entry["status"] != 2
    )


def summary_of(table: Table) -> dict[str, str]:
    snapshot = again(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def counted_totals(table: Table) -> dict[str, str]:
    """The totals of a summary, counted from the manifests."""
    live = [entry for entry in entries_of(table) if entry["status"] != 2]
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
    """The summary's totals are what the manifests hold."""
    said = summary_of(table)
    counted = counted_totals(table)
    assert {name: said[name] for name in counted} == counted


def metadata_files(table: Table) -> set[str]:
    """The names of the manifests and manifest lists on disk."""
    folder = Path(table.location().removeprefix("file://"), "metadata")
    return {path.name for path in folder.glob("*.avro")}


def named_files(table: Table) -> set[str]:
    """The names of the manifests and manifest lists that a snapshot of the table needs."""
    fresh = again(table)
    lists = {snapshot.manifest_list for snapshot in fresh.metadata.snapshots}
    manifests = {row["manifest_path"] for path in lists for row in avro(table, path)[1]}
    return {Path(path).name for path in lists | manifests}


def _write(table: Table, path: str, rows: pa.Table) -> int:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    with table.io.new_output(path).create() as file:
        file.write(sink.getvalue())
    return len(sink.getvalue())


def _partition(table: Table, spec_id: int, row: Row) -> list[Any]:
    made = []
    for field in table.metadata.specs()[spec_id].fields:
        column = table.schema().find_field(field.source_id)
        made.append(field.transform.transform(column.field_type)(plain(row.get(column.name), column.field_type)))
    return made


def plain(value: Any, type_: IcebergType) -> Any:
    """A value as Iceberg's transforms take it."""
    from pyiceberg.partitioning import _to_partition_representation

    return _to_partition_representation(type_, value)


def copied(file: DataFile, path: str) -> DataFile:
    made = DataFile(*[file[at] for at in range(len(file))])
    made[1] = path
    made.spec_id = file.spec_id
    return made


def strict_rows(table: Table) -> list[int]:
    """The ids that are left, by a reader that heeds a delete's spec, partition and sequence number."""
    import pyarrow.parquet as pq

    live = [e for e in entries_of(table) if e["status"] != DELETED]
    number = {e["data_file"]["file_path"]: e["sequence_number"] or e["manifest"]["sequence_number"] for e in live}
    place = {e["data_file"]["file_path"]: (e["spec_id"], repr(e["data_file"]["partition"])) for e in live}
    gone: set[tuple[str, int]] = set()
    for entry in live:
        if entry["data_file"]["content"] == 1:
            path = entry["data_file"]["file_path"]
            for row in pq.read_table(path.removeprefix("file://")).to_pylist():
                target = row["file_path"]
                if target in place and place[target] == place[path] and number[target] <= number[path]:
                    gone.add((target, row["pos"]))
    ids = []
    for entry in live:
        path = entry["data_file"]["file_path"]
        if entry["data_file"]["content"] == 0:
            rows = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
            ids += [row for at, row in enumerate(rows) if (path, at) not in gone]
    return sorted(ids)


def manifests(table: Table) -> list[ManifestFile]:
    """The manifests of the current snapshot, as pyiceberg has them."""
    return snapshot_of(table).manifests(table.io)


class MeddledCatalog(SqlCatalog):
    """The same catalog, where something happens right before a commit reaches it, or right after it was taken."""

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


def meddled(
    table: Table, *, before: Sequence[Callable[[], object]] = (), after: Sequence[Callable[[], object]] = ()
) -> Table:
    """The table as another opens it, whose next commits meet what is given, one for each."""
    catalog = MeddledCatalog("lake", **table.catalog.properties)
    catalog.before, catalog.after = list(before), list(after)
    return catalog.load_table(table.name())
