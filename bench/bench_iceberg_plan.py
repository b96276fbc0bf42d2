"""Planning over many files of an Iceberg table, against pyiceberg's `plan_files`.

Cold: nothing is known, every manifest that the predicate needs is opened and decoded. Warm: what was decoded before is
in the cache on disk, and the predicate's text was understood before. That is over in milliseconds, so a turn takes
many: of one alone, a third is the processor finding its way back from what pyiceberg did before. Each side ends with
what it gives its users: a table of files here, a list of tasks there. The data files need not exist.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from bench.harness import Row, Side, at_least, compare
from partita.algebra.partition_functions import bucket, day
from partita.algebra.schema import Schema
from partita.formats.file_plan import plan_files
from partita.formats.iceberg.catalogs import lake_catalog
from partita.formats.iceberg.create import create_table
from partita.formats.iceberg.manifests import cache
from partita.formats.iceberg.state import current_table_version
from partita.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table

FILE_COUNT = 100_000
MANIFEST_COUNT = 20
WARM_PLAN_COUNT = 20
ENTRIES_PER_AVRO_BLOCK = 64
"""Entries in a block of Avro; other engines write blocks of 64 KiB."""
DAY_MICROS = 86_400_000_000
NUMBER_FIELD_IDS, TEXT_FIELD_IDS = range(4, 10), range(10, 13)
COLUMNS = {"id": "long", "ts": "timestamp_ntz", "country": "string"}
COLUMNS |= {f"n{at}": "long" for at in NUMBER_FIELD_IDS} | {f"t{at}": "string" for at in TEXT_FIELD_IDS}

WHERE_BY_STATISTICS = "n5 < 1000000"
WHERE_BY_BUCKET = "id = 34"
WHERE_BY_DAY = "ts >= '2022-06-01T00:00:00' AND ts < '2022-06-02T00:00:00'"


def rows() -> Iterator[Row]:
    """Plans are compared before times are."""
    with tempfile.TemporaryDirectory() as folder:
        table = _create_metadata_table(Path(folder))
        os.environ["PARTITA_CACHE"] = f"{folder}/cache"
        yield from _compare_plans("statistics", WHERE_BY_STATISTICS, table)
        yield from _compare_plans("a bucket", WHERE_BY_BUCKET, table)
        yield from _compare_plans("a day, which one manifest in twenty has", WHERE_BY_DAY, table)


def _compare_plans(by: str, where: str, table: Table) -> Iterator[Row]:
    assert set(_partita_plan(table, where)["path"].to_pylist()) == {
        task.file.file_path for task in _pyiceberg_plan(table, where)
    }
    theirs = Side("pyiceberg's plan_files", lambda: _pyiceberg_plan(table, where))
    name = f"plan over {FILE_COUNT:,} files by {by}"
    cold = Side("partita, no cache", _without_cache(lambda: _partita_plan(table, where)))
    yield compare(f"{name}, cold", ours=cold, theirs=theirs, goal=at_least(3), repeat=3)
    warm = Side(
        f"partita, from the cache on disk, {WARM_PLAN_COUNT} in a row",
        lambda: [_partita_plan(table, where) for _ in range(WARM_PLAN_COUNT)],
        WARM_PLAN_COUNT,
    )
    yield compare(f"{name}, warm", ours=warm, theirs=theirs, goal=at_least(100), repeat=3)


def _partita_plan(table: Table, where: str) -> pa.Table:
    cache.clear_memory()
    return plan_files(current_table_version(table, where), where).files


def _pyiceberg_plan(table: Table, where: str) -> list[FileScanTask]:
    return list(table.scan(row_filter=where).plan_files())


def _without_cache(run: Callable[[], object]) -> Callable[[], object]:
    def run_without_cache() -> object:
        kept = os.environ["PARTITA_CACHE"]
        os.environ["PARTITA_CACHE"] = "off"
        try:
            return run()
        finally:
            os.environ["PARTITA_CACHE"] = kept

    return run_without_cache


# --- a table of manifests alone

_SNAPSHOT_ID = 77


def _create_metadata_table(folder: Path) -> Table:
    table = create_table(
        lake_catalog(Storage.from_uri(folder)), "bench.files", f"{folder}/files", Schema.of(COLUMNS),
        [day("ts"), bucket("id", 16)], {},
    )  # fmt: skip
    random, numbers = Random(7), count()
    per_manifest = FILE_COUNT // MANIFEST_COUNT
    made = [
        _write_manifest_file(table, [_manifest_entry(table, next(numbers), random) for _ in range(per_manifest)])
        for _ in range(MANIFEST_COUNT)
    ]
    location = f"{table.location()}/metadata/snap-{_SNAPSHOT_ID}-{uuid4()}.avro"
    with write_manifest_list(2, table.io.new_output(location), _SNAPSHOT_ID, None, 1, "deflate") as writer:
        writer.add_manifests(made)
    snapshot = Snapshot.model_validate(
        {"snapshot-id": _SNAPSHOT_ID, "sequence-number": 1, "timestamp-ms": int(time.time() * 1000),
         "manifest-list": location, "summary": Summary(Operation.APPEND), "schema-id": 0}
    )  # fmt: skip
    main = SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": _SNAPSHOT_ID})
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=snapshot), main), ())  # noqa: SLF001 - no public way adds one
    return table


def _write_manifest_file(table: Table, entries: list[ManifestEntry]) -> ManifestFile:
    out = table.io.new_output(f"{table.location()}/metadata/{uuid4()}-m0.avro")
    with write_manifest(2, table.spec(), table.schema(), out, _SNAPSHOT_ID, "deflate") as writer:
        # Its own method makes a block of each entry, which no other engine does and which both sides read slowly.
        for start in range(0, len(entries), ENTRIES_PER_AVRO_BLOCK):
            block = entries[start : start + ENTRIES_PER_AVRO_BLOCK]
            writer._added_files += len(block)  # noqa: SLF001 - the same
            writer._partitions += [entry.data_file.partition for entry in block]  # noqa: SLF001 - the same
            writer._writer.write_block(block)  # noqa: SLF001 - the same
    return writer.to_manifest_file()


def _manifest_entry(table: Table, number: int, random: Random) -> ManifestEntry:
    """A file of one day and bucket, 500 files a day."""
    days, shard = 19_000 + number // 500, number % 16
    least = random.randrange(10**9)
    low, high = struct.pack("<q", least), struct.pack("<q", least + 1000)
    lower = {1: struct.pack("<q", 0), 2: struct.pack("<q", days * DAY_MICROS), 3: b"DE"}
    upper = {1: struct.pack("<q", 2**40), 2: struct.pack("<q", (days + 1) * DAY_MICROS - 1), 3: b"US"}
    ids = range(1, 1 + len(COLUMNS))
    name = f"{number:08}-{UUID(int=random.getrandbits(128))}.parquet"
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{table.location()}/data/ts_day={days}/id_bucket={shard}/{name}",
        file_format=FileFormat.PARQUET,
        partition=Record(days, shard),
        record_count=1000,
        file_size_in_bytes=100_000 + number,
        column_sizes={at: 8000 + at for at in ids},
        value_counts=dict.fromkeys(ids, 1000),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={},
        lower_bounds=lower | dict.fromkeys(NUMBER_FIELD_IDS, low) | dict.fromkeys(TEXT_FIELD_IDS, b"aaaaaaaaaaaaaaaa"),
        upper_bounds=upper | dict.fromkeys(NUMBER_FIELD_IDS, high) | dict.fromkeys(TEXT_FIELD_IDS, b"zzzzzzzzzzzzzzzz"),
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=0,
    )
    file.spec_id = 0
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=_SNAPSHOT_ID, data_file=file)
