"""Tables of many files or many commits, made in seconds: metadata alone, without the data files that it names.

Files have statistics of twelve columns and lie in partitions of ten: file number n is in `part = n // 10`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pyarrow as pa
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import SetSnapshotRefUpdate, update_table_metadata
from pyiceberg.typedef import Record
from sqlalchemy import update
from sqlalchemy.orm import Session

import partita as pt
from partita.formats.iceberg.manifests.entries import new_manifest_entry
from partita.formats.iceberg.manifests.write import ManifestWriter

if TYPE_CHECKING:
    from pyiceberg.table import Table

TABLE_NAME = "bench.t"
FILES_PER_PARTITION = 10
FILES_PER_MANIFEST = 5_000
_ROWS_PER_FILE, _BYTES_PER_FILE = 1000, 100_000
_NUMBER_COLUMNS, _TEXT_COLUMNS = [f"n{at}" for at in range(6)], [f"t{at}" for at in range(4)]
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("part", pa.int64())]
    + [(name, pa.int64()) for name in _NUMBER_COLUMNS]
    + [(name, pa.string()) for name in _TEXT_COLUMNS]
)
_FIRST_COMMIT_MILLIS = 1_700_000_000_000
"""When the first commit was made, in milliseconds."""


def create_table(folder: str, format_name: str) -> pt.Table:
    """An empty table."""
    properties = {"delta.checkpointInterval": "100000"} if format_name == "delta" else {}
    return pt.Lake(folder).create_table(
        TABLE_NAME, _SCHEMA, format=format_name, partition_by=["part"], properties=properties
    )


def reopen_table(folder: str) -> pt.Table:
    """The table as a process has it that has just opened it."""
    return pt.Lake(folder).table(TABLE_NAME)


# --- Iceberg


def create_iceberg_with_files(folder: str, file_count: int) -> None:
    """One snapshot of so many files, in manifests whose partitions don't overlap."""
    create_table(folder, "iceberg")
    table = load_iceberg_table(folder)
    output = ManifestWriter(table, 77)
    manifests = list(_write_manifests(table, output, file_count))
    listed = output.write_manifest_list(manifests, None, 1)
    _set_snapshots(table, [_snapshot(77, None, 1, listed, file_count)])


def create_iceberg_with_snapshots(folder: str, snapshot_count: int) -> None:
    """So many appends of one file each; a list has the manifests of the last twenty, at most."""
    create_table(folder, "iceberg")
    table = load_iceberg_table(folder)
    made: list[Snapshot] = []
    listed: list[ManifestFile] = []
    random = Random(7)
    for number in range(1, snapshot_count + 1):
        output = ManifestWriter(table, 1000 + number)
        new = new_manifest_entry(_data_file(table, number, random), ManifestEntryStatus.ADDED, output.snapshot_id)
        listed = [*output.write_manifests(0, ManifestContent.DATA, [new]), *listed[: number % 20]]
        parent = made[-1].snapshot_id if made else None
        location = output.write_manifest_list(listed, parent, number)
        # The list of the next snapshot has the number that this one gave.
        listed[0][4] = listed[0][5] = number
        made.append(_snapshot(output.snapshot_id, parent, number, location, number))
    _set_snapshots(table, made)


def load_iceberg_table(folder: str) -> Table:
    """The table as pyiceberg has it."""
    from partita.formats.iceberg.catalogs import lake_catalog, load_table
    from partita.storage import Storage

    return load_table(lake_catalog(Storage.from_uri(folder)), TABLE_NAME)


def _write_manifests(table: Table, output: ManifestWriter, file_count: int) -> Iterator[ManifestFile]:
    """Manifests by fastavro, which writes an entry twenty times as fast, in the form that Partita's have."""
    random = Random(7)
    for start in range(0, file_count, FILES_PER_MANIFEST):
        first, last = start, min(file_count, start + FILES_PER_MANIFEST) - 1
        ends = [
            new_manifest_entry(_data_file(table, at, random), ManifestEntryStatus.ADDED, output.snapshot_id)
            for at in (first, last)
        ]
        [manifest] = output.write_manifests(0, ManifestContent.DATA, ends)
        path = Path(manifest.manifest_path.removeprefix("file://"))
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            header, (like, _) = dict(reader.metadata), list(reader)
        records = [_manifest_record(like, table.location(), at, random) for at in range(first, last + 1)]
        about = {key: value for key, value in header.items() if not key.startswith("avro.")}
        with path.open("wb") as out:
            fastavro.writer(out, json.loads(header["avro.schema"]), records, "deflate", 1 << 17, about)
        manifest[1] = path.stat().st_size
        # The counts of added files and of their rows.
        manifest[7], manifest[10] = len(records), len(records) * _ROWS_PER_FILE
        yield manifest


def _data_file(table: Table, number: int, random: Random) -> DataFile:
    lower, upper = _column_bounds(number, random)
    columns = range(1, 1 + len(_SCHEMA))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{_data_file_path(number, random)}",
        file_format=FileFormat.PARQUET,
        partition=Record(number // FILES_PER_PARTITION),
        record_count=_ROWS_PER_FILE,
        file_size_in_bytes=_BYTES_PER_FILE,
        column_sizes=dict.fromkeys(columns, 8000),
        value_counts=dict.fromkeys(columns, _ROWS_PER_FILE),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=[4],
        sort_order_id=0,
    )
    file.spec_id = 0
    return file


def _manifest_record(template: Any, location: str, number: int, random: Random) -> dict[str, Any]:
    """A manifest entry as Avro has it: another's, with values of its own."""
    lower, upper = (
        [{"key": key, "value": value} for key, value in end.items()] for end in _column_bounds(number, random)
    )
    file = {
        **template["data_file"],
        "file_path": f"{location}/data/{_data_file_path(number, random)}",
        "partition": {"part": number // FILES_PER_PARTITION},
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
    return {**template, "data_file": file}


def _column_bounds(number: int, random: Random) -> tuple[dict[int, bytes], dict[int, bytes]]:
    least, part = random.randrange(10**9), struct.pack("<q", number // FILES_PER_PARTITION)
    ends = []
    for value, text in ((least, b"aaaaaaaaaaaaaaaa"), (least + 1000, b"zzzzzzzzzzzzzzzz")):
        packed = struct.pack("<q", value)
        ends.append({1: packed, 2: part} | dict.fromkeys(range(3, 9), packed) | dict.fromkeys(range(9, 13), text))
    return ends[0], ends[1]


def _data_file_path(number: int, random: Random) -> str:
    return f"part={number // FILES_PER_PARTITION}/{number:08}-{UUID(int=random.getrandbits(128))}.parquet"


def _snapshot(snapshot_id: int, parent: int | None, number: int, manifest_list: str, files: int) -> Snapshot:
    totals = {
        "total-data-files": files,
        "total-records": files * _ROWS_PER_FILE,
        "total-files-size": files * _BYTES_PER_FILE,
    }
    totals |= dict.fromkeys(("total-delete-files", "total-position-deletes", "total-equality-deletes"), 0)
    summary = Summary(Operation.APPEND, **{name: str(total) for name, total in totals.items()})
    return Snapshot.model_validate(
        {"snapshot-id": snapshot_id, "parent-snapshot-id": parent, "sequence-number": number, "schema-id": 0,
         "timestamp-ms": _FIRST_COMMIT_MILLIS + number, "manifest-list": manifest_list, "summary": summary}
    )  # fmt: skip


def _set_snapshots(table: Table, snapshots: Sequence[Snapshot]) -> None:
    """Put metadata with those snapshots in place of the table's, all at once."""
    head = snapshots[-1]
    main = {"ref-name": "main", "type": "branch", "snapshot-id": head.snapshot_id}
    known = {"snapshots": list(snapshots), "last_sequence_number": head.sequence_number}
    metadata = update_table_metadata(
        table.metadata.model_copy(update=known), (SetSnapshotRefUpdate.model_validate(main),)
    )
    location = f"{table.location()}/metadata/00001-{UUID(int=1)}.metadata.json"
    ToOutputFile.table_metadata(metadata, table.io.new_output(location))
    catalog = table.catalog
    assert isinstance(catalog, SqlCatalog)
    with Session(catalog.engine) as session:
        session.execute(update(IcebergTables).values(metadata_location=location))
        session.commit()


# --- Delta


def create_delta_with_files(folder: str, file_count: int, commit_count: int = 10) -> None:
    """So many files, added by a few commits."""
    table, random = create_table(folder, "delta"), Random(7)
    size = file_count // commit_count
    for version in range(1, commit_count + 1):
        numbers = range((version - 1) * size, version * size)
        _write_commit(table, version, [_add_action(number, random) for number in numbers])


def create_delta_with_commits(folder: str, commit_count: int) -> None:
    """So many commits of one file each."""
    table, random = create_table(folder, "delta"), Random(7)
    for version in range(1, commit_count + 1):
        _write_commit(table, version, [_add_action(version, random)])


def _write_commit(table: pt.Table, version: int, adds: Sequence[dict[str, Any]]) -> None:
    info = {
        "timestamp": _FIRST_COMMIT_MILLIS + version,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
    }
    lines = [json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": info}, *adds)]
    Path(table.uri, "_delta_log", f"{version:020}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _add_action(number: int, random: Random) -> dict[str, Any]:
    least = random.randrange(10**9)
    ends = [
        dict.fromkeys(("id", *_NUMBER_COLUMNS), value) | dict.fromkeys(_TEXT_COLUMNS, text * 16)
        for value, text in ((least, "a"), (least + 1000, "z"))
    ]
    stats = {
        "numRecords": _ROWS_PER_FILE,
        "minValues": ends[0],
        "maxValues": ends[1],
        "nullCount": dict.fromkeys(ends[0], 0),
    }
    return {
        "add": {
            "path": _data_file_path(number, random),
            "partitionValues": {"part": str(number // FILES_PER_PARTITION)},
            "size": _BYTES_PER_FILE,
            "modificationTime": _FIRST_COMMIT_MILLIS,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
    }
