"""Random statements on tables of every format, each held to plain Spark over literal rows.

`PARTITA_FUZZ_SEED` replays the seed of a failure.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import partita as pt
from partita.errors import PartitaError
from tests.fuzz.oracle import (
    COMPARED_COLUMNS,
    ReferenceRows,
    StatementEffect,
    StatementRefused,
    canonical_texts,
    collect_rows,
)
from tests.fuzz.statements import Delete, Merge, Select, Statement, StatementGenerator, Update, values_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENTS = 11
"""Statements on each of the seven tables: 77 in all, the first quarter of a long run's with the same seed."""
LONG_STATEMENTS = 43
"""Statements of a long run: 301 on the seven tables for each seed."""
COMPARED = 5
"""After so many changes all rows are compared; what a single one did is compared by its counts."""
FEWEST = 6

ARROW = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("txt", pa.string()), ("k", pa.int32()), ("x", pa.float64()),
     ("m", pa.decimal128(9, 2)), ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("b", pa.bool_()),
     ("st", pa.struct([("a", pa.int32()), ("b", pa.string())]))]
)  # fmt: skip
REQUIRED = pa.schema([f.with_nullable(f.name != "id") for f in ARROW])


@dataclass(frozen=True, slots=True)
class Kind:
    """How a table is made."""

    format: str
    partition_by: tuple[Any, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    is_required: bool = False
    evolve: Callable[[pt.Table], None] | None = None


def _evolve(table: pt.Table) -> None:
    table.evolve(add=[pt.bucket("id", 3)], drop=["p"])


TABLES = {
    "delta, partitioned": Kind("delta", ("p", "d"), is_required=True),
    "delta, generated": Kind("delta", (pt.day("ts"),)),
    "delta, mapped columns": Kind("delta", ("b",), {"delta.columnMapping.mode": "name"}),
    "iceberg, version 1": Kind("iceberg", (pt.bucket("id", 3),), {"format-version": "1"}, is_required=True),
    "iceberg, merge on read": Kind("iceberg", (pt.truncate("p", 1), pt.month("d"))),
    "iceberg, evolved": Kind("iceberg", ("p",), evolve=_evolve),
    "lance, two fields": Kind("lance", ("p", pt.bucket("k", 2)), is_required=True),
}


@dataclass(slots=True)
class Run:
    """A table and the rows that it should have, through a row of statements."""

    spark: SparkSession
    lake: pt.Lake
    table: pt.Table
    model: ReferenceRows
    generator: StatementGenerator
    steps: list[str] = field(default_factory=list)
    unchecked: int = 0

    def append(self, count: int) -> None:
        rows = self.generator.rows(count)
        self.steps.append(f"append: {values_query(rows)}")
        self.table.append(self.spark.sql(values_query(rows)))
        self.model.rows = self.model.rows + rows

    def step(self) -> None:
        """One statement on both; more rows first where few are left."""
        if len(self.model.rows) < FEWEST:
            self.append(8)
        statement = self.generator.statement(self.model.rows)
        by_sql = self.generator.draw.random() < 0.5
        self.steps.append(("sql: " if by_sql else "call: ") + statement.sql(self.table.name))
        before, version = list(self.model.rows), self.table.version
        try:
            expected = self.model.apply(statement)
        except StatementRefused as refused:
            self.steps.append(f"should be refused: {refused}")
            expected = None
        if expected is not None:
            self._compare(statement, expected, self._run(statement, by_sql=by_sql))
            return
        self.model.rows = before
        # The rows of a query are Spark's, and so is what fails in them.
        with pytest.raises((PartitaError, PySparkException) if isinstance(statement, Select) else PartitaError):
            self._run(statement, by_sql=by_sql)
        assert self.table.version == version

    def _run(self, statement: Statement, *, by_sql: bool) -> Any:
        if by_sql:
            found: Any = self.lake.sql(statement.sql(self.table.name))
        elif isinstance(statement, Delete):
            found = self.table.delete(statement.where)
        elif isinstance(statement, Update):
            found = self.table.update(statement.values, statement.where)
        elif isinstance(statement, Merge):
            source = self.spark.sql(values_query(statement.source))
            found = self.table.merge(source, statement.on, *statement.clauses)
        else:
            found = self.table.read(statement.where).selectExpr(*statement.columns)
        return collect_rows(found) if isinstance(statement, Select) else found

    def _compare(self, statement: Statement, expected: StatementEffect, found: Any) -> None:
        if isinstance(statement, Select):
            assert expected.rows is not None
            assert canonical_texts(found) == canonical_texts(expected.rows)
            return
        counts = {"rows_deleted": expected.deleted, "rows_updated": expected.updated,
                  "rows_inserted": expected.inserted}  # fmt: skip
        assert {name: found.counts.get(name, 0) for name in counts} == counts
        self.unchecked += 1
        if self.unchecked == COMPARED:
            self.compare_rows()

    def compare_rows(self) -> None:
        self.unchecked = 0
        assert canonical_texts(collect_rows(self.table.read().selectExpr(*COMPARED_COLUMNS))) == canonical_texts(
            self.model.rows
        )


def run_statements(spark: SparkSession, folder: Path, name: str, seed: str, count: int) -> None:
    """Run random statements on a table of that name in `TABLES`."""
    kind, lake = TABLES[name], pt.Lake(str(folder))
    table = lake.create_table(
        "fuzz.t", REQUIRED if kind.is_required else ARROW, format=kind.format, partition_by=list(kind.partition_by),
        properties=kind.properties,
    )  # fmt: skip
    required = frozenset({"id"}) if kind.is_required else frozenset[str]()
    generator = StatementGenerator(random.Random(f"{seed} {name}"))  # noqa: S311 - no secret
    run = Run(spark, lake, table, ReferenceRows(spark, required), generator)
    try:
        run.append(9)
        if kind.evolve is not None:
            kind.evolve(table)
        run.append(5)
        for _ in range(count):
            run.step()
        run.compare_rows()
    except BaseException as error:
        error.add_note(f"seed {seed}, table {name!r}, after:\n" + "\n".join(run.steps))
        raise


@pytest.mark.parametrize("count", [STATEMENTS, pytest.param(LONG_STATEMENTS, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", TABLES)
def test_statements_do_what_plain_spark_does(spark: SparkSession, tmp_path: Path, name: str, count: int) -> None:
    run_statements(spark, tmp_path, name, os.environ.get("PARTITA_FUZZ_SEED", "19"), count)


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_more_statements_of_a_new_seed(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for at in range(4):
        seed = secrets.token_hex(4)
        print(f"PARTITA_FUZZ_SEED={seed}")  # noqa: T201 - what replays a failure
        run_statements(spark, tmp_path / str(at), name, seed, LONG_STATEMENTS)
