"""`partita demo`: on a real Spark through the entry point, and what it shows without one."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from partita import PartitionKey
from partita.cli import demo_report
from partita.cli.demo_orders import ASSET, WHERE, Found, Skipped, _prune_orders
from partita.cli.demo_table import Changed, Version
from tests.cli.terminal import Partita, run_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND = Found(
    pa.table({"key": ["a=i:1", "a=i:2", "a=i:3"], "id": ["part_1", "part_2", "part_3"], "rows": [5, 1000, 2]}),
    pa.table({"key": ["a=i:2"], "id": ["part_2"], "rows": [1000]}),
    (Skipped("country[0] != 'FR'", 1, 5), Skipped("user_id = 4711", 1, 2)),
    7,
    7,
    Changed((Version(1, "append", {"rows_inserted": 1007, "files_added": 3, "files_removed": 0}),), 1007, 1007),
)


@pytest.mark.jvm
def test_the_demo_runs() -> None:
    done = run_installed("demo", "--rows", "20000", COLUMNS="80")
    assert done.code == 0, done.err
    assert "20,000 orders in " in done.out
    assert "country=s:REU,ts_day=d:2025-01-01,user_id_bucket=i:0" in done.out
    assert "Pruning lost nothing." in done.out
    assert "Nothing was lost." in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out + done.err
    assert " s  stopping Spark" in done.err
    assert "Traceback" not in done.err


def test_what_it_finds(spark: SparkSession) -> None:
    found = _prune_orders(spark, 200_000, nullcontext).summary()
    assert found["agree"]
    assert found["matching"]["kept"] > 0
    assert {s["reason"] for s in found["skipped"]} == set(WHERE.split(" AND "))
    parts = [found["kept"], *found["skipped"]]
    assert sum(part["partitions"] for part in parts) == found["partitions"]
    assert sum(part["rows"] for part in parts) == found["rows"] == 200_000


def test_keys_and_ids_are_those_of_the_library(spark: SparkSession) -> None:
    partitions = _prune_orders(spark, 1_000, nullcontext).partitions
    for row in partitions.to_pylist():
        key = PartitionKey({name: row[name] for name in ("ts_day", "user_id_bucket", "country")})
        assert (row["key"], row["id"]) == (str(key), key.id(ASSET))


def test_json(partita: Partita, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.cli.demo_orders.prune_orders", lambda *_: FOUND)
    code, out, _ = partita("demo", "--json")
    assert (code, json.loads(out)) == (0, FOUND.summary())


def test_the_report(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    demo_report.show(FOUND)
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for line in (
        "1,007 orders in 3 partitions by day(ts), bucket(16, user_id), country",
        "Kept: 1 partitions with 1,000 rows (99.3%)",
        "Skipped: 2 partitions with 7 rows (0.7%)",
        "Spark counts 7 matching rows in all partitions, 7 in the kept.",
        "Pruning lost nothing.",
        "Spark counts 1,007 rows in the table, and there should be 1,007.",
        "Nothing was lost.",
    ):
        assert line in shown
    assert any(line.split() == ["country[0]", "!=", "'FR'", "1", "5"] for line in shown)


def test_rows_that_pruning_lost_are_an_error(partita: Partita, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Found(FOUND.partitions, FOUND.kept, FOUND.skipped, 8, 7, FOUND.changed)
    monkeypatch.setattr("partita.cli.demo_orders.prune_orders", lambda *_: lost)
    code, out, _ = partita("demo")
    assert code == 1
    assert "Spark counts 8 matching rows in all partitions, 7 in the kept.\nPruning lost rows!\n" in out
