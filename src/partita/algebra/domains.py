"""Domains: which values a column can have in one partition or file, and which truth values a predicate can have there.

Partition fields and file statistics both bound the values by an interval and say whether null is among them. Partition
fields can say two more things: all values have a given hash, or given calendar fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import cast

from partita.algebra.calendar import MICROS_PER_DAY, MICROS_PER_HOUR, civil_from_days, days_from_civil
from partita.algebra.hashing import physical_hash
from partita.algebra.interval import UNBOUNDED, Interval
from partita.algebra.physical_values import PhysicalValue, to_physical_value
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.step_function import StepFunction
from partita.algebra.transforms import HashedTransform, TransformFamily
from partita.algebra.types import CharType, LogicalType, TypeKind
from partita.errors import PartitionsError, SchemaError


class NullPresence(Enum):
    """Whether null is among the values of a column."""

    NEVER = "never"
    ALWAYS = "always"
    POSSIBLE = "perhaps"


@dataclass(frozen=True, slots=True)
class IntervalDomain:
    """The values lie in an interval."""

    interval: Interval = UNBOUNDED
    null_presence: NullPresence = NullPresence.POSSIBLE

    def possible_truths(self, steps: StepFunction) -> int:
        """Return the truth values that the step function can have."""
        if self.null_presence is NullPresence.ALWAYS:
            return steps.null_truths
        return steps.truths_in(self.interval) | (
            steps.null_truths if self.null_presence is NullPresence.POSSIBLE else 0
        )


@dataclass(frozen=True, slots=True)
class HashDomain:
    """The values have a bucket or hash in common; none is null."""

    transform: HashedTransform
    result: PhysicalValue

    def possible_truths(self, steps: StepFunction) -> int:
        """Return the truth values that the step function can have; a gap holds values of every hash."""
        gaps = reduce(or_, steps.truths[::2], 0)
        at_bounds = zip(steps.bounds, steps.truths[1::2], strict=True)
        return reduce(or_, (a for b, a in at_bounds if self._result_of(b, steps.type) == self.result), gaps)

    def _result_of(self, value: PhysicalValue, type_: LogicalType) -> PhysicalValue:
        return self.transform.result_of_hash(physical_hash(value, type_))


@dataclass(frozen=True, slots=True)
class CalendarDomain:
    """The values have the given calendar fields, of which some may be unknown (None); none is null."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    hour: int | None = None

    def possible_truths(self, steps: StepFunction) -> int:
        """Return the truth values that the step function can have."""
        interval = self.contiguous_interval(steps.type)
        if interval is not None:
            return steps.truths_in(interval)
        truths_so_far = 0
        for segment, truths in enumerate(steps.truths):
            if truths & ~truths_so_far and self.has_value_between(_segment_limits(steps, segment), steps.type):
                truths_so_far |= truths
        return truths_so_far

    def contiguous_interval(self, type_: LogicalType) -> Interval | None:
        """Return the values as one interval if no unit is missing between the year and the shortest one, else None."""
        units = [self.year, self.month, self.day, self.hour]
        shortest_unit = max((index for index, value in enumerate(units) if value is not None), default=-1)
        if type_.kind is TypeKind.TIME:
            return (
                None
                if self.hour is None
                else Interval(self.hour * MICROS_PER_HOUR, (self.hour + 1) * MICROS_PER_HOUR - 1)
            )
        if None in units[: shortest_unit + 1]:
            return None
        first, after = _period_micros(self.year, self.month, self.day, self.hour)
        return _interval_from_micros(first, after, type_)

    def has_value_between(self, limits: tuple[int | None, int | None], type_: LogicalType) -> bool:
        """Return whether a value with these calendar fields lies between the limits, which are included."""
        unit = MICROS_PER_DAY if type_.kind is TypeKind.DATE else 1
        lower, upper = (None if end is None else end * unit for end in limits)
        if upper is not None and type_.kind is TypeKind.DATE:
            upper += MICROS_PER_DAY - 1
        return self._has_value_in_years(lower, upper, _candidate_years(self.year, lower, upper))

    def _has_value_in_years(self, lower: int | None, upper: int | None, years: Iterable[int]) -> bool:
        days = (
            day
            for year in years
            for day in _candidate_days(year, self.month, self.day)
            if _is_overlapping(day * MICROS_PER_DAY, MICROS_PER_DAY, lower, upper)
        )
        hours = range(24) if self.hour is None else (self.hour,)
        return any(
            _is_overlapping(day * MICROS_PER_DAY + hour * MICROS_PER_HOUR, MICROS_PER_HOUR, lower, upper)
            for day in days
            for hour in hours
        )


def _candidate_years(year: int | None, lower: int | None, upper: int | None) -> Iterable[int]:
    """Return the years to try: eight in a row contain every date, also around a century without a leap day."""
    if year is not None:
        return (year,)
    first = None if lower is None else civil_from_days(lower // MICROS_PER_DAY)[0]
    last = None if upper is None else civil_from_days(upper // MICROS_PER_DAY)[0]
    if first is None:
        return range(2000, 2010) if last is None else range(last - 9, last + 1)
    return range(first, first + 10 if last is None else min(first + 10, last + 1))


def _candidate_days(year: int, month: int | None, day: int | None) -> Iterable[int]:
    for m in range(1, 13) if month is None else (month,):
        first, after = _period_micros(year, m, None, None)
        if day is None:
            yield from range(first // MICROS_PER_DAY, after // MICROS_PER_DAY)
        elif first // MICROS_PER_DAY + day - 1 < after // MICROS_PER_DAY:
            yield first // MICROS_PER_DAY + day - 1


def _is_overlapping(start: int, length: int, lower: int | None, upper: int | None) -> bool:
    return (upper is None or start <= upper) and (lower is None or lower < start + length)


def _period_micros(year: int | None, month: int | None, day: int | None, hour: int | None) -> tuple[int, int]:
    """Return the start and the end of a year, month, day or hour in microseconds, the end excluded."""
    year = year or 0
    if month is None:
        return days_from_civil(year, 1, 1) * MICROS_PER_DAY, days_from_civil(year + 1, 1, 1) * MICROS_PER_DAY
    if day is None:
        return days_from_civil(year, month, 1) * MICROS_PER_DAY, days_from_civil(
            year + month // 12, month % 12 + 1, 1
        ) * MICROS_PER_DAY
    start = days_from_civil(year, month, day) * MICROS_PER_DAY
    return (
        (start, start + MICROS_PER_DAY)
        if hour is None
        else (start + hour * MICROS_PER_HOUR, start + (hour + 1) * MICROS_PER_HOUR)
    )


def _interval_from_micros(first: int, after: int, type_: LogicalType) -> Interval:
    return (
        Interval(first // MICROS_PER_DAY, after // MICROS_PER_DAY - 1)
        if type_.kind is TypeKind.DATE
        else Interval(first, after - 1)
    )


def _segment_limits(steps: StepFunction, segment: int) -> tuple[int | None, int | None]:
    """Return the first and the last integer of a segment."""
    index = segment // 2
    if segment % 2:
        return steps.bounds[index], steps.bounds[index]  # type: ignore[return-value] # days or microseconds
    lower = steps.bounds[index - 1] + 1 if index else None  # type: ignore[operator] # the same
    return lower, steps.bounds[index] - 1 if index < len(steps.bounds) else None  # type: ignore[operator] # the same


Domain = IntervalDomain | HashDomain | CalendarDomain
ColumnDomains = Mapping[str, tuple[Domain, ...]]
"""What is known about each column; nothing about a column that is missing."""


def domains_from_partition(spec: PartitionSpec, values: Mapping[str, object]) -> ColumnDomains:
    """Return what the values of a partition, by field name, say about the source columns."""
    domains: dict[str, tuple[Domain, ...]] = {}
    for source in dict.fromkeys(f.source for f in spec.fields):
        fields = [f for f in spec.fields if f.source == source]
        domains[source] = tuple(_domains_of_column(fields, spec.family, values))
    return domains


def physical_result(field: PartitionField, family: TransformFamily, value: object) -> PhysicalValue:
    """Return the physical value of a partition field's value; raise `PartitionsError` if it is out of range."""
    try:
        # Iceberg's `day` may be given as a date or as its ordinal.
        result = to_physical_value(value, field.result_type if isinstance(value, int) else field.key_type(family))
    except SchemaError as error:
        raise PartitionsError(f"partition field {field.name!r}: {error}") from None
    limits = field.transform.result_range(family)
    if field.transform.is_calendar_part(family) and limits is not None and result not in limits:
        raise PartitionsError(f"partition field {field.name!r}: there is no {field.transform.time_unit} {result!r}")
    return result


def _domains_of_column(
    fields: list[PartitionField], family: TransformFamily, values: Mapping[str, object]
) -> Iterable[Domain]:
    calendar_fields: dict[str, int] = {}
    for field in fields:
        transform = field.transform
        if transform.is_void or not transform.is_known:
            continue
        if field.name not in values:
            raise PartitionsError(f"the partition has no value for its field {field.name!r}")
        value = values[field.name]
        if value is None:
            yield IntervalDomain(null_presence=NullPresence.ALWAYS)
            continue
        result = physical_result(field, family, value)
        if isinstance(field.source_type, CharType):
            if not transform.is_identity:
                continue
            result = cast("str", result).ljust(field.source_type.length)
        if transform.is_calendar_part(family) and transform.time_unit is not None:
            calendar_fields[transform.time_unit] = cast("int", result)
        elif isinstance(transform, HashedTransform):
            yield HashDomain(transform, result)
        else:
            interval = transform.preimage(result, field.source_type, family)
            yield IntervalDomain(UNBOUNDED if interval is None else interval, NullPresence.NEVER)
    if calendar_fields:
        yield CalendarDomain(**calendar_fields)


def step_function_truths(steps: StepFunction, domains: ColumnDomains) -> int:
    """Return the truth values that the step function can have, given all domains of its column."""
    column_domains = (IntervalDomain(), *domains.get(steps.column, ()))
    return reduce(and_, (domain.possible_truths(steps) for domain in column_domains))
