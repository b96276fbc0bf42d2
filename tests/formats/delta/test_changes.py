"""Random row-level changes have the effect that a Python model and delta-spark say, and change nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import partita as pt
from partita.errors import ConstraintError, TableError
from tests.formats.delta.tables import (
    actions_of_kind,
    arrow_table,
    assert_unchanged,
    comparable_value,
    read_with_delta_spark,
    row_ids,
    rows_by_name,
    sorted_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int", "x": "double"})


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the Python model."""

    id: int
    p: str | None
    k: int | None
    x: float | None

    @property
    def values(self) -> tuple[Any, ...]:
        return (self.id, self.p, self.k, comparable_value(self.x))


def arrow_rows(rows: list[Row]) -> pa.Table:
    return arrow_table(
        {
            name: (str(SCHEMA.find_field(name).type), [getattr(row, name) for row in rows])
            for name in ("id", "p", "k", "x")
        }
    )


def create_table(folder: Path, name: str = "t", **properties: str) -> pt.Table:
    table_properties = {key.replace("_", "."): value for key, value in properties.items()}
    return pt.Lake(str(folder)).create_table(
        name, SCHEMA, format="delta", partition_by=["p"], properties=table_properties
    )


# --- random changes

Predicate = tuple[str, Callable[[Row], bool | None]]
Setting = tuple[dict[str, str], Callable[[Row], Row]]

PREDICATES: list[Predicate] = [
    ("k > 2", lambda r: None if r.k is None else r.k > 2),
    ("not (k > 2)", lambda r: None if r.k is None else r.k <= 2),
    ("k is null or p = 'b'", lambda r: r.k is None or r.p == "b"),
    ("x > 1", lambda r: None if r.x is None else not r.x <= 1),
    ("x <= 1 and p <> 'a'", lambda r: r.x is not None and r.x <= 1 and r.p is not None and r.p != "a"),
    ("p is null", lambda r: r.p is None),
    ("p = 'a'", lambda r: r.p == "a"),
    ("p in ('a', 'b') and id % 2 = 0", lambda r: r.p in ("a", "b") and r.id % 2 == 0),
    ("id between 5 and 15", lambda r: 5 <= r.id <= 15),
    ("k = 1000", lambda r: r.k == 1000),
]
SETTINGS: list[Setting] = [
    ({"k": "k + 1"}, lambda r: replace(r, k=None if r.k is None else r.k + 1)),
    ({"x": "x * 2", "k": "null"}, lambda r: replace(r, x=None if r.x is None else r.x * 2, k=None)),
    ({"p": "'b'"}, lambda r: replace(r, p="b")),
    ({"p": "case when k > 2 then null else p end"}, lambda r: replace(r, p=None if (r.k or 0) > 2 else r.p)),
    ({"p": "cast(k as string)", "k": "0"}, lambda r: replace(r, p=None if r.k is None else str(r.k), k=0)),
]


def random_rows(draw: random.Random, start: int, count: int) -> list[Row]:
    return [
        Row(
            start + index,
            draw.choice([None, "a", "b", "c d", "é/%"]),
            draw.choice([None, 0, 1, 2, 3, 4]),
            draw.choice([None, float("nan"), 0.0, 1.0, 2.5, float("-inf")]),
        )
        for index in range(count)
    ]


def delete_rows(table: pt.Table, model: list[Row], draw: random.Random) -> list[Row]:
    sql, holds = draw.choice(PREDICATES)
    table.delete(sql)
    return [row for row in model if not holds(row)]


def update_rows(table: pt.Table, model: list[Row], draw: random.Random) -> list[Row]:
    (sql, holds), (values, change) = draw.choice(PREDICATES), draw.choice(SETTINGS)
    table.update(values, sql)
    return [change(row) if holds(row) else row for row in model]


def merge_rows(table: pt.Table, model: list[Row], draw: random.Random) -> list[Row]:
    existing = draw.sample(model, min(4, len(model)))
    source = [replace(new, id=old.id) for new, old in zip(random_rows(draw, 0, len(existing)), existing, strict=True)]
    source += random_rows(draw, 1 + max((row.id for row in model), default=0), 3)
    table.merge(
        arrow_rows(source),
        "t.id = s.id",
        pt.when_matched("s.k is null").delete(),
        pt.when_matched("s.k > 0").update({"p": "s.p", "x": "t.x"}),
        pt.when_matched().update({"k": "s.k"}),
        pt.when_not_matched("s.p is not null").insert(),
        pt.when_not_matched_by_source("t.k = 0").delete(),
    )
    by_id = {row.id: row for row in source}
    expected = []
    for row in model:
        other = by_id.get(row.id)
        if other is None:
            expected += [] if row.k == 0 else [row]
        elif other.k is not None:
            expected.append(replace(row, p=other.p) if other.k > 0 else replace(row, k=other.k))
    model_ids = {row.id for row in model}
    return expected + [row for row in source if row.id not in model_ids and row.p is not None]


def overwrite_partitions(table: pt.Table, model: list[Row], draw: random.Random) -> list[Row]:
    new_rows = random_rows(draw, 1000 + 10 * len(model), 2)
    table.overwrite_partitions(arrow_rows(new_rows))
    partitions = {row.p for row in new_rows}
    return [row for row in model if row.p not in partitions] + new_rows


def append_rows(table: pt.Table, model: list[Row], draw: random.Random) -> list[Row]:
    new_rows = random_rows(draw, 2000 + 10 * len(model), 3)
    table.append(arrow_rows(new_rows))
    return model + new_rows


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, settings().max_examples // 50))]
)
def test_random_changes_are_those_of_the_model(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    table, model = create_table(tmp_path), random_rows(draw, 1, 20)
    table.append(arrow_rows(model[:12]))
    table.append(arrow_rows(model[12:]))
    frames, expected = {}, {}
    for number in range(3):
        change = draw.choice(
            [delete_rows, update_rows, update_rows, merge_rows, merge_rows, overwrite_partitions, append_rows]
        )
        model = change(table, model, draw)
        name = f"{number}: {change.__name__}"
        frames[name], expected[name] = table.read(), sorted((row.values for row in model), key=repr)
    frames["by delta-spark"] = read_with_delta_spark(spark, table)
    expected["by delta-spark"] = sorted((row.values for row in model), key=repr)
    assert rows_by_name(frames) == expected


SQL = [
    "delete from {t} where k > 2 and x > 1",
    "update {t} set p = case when k = 1 then null else 'n' end, x = x + k where p <> 'c d' or k is null",
    (
        "merge into {t} t using source s on t.id = s.id and t.p = s.p when matched and s.k = 0 then delete "
        "when matched then update set k = s.k, p = 'joined' when not matched then insert *"
    ),
    "delete from {t} where x = 'NaN'",
]


def test_the_same_changes_by_delta_spark(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(99)  # noqa: S311
    rows, source = random_rows(draw, 1, 20), random_rows(draw, 5, 20)
    ours, theirs = create_table(tmp_path, "ours"), create_table(tmp_path, "theirs")
    for table in (ours, theirs):
        table.append(arrow_rows(rows))
    spark.createDataFrame(arrow_rows(source)).createOrReplaceTempView("source")
    joined = {"k": "s.k", "p": "'joined'"}
    changes: list[Callable[[], object]] = [
        lambda: ours.delete("k > 2 and x > 1"),
        lambda: ours.update(
            {"p": "case when k = 1 then null else 'n' end", "x": "x + k"}, "p <> 'c d' or k is null"
        ),
        lambda: ours.merge(
            arrow_rows(source), "t.id = s.id and t.p = s.p", pt.when_matched("s.k = 0").delete(),
            pt.when_matched().update(joined), pt.when_not_matched().insert(),
        ),
        lambda: ours.delete("x = double('NaN')"),
    ]  # fmt: skip
    frames_of_ours, frames_of_theirs = {}, {}
    for sql, change in zip(SQL, changes, strict=True):
        spark.sql(sql.format(t=f"delta.`{theirs.uri}`"))
        change()
        frames_of_ours[sql] = ours.read()
        # A frame without a version is of the newest one when it is collected.
        read = spark.read.format("delta").option("versionAsOf", theirs.version)
        frames_of_theirs[sql] = read.load(theirs.uri)
    assert rows_by_name(frames_of_ours) == rows_by_name(frames_of_theirs)


# --- what is refused

TWO = [Row(1, "a", 1, 1.0), Row(2, "b", 2, 2.0)]


def filled_table(folder: Path, **properties: str) -> pt.Table:
    table = create_table(folder, **properties)
    table.append(arrow_rows(TWO))
    return table


REFUSED: dict[str, Callable[[pt.Table], object]] = {
    "a check by an update": lambda t: t.update({"k": "-1"}, "id = 1"),
    "a check by a move": lambda t: t.update({"k": "-1", "p": "'z'"}, "id = 1"),
    "a check by an append": lambda t: t.append(arrow_rows([replace(TWO[0], k=-1)])),
    "a check that is null": lambda t: t.append(arrow_rows([replace(TWO[0], k=None)])),
    "a check by an insert": lambda t: t.merge(
        arrow_rows([replace(TWO[0], id=9, k=-1)]), "t.id = s.id", pt.when_not_matched().insert()
    ),
    "a check by an overwrite": lambda t: t.overwrite_partitions(arrow_rows([replace(TWO[0], k=-1)])),
}


@pytest.fixture(scope="module")
def constrained_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    """A table with a NOT NULL column and a check constraint."""
    schema = pt.Schema(tuple(replace(f, nullable=f.name != "id") for f in SCHEMA))
    table = pt.Lake(str(tmp_path_factory.mktemp("strict"))).create_table(
        "t", schema, format="delta", partition_by=["p"], properties={"delta.constraints.positive": "k >= 0"}
    )
    table.append(arrow_rows(TWO))
    return table


def test_a_violated_check_constraint_commits_nothing(spark: SparkSession, constrained_table: pt.Table) -> None:
    for change in REFUSED.values():
        with assert_unchanged(constrained_table), pytest.raises(ConstraintError, match="positive"):
            change(constrained_table)
    assert sorted_rows(constrained_table.read()) == [row.values for row in TWO]


def test_an_append_only_table_refuses_removals(spark: SparkSession, tmp_path: Path) -> None:
    table = filled_table(tmp_path, delta_appendOnly="true")
    changes: list[Callable[[], object]] = [
        lambda: table.delete("id = 1"),
        lambda: table.update({"k": "1"}),
        lambda: table.overwrite(arrow_rows(TWO)),
        lambda: table.overwrite_partitions(arrow_rows(TWO)),
        lambda: table.merge(arrow_rows(TWO), "t.id = s.id", pt.when_matched().delete()),
    ]
    for change in changes:
        with assert_unchanged(table), pytest.raises(TableError, match="append-only"):
            change()
    table.merge(arrow_rows([replace(TWO[0], id=3)]), "t.id = s.id", pt.when_not_matched().insert())
    assert row_ids(sorted_rows(table.read())) == [1, 2, 3]


# --- what is left alone


def test_whole_partitions_and_files_go_by_metadata_alone(tmp_path: Path, spark: SparkSession) -> None:
    table = create_table(tmp_path)
    table.append(arrow_rows([replace(TWO[0], id=n, p=p) for n, p in enumerate("aabbccdd")]))
    done = table.delete("p = 'a'")
    assert (done.counts["files_added"], done.counts["files_removed"], done.counts["rows_deleted"]) == (0, 1, 2)
    done = table.delete("id in (2, 3) or p = 'c'")
    assert done.counts["files_removed"] == 2
    assert row_ids(sorted_rows(table.read())) == [6, 7]
    done = table.delete("id >= 6")
    assert (done.counts["files_added"], done.counts["rows_deleted"]) == (0, 2)
    assert sorted_rows(table.read()) == []
    assert table.delete("true").version is None


def test_a_whole_file_goes_without_spark(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from partita.formats.operations import write_operation

    table = filled_table(tmp_path)

    def fail_if_called(*_: object) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(write_operation, "spark_session", fail_if_called)
    assert table.delete("p = 'a'").counts["files_added"] == 0
    assert table.delete("id >= 2 and id <= 2").counts["files_added"] == 0
    assert table.plan().files.num_rows == 0


def test_only_files_that_may_match_are_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path)
    for start in (0, 10, 20):
        table.append(arrow_rows([replace(TWO[0], id=start + n, p=p) for n, p in enumerate("aabb")]))
    before = set(table.plan().files["path"].to_pylist())
    done = table.update({"k": "5"}, "id = 11")
    assert (done.counts["files_removed"], done.counts["files_added"], done.counts["rows_updated"]) == (1, 1, 1)
    done = table.merge(
        arrow_rows([replace(TWO[0], id=21)]), "t.id = s.id and t.p = 'a'", pt.when_matched().update({"k": "6"})
    )
    assert (done.counts["files_removed"], done.counts["files_added"], done.counts["rows_updated"]) == (1, 1, 1)
    assert len(before & set(table.plan().files["path"].to_pylist())) == 4
    assert table.update({"k": "5"}, "id = 5").version is None


def test_the_log_names_the_application_of_a_transaction(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path)
    assert table.append(arrow_rows(TWO), transaction=("job", 5)).version == 1
    assert table.append(arrow_rows(TWO), transaction=("other", 5)).version == 2
    assert table.append(arrow_rows(TWO), transaction=("job", 6)).version == 3
    assert actions_of_kind(table, "txn")[0]["appId"] == "job"
