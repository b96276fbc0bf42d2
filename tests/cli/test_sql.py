"""`partita sql`: statements as arguments and on standard input, rows for people and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from partita.cli import sql_report
from partita.formats.operations.write_operation import ChangeResult as Done
from tests.cli.terminal import CommandOutcome, CommandRunner
from tests.cli.test_command import HEAVY, WHAT_IS_LOADED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CREATE = "CREATE TABLE sales.orders (id BIGINT, country STRING, at TIMESTAMP) USING iceberg PARTITIONED BY (country)"


ODD = pa.table(
    {
        "n": pa.array([1, None], pa.int64()),
        "text": ["a\nb", "[bold]ü"],
        "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "f": [float("nan"), 0.5],
        "at": pa.array([datetime(2025, 1, 1, 5, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "day": [date(2025, 1, 1), None],
        "raw": [b"\x00\xff", None],
        "s": [{"a": [1, None], "b": True}, None],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def test_help_has_examples(partita: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = partita("sql", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: partita sql ")
    assert "partita sql" in out.partition("\nexamples:\n")[2]
    assert max(map(len, out.splitlines())) <= 80


def test_create_and_alter_need_no_spark(
    partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    lake = str(tmp_path)
    done = partita("sql", "--lake", lake, CREATE)
    assert done == CommandOutcome(0, "sales.orders is partitioned by country\n", "")
    done = partita(
        "sql", "--lake", lake, "--json", "-", stdin="ALTER TABLE sales.orders ADD PARTITION FIELD days(at)\n"
    )
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "table": "sales.orders",
        "uri": f"file://{tmp_path}/sales/orders",
        "partitioned_by": "country, day(at)",
    }


def test_the_lake_is_this_folder(partita: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert partita("sql", stdin=CREATE).code == 0
    assert (tmp_path / "catalog.db").exists()


def test_statements_on_spark(partita: CommandRunner, tmp_path: Path, spark: SparkSession) -> None:
    def run(statement: str, *words: str) -> CommandOutcome:
        return partita("sql", "--lake", str(tmp_path), *words, statement)

    run(CREATE)
    values = "(1, 'FR', TIMESTAMP '2025-01-01 05:00:00'), (2, null, null), (3, 'x', null)"
    added = run(f"INSERT INTO sales.orders VALUES {values}")  # noqa: S608 - a test's own
    assert added.out.startswith("3 rows inserted; version ")
    gone = run("DELETE FROM sales.orders WHERE id = 3", "--json")
    assert json.loads(gone.out)["counts"]["rows_deleted"] == 1
    assert run("DELETE FROM sales.orders WHERE id = 3") == CommandOutcome(0, "no rows changed\n", "")
    found = run("SELECT * FROM sales.orders ORDER BY id", "--json")
    assert list(map(json.loads, found.out.splitlines())) == [
        {"id": 1, "country": "FR", "at": "2025-01-01T05:00:00Z"},
        {"id": 2, "country": None, "at": None},
    ]
    shown = run("SELECT id, country FROM sales.orders ORDER BY id", "--limit", "1")
    lines = [line.split() for line in shown.out.splitlines() if line.strip()]
    assert (lines[0], lines[2:]) == (["id", "country"], [["1", "FR"]])
    assert shown.err == "the first 1 rows; --limit shows more\n"
    failed = run("SELECT id / 0 FROM sales.orders")
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.startswith("partita: Spark failed")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DROP TABLE sales.orders", "partita: DROP is not supported; there is SELECT"),
        ("", "partita: there is no statement in the text"),
        ("DELETE FROM sales.orders WHERE", "partita: something is missing here\n  DELETE FROM sales.orders WHERE\n"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD id", "partita: no table at "),
    ],
)
def test_an_invalid_statement_is_refused(partita: CommandRunner, tmp_path: Path, statement: str, message: str) -> None:
    lake = ("sql", "--lake", str(tmp_path))
    for done in (partita(*lake, statement), partita(*lake, stdin=statement)):
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a statement"),
        (["--limit", "-1", "SELECT 1"], "--limit"),
        (["--limit", "all", "SELECT 1"], "'all' is not a number of rows"),
    ],
)
def test_a_wrong_command_line_is_refused(partita: CommandRunner, words: list[str], message: str) -> None:
    code, out, err = partita("sql", *words)
    assert (code, out) == (2, "")
    assert err.startswith("usage: partita sql")
    assert message in err


def test_values_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    sql_report.print_rows_json(ODD)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {
        "n": 1,
        "text": "a\nb",
        "d": "1.50",
        "f": "nan",
        "at": "2025-01-01T05:00:00Z",
        "day": "2025-01-01",
        "raw": "AP8=",
        "s": {"a": [1, None], "b": True},
        "m": [["k", 1]],
    }
    assert second == {**dict.fromkeys(first), "text": "[bold]ü", "f": 0.5}


def test_values_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    sql_report.print_rows(ODD, 5)
    out, err = capsys.readouterr()
    assert err == "2 rows\n"
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert " ".join(lines[2]) == (
        '1 a\\nb 1.50 nan 2025-01-01T05:00:00Z 2025-01-01 AP8= {"a": [1, null], "b": true} [["k", 1]]'
    )
    assert lines[3] == ["null", "[bold]ü", "null", "0.5", "null", "null", "null", "null", "null"]


def test_names_that_json_can_not_tell_apart(capsys: pytest.CaptureFixture[str]) -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match="two columns have the name 'a'"):
        sql_report.print_rows_json(twice)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (Done(4, {"rows_deleted": 1, "rows_updated": 2000}), "2,000 rows updated, 1 row deleted; version 4"),
        (Done(None, {"rows_deleted": 0}), "no rows changed"),
    ],
)
def test_the_result_of_a_change_is_printed(capsys: pytest.CaptureFixture[str], done: Any, said: str) -> None:
    sql_report.print_result(done, 5)
    assert capsys.readouterr().out == f"{said}\n"


@pytest.mark.slow(reason="several commands on a lake")
@pytest.mark.parametrize("words", [["sql", "--help"], ["sql", "--limit", "x", "SELECT 1"]])
def test_a_cold_start_imports_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED, ",".join(HEAVY), *words], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == ""


@pytest.mark.slow(reason="a process of its own")
def test_ddl_does_not_import_spark(tmp_path: Path) -> None:
    words = ["sql", "--lake", str(tmp_path), CREATE]
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_LOADED, "pyspark,py4j", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == ""
