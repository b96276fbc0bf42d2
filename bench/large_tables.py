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
from partita.formats.iceberg.transaction.manifests import Output, entry_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

NAME = "bench.t"
FILES_IN_PARTITION = 10
FILES_IN_MANIFEST = 5_000
_ROWS, _BYTES = 1000, 100_000
_NUMBERS, _TEXTS = [f"n{at}" for at in range(6)], [f"t{at}" for at in range(4)]
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("part", pa.int64())]
    + [(name, pa.int64()) for name in _NUMBERS]
    + [(name, pa.string()) for name in _TEXTS]
)
_START = 1_700_000_000_000
"""When the first commit was made, in milliseconds."""


def create_table(folder: str, form: str) -> pt.Table:
    """An empty table."""
    properties = {"delta.checkpointInterval": "100000"} if form == "delta" else {}
    return pt.Lake(folder).create_table(NAME, _SCHEMA, format=form, partition_by=["part"], properties=properties)


def reopen(folder: str) -> pt.Table:
    """The table as a process has it that has just opened it."""
    return pt.Lake(folder).table(NAME)


# --- Iceberg


def iceberg_of_files(folder: str, files: int) -> None:
    """One snapshot of so many files, in manifests whose partitions don't overlap."""
    create_table(folder, "iceberg")
    table = load_iceberg(folder)
    output = Output(table, 77)
    manifests = list(_manifests(table, output, files))
    listed = output.write_list(manifests, None, 1)
    _set_snapshots(table, [_snapshot(77, None, 1, listed, files)])


def iceberg_of_snapshots(folder: str, snapshots: int) -> None:
    """So many appends of one file each; a list has the manifests of the last twenty, at most."""
    create_table(folder, "iceberg")
    table = load_iceberg(folder)
    made: list[Snapshot] = []
    listed: list[ManifestFile] = []
    random = Random(7)
    for number in range(1, snapshots + 1):
        output = Output(table, 1000 + number)
        new = entry_of(_data_file(table, number, random), ManifestEntryStatus.ADDED, output.snapshot_id)
        listed = [*output.write_manifests(0, ManifestContent.DATA, [new]), *listed[: number % 20]]
        parent = made[-1].snapshot_id if made else None
        location = output.write_list(listed, parent, number)
        # The list of the next snapshot has the number that this one gave.
        listed[0][4] = listed[0][5] = number
        made.append(_snapshot(output.snapshot_id, parent, number, location, number))
    _set_snapshots(table, made)


def load_iceberg(folder: str) -> Table:
    """The table as pyiceberg has it."""
    from partita.formats.iceberg.catalogs import lake_catalog, load
    from partita.storage import Storage

    return load(lake_catalog(Storage.at(folder)), NAME)


def _manifests(table: Table, output: Output, files: int) -> Iterator[ManifestFile]:
    """Manifests by fastavro, which writes an entry twenty times as fast, in the form that Partita's have."""
    random = Random(7)
    for start in range(0, files, FILES_IN_MANIFEST):
        first, last = start, min(files, start + FILES_IN_MANIFEST) - 1
        ends = [
            entry_of(_data_file(table, at, random), ManifestEntryStatus.ADDED, output.snapshot_id)
            for at in (first, last)
        ]
        [manifest] = output.write_manifests(0, ManifestContent.DATA, ends)
        path = Path(manifest.manifest_path.removeprefix("file://"))
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            header, (like, _) = dict(reader.metadata), list(reader)
        records = [_record(like, table.location(), at, random) for at in range(first, last + 1)]
        about = {key: value for key, value in header.items() if not key.startswith("avro.")}
        with path.open("wb") as out:
            fastavro.writer(out, json.loads(header["avro.schema"]), records, "deflate", 1 << 17, about)
        manifest[1] = path.stat().st_size
        # The counts of added files and of their rows.
        manifest[7], manifest[10] = len(records), len(records) * _ROWS
        yield manifest


def _data_file(table: Table, number: int, random: Random) -> DataFile:
    lower, upper = _bounds(number, random)
    columns = range(1, 1 + len(_SCHEMA))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/{_path(number, random)}",
        file_format=FileFormat.PARQUET,
        partition=Record(number // FILES_IN_PARTITION),
        record_count=_ROWS,
        file_size_in_bytes=_BYTES,
        column_sizes=dict.fromkeys(columns, 8000),
        value_counts=dict.fromkeys(columns, _ROWS),
        null_value_counts=dict.fromkeys(columns, 0),
        nan_value_counts={},
        lower_bounds=lower,
        upper_bounds=upper,
        split_offsets=[4],
        sort_order_id=0,
    )
    file.spec_id = 0
    return file


def _record(like: Any, location: str, number: int, random: Random) -> dict[str, Any]:
    """A manifest entry as Avro has it: another's, with values of its own."""
    lower, upper = ([{"key": key, "value": value} for key, value in end.items()] for end in _bounds(number, random))
    file = {
        **like["data_file"],
        "file_path": f"{location}/data/{_path(number, random)}",
        "partition": {"part": number // FILES_IN_PARTITION},
        "lower_bounds": lower,
        "upper_bounds": upper,
    }
    return {**like, "data_file": file}


def _bounds(number: int, random: Random) -> tuple[dict[int, bytes], dict[int, bytes]]:
    least, part = random.randrange(10**9), struct.pack("<q", number // FILES_IN_PARTITION)
    ends = []
    for value, text in ((least, b"aaaaaaaaaaaaaaaa"), (least + 1000, b"zzzzzzzzzzzzzzzz")):
        packed = struct.pack("<q", value)
        ends.append({1: packed, 2: part} | dict.fromkeys(range(3, 9), packed) | dict.fromkeys(range(9, 13), text))
    return ends[0], ends[1]


def _path(number: int, random: Random) -> str:
    return f"part={number // FILES_IN_PARTITION}/{number:08}-{UUID(int=random.getrandbits(128))}.parquet"


def _snapshot(snapshot_id: int, parent: int | None, number: int, listed: str, files: int) -> Snapshot:
    totals = {"total-data-files": files, "total-records": files * _ROWS, "total-files-size": files * _BYTES}
    totals |= dict.fromkeys(("total-delete-files", "total-position-deletes", "total-equality-deletes"), 0)
    summary = Summary(Operation.APPEND, **{name: str(total) for name, total in totals.items()})
    return Snapshot.model_validate(
        {"snapshot-id": snapshot_id, "parent-snapshot-id": parent, "sequence-number": number, "schema-id": 0,
         "timestamp-ms": _START + number, "manifest-list": listed, "summary": summary}
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


def delta_of_files(folder: str, files: int, commits: int = 10) -> None:
    """So many files, added by a few commits."""
    table, random = create_table(folder, "delta"), Random(7)
    size = files // commits
    for version in range(1, commits + 1):
        numbers = range((version - 1) * size, version * size)
        _write_commit(table, version, [_add(number, random) for number in numbers])


def delta_of_commits(folder: str, commits: int) -> None:
    """So many commits of one file each."""
    table, random = create_table(folder, "delta"), Random(7)
    for version in range(1, commits + 1):
        _write_commit(table, version, [_add(version, random)])


def _write_commit(table: pt.Table, version: int, adds: Sequence[dict[str, Any]]) -> None:
    info = {"timestamp": _START + version, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    lines = [json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": info}, *adds)]
    Path(table.uri, "_delta_log", f"{version:020}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _add(number: int, random: Random) -> dict[str, Any]:
    least = random.randrange(10**9)
    ends = [
        dict.fromkeys(("id", *_NUMBERS), value) | dict.fromkeys(_TEXTS, text * 16)
        for value, text in ((least, "a"), (least + 1000, "z"))
    ]
    stats = {"numRecords": _ROWS, "minValues": ends[0], "maxValues": ends[1], "nullCount": dict.fromkeys(ends[0], 0)}
    return {
        "add": {
            "path": _path(number, random),
            "partitionValues": {"part": str(number // FILES_IN_PARTITION)},
            "size": _BYTES,
            "modificationTime": _START,
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
    }
