"""Domains of columns in many partitions or files at once: `partita.algebra.domains` over arrays.

Each domain returns, for every partition, the truth values that a step function can have there, as an array of the bit
masks of `partita.algebra.step_function`. Strings and bytes are dictionary-encoded: each distinct one is compared once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import CALENDAR_UNITS, HOUR, days_from_civil
from partita.algebra.domains import CalendarDomain
from partita.algebra.hashing import physical_hash
from partita.algebra.physical_values import PhysicalValue
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.step_function import ANY_TRUTH, FALSE, NULL, TRUE, StepFunction
from partita.algebra.transforms import (
    DayTransform,
    HashedTransform,
    HourTransform,
    MonthTransform,
    TransformFamily,
    YearTransform,
)
from partita.algebra.types import CharType, LogicalType, TypeKind
from partita.arrow.buffers import Bools, Ints, combine_chunks, dense_array, is_string_type
from partita.arrow.physical_values import PhysicalArray, pad_char_values, to_physical_array
from partita.arrow.transforms import calendar_bounds, preimage_bounds
from partita.errors import PartitionsError

TruthArray: TypeAlias = npt.NDArray[np.uint8]

_MAX_COMPARED_BOUNDS = 16
"""Up to this number of bounds, comparing all values with each bound is faster than a binary search."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalDomainArray:
    """The values lie in an interval; a bound is unbounded where it is null, and everywhere if it is None.

    The upper bound is included. With a `prefix_width`, the bounds are strings or bytes truncated to it, and an upper
    bound of the full width includes all values that start with it.
    """

    lower: PhysicalArray | None
    upper: PhysicalArray | None
    is_all_null: Bools
    may_have_null: Bools
    prefix_width: int | None = None

    def possible_truths(self, steps: StepFunction) -> TruthArray:
        """Return the truth values that the step function can have in each partition."""
        if self.lower is self.upper and self.lower is not None and self.prefix_width is None:
            truths = np.array(steps.truths, np.uint8)[_segment_indices(self.lower.values, steps.bounds)]
        else:
            first_segments = _first_segments(self.lower, steps, len(self.is_all_null))
            truths = _truths_between(steps, first_segments, self._last_segments(steps))
        truths = _select_where(self.may_have_null, truths | np.uint8(steps.null_truths), truths)
        return cast("TruthArray", _select_where(self.is_all_null, np.uint8(steps.null_truths), truths))

    def _last_segments(self, steps: StepFunction) -> Ints:
        last = len(steps.truths) - 1
        if self.upper is None:
            return np.full(len(self.is_all_null), last)
        segments = _segment_indices(self.upper.values, steps.bounds)
        if self.prefix_width is not None:
            prefixes = tuple(b[: self.prefix_width] for b in steps.bounds)  # type: ignore[index] # strings or bytes
            has_full_width = _value_lengths(self.upper.values.dictionary) == self.prefix_width
            is_prefix = _decode_dictionary(self.upper.values, has_full_width)
            segments_after = 2 * _count_bounds_below(self.upper.values, prefixes, bisect_right)
            segments = np.where(is_prefix, segments_after, segments)
        return cast("Ints", _select_where(self.upper.nulls, last, segments))


@dataclass(frozen=True, slots=True, eq=False)
class HashDomainArray:
    """The values of each partition have a bucket or hash in common; it is unknown where `is_known` is false."""

    transform: HashedTransform
    results: PhysicalArray
    is_known: Bools | None = None

    def possible_truths(self, steps: StepFunction) -> TruthArray:
        """Return the truth values that the step function can have in each partition."""
        truths_by_result: dict[PhysicalValue, int] = {}
        for bound, bound_truths in zip(steps.bounds, steps.truths[1::2], strict=True):
            result = self.transform.result_of_hash(physical_hash(bound, steps.type))
            truths_by_result[result] = truths_by_result.get(result, 0) | bound_truths
        # A gap between bounds holds values of every hash.
        gap_truths = int(np.bitwise_or.reduce(np.array(steps.truths[::2], np.uint8)))
        truths = _look_up_truths(self.results.values, truths_by_result) | np.uint8(gap_truths)
        truths = np.where(self.results.nulls, np.uint8(steps.null_truths), truths)
        if self.is_known is not None:
            truths = np.where(self.is_known, truths, np.uint8(ANY_TRUTH))
        return cast("TruthArray", truths)


@dataclass(frozen=True, slots=True, eq=False)
class CalendarDomainArray:
    """The values have calendar fields that are not one interval, such as the month without the year."""

    parts: Mapping[str, PhysicalArray]

    def possible_truths(self, steps: StepFunction) -> TruthArray:
        """Return the truth values that the step function can have, evaluated once per distinct combination."""
        names = tuple(self.parts)
        table = np.stack([p.values for p in self.parts.values()], axis=1)
        combinations, inverse = np.unique(table, axis=0, return_inverse=True)
        calendars = (CalendarDomain(**dict(zip(names, map(int, row), strict=True))) for row in combinations)
        masks = np.array([calendar.possible_truths(steps) for calendar in calendars], np.uint8)
        nulls = np.logical_or.reduce([p.nulls for p in self.parts.values()])
        truths = masks[inverse.ravel()] if len(masks) else _NO_TRUTHS
        return cast("TruthArray", np.where(nulls, np.uint8(steps.null_truths), truths))


DomainArray = IntervalDomainArray | HashDomainArray | CalendarDomainArray

_NO_TRUTHS = np.zeros((), np.uint8)


def _select_where(condition: Bools, value: Any, otherwise: Any) -> Any:
    """Like `np.where`, but fast if the condition is false everywhere, as it is for most columns."""
    return np.where(condition, value, otherwise) if condition.any() else otherwise


def _truths_between(steps: StepFunction, first: Ints, last: Ints) -> TruthArray:
    """Return the union of the truth values from the first to the last segment of each partition."""
    if len(steps.bounds) <= _MAX_COMPARED_BOUNDS:
        return _truths_by_span(steps.truths)[first, last]
    truths = np.zeros(len(first), np.uint8)
    for truth in (TRUE, FALSE, NULL):
        has_truth = [bool(segment_truths & truth) for segment_truths in steps.truths]
        if any(has_truth):
            counts = np.concatenate([[0], np.cumsum(has_truth)])
            truths |= (counts[last + 1] > counts[first]).astype(np.uint8) * np.uint8(truth)
    return truths


@lru_cache(maxsize=256)
def _truths_by_span(truths: tuple[int, ...]) -> TruthArray:
    """Return the union of the truth values from one segment, by rows, to another, by columns."""
    spans = np.zeros((len(truths), len(truths)), np.uint8)
    for index in range(len(truths)):
        spans[index, index:] = np.bitwise_or.accumulate(np.array(truths[index:], np.uint8))
    return spans


def _first_segments(lower: PhysicalArray | None, steps: StepFunction, size: int) -> Ints:
    if lower is None:
        return np.zeros(size, np.int64)
    return cast("Ints", _select_where(lower.nulls, 0, _segment_indices(lower.values, steps.bounds)))


def _segment_indices(values: Any, bounds: tuple[PhysicalValue, ...]) -> Ints:
    """Return `StepFunction.segment_index` of every value."""
    if isinstance(values, np.ndarray) and values.dtype != object and len(bounds) <= _MAX_COMPARED_BOUNDS:
        segments = np.zeros(len(values), np.int64)
        for bound in np.array(bounds, np.int64):
            segments += values > bound
            segments += values >= bound
        return segments
    return _count_bounds_below(values, bounds, bisect_left) + _count_bounds_below(values, bounds, bisect_right)


def _count_bounds_below(values: Any, bounds: tuple[PhysicalValue, ...], side: Callable[..., int]) -> Ints:
    """Count the sorted bounds below each value (`bisect_left`), or below or equal to it (`bisect_right`)."""
    if isinstance(values, np.ndarray):
        return _count_numeric_bounds_below(values, bounds, side)
    texts = values.dictionary
    if len(bounds) > _MAX_COMPARED_BOUNDS:
        return cast(
            "Ints", _decode_dictionary(values, np.array([side(bounds, t) for t in texts.to_pylist()], np.int64))
        )
    exceeds = pc.greater if side is bisect_left else pc.greater_equal
    flags = (exceeds(texts, pa.scalar(bound, texts.type)).to_numpy(zero_copy_only=False) for bound in bounds)
    return cast("Ints", _decode_dictionary(values, sum(flags, np.zeros(len(texts), np.int64))))


def _count_numeric_bounds_below(values: Any, bounds: tuple[PhysicalValue, ...], side: Callable[..., int]) -> Ints:
    sorted_bounds = np.array(bounds, values.dtype if values.dtype == object else np.int64)
    where = "left" if side is bisect_left else "right"
    return np.searchsorted(sorted_bounds, values, where)  # type: ignore[call-overload, no-any-return] # "left" or "right"


def _decode_dictionary(codes: pa.DictionaryArray, value_results: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for every value what was computed for its dictionary entry; the result of a null is undefined."""
    if not len(value_results):
        return np.zeros(len(codes), value_results.dtype)
    return cast("np.ndarray[Any, Any]", value_results[codes.indices.fill_null(0).to_numpy()])


def _value_lengths(texts: pa.Array) -> Ints:
    lengths = pc.utf8_length(texts) if pa.types.is_large_string(texts.type) else pc.binary_length(texts)
    return cast("Ints", lengths.to_numpy(zero_copy_only=False))


def _look_up_truths(values: Any, truths: Mapping[PhysicalValue, int]) -> TruthArray:
    """Return the truth values of each value, 0 for a value that is not in the mapping."""
    if not truths:
        return np.zeros(len(values), np.uint8)
    results = sorted(truths)
    masks = np.array([*(truths[r] for r in results), 0], np.uint8)
    if not isinstance(values, np.ndarray):
        indices = pc.index_in(values.dictionary, value_set=pa.array(results, values.dictionary.type)).fill_null(-1)
        return cast("TruthArray", _decode_dictionary(values, masks[indices.to_numpy()]))
    keys = np.array(results, np.int64)
    indices = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return cast("TruthArray", np.where(keys[indices] == values, masks[indices], 0).astype(np.uint8))


def domains_from_partitions(
    spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch, source_columns: Collection[str]
) -> Iterator[tuple[str, DomainArray]]:
    """Yield what the partition values of a spec say about the given source columns.

    `partitions` has one column per partition field; all of them are checked, also those of other source columns.
    """
    calendar_parts: dict[str, dict[str, tuple[PartitionField, PhysicalArray]]] = {}
    for field in spec.fields:
        transform = field.transform
        if transform.is_void or not transform.is_known:
            continue
        column = partition_column(partitions, field.name)
        is_char = isinstance(field.source_type, CharType)
        if (
            isinstance(field.source_type, CharType)
            and transform.is_identity
            and is_string_type(dense_array(column).type)
        ):
            column = pad_char_values(column, field.source_type)
        results = _field_results(field, spec.family, column)
        if field.source not in source_columns or (is_char and not transform.is_identity):
            continue
        if transform.is_calendar_part(spec.family) and transform.time_unit is not None:
            calendar_parts.setdefault(field.source, {})[transform.time_unit] = (field, results)
        elif isinstance(transform, HashedTransform):
            yield field.source, HashDomainArray(transform, results)
        else:
            yield field.source, preimage_domain(field, results)
    for source, parts in calendar_parts.items():
        units = [unit for unit in CALENDAR_UNITS if unit in parts]
        source_type = parts[units[0]][0].source_type
        yield source, _calendar_domain(source_type, {unit: parts[unit][1] for unit in units})


def _field_results(field: PartitionField, family: TransformFamily, column: Any) -> PhysicalArray:
    try:
        # Iceberg's `day` may be given as dates or as ordinals.
        is_date = pa.types.is_date(column.type)
        results = to_physical_array(column, field.key_type(family) if is_date else field.result_type)
    except PartitionsError as error:
        raise PartitionsError(f"partition field {field.name!r}: {error}") from None
    limits = field.transform.result_range(family) if field.transform.is_calendar_part(family) else None
    if limits is not None and ((results.values < limits.start) | (results.values >= limits.stop))[~results.nulls].any():
        raise PartitionsError(
            f"partition field {field.name!r}: a {field.transform.time_unit} is {limits.start} to {limits.stop - 1}"
        )
    return encode_dictionary(results)


def encode_dictionary(values: PhysicalArray) -> PhysicalArray:
    """Dictionary-encode strings and bytes; numbers stay as they are."""
    return (
        values
        if isinstance(values.values, np.ndarray)
        else PhysicalArray(values.values.dictionary_encode(), values.nulls)
    )


def preimage_domain(field: PartitionField, results: PhysicalArray) -> IntervalDomainArray:
    """Return the intervals of source values that have the given results, for a function that keeps their order."""
    never_null = np.zeros(len(results), bool)
    if field.transform.is_identity or not isinstance(results.values, np.ndarray):
        return IntervalDomainArray(results, results, results.nulls, never_null, field.transform.parameter)
    lower, upper = preimage_bounds(field.transform, results, field.source_type)
    return IntervalDomainArray(
        PhysicalArray(lower, results.nulls), PhysicalArray(upper, results.nulls), results.nulls, never_null
    )


def _calendar_domain(type_: LogicalType, parts: Mapping[str, PhysicalArray]) -> DomainArray:
    """Return one interval if no unit is missing between the year and the shortest one, or for an hour of the day."""
    nulls = np.logical_or.reduce([part.nulls for part in parts.values()])
    values = {unit: np.where(nulls, 1, part.values) for unit, part in parts.items()}
    if type_.kind is TypeKind.TIME:
        lower, upper = calendar_bounds(HourTransform(), values[HOUR], type_)
    elif tuple(parts) == CALENDAR_UNITS[: len(parts)]:
        lower, upper = _contiguous_bounds(type_, **values)
    else:
        return CalendarDomainArray({unit: PhysicalArray(values[unit], nulls) for unit in parts})
    never_null = np.zeros(len(nulls), bool)
    return IntervalDomainArray(PhysicalArray(lower, nulls), PhysicalArray(upper, nulls), nulls, never_null)


def _contiguous_bounds(
    type_: LogicalType, year: Ints, month: Ints | None = None, day: Ints | None = None, hour: Ints | None = None
) -> tuple[Ints, Ints]:
    if month is None:
        return calendar_bounds(YearTransform(), year - 1970, type_)
    if day is None:
        return calendar_bounds(MonthTransform(), (year - 1970) * 12 + month - 1, type_)
    days = days_from_civil(year, month, day)
    if hour is None:
        return calendar_bounds(DayTransform(), days, type_)
    return calendar_bounds(HourTransform(), days * 24 + hour, type_)


def partition_column(partitions: pa.Table | pa.RecordBatch, name: str) -> Any:
    """Return the column with the given name as one array; raise `PartitionsError` if it is missing or not unique."""
    if partitions.schema.names.count(name) > 1:
        raise PartitionsError(f"the partitions have the column {name!r} twice")
    if name not in partitions.schema.names:
        raise PartitionsError(
            f"the partitions have no column {name!r}; they have {', '.join(partitions.schema.names) or 'none'}"
        )
    return combine_chunks(partitions.column(name))
