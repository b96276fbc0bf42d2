"""Random changes of tables whose partitioning evolves, each step compared with the same statement on a plain copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import settings

import partita as pt
from partita.errors import ConstraintError, PartitaError, PredicateError, SchemaError, SpecError
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.edge_case_rows import ARROW_SCHEMA, SCHEMA, random_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import CATALOG_NAME, WRITE_MODES, agreed_rows, assert_unchanged, jvm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES = [
    "k > 1", "not (k > 1)", "k is null or p = 'a'", "x > 1", "x <= 0 and p <> 'a'", "x = 0", "isnan(x)", "p is null",
    "p in ('a', 'é/%') and id % 2 = 0", "id between 5 and 15", "ts >= '2025-02-01'", "d = '2025-02-01' or ts is null",
    "date(ts) = '2025-01-31' and k <> 0", "m < 0 or m = 12.34", "p like 'a%'", "true", "k = 1000",
]  # fmt: skip
SETTINGS: list[dict[str, str]] = [
    {"k": "k + 1"},
    {"x": "x * 2", "k": "null"},
    {"p": "cast(k as string)", "k": "length(p)"},
    {"ts": "ts + interval 1 day", "d": "null"},
    {"p": "case when k > 1 then null else 'new' end", "m": "m + 1"},
    {"x": "-x", "ts": "case when x > 0 then ts else null end"},
]
FIELDS: list[Any] = [
    "p", "d", "x", "m", "k", pt.year("ts"), pt.month("d"), pt.day("ts"), pt.hour("ts"), pt.bucket("id", 3),
    pt.bucket("id", 4), pt.bucket("p", 2), pt.truncate("p", 1), pt.truncate("k", 10), pt.truncate("m", 10),
]  # fmt: skip


@dataclass
class Pair:
    """A table, and the plain copy that gets the same changes."""

    table: pt.Table
    copy: ReferenceTable
    draw: random.Random
    next_id: int = 0
    steps: list[str] = field(default_factory=list)

    def rows(self, count: int) -> pa.Table:
        self.next_id += count
        return random_rows(self.draw, self.next_id - count, count)

    def append(self) -> None:
        rows = self.rows(6)
        self._note("append")
        self.table.append(rows)
        self.copy.append(rows)

    def delete(self) -> None:
        where = self.draw.choice(PREDICATES)
        self._note("delete", where)
        counts = self.table.delete(where).counts
        before = self.copy.table.num_rows
        self.copy.delete(where)
        assert counts["rows_deleted"] == before - self.copy.table.num_rows

    def update(self) -> None:
        values, where = self.draw.choice(SETTINGS), self.draw.choice(PREDICATES)
        self._note("update", values, where)
        self.table.update(values, where)
        self.copy.update(values, where)

    def merge(self) -> None:
        ids = self.copy.table["id"].to_pylist()
        source = self.rows(9).to_pylist()
        for row, old in zip(source, self.draw.sample(ids, min(6, len(ids))), strict=False):
            row["id"] = self.draw.choice([old, old, old, None])
        source_rows = pa.Table.from_pylist(source, ARROW_SCHEMA)
        clauses = self.draw.choice(
            [
                [
                    pt.when_matched("s.k is null").delete(),
                    pt.when_matched("s.k > 0").update({"p": "s.p", "x": "t.x", "ts": "s.ts"}),
                    pt.when_matched().update(),
                    pt.when_not_matched("s.p is not null").insert(),
                    pt.when_not_matched_by_source("t.k = 0").delete(),
                    pt.when_not_matched_by_source("t.p is null").update({"p": "'lost'", "k": "t.k + 1"}),
                ],
                [pt.when_matched().delete(), pt.when_not_matched().insert({"id": "s.id", "ts": "s.ts", "k": "7"})],
                [pt.when_matched("t.p <> s.p").update({"p": "s.p"}), pt.when_not_matched().insert()],
            ]
        )
        on = self.draw.choice(["t.id = s.id", "t.id = s.id and t.p = s.p", "t.id = s.id and t.x <=> s.x"])
        self._note("merge", on, clauses)
        self.table.merge(source_rows, on, *clauses)
        self.copy.merge(source_rows, on, *clauses)

    def overwrite_partitions(self) -> None:
        rows = self.rows(2)
        by = [_spark_sql(field.function) for field in self.table.spec.fields if field.transform.name != "void"]
        self._note("overwrite", by)
        self.table.overwrite_partitions(rows)
        self.copy.overwrite(rows, by)

    def evolve(self) -> None:
        add, drop = [self.draw.choice(FIELDS)], []
        living = [field.name for field in self.table.spec.fields if field.transform.name != "void"]
        if living and self.draw.random() < 0.6:
            drop = [self.draw.choice(living)]
        self._note("evolve", add, drop)
        try:
            self.table.evolve(add=add, drop=drop)
        except SpecError as error:
            self.steps.append(f"refused: {error}")

    def _note(self, *parts: Any) -> None:
        self.steps.append(" ".join(map(str, parts)))


def _spark_sql(function: Any) -> str:
    """Return a partition function in Spark SQL, by the functions of the JVM runtime."""
    name, column = function.transform.name, function.source
    if name == "identity":
        # Two zeros are two partitions, and NaN is one.
        return f"cast({column} as string)" if column == "x" else column
    if name in {"year", "month", "day", "hour"}:
        return f"{CATALOG_NAME}.system.{name}s({column})"
    return f"{CATALOG_NAME}.system.{name}({function.transform.parameter}, {column})"


STEPS: list[Callable[[Pair], None]] = [
    Pair.append, Pair.delete, Pair.delete, Pair.update, Pair.update, Pair.merge, Pair.merge, Pair.overwrite_partitions,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(max(1, settings().max_examples // 200)))
@pytest.mark.parametrize("mode", ["merge on read", "copy on write", pytest.param("version 1", marks=pytest.mark.long)])
def test_random_changes_are_those_of_a_plain_copy(spark: SparkSession, tmp_path: Path, mode: str, seed: int) -> None:
    draw = random.Random(f"{mode} {seed}")  # noqa: S311
    table = pt.Lake(str(tmp_path)).create_table(
        "t.t", SCHEMA, format="iceberg", partition_by=[draw.choice(FIELDS)], properties=WRITE_MODES[mode]
    )
    jvm = jvm_session(spark, tmp_path)
    pair = Pair(table, ReferenceTable(jvm, ARROW_SCHEMA.empty_table()), draw)
    pair.append()
    pair.evolve()
    pair.append()
    compare_each = settings().max_examples > settings.get_profile("default").max_examples
    for index in range(7):
        if index in (2, 4):
            pair.evolve()
        draw.choice(STEPS)(pair)
        if compare_each or index in (1, 3):
            assert sorted_rows(table.read()) == pair.copy.rows, pair.steps
    assert agreed_rows(table, None if seed else jvm) == pair.copy.rows, pair.steps


# --- what is refused

TWO = random_rows(random.Random(1), 1, 2)  # noqa: S311
TWICE = pa.table({"id": TWO["id"].to_pylist()[:1] * 2, "k": pa.array([1, 2], pa.int32())})


@pytest.fixture(scope="module", params=["merge on read", "copy on write"])
def strict(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pt.Table:
    """A table of two specs, with a required column."""
    schema = pt.Schema(tuple(replace(f, nullable=f.name != "id") for f in SCHEMA))
    table = pt.Lake(str(tmp_path_factory.mktemp("strict"))).create_table(
        "t.t", schema, format="iceberg", partition_by=["p"], properties=WRITE_MODES[request.param]
    )
    table.append(TWO)
    table.evolve(add=[pt.bucket("id", 4)])
    return table


REFUSED: dict[str, tuple[type[PartitaError], Callable[[pt.Table], object]]] = {
    "a row that matches twice, to delete where a condition holds": (
        ConstraintError,
        lambda t: t.merge(pa.concat_tables([TWO, TWO]), "t.id = s.id", pt.when_matched("s.id > 0").delete()),
    ),
    "a row that matches twice, to update": (
        ConstraintError,
        lambda t: t.merge(pa.concat_tables([TWO, TWO]), "t.id = s.id", pt.when_matched().update({"k": "s.k"})),
    ),
    "a null that may not be": (ConstraintError, lambda t: t.update({"id": "null"}, "id = 1")),
    "a null in what is appended": (ConstraintError, lambda t: t.append(TWO.set_column(0, "id", pa.array([1, None])))),
    "a value that is too large": (ConstraintError, lambda t: t.update({"k": "id + 3000000000"}, "id = 1")),
    "another type": (SchemaError, lambda t: t.append(TWO.set_column(4, "k", pa.array(["1", "2"])))),
    "a column that isn't there": (SchemaError, lambda t: t.append(TWO.append_column("new", pa.array([1, 2])))),
    "an update of no column": (PartitaError, lambda t: t.update({"nothing": "1"})),
    "a predicate that doesn't parse": (PartitaError, lambda t: t.delete("k >")),
    "a function that isn't there": (PredicateError, lambda t: t.delete("nofunc(id) = 1")),
    "a comparison of two types": (PredicateError, lambda t: t.delete("id = true")),
    "an aggregate in a predicate": (PredicateError, lambda t: t.delete("max(id) = 1")),
    "a window in a predicate": (PredicateError, lambda t: t.delete("row_number() over (order by id) = 1")),
    "a number that is too large for a double": (PartitaError, lambda t: t.delete("x < 1e400")),
    "a division by zero": (PartitaError, lambda t: t.delete("1 / (id - 1) > 0")),
    "a row that matches twice, where a clause takes one of them": (
        ConstraintError,
        lambda t: t.merge(TWICE, "t.id = s.id", pt.when_matched("s.k = 1").update({"k": "s.k"})),
    ),
    "a field that is there": (SpecError, lambda t: t.evolve(add=["p"])),
    "a drop of what isn't there": (SpecError, lambda t: t.evolve(drop=["k"])),
}


def test_refused_changes_commit_nothing(spark: SparkSession, strict: pt.Table) -> None:
    for error, change in REFUSED.values():
        with assert_unchanged(strict), pytest.raises(error):
            change(strict)
    assert sorted_rows(strict.read()) == sorted_rows(TWO)
