"""Pruning never loses a row: Spark's answer for every row against Partita's for its partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.spec import PartitionSpec
from partita.algebra.types import FLOAT_KINDS
from partita.arrow import apply
from partita.arrow.schema import to_schema
from tests.pruning_cases import COLUMN_TYPES, COLUMN_VALUES, PruningCase, has_residual, pruning_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICATES = 50
TABLES = max(20, settings().max_examples // 4 if settings().max_examples > 100 else 0)
"""The examples are tables times predicates: 1,000 in a normal run."""


def test_pruning_against_every_row(spark: SparkSession) -> None:
    """`may_match` never drops a row that matches, `must_match` never keeps one that doesn't."""
    judged: Counter[str] = Counter()

    @given(case=pruning_cases(predicates=PREDICATES))
    @settings(
        max_examples=TABLES,
        phases=[Phase.explicit, Phase.generate],  # a table takes a second: shrinking would take an hour
        suppress_health_check=list(HealthCheck),
    )
    def holds(case: PruningCase) -> None:
        truths = _spark_truths(spark, case.table, [p.sql() for p in case.predicates])
        schema = to_schema(case.table.schema)
        spec = PartitionSpec.of(case.functions, schema, case.family)
        exact = PartitionSpec.of(case.table.column_names, schema, "iceberg")
        for predicate, truth in zip(case.predicates, truths, strict=True):
            judged["examples"] += 1
            judged.update(_check_partitions(case.table, spec, predicate, truth, tight=False))
            judged.update(_check_partitions(case.table, exact, predicate, truth, tight=True))
            _check_statistics(case.table, predicate, truth)

    holds()
    # The property proves something only if many examples were checked and many partitions pruned.
    assert judged["examples"] >= 45 * TABLES, judged
    assert judged["skipped"] >= 200 * TABLES, judged
    assert judged["sure"] >= 20 * TABLES, judged


def _spark_truths(spark: SparkSession, table: Any, texts: list[str]) -> list[Any]:
    frame = spark.createDataFrame(table.append_column("row_", pa.array(range(len(table)))))
    answers = (
        frame.selectExpr("row_", *(f"({text}) AS p{index}" for index, text in enumerate(texts)))
        .toArrow()
        .sort_by("row_")
    )
    return [answers[f"p{index}"].combine_chunks() for index in range(len(texts))]


def _check_partitions(
    table: Any, spec: PartitionSpec, predicate: pt.Predicate, truth: Any, *, tight: bool
) -> dict[str, int]:
    """Check the partitions of a table; `tight` if each has one combination of values."""
    results = {f.name: apply(f.function, table[f.source], family=spec.family) for f in spec.fields}
    partitions = pa.table(results) if results else pa.table({"unpartitioned": pa.nulls(len(table))})
    groups = _groups(partitions)
    partitions = partitions.take([rows[0] for rows in groups])
    hit = pt.prune(predicate, schema=table.schema, spec=spec, partitions=partitions)
    may, must, reasons = hit.may_match.to_pylist(), hit.must_match.to_pylist(), hit.reasons.to_pylist()
    exactly = tight and not has_residual(parse_predicate(predicate, to_schema(table.schema)))
    for index, rows in enumerate(groups):
        answers = truth.take(rows).to_pylist()
        context = (predicate.sql(), str(spec), partitions.slice(index, 1).to_pylist(), answers)
        assert may[index] or True not in answers, context
        assert not must[index] or set(answers) == {True}, context
        assert (reasons[index] is None) == may[index], context
        assert not exactly or may[index] == (True in answers), context
        assert not exactly or must[index] == (set(answers) == {True}), context
    return {"skipped": may.count(False), "sure": must.count(True)}


def _groups(partitions: Any) -> list[list[int]]:
    """Return the rows of each distinct partition; NaN is one value, and so are the two zeros."""
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(partitions.to_pylist()):
        groups.setdefault(repr([v + 0.0 if isinstance(v, float) else v for v in row.values()]), []).append(index)
    return list(groups.values())


def _check_statistics(table: Any, predicate: pt.Predicate, truth: Any) -> None:
    """Check files of three rows each by their minimum, maximum and null count."""
    files = [list(range(start, min(start + 3, len(table)))) for start in range(0, len(table), 3)]
    statistics = {name: _column_statistics(table[name].combine_chunks(), files) for name in table.column_names}
    empty = PartitionSpec.of([], to_schema(table.schema), "iceberg")
    nothing = pa.table({"file": list(range(len(files)))})
    hit = pt.prune(predicate, schema=table.schema, spec=empty, partitions=nothing, statistics=statistics)
    for index, rows in enumerate(files):
        answers = truth.take(rows).to_pylist()
        context = (predicate.sql(), table.take(rows).to_pylist(), answers)
        assert hit.may_match[index].as_py() or True not in answers, context
        assert not hit.must_match[index].as_py() or set(answers) == {True}, context


def _column_statistics(column: Any, files: list[list[int]]) -> pt.ColumnStatistics:
    file_columns = [column.take(rows) for rows in files]
    is_float = to_schema(pa.schema([("c", column.type)])).find_field("c").type.kind in FLOAT_KINDS
    comparable = [c.filter(pc.invert(pc.is_nan(c))) if is_float else c for c in file_columns]
    bounds = [_bounds(c.drop_null().to_pylist()) for c in comparable]
    return pt.ColumnStatistics(
        lower=pa.array([low for low, _ in bounds], column.type),
        upper=pa.array([high for _, high in bounds], column.type),
        null_count=pa.array([c.null_count for c in file_columns]),
        row_count=pa.array([len(c) for c in file_columns]),
    )


def _bounds(values: list[Any]) -> tuple[Any, Any]:
    return (min(values), max(values)) if values else (None, None)


TEXTS = (Path(__file__).parents[1] / "vectors" / "predicates.sql").read_text(encoding="utf-8").splitlines()
"""Every form of predicate text, one on each line, over the columns of `tests.pruning_cases`."""


NUMBERS = [
    "0", "1", "5L", "5S", "9Y", "-1", "16777217", "9007199254740993", "1.0", "1.5", "10.65", "0.001", "1.40", "1e0",
    "1.5e0", "9007199254740992e0", "0.1D", "0.5F", "1.5BD", "1.00000017881393432617187499",
    "1.00000017881393432617187499F", "CAST('0.5' AS FLOAT)", "CAST(0.1 AS DOUBLE)", "CAST('5' AS BIGINT)",
    "CAST(1 AS DECIMAL(38,0))", "CAST(1.5 AS DECIMAL(20,18))", "CAST(16777217 AS FLOAT)", "-0.0D", "double('NaN')",
    "float('Infinity')", "NULL",
]  # fmt: skip
"""Numeric literals of every type and in every spelling."""


def _number_texts() -> list[str]:
    """Compare each numeric column with each literal, alone and in lists of two."""
    columns = ["y", "i", "l", "f", "x", "m", "w"]
    comparisons = [f"{c} {op} {n}" for c in columns for n in NUMBERS for op in ("=", ">=")]
    pairs = [(NUMBERS[a], NUMBERS[(a * 7 + b) % len(NUMBERS)]) for a in range(len(NUMBERS)) for b in (1, 2, 3)]
    return comparisons + [
        f"{c} IN ({a}, {b})" for index, (a, b) in enumerate(pairs) for c in (columns[index % 7], columns[index * 3 % 7])
    ]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sql_text_means_what_spark_means(spark: SparkSession, ansi: str) -> None:
    """Each row is a partition: pruning is exact if Partita evaluates the text, and never wrong if it doesn't."""
    size = 40
    table = pa.table(
        {
            n: pa.array([[*COLUMN_VALUES[n], None][index % (len(COLUMN_VALUES[n]) + 1)] for index in range(size)], t)
            for n, t in COLUMN_TYPES.items()
        }
    )
    texts = [t for t in TEXTS if ansi == "true" or "'5'" not in t] + _number_texts()
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        truths = [
            t for index in range(0, len(texts), 100) for t in _spark_truths(spark, table, texts[index : index + 100])
        ]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    evaluated = [_check_text(table, text, truth) for text, truth in zip(texts, truths, strict=True)]
    assert evaluated.count(True) > len(evaluated) / 2, "Partita should evaluate most of these texts"


def _check_text(table: Any, text: str, truth: Any) -> bool:
    """Check a text over rows that are each a partition; return whether Partita evaluates all of it."""
    schema = to_schema(table.schema)
    spec = PartitionSpec.of(table.column_names, schema, "iceberg")
    hit = pt.prune(text, schema=table.schema, spec=spec, partitions=table)
    true = np.array([t is True for t in truth.to_pylist()])
    may, must = np.array(hit.may_match.to_pylist()), np.array(hit.must_match.to_pylist())
    assert (may | ~true).all(), (text, table.filter(pa.array(true & ~may)).to_pylist())
    assert (true | ~must).all(), (text, table.filter(pa.array(must & ~true)).to_pylist())
    holds = not has_residual(parse_predicate(text, schema))
    assert not holds or ((may == true).all() and (must == true).all()), text
    return holds


@given(data=st.data())
@settings(max_examples=max(12, settings().max_examples // 50), suppress_health_check=list(HealthCheck))
def test_our_sql_of_a_bound_predicate_is_the_same_predicate(spark: SparkSession, data: st.DataObject) -> None:
    case = data.draw(pruning_cases(predicates=20))
    schema = to_schema(case.table.schema)
    plain = [p.sql() for p in case.predicates]
    again = [parse_predicate(parse_predicate(p, schema).sql(), schema).sql() for p in case.predicates]
    answers = _spark_truths(spark, case.table, plain + again)
    for text, a, b in zip(plain, answers[: len(plain)], answers[len(plain) :], strict=True):
        assert a.equals(b), text
