"""Conditions on the rows of a table, checked inside of the query that writes them.

A violated condition fails the query by `raise_error` with a marked message; `partita.spark.errors` turns that into a
`ConstraintError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from partita.spark.nullability import required_fields, required_fields_of_null_structs
from partita.spark.sql_text import string_literal_sql

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VIOLATION_PREFIX = "refused by the table: "
"""Marks the message of a query that a constraint failed."""


@dataclass(frozen=True, slots=True)
class TableConstraint:
    """A condition in SQL that must be true of every row of a table, and its name."""

    name: str
    condition: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A condition that no row of a table may meet, as a Column or in SQL, and the message for a row that does."""

    condition: Column | str
    problem: str


def check_not_null(rows: DataFrame, schema: StructType) -> DataFrame:
    """Fail the query where a required field of the schema is null in the rows."""
    return refuse_violations(rows, null_violations(schema))


def require_condition(rows: DataFrame, condition: str, problem: str) -> DataFrame:
    """Fail the query with `problem` where a condition in SQL is false or null."""
    return refuse_violations(rows, [Violation(_is_not_true(condition), f"{problem} ({condition})")])


def null_violations(schema: StructType) -> list[Violation]:
    """List a violation for each required field of the schema, at every depth."""
    return [Violation(f.violation, f"column {f.path!r} may not be null") for f in required_fields(schema)]


def null_struct_violations(schema: StructType) -> list[Violation]:
    """List a violation for each required field inside of a column; a struct that is null violates its fields."""
    column_names = set(schema.fieldNames())
    fields = (field for field in required_fields_of_null_structs(schema) if field.path not in column_names)
    return [Violation(f.violation, f"column {f.path!r} may not be null") for f in fields]


def constraint_violations(constraints: Iterable[TableConstraint]) -> list[Violation]:
    """List a violation for each constraint; a condition that is null is violated too."""
    return [
        Violation(_is_not_true(constraint.condition), f"{constraint.name} ({constraint.condition}) does not hold")
        for constraint in constraints
    ]


def _is_not_true(condition: str) -> Column:
    return ~F.coalesce(F.expr(condition), F.lit(False))


def refuse_violations(rows: DataFrame, violations: Iterable[Violation]) -> DataFrame:
    """Fail the query with the problem of the first violation that a row meets.

    All violations are one filter: Spark takes minutes to plan a chain of hundreds of them.
    """
    groups = groupby(violations, key=lambda violation: isinstance(violation.condition, str))
    problems = [
        problem for is_sql, group in groups for problem in (_sql_problems if is_sql else _column_problems)(group)
    ]
    if not problems:
        return rows
    problem = F.coalesce(*problems)
    error = F.raise_error(F.concat(F.lit(VIOLATION_PREFIX), problem)).cast("boolean")
    # Spark doesn't move a filter that is not deterministic: below an anti join it would check rows that the join drops.
    is_valid = problem.isNull() & (F.spark_partition_id() >= F.lit(0))
    return rows.filter(F.when(is_valid, F.lit(True)).otherwise(error))


def _sql_problems(violations: Iterable[Violation]) -> list[Column]:
    """Return one Column: the problem of the first violation whose condition in SQL is true, or null."""
    cases = (f"WHEN {violation.condition} THEN {string_literal_sql(violation.problem)}" for violation in violations)
    return [F.expr(f"CASE {' '.join(cases)} END")]


def _column_problems(violations: Iterable[Violation]) -> list[Column]:
    """Return a Column for each violation: its problem where its condition is true, or null."""
    return [F.when(v.condition, F.lit(v.problem)) for v in violations if not isinstance(v.condition, str)]


def raise_error_sql(problem: str) -> str:
    """Return an expression in SQL that fails the query with a `ConstraintError`."""
    return f"raise_error({string_literal_sql(VIOLATION_PREFIX + problem)})"
