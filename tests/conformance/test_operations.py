"""Every format does the same to rows as a list of dicts does; a declared gap is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.errors import ConstraintError, UnsupportedOperation
from partita.formats.capabilities import Operation
from tests.conformance.row_model import ROWS, SCHEMA, arrow_rows, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NEW = [{"id": 5, "p": "b", "n": 50}, {"id": 6, "p": "c", "n": 60}]
HOSTILE = ["it's", '"', "%", "a%2Fb", "a/b", "a=b", "ü 雪", "$x", "${x}", " ", "\\", "x" * 60]


def test_create_refuses_a_table_that_exists(format_name: str, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    created = lake.create_table("t.t", SCHEMA, format=format_name, partition_by=["p"])
    assert created.format == format_name
    assert created.schema.names == SCHEMA.names
    assert created.spec.names == ("p",)
    assert lake.tables() == ["t.t"]
    with pytest.raises(pt.TableExists):
        lake.create_table("t.t", SCHEMA, format=format_name)


@pytest.mark.needs(Operation.APPEND)
def test_append_read_plan_and_partitions(table: pt.Table) -> None:
    table.append(arrow_rows(NEW))
    model = ROWS + NEW
    assert read_rows(table) == model
    assert read_rows(table, "p = 'b'") == [row for row in model if row["p"] == "b"]
    assert table.read("p = 'c'", ["n"]).toArrow().to_pylist() == [{"n": 60}]
    counts = {row["p"]: row["rows"] for row in table.partitions().to_pylist()}
    assert counts == {"a": 2, "b": 2, "c": 1, None: 1}
    plan = table.plan("p = 'c'")
    assert 0 < plan.files.num_rows < table.plan().files.num_rows


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_overwrite_partitions(table: pt.Table) -> None:
    table.overwrite_partitions(arrow_rows(NEW))
    assert read_rows(table) == [row for row in ROWS if row["p"] != "b"] + NEW


@pytest.mark.needs(Operation.OVERWRITE)
def test_overwrite_where(table: pt.Table) -> None:
    table.overwrite(arrow_rows(NEW[:1]), "p = 'b'")
    model = [row for row in ROWS if row["p"] != "b"] + NEW[:1]
    assert read_rows(table) == model
    with pytest.raises(ConstraintError):
        table.overwrite(arrow_rows(NEW), "p = 'b'")
    assert read_rows(table) == model


@pytest.mark.needs(Operation.DELETE, Operation.UPDATE)
def test_delete_and_update(table: pt.Table) -> None:
    table.delete("n = 10")
    table.update({"n": "n + 1"}, "p = 'b'")
    assert read_rows(table) == [row | {"n": 31} if row["p"] == "b" else row for row in ROWS if row["n"] != 10]


@pytest.mark.needs(Operation.MERGE)
def test_merge_tries_clauses_in_order_and_refuses_duplicates(table: pt.Table) -> None:
    source = arrow_rows([{"id": 1, "p": "a", "n": 11}, {"id": 3, "p": "b", "n": 33}, NEW[1]])
    table.merge(
        source,
        "t.id = s.id",
        pt.when_matched("s.id = 1").delete(),
        pt.when_matched().update({"n": "s.n"}),
        pt.when_not_matched().insert(),
    )
    model = [ROWS[1], ROWS[2] | {"n": 33}, ROWS[3], NEW[1]]
    assert read_rows(table) == model
    twice = arrow_rows([ROWS[2], ROWS[2]])
    with pytest.raises(ConstraintError, match="more than one row"):
        table.merge(twice, "t.id = s.id", pt.when_matched().update({"n": "s.n"}))
    assert read_rows(table) == model


@pytest.mark.needs(Operation.CHANGE_FEED)
def test_change_feed(table: pt.Table) -> None:
    cursor = table.change_feed().cursor
    table.append(arrow_rows(NEW))
    commits = table.change_feed(cursor).commits
    assert [sorted(commit.partitions["p"].to_pylist()) for commit in commits] == [["b", "c"]]


@pytest.mark.needs(Operation.HISTORY)
def test_history(table: pt.Table) -> None:
    before = table.history().num_rows
    table.append(arrow_rows(NEW))
    history = table.history()
    assert history.num_rows == before + 1
    assert history["version"][0].as_py() == table.version


@pytest.mark.needs(Operation.EVOLVE)
def test_evolve(table: pt.Table) -> None:
    table.evolve(drop=["p"])
    table.append(arrow_rows(NEW))
    assert read_rows(table) == ROWS + NEW
    assert table.spec.names == ()


@pytest.mark.needs(Operation.EXPIRE_SNAPSHOTS)
def test_expire_snapshots(table: pt.Table) -> None:
    table.expire_snapshots(retain_last=1)
    assert read_rows(table) == ROWS


@pytest.mark.needs(Operation.APPEND)
def test_hostile_partition_values(table: pt.Table) -> None:
    model = [{"id": 100 + number, "p": text, "n": number} for number, text in enumerate(HOSTILE)]
    table.append(arrow_rows(model))
    assert read_rows(table) == ROWS + model
    assert {*HOSTILE, "a", "b", None} == set(table.partitions()["p"].to_pylist())


def test_a_refusal_names_the_reason_and_the_way_out(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=format_name, partition_by=["p"])
    for operation, gap in table._store.format.gaps.items():
        with pytest.raises(UnsupportedOperation) as caught:
            table._store.format.require(operation)
        assert caught.value.operation == operation
        assert gap.reason in str(caught.value)
        assert gap.way_out in str(caught.value)
