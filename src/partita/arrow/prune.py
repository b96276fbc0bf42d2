"""Pruning of many partitions or files at once: `partita.algebra.prune` over Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.domains import IntervalDomain
from partita.algebra.physical_values import NAN_RANK
from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.prune import CompiledPredicate, ConstantNode, PruneNode, compile_condition
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.step_function import TRUE, StepFunction, and_truths, or_truths
from partita.algebra.time_zones import find_time_zone
from partita.algebra.types import FLOAT_KINDS, CharType, LogicalType
from partita.arrow.buffers import Array, Bools, Ints
from partita.arrow.domains import (
    DomainArray,
    IntervalDomainArray,
    TruthArray,
    domains_from_partitions,
    encode_dictionary,
    partition_column,
)
from partita.arrow.physical_values import PhysicalArray, pad_char_bounds, to_physical_array
from partita.arrow.schema import to_schema
from partita.errors import PartitionsError, SpecError, value_repr


@dataclass(frozen=True, eq=False)
class PruneResult:
    """The result of pruning, for each partition in the given order.

    Attributes:
        may_match: whether some row can match; a partition where it is false can be skipped.
        must_match: whether every row matches.
    """

    may_match: pa.BooleanArray
    must_match: pa.BooleanArray
    compute_reasons: Callable[[], pa.StringArray] = field(repr=False)

    @cached_property
    def reasons(self) -> pa.StringArray:
        """For each excluded partition, the text of the part of the predicate that excludes it; else null.

        Computed on first use, as it takes as long as the pruning itself and is rarely needed.
        """
        return self.compute_reasons()

    def replace_results(self, mask: pa.BooleanArray, replacements: PruneResult) -> PruneResult:
        """Return this result with those of the partitions where `mask` is true replaced, in order."""
        return PruneResult(
            pc.replace_with_mask(self.may_match, mask, replacements.may_match),
            pc.replace_with_mask(self.must_match, mask, replacements.must_match),
            lambda: pc.replace_with_mask(self.reasons, mask, replacements.reasons),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ColumnStatistics:
    """The statistics of one column in each file, as Arrow arrays with one value per file.

    A value is null if the file doesn't have it; an array is None if no file has it.

    Attributes:
        lower: a lower bound of the values.
        upper: an upper bound of the values.
        null_count: the number of null values.
        row_count: the number of rows.
    """

    lower: Array | None = None
    upper: Array | None = None
    null_count: Array | None = None
    row_count: Array | None = None

    def take(self, rows: Any) -> ColumnStatistics:
        """Return the statistics of the files with the given indices."""
        arrays = (self.lower, self.upper, self.null_count, self.row_count)
        return ColumnStatistics(*(None if array is None else array.take(rows) for array in arrays))


def prune(  # noqa: PLR0913 - a predicate, a spec and its partitions
    where: PredicateLike | UnboundPredicate,
    *,
    schema: object,
    spec: PartitionSpec | SpecHistory,
    partitions: pa.Table | pa.RecordBatch,
    statistics: Mapping[str, ColumnStatistics] | None = None,
    time_zone: str = "UTC",
) -> PruneResult:
    """Return which partitions a predicate may match, which it must match, and why others are excluded. Needs no JVM.

    Args:
        where: SQL text, or a predicate made with `col`.
        schema: the columns of the table: a `Schema`, or an Arrow or Spark schema.
        spec: the partition spec, or the history of all specs of the table.
        partitions: the values of the partition fields, as an Arrow table with one column per field. With a
            `SpecHistory` it also has a column `spec_id`, each row is evaluated with its own spec, and columns are named
            by `SpecHistory.column_name`.
        statistics: the statistics of columns, by name, with one value per row of `partitions`.
        time_zone: the time zone of dates and times without one in `where`.

    Raises:
        PredicateError: the predicate can't be parsed, or names an unknown column.
        PartitionsError: `partitions` or `statistics` don't fit the spec.
    """
    if not isinstance(partitions, pa.Table | pa.RecordBatch):
        raise PartitionsError(f"partitions must be an Arrow table, not {type(partitions).__name__}")
    if not isinstance(spec, PartitionSpec | SpecHistory):
        raise SpecError(f"the spec must be a PartitionSpec or a SpecHistory, not {type(spec).__name__}; see parse_spec")
    columns = to_schema(schema)
    unbound_predicate = (
        where if isinstance(where, UnboundPredicate) else UnboundPredicate(where, find_time_zone(time_zone))
    )
    predicate = compile_condition(unbound_predicate, columns)
    column_statistics = {columns.find_field(name).name: s for name, s in _check_statistics_type(statistics).items()}
    evaluators = []
    for row_spec, rows in _rows_by_spec(spec, partitions):
        evaluator = _domain_evaluator(
            predicate.columns,
            columns,
            row_spec,
            _partitions_of_spec(spec, row_spec, partitions, rows),
            column_statistics if rows is None else {name: s.take(rows) for name, s in column_statistics.items()},
        )
        evaluators.append((rows, evaluator))
    return _prune_result(predicate, evaluators, partitions.num_rows)


def _check_statistics_type(statistics: Mapping[str, ColumnStatistics] | None) -> Mapping[str, ColumnStatistics]:
    by_column = {} if statistics is None else statistics
    if not isinstance(by_column, Mapping) or not all(isinstance(s, ColumnStatistics) for s in by_column.values()):
        raise PartitionsError(f"statistics must be ColumnStatistics by column name, not {value_repr(statistics)}")
    return by_column


def may_match(predicate: CompiledPredicate, domains: Mapping[str, list[DomainArray]], count: int) -> Bools:
    """Return whether some row of each of `count` partitions or files can match, given the domains of their columns."""
    return _can_be_true(_DomainEvaluator(domains, count).possible_truths(predicate.root))


def _can_be_true(truths: TruthArray) -> Bools:
    return (truths & TRUE).astype(bool)


def _rows_by_spec(
    spec: PartitionSpec | SpecHistory, partitions: pa.Table | pa.RecordBatch
) -> Iterator[tuple[PartitionSpec, Any]]:
    """Yield each spec with the indices of its rows, or None if they are all rows."""
    if isinstance(spec, PartitionSpec):
        yield spec, None
        return
    if "spec_id" not in partitions.schema.names:
        raise PartitionsError("partitions of a SpecHistory need a column 'spec_id'")
    ids = partition_column(partitions, "spec_id")
    if ids.null_count:
        raise PartitionsError("the column 'spec_id' of the partitions has a null")
    spec_ids = distinct_spec_ids(ids)
    for spec_id in spec_ids:
        yield spec.spec(spec_id), None if len(spec_ids) == 1 else pc.indices_nonzero(pc.equal(ids, spec_id))


def _partitions_of_spec(
    specs: PartitionSpec | SpecHistory, spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch, rows: Any
) -> pa.Table | pa.RecordBatch:
    """Return the rows of one spec, with columns named like its fields."""
    if isinstance(specs, PartitionSpec):
        return partitions
    return spec_columns(specs, spec, partitions if rows is None else partitions.take(rows))


def _domain_evaluator(
    source_columns: frozenset[str],
    schema: Schema,
    spec: PartitionSpec,
    partitions: pa.Table | pa.RecordBatch,
    statistics: Mapping[str, ColumnStatistics],
) -> _DomainEvaluator:
    count = partitions.num_rows
    domains: dict[str, list[DomainArray]] = {}
    for source, domain in (
        *domains_from_partitions(spec, partitions, source_columns),
        *_domains_from_statistics(schema, statistics, count),
    ):
        domains.setdefault(source, []).append(domain)
    return _DomainEvaluator(domains, count)


_EvaluatorsBySpec = list[tuple[Any, "_DomainEvaluator"]]
"""For each spec, the indices of its rows and their evaluator."""


def _prune_result(predicate: CompiledPredicate, evaluators: _EvaluatorsBySpec, count: int) -> PruneResult:
    truths = _merge_by_row(
        [(rows, evaluator.possible_truths(predicate.root)) for rows, evaluator in evaluators], count, np.uint8
    )
    return PruneResult(
        pa.array(_can_be_true(truths)),
        pa.array(truths == TRUE),
        partial(_exclusion_reasons, predicate, evaluators, count),
    )


def _exclusion_reasons(predicate: CompiledPredicate, evaluators: _EvaluatorsBySpec, count: int) -> pa.StringArray:
    part_indices = _merge_by_row(
        [(rows, _first_excluding_parts(predicate, evaluator)) for rows, evaluator in evaluators], count, np.int64
    )
    return pa.array([*(part.text for part in predicate.parts), None], pa.string()).take(pa.array(part_indices))


def _first_excluding_parts(predicate: CompiledPredicate, evaluator: _DomainEvaluator) -> Ints:
    """Return the index of the first part that excludes each partition, or the number of parts if none does."""
    no_part = len(predicate.parts)
    part_indices = np.full(evaluator.count, no_part)
    is_excluded = ~_can_be_true(evaluator.possible_truths(predicate.root))
    for index, part in enumerate(predicate.parts):
        is_open = is_excluded & (part_indices == no_part)
        if not is_open.any():
            break
        part_indices[is_open & ~_can_be_true(evaluator.possible_truths(part.node))] = index
    return part_indices


def _merge_by_row(results: list[tuple[Any, Any]], count: int, dtype: type[np.generic]) -> Any:
    """Merge the results for the rows of each spec into the order of all rows."""
    if len(results) == 1 and results[0][0] is None:
        return results[0][1]
    row_values = np.zeros(count, dtype)
    for rows, values in results:
        row_values[rows] = values
    return row_values


_TRUTH_TABLES = {
    combine: np.array([[combine(a, b) for b in range(8)] for a in range(8)], np.uint8)
    for combine in (and_truths, or_truths)
}


@dataclass(frozen=True, slots=True, eq=False)
class _DomainEvaluator:
    """Evaluates `partita.algebra.prune.possible_truths` for each partition; a shared node is evaluated once."""

    domains: Mapping[str, list[DomainArray]]
    count: int
    cached_truths: dict[int, TruthArray] = field(default_factory=dict)

    def possible_truths(self, node: PruneNode) -> TruthArray:
        """Return the truth values that the node can have in each partition."""
        if id(node) not in self.cached_truths:
            self.cached_truths[id(node)] = self._evaluate_node(node)
        return self.cached_truths[id(node)]

    def _evaluate_node(self, node: PruneNode) -> TruthArray:
        if isinstance(node, StepFunction):
            any_value = np.full(self.count, IntervalDomain().possible_truths(node), np.uint8)
            column_domains = self.domains.get(node.column, ())
            return reduce(and_, (domain.possible_truths(node) for domain in column_domains), any_value)
        if isinstance(node, ConstantNode):
            return np.full(self.count, node.truths, np.uint8)
        table = _TRUTH_TABLES[node.combine]  # type: ignore[index] # and_truths or or_truths
        return reduce(lambda a, b: table[a, b], map(self.possible_truths, node.operands))


def _domains_from_statistics(
    schema: Schema, statistics: Mapping[str, ColumnStatistics], count: int
) -> Iterator[tuple[str, DomainArray]]:
    for name, column_statistics in statistics.items():
        _check_statistics(name, column_statistics, count)
        type_ = schema.find_field(name).type
        lower_values, upper_values = column_statistics.lower, column_statistics.upper
        if isinstance(type_, CharType):
            lower_values, upper_values = pad_char_bounds(lower_values, upper_values, type_)
        lower = None if lower_values is None else bounds_from_statistics(lower_values, type_)
        # Statistics leave out NaN, which sorts above all else.
        has_upper = upper_values is not None and type_.kind not in FLOAT_KINDS
        upper = bounds_from_statistics(upper_values, type_) if has_upper else None
        never_null, always_null = _null_flags(column_statistics, count)
        yield name, IntervalDomainArray(lower, upper, always_null, ~never_null & ~always_null)


def _check_statistics(name: str, statistics: ColumnStatistics, count: int) -> None:
    counts = [a for a in (statistics.null_count, statistics.row_count) if a is not None]
    arrays = [*counts, *(a for a in (statistics.lower, statistics.upper) if a is not None)]
    if not all(isinstance(a, pa.Array | pa.ChunkedArray) for a in arrays):
        raise PartitionsError(f"statistics of column {name!r} must be Arrow arrays")
    if any(len(a) != count for a in arrays):
        raise PartitionsError(f"statistics of column {name!r} have {len(arrays[0])} values for {count} partitions")
    if not all(pa.types.is_integer(a.type) or pa.types.is_null(a.type) for a in counts):
        raise PartitionsError(f"statistics of column {name!r}: counts must be integers")


def bounds_from_statistics(array: Array, type_: LogicalType) -> PhysicalArray:
    """Return the bounds of intervals; a bound of NaN, which some writers store, counts as unknown."""
    bounds = encode_dictionary(to_physical_array(array, type_))
    if type_.kind not in FLOAT_KINDS:
        return bounds
    return PhysicalArray(bounds.values, bounds.nulls | (bounds.values == NAN_RANK))


def _null_flags(statistics: ColumnStatistics, count: int) -> tuple[Bools, Bools]:
    """Return for which files no row is null, and for which every row is."""
    if statistics.null_count is None:
        return np.zeros(count, bool), np.zeros(count, bool)
    never_null = _true_mask(pc.equal(statistics.null_count, 0))
    if statistics.row_count is None:
        return never_null, np.zeros(count, bool)
    return never_null, _true_mask(pc.equal(statistics.null_count, statistics.row_count)) & ~never_null


def _true_mask(array: Array) -> Bools:
    return cast("Bools", array.fill_null(fill_value=False).to_numpy(zero_copy_only=False))


def distinct_spec_ids(ids: Array) -> list[int]:
    """Return the distinct spec ids in order of occurrence; fast for a single one, which most tables have."""
    values = ids.to_numpy(zero_copy_only=False)
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return cast("list[int]", pc.unique(ids).to_pylist())


def spec_columns(specs: SpecHistory, spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return the columns of one spec's fields from a table of partitions, named like the fields."""
    columns = {f.name: partition_column(partitions, specs.column_name(spec, f)) for f in spec.fields}
    return pa.table(columns) if columns else pa.table({"spec_id": partition_column(partitions, "spec_id")})
