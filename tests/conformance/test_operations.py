"""Every format does the same to rows as a list of dicts does; a declared gap is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import ConstraintError, PartitaError, PredicateError, SchemaError, TableError
from partita.formats.capabilities import Operation
from partita.formats.registry import FORMATS
from tests.conformance.row_model import (
    ARROW_SCHEMA,
    ROWS,
    SCHEMA,
    arrow_rows,
    assert_nothing_written,
    data_files,
    files_on_disk,
    read_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conformance.prepared_lakes import PreparedLakes

NEW = [{"id": 5, "p": "b", "n": 50}, {"id": 6, "p": "c", "n": 60}]


def test_create_refuses_a_table_that_exists(format_name: str, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    created = lake.create_table("t.t", SCHEMA, format=format_name, partition_by=["p"])
    assert created.format == format_name
    assert created.schema.names == SCHEMA.names
    assert created.spec.names == ("p",)
    assert lake.tables() == ["t.t"]
    for name in FORMATS:
        with assert_nothing_written(lake), pytest.raises(pt.TableExists):
            lake.create_table("t.t", SCHEMA, format=name)


@pytest.mark.needs(Operation.APPEND)
def test_append_read_plan_and_partitions(model_lake: pt.Lake, table: pt.Table) -> None:
    table.append(arrow_rows(NEW))
    model = ROWS + NEW
    assert read_rows(table) == model
    assert read_rows(table, "p = 'b'") == [row for row in model if row["p"] == "b"]
    assert table.read("p = 'c'", ["n"]).toArrow().to_pylist() == [{"n": 60}]
    counts = {row["p"]: row["rows"] for row in table.partitions().to_pylist()}
    assert counts == {"a": 2, "b": 2, "c": 1, None: 1}
    plan = table.plan("p = 'c'")
    assert 0 < plan.files.num_rows < table.plan().files.num_rows
    with assert_nothing_written(model_lake):
        assert table.append(arrow_rows([])).version is None


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_overwrite_partitions(table: pt.Table) -> None:
    table.overwrite_partitions(arrow_rows(NEW))
    assert read_rows(table) == [row for row in ROWS if row["p"] != "b"] + NEW


@pytest.mark.needs(Operation.OVERWRITE)
def test_overwrite_where(model_lake: pt.Lake, table: pt.Table) -> None:
    table.overwrite(arrow_rows(NEW[:1]), "p = 'b'")
    model = [row for row in ROWS if row["p"] != "b"] + NEW[:1]
    assert read_rows(table) == model
    with (
        assert_nothing_written(model_lake),
        pytest.raises(TableError, match="replaces whole partitions, and n = 50 may be true of a part of"),
    ):
        table.overwrite(arrow_rows(NEW[:1]), "n = 50")
    with assert_nothing_written(model_lake), pytest.raises(ConstraintError, match="predicate of the overwrite"):
        table.overwrite(arrow_rows(NEW), "p = 'b'")
    assert read_rows(table) == model
    table.overwrite(arrow_rows(NEW))
    assert read_rows(table) == NEW


@pytest.mark.needs(Operation.DELETE)
def test_delete_rows_and_whole_partitions(model_lake: pt.Lake, table: pt.Table) -> None:
    assert table.delete("n = 10").counts["rows_deleted"] == 1
    assert read_rows(table) == ROWS[1:]
    done = table.delete("p = 'b' OR p IS NULL")
    assert (done.counts["rows_deleted"], done.counts["files_added"]) == (2, 0)
    assert read_rows(table) == ROWS[1:2]
    with assert_nothing_written(model_lake):
        assert table.delete("id = 77").version is None
    with pytest.raises(PredicateError, match="None"):
        table.delete(None)  # type: ignore[arg-type]


@pytest.mark.needs(Operation.UPDATE)
def test_update_rows_and_move_them(model_lake: pt.Lake, table: pt.Table) -> None:
    assert table.update({"n": "n + 1"}, "p = 'b'").counts["rows_updated"] == 1
    model = [row | {"n": 31} if row["p"] == "b" else row for row in ROWS]
    assert read_rows(table) == model
    assert table.update({"p": "'moved'", "n": "id"}, "p = 'a' AND n IS NULL").counts["rows_updated"] == 1
    model[1] = {"id": 2, "p": "moved", "n": 2}
    assert read_rows(table) == model
    assert read_rows(table, "p = 'moved'") == model[1:2]
    with assert_nothing_written(model_lake):
        assert table.update({"n": "1"}, "n = 77").version is None


@pytest.mark.needs(Operation.MERGE)
def test_merge_tries_clauses_in_order_and_refuses_duplicates(model_lake: pt.Lake, table: pt.Table) -> None:
    source = arrow_rows([{"id": 1, "p": "a", "n": 11}, {"id": 3, "p": "b", "n": 33}, NEW[1]])
    done = table.merge(
        source,
        "t.id = s.id",
        pt.when_matched("s.id = 1").delete(),
        pt.when_matched().update({"n": "s.n"}),
        pt.when_not_matched().insert(),
    )
    assert [done.counts[f"rows_{what}"] for what in ("deleted", "updated", "inserted")] == [1, 1, 1]
    model = [ROWS[1], ROWS[2] | {"n": 33}, ROWS[3], NEW[1]]
    assert read_rows(table) == model
    twice = arrow_rows([ROWS[2], ROWS[2]])
    with assert_nothing_written(model_lake):
        with pytest.raises(ConstraintError, match="more than one row"):
            table.merge(twice, "t.id = s.id", pt.when_matched().update({"n": "s.n"}))
        assert table.merge(twice, "t.id = s.id + 100", pt.when_matched().delete()).version is None
    assert read_rows(table) == model
    table.merge(twice, "t.id = s.id", pt.when_not_matched_by_source("t.id > 3").delete())
    assert read_rows(table) == model[:2]


@pytest.mark.needs(Operation.REWRITE)
def test_rewrite_keeps_the_rows(table: pt.Table) -> None:
    table.append(arrow_rows([ROWS[0] | {"id": 7}]))
    model, files = [*ROWS, ROWS[0] | {"id": 7}], table.plan("p = 'a'").files.num_rows
    table.rewrite()
    assert read_rows(table) == model
    assert table.plan("p = 'a'").files.num_rows <= files
    assert {row["p"]: row["rows"] for row in table.partitions().to_pylist()} == {"a": 3, "b": 1, None: 1}


@pytest.mark.needs(Operation.HISTORY)
def test_history(table: pt.Table) -> None:
    before = table.history().num_rows
    table.append(arrow_rows(NEW))
    history = table.history()
    assert history.num_rows == before + 1
    assert history["version"][0].as_py() == table.version
    assert {"version", "timestamp", "operation"} <= set(history.column_names)


@pytest.mark.needs(Operation.EVOLVE)
def test_evolve(table: pt.Table) -> None:
    table.evolve(drop=["p"])
    table.append(arrow_rows(NEW))
    assert read_rows(table) == ROWS + NEW
    assert read_rows(table, "p = 'b'") == [ROWS[2], NEW[0]]
    assert table.spec.names == ()
    assert [spec.names for spec in table.specs] == [("p",), ()]


def test_a_table_of_one_spec_knows_at_most_its_time(table: pt.Table) -> None:
    can_evolve = table._store.format.supports(Operation.EVOLVE)
    assert list(table.spec_times) == ([table.spec.spec_id] if can_evolve else [])


@pytest.mark.needs(Operation.EXPIRE_SNAPSHOTS)
def test_expire_snapshots(model_lake: pt.Lake, table: pt.Table) -> None:
    table.overwrite_partitions(arrow_rows([ROWS[2] | {"n": 31}]))
    files = set(files_on_disk(model_lake))
    deleted = table.expire_snapshots(timedelta(0), retain_last=1)
    assert deleted
    assert len(files - set(files_on_disk(model_lake))) >= len(deleted)
    assert read_rows(table) == [*ROWS[:2], ROWS[2] | {"n": 31}, ROWS[3]]
    table.expire_snapshots(retain_last=1)
    assert read_rows(table) == [*ROWS[:2], ROWS[2] | {"n": 31}, ROWS[3]]


@pytest.mark.needs(Operation.REMOVE_ORPHANS)
def test_remove_orphans_leaves_what_the_table_names(model_lake: pt.Lake, table: pt.Table) -> None:
    notes = Path(model_lake.uri, "t", "t", "notes.txt")
    notes.write_text("of somebody else", encoding="utf-8")
    files = data_files(model_lake)
    assert table.remove_orphans() == []
    table.remove_orphans(timedelta(0))
    assert data_files(model_lake) == files
    assert notes.exists()
    assert read_rows(table) == ROWS


@pytest.mark.needs(Operation.APPEND)
def test_no_column_partitions_the_table(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format=format_name)
    table.append(arrow_rows(ROWS))
    table.append(arrow_rows(NEW))
    assert read_rows(table) == ROWS + NEW
    assert sum(table.partitions()["rows"].to_pylist()) == 6
    assert read_rows(table, "n > 45") == NEW


# --- rows and changes that are refused

STRICT_SCHEMA = pt.Schema(tuple(replace(field, nullable=field.name != "id") for field in SCHEMA))


STRICT_PROPERTIES = {"delta": {"delta.constraints.positive": "coalesce(n, 0) >= 0"}}
"""Rules of a table beside its schema, by format: what else is refused is refused with them too."""


def _fill_strict_lake(lake: pt.Lake, format_name: str) -> None:
    table = lake.create_table(
        "t.t", STRICT_SCHEMA, format=format_name, partition_by=["p"], properties=STRICT_PROPERTIES.get(format_name, {})
    )
    table.append(arrow_rows(ROWS))


@pytest.fixture
def strict_lake(format_name: str, spark: SparkSession, prepared_lakes: PreparedLakes) -> pt.Lake:
    """A lake with one table `t.t` in which `id` is required, with a check constraint if the format has those."""
    return prepared_lakes.open_lake(format_name, "strict", _fill_strict_lake)


Refusals = dict[str, tuple[type[PartitaError], str, Callable[[pt.Table], object]]]
REFUSED_ROWS: Refusals = {
    "a null in a required column": (
        ConstraintError,
        "column 'id' may not be null",
        lambda t: t.append(arrow_rows(ROWS).set_column(0, "id", pa.nulls(4))),
    ),
    "a column that isn't there": (
        SchemaError, "no column 'new'", lambda t: t.append(arrow_rows(ROWS).append_column("new", pa.nulls(4)))
    ),
    "a column that is there twice": (
        SchemaError, "'id' twice", lambda t: t.append(arrow_rows(ROWS).append_column("ID", pa.nulls(4)))
    ),
    "a wider type": (
        SchemaError,
        "'n' is int in the table, and bigint in the rows",
        lambda t: t.append(arrow_rows(ROWS).set_column(2, "n", pa.array([1, 2, 3, 4]))),
    ),
    "a text in a number's column": (
        SchemaError,
        "'n' is int in the table, and string in the rows",
        lambda t: t.append(arrow_rows(ROWS).set_column(2, "n", pa.array(["x"] * 4))),
    ),
    "a number in a text's column": (
        SchemaError,
        "'p' is string in the table, and bigint in the rows",
        lambda t: t.append(arrow_rows(ROWS).set_column(1, "p", pa.array([1] * 4))),
    ),
    "no rows at all": (SchemaError, "Arrow table", lambda t: t.append([1, 2])),
}  # fmt: skip
REFUSED_DELETES: Refusals = {
    "text that is no predicate": (PredicateError, "does not parse", lambda t: t.delete("n >")),
    "a column that isn't there": (
        PredicateError,
        "column 'nothing' is not in the schema",
        lambda t: t.delete("nothing = 1"),
    ),
    "a function that isn't there": (PredicateError, "nofunc", lambda t: t.delete("nofunc(id) = 1")),
    "a comparison of two types": (PredicateError, "DATATYPE_MISMATCH", lambda t: t.delete("id = true")),
    "an aggregate": (PredicateError, "invalid expressions: max", lambda t: t.delete("max(id) = 1")),
    "a window": (
        PredicateError,
        "window functions inside WHERE",
        lambda t: t.delete("row_number() over (order by id) = 1"),
    ),
    "a division by zero": (TableError, "DIVIDE_BY_ZERO", lambda t: t.delete("1 / (id - 1) > 0")),
}
REFUSED_UPDATES: Refusals = {
    "a null in a required column": (
        ConstraintError,
        "column 'id' may not be null",
        lambda t: t.update({"id": "null"}, "id = 1"),
    ),
    "a value that is too large": (
        ConstraintError,
        "'n' does not fit int",
        lambda t: t.update({"n": "id + 3000000000"}, "id = 1"),
    ),
    "a text that is no number": (ConstraintError, "'n' does not fit int", lambda t: t.update({"n": "'x'"}, "id = 1")),
    "a column that isn't there": (SchemaError, "no column 'nothing'", lambda t: t.update({"nothing": "1"})),
    "a value of a column that isn't there": (
        PredicateError,
        "`no_such` cannot be resolved",
        lambda t: t.update({"n": "no_such + 1"}),
    ),
    "no columns": (SchemaError, "update sets no column", lambda t: t.update({})),
}
REFUSED_MERGES: Refusals = {
    "no clause": (TableError, "a merge needs a clause", lambda t: t.merge(arrow_rows(ROWS), "t.id = s.id")),
    "a condition on a column that isn't there": (
        PredicateError,
        "`s`.`nothing` cannot be resolved",
        lambda t: t.merge(arrow_rows(ROWS), "t.id = s.nothing", pt.when_matched().delete()),
    ),
    "an update of a column that isn't there": (
        SchemaError,
        "no column 'nothing'",
        lambda t: t.merge(arrow_rows(ROWS), "t.id = s.id", pt.when_matched().update({"nothing": "1"})),
    ),
    "a row that matches twice, to delete where a condition holds": (
        ConstraintError,
        "more than one row",
        lambda t: t.merge(arrow_rows(ROWS[:1] * 2), "t.id = s.id", pt.when_matched("s.n > 0").delete()),
    ),
    "a row that matches twice, to move": (
        ConstraintError,
        "more than one row",
        lambda t: t.merge(arrow_rows(ROWS[:1] * 2), "t.id = s.id", pt.when_matched().update({"p": "s.p"})),
    ),
    "a row that matches twice, where a clause takes one of them": (
        ConstraintError,
        "more than one row",
        lambda t: t.merge(
            arrow_rows([ROWS[0], ROWS[0] | {"n": 11}]), "t.id = s.id", pt.when_matched("s.n = 11").update({"n": "s.n"})
        ),
    ),
    "a null in a required column": (
        ConstraintError,
        "column 'id' may not be null",
        lambda t: t.merge(
            pa.table({"id": pa.nulls(1, pa.int64()), "p": ["a"]}, ARROW_SCHEMA.remove(2)),
            "t.id = s.id",
            pt.when_not_matched().insert(),
        ),
    ),
}  # fmt: skip


def _check_refusals(lake: pt.Lake, refusals: Refusals) -> None:
    """Check that each call is refused by its error, and that neither a version nor a file comes of it."""
    table = lake.table("t.t")
    for error, message, call in refusals.values():
        with assert_nothing_written(lake), pytest.raises(error, match=message):
            call(table)
    assert read_rows(table) == ROWS


@pytest.mark.needs(Operation.APPEND)
def test_rows_that_do_not_fit_are_refused(strict_lake: pt.Lake) -> None:
    _check_refusals(strict_lake, REFUSED_ROWS)


@pytest.mark.needs(Operation.DELETE)
def test_deletes_that_make_no_sense_are_refused(strict_lake: pt.Lake) -> None:
    _check_refusals(strict_lake, REFUSED_DELETES)


@pytest.mark.needs(Operation.UPDATE)
def test_updates_that_do_not_fit_are_refused(strict_lake: pt.Lake) -> None:
    _check_refusals(strict_lake, REFUSED_UPDATES)


@pytest.mark.needs(Operation.MERGE)
def test_merges_that_do_not_fit_are_refused(strict_lake: pt.Lake) -> None:
    _check_refusals(strict_lake, REFUSED_MERGES)
