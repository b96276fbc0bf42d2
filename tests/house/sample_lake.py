"""A small lake of every format with its ledger, plan and project, and the ways in which each file of it can break."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

import partita as pt
from tests.formats.lance.tables import commit_rows as write_lance

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "region": ["eu", "us", None]})
RECORDED_AT = datetime(2025, 1, 15, tzinfo=UTC)
PIPELINE_SOURCE = """
import partita as pt

orders = pt.source("sales.delta", partitions=pt.dynamic("region"))


@pt.asset(partitions=pt.static("region", ["eu", "us"]), upstream=[orders])
def daily(ctx):
    return None
"""
PROJECT_TOML = '[lake]\nuri = "."\n[pipeline]\nmodule = "pipeline.py"\n'


def create_sample_lake(folder: Path) -> pt.Lake:
    """A project with a lake: a table of each format with rows, an adopted one, events, and a plan in a file."""
    lake = pt.Lake(str(folder))
    _make_delta(lake)
    _make_iceberg(lake)
    write_lance(lake.create_table("sales.lance", ROWS.schema, format="lance", partition_by=["region"]), ROWS)
    (folder / "partita.toml").write_text(PROJECT_TOML, encoding="utf-8")
    (folder / "pipeline.py").write_text(PIPELINE_SOURCE, encoding="utf-8")
    lake.register(*pt.load_pipeline("pipeline.py", str(folder)))
    lake.record(
        "daily", pt.PartitionKey.of(region="eu"), outcome="succeeded", run_id="r1", at=RECORDED_AT, code_version="1"
    )
    lake.adopt(f"{folder}/sales/delta", "delta", name="adopted")
    lake.fold()
    lake.sweep()
    lake.plan(observe=False).save(str(folder / "plan.jsonl"))
    return lake


def _make_delta(lake: pt.Lake) -> None:
    from deltalake import DeltaTable, write_deltalake

    table = lake.create_table("sales.delta", ROWS.schema, format="delta", partition_by=["region"])
    write_deltalake(table.uri, ROWS, mode="append")
    DeltaTable(table.uri).create_checkpoint()
    write_deltalake(table.uri, ROWS, mode="append")


def _make_iceberg(lake: pt.Lake) -> None:
    table = lake.create_table("sales.iceberg", ROWS.schema, format="iceberg", partition_by=["region"])
    table._store._table.append(ROWS)  # type: ignore[attr-defined] # pyiceberg's own table


# --- damage


def _delete_file(path: Path) -> None:
    path.unlink()


def _empty_file(path: Path) -> None:
    path.write_bytes(b"")


def _truncate_file(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def _fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff{]garbage\xed\xa0\x80" * 9)


def _write_number(path: Path) -> None:
    path.write_bytes(b"5")


def _nest_deeply(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILE_DAMAGES: Mapping[str, Callable[[Path], None]] = {
    "missing": _delete_file,
    "empty": _empty_file,
    "cut": _truncate_file,
    "garbage": _fill_with_garbage,
    "a number": _write_number,
    "deep": _nest_deeply,
    "a folder": _make_folder,
}


def files_of_each_kind(folder: Path) -> list[Path]:
    """The last file of each kind that the lake has, relative to it; numbers, ids and values don't make a kind."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in {".py", ".pyc"}:
            relative = path.relative_to(folder)
            found[_VARYING_PARTS.sub("#", str(relative))] = relative
    return sorted(found.values())


_VARYING_PARTS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=region=)[^/.]+|[0-9a-f]{16,}|[0-9]+")


def copy_sample_lake(source: Path, target: Path) -> pt.Lake:
    """The same lake in the place of an earlier copy: catalogs hold absolute paths."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target)
    return pt.Lake(str(target))
