"""`partita demo`: the whole story through the entry point, and its parts."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.cli import demo_inspection
from partita.cli.demo_session import PROJECT_FILES, DemoSession
from partita.errors import ProjectError
from tests.cli.terminal import SPARK_ENVIRONMENT, CommandRunner, run_installed_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partita.lake import Lake


@pytest.mark.jvm
def test_the_demo_runs_all_its_steps(tmp_path: Path, partita: CommandRunner) -> None:
    folder = tmp_path / "shop"
    environment = {**SPARK_ENVIRONMENT, "COLUMNS": "100", "PARTITA_LAKE": "/nowhere"}
    done = run_installed_command("demo", "--size", "2000", "--folder", str(folder), **environment)
    assert done.code == 0, f"{done.out}\n{done.err}"
    for said in (
        "$ partita evolve raw.events --add region",
        "catalog.products is now a source, partitioned by product_bucket",
        "✓ partitions whose id is the same in Spark and in Python: 126",
        "skipped by customer = 'ada'",
        "13 partitions made, 1 failed, 4 skipped",
        "region=us                ■■■■■■■■■■■▲■■■■■■■■■",
        "orders[date=2025-02-02,region=us]: MATERIALIZED_BUT_LAST_ATTEMPT_FAILED",
        "date=2025-01-22  CODE_CHANGED",
        "product_bucket=3  UPSTREAM_CHANGED (catalog.products[product_bucket=3])",
        r"date=2025-01-31,region=two\nlines 🛒  UPSTREAM_CHANGED",
        "3 rows deleted",
        "✓ number of orders: orders 2,009, daily 2,009, monthly 2,009",
        "orders: 126 current",
        f"What to try next, in {folder}:",
        "All checks passed",
    ):
        assert said in done.out
    assert "✗ " not in done.out.replace("✗ failed  ▶", "")
    assert "Traceback" not in done.err
    assert "ERROR" not in done.err, "what failed is told once, by the run"
    assert "\x1b" not in done.out + done.err
    kept = pt.Lake(str(folder / "lake"))
    assert kept.tables() == [
        "catalog.products", "raw.events", "shop.change", "shop.daily", "shop.embeddings", "shop.monthly", "shop.orders",
    ]  # fmt: skip
    assert partita("demo", "--folder", str(folder)).code == 2


def test_a_demo_session_prints_commands_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path.cwd(), list(sys.path)
    with DemoSession(tmp_path / "shop") as stage:
        assert Path.cwd() == tmp_path / "shop"
        assert sorted(path.name for path in Path().iterdir()) == sorted(PROJECT_FILES)
        stage.begin_step("First", "A step.")
        stage.run_partita("key", "encode", "region=it's")
        stage.edit_file("pipeline.py", "TAX = 0.19", "TAX = 0.20")
        stage.check_equal("rows", 1234, 1234)
        stage.check_equal("files", {"a": 1}, {"a": 2})
    assert (Path.cwd(), sys.path) == before
    assert not stage.is_correct
    assert "TAX = 0.20" in (tmp_path / "shop" / "pipeline.py").read_text(encoding="utf-8")
    lines = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("(")]
    assert lines == [
        "1. First",
        "A step.",
        '$ partita key encode "region=it\'s"',
        "region=s:aXQncw",
        "$ sed -i 's/TAX = 0.19/TAX = 0.20/' pipeline.py",
        "✓ rows: 1,234",
        "✗ files: a 1, expected a 2",
    ]


def test_a_command_that_fails_ends_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DemoSession(tmp_path, as_json=True) as stage:
        stage.begin_step("First", "A step.")
        stage.run_partita("status", "nobody")
        pytest.fail("it should have stopped")
    document = stage.document()
    assert not document["agree"]
    (step,) = document["steps"]
    assert step["checks"] == [
        {"what": "exit code of partita status nobody", "found": 2, "expected": 0, "agree": False}
    ]  # fmt: skip
    assert capsys.readouterr().out == ""


def test_an_existing_project_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text("mine")
    with pytest.raises(ProjectError, match="nothing was written"):
        DemoSession(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.py"]


@pytest.mark.parametrize(("agrees", "code"), [(True, 0), (False, 1)])
def test_json_and_the_exit_code(
    partita: CommandRunner, monkeypatch: pytest.MonkeyPatch, agrees: bool, code: int
) -> None:
    def add_checks(stage: DemoSession, size: int, stays: bool) -> None:
        stage.begin_step("Only", "A step.")
        stage.check_equal("size", size if agrees else 0, 3000)
        stage.check_equal("stays", stays, False)
        stage.check_equal("amount", Decimal("1.5"), Decimal("1.50"))

    monkeypatch.setattr("partita.cli.demo_steps.run_demo", add_checks)
    done = partita("demo", "--json", "--size", "3000")
    document = json.loads(done.out)
    assert (done.code, document["agree"]) == (code, agrees)
    assert not Path(document["folder"]).exists()


def test_too_few_events_are_refused(partita: CommandRunner) -> None:
    done = partita("demo", "--size", "999")
    assert done.code == 2
    assert "number of events of at least 1000" in done.err


def test_keys_and_ids_are_those_of_the_library(spark: SparkSession) -> None:
    events = spark.range(40).selectExpr(
        "timestamp_seconds(1735689600 + id * 7200) AS ts", "CASE WHEN id % 2 = 0 THEN 'a/b=c,ü' END AS region"
    )
    found = demo_inspection.spark_partitions(events, "raw.events")
    assert demo_inspection.count_matching_ids(found, "raw.events") == found.num_rows == 8
    for row in found.to_pylist():
        assert row["id"] == pt.PartitionKey.parse(row["key"]).id("raw.events")


def test_skipped_files_are_counted_by_reason(lake: Lake, spark: SparkSession) -> None:
    assert spark is not None
    table = lake.create_table(
        "t", pa.schema([("d", pa.int64()), ("n", pa.int64())]), format="delta", partition_by=["d"]
    )
    table.append(pa.table({"d": [1, 1, 2, 3], "n": [1, 2, 3, 9]}))
    found = demo_inspection.file_groups(table, "d < 3 AND n < 3")
    assert [(part.reason, part.files, part.rows) for part in found] == [(None, 1, 2), ("d < 3", 1, 1), ("n < 3", 1, 1)]
