"""What is known of a column's values in one partition or file, and what a predicate can be there.

Partition fields and the statistics of files say the same kind of thing: the values lie in an interval, and null is
there always, never or perhaps. Two things more come from partition fields alone: the values have this hash, and the
values have these parts of the calendar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import cast

from partita.algebra.calendar import DAY, HOUR, civil_from_days, days_from_civil
from partita.algebra.hashing import plain_hash
from partita.algebra.plain import Plain, to_plain
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.steps import Steps
from partita.algebra.transforms import Family, Range, Transform, preimage
from partita.algebra.types import DATE, FLOATS, CharType, Kind, LogicalType
from partita.errors import PartitionsError, SchemaError


class Nulls(Enum):
    """Whether null is among the values."""

    NEVER = "never"
    ALWAYS = "always"
    PERHAPS = "perhaps"


EVERYWHERE = Range()


@dataclass(frozen=True, slots=True)
class Within:
    """The values lie in an interval."""

    range: Range = EVERYWHERE
    nulls: Nulls = Nulls.PERHAPS

    def possible(self, steps: Steps) -> int:
        """What the step function can be."""
        if self.nulls is Nulls.ALWAYS:
            return steps.at_null
        return steps.over(self.range) | (steps.at_null if self.nulls is Nulls.PERHAPS else 0)


@dataclass(frozen=True, slots=True)
class Hashed:
    """The values have this bucket or hash; none is null."""

    transform: Transform
    result: Plain

    def possible(self, steps: Steps) -> int:
        """What the step function can be: each gap holds values of every hash, a bound has its own."""
        gaps = reduce(or_, steps.answers[::2], 0)
        at_bounds = zip(steps.bounds, steps.answers[1::2], strict=True)
        return reduce(or_, (a for b, a in at_bounds if hashed(self.transform, b, steps.type) == self.result), gaps)


def hashed(transform: Transform, plain: Plain, type_: LogicalType) -> Plain:
    """Bucket or hash of a plain value."""
    code = plain_hash(plain, type_)
    return f"{code & 0xFFFF_FFFF:08x}" if transform.width is None else (code & 0x7FFF_FFFF) % transform.width


@dataclass(frozen=True, slots=True)
class Calendar:
    """The values have these parts of the calendar, some of them perhaps unknown; none is null."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    hour: int | None = None

    def possible(self, steps: Steps) -> int:
        """What the step function can be."""
        whole = self.whole(steps.type)
        if whole is not None:
            return steps.over(whole)
        answers = 0
        for place, answer in enumerate(steps.answers):
            if answer & ~answers and self.meets(_ends(steps, place), steps.type):
                answers |= answer
        return answers

    def whole(self, type_: LogicalType) -> Range | None:
        """The one interval that the parts make where none is missing between the year and the finest, or None."""
        known = [self.year, self.month, self.day, self.hour]
        finest = max((at for at, part in enumerate(known) if part is not None), default=-1)
        if type_.kind is Kind.TIME:
            return None if self.hour is None else Range(self.hour * HOUR, (self.hour + 1) * HOUR - 1)
        if None in known[: finest + 1]:
            return None
        first, after = _window(self.year, self.month, self.day, self.hour)
        return _in_units(first, after, type_)

    def meets(self, ends: tuple[int | None, int | None], type_: LogicalType) -> bool:
        """Whether some value with these parts lies between the ends, which belong to the interval."""
        unit = DAY if type_.kind is Kind.DATE else 1
        lower, upper = (None if end is None else end * unit for end in ends)
        if upper is not None and type_.kind is Kind.DATE:
            upper += DAY - 1
        return self._meets(lower, upper, _years(self.year, lower, upper))

    def _meets(self, lower: int | None, upper: int | None, years: Iterable[int]) -> bool:
        days = (
            day for year in years for day in _days(year, self.month, self.day) if _overlap(day * DAY, DAY, lower, upper)
        )
        hours = range(24) if self.hour is None else (self.hour,)
        return any(_overlap(day * DAY + hour * HOUR, HOUR, lower, upper) for day in days for hour in hours)


def _years(year: int | None, lower: int | None, upper: int | None) -> Iterable[int]:
    """The years to try; eight in a row hold each date of the calendar, a leap day skipped in a century included."""
    if year is not None:
        return (year,)
    first = None if lower is None else civil_from_days(lower // DAY)[0]
    last = None if upper is None else civil_from_days(upper // DAY)[0]
    if first is None:
        return range(2000, 2010) if last is None else range(last - 9, last + 1)
    return range(first, first + 10 if last is None else min(first + 10, last + 1))


def _days(year: int, month: int | None, day: int | None) -> Iterable[int]:
    for m in range(1, 13) if month is None else (month,):
        first, after = _window(year, m, None, None)
        if day is None:
            yield from range(first // DAY, after // DAY)
        elif first // DAY + day - 1 < after // DAY:
            yield first // DAY + day - 1


def _overlap(start: int, length: int, lower: int | None, upper: int | None) -> bool:
    return (upper is None or start <= upper) and (lower is None or lower < start + length)


def _window(year: int | None, month: int | None, day: int | None, hour: int | None) -> tuple[int, int]:
    """The microseconds of a year, month, day or hour, the last one excluded."""
    year = year or 0
    if month is None:
        return days_from_civil(year, 1, 1) * DAY, days_from_civil(year + 1, 1, 1) * DAY
    if day is None:
        return days_from_civil(year, month, 1) * DAY, days_from_civil(year + month // 12, month % 12 + 1, 1) * DAY
    start = days_from_civil(year, month, day) * DAY
    return (start, start + DAY) if hour is None else (start + hour * HOUR, start + (hour + 1) * HOUR)


def _in_units(first: int, after: int, type_: LogicalType) -> Range:
    return Range(first // DAY, after // DAY - 1) if type_.kind is Kind.DATE else Range(first, after - 1)


def _ends(steps: Steps, place: int) -> tuple[int | None, int | None]:
    """The first and the last whole number of a place."""
    at = place // 2
    if place % 2:
        return steps.bounds[at], steps.bounds[at]  # type: ignore[return-value] # days or microseconds
    lower = steps.bounds[at - 1] + 1 if at else None  # type: ignore[operator] # the same
    return lower, steps.bounds[at] - 1 if at < len(steps.bounds) else None  # type: ignore[operator] # the same


Fact = Within | Hashed | Calendar
Facts = Mapping[str, tuple[Fact, ...]]
"""What is known of each column; of one that is missing, nothing is."""

_YEARS = range(-(2**31), 2**31)
CALENDAR_PARTS = {"year": _YEARS, "month": range(1, 13), "day": range(1, 32), "hour": range(24)}
"""The parts of the calendar that partition fields hold, and the values that each can have."""


def facts_of(spec: PartitionSpec, values: Mapping[str, object]) -> Facts:
    """What a partition's values, by field name, say of the source columns."""
    facts: dict[str, tuple[Fact, ...]] = {}
    for source in dict.fromkeys(f.source for f in spec.fields):
        fields = [f for f in spec.fields if f.source == source]
        facts[source] = tuple(_facts_of_column(fields, spec.family, values))
    return facts


def within_bounds(lower: object, upper: object, nulls: Nulls, type_: LogicalType) -> Within:
    """What a file's statistics say of a column: None is an end that isn't known.

    Statistics leave NaN out, which sorts above all else, so a float column has no upper end; where a writer made NaN an
    end all the same, that end says nothing.
    """
    ends = [None if end is None or end != end else to_plain(end, type_) for end in (lower, upper)]  # noqa: PLR0124
    if isinstance(type_, CharType) and isinstance(ends[1], str):
        # Values are read padded, whether or not they are in the file; below the space, that may reorder them.
        ends[1] = ends[1].ljust(type_.length) if min(ends[1], default=" ") >= " " else None
    return Within(Range(ends[0], None if type_.kind in FLOATS else ends[1]), nulls)


def is_calendar_part(field: PartitionField, family: Family) -> bool:
    """Whether a field holds a part of the calendar, which the others on its column complete."""
    return family is Family.LANCE and field.transform.name in CALENDAR_PARTS


def result_plain(field: PartitionField, family: Family, value: object) -> Plain:
    """The plain value of a field's result; Iceberg's day may come as a date or as its ordinal."""
    try:
        if field.transform.name == "day" and family is Family.ICEBERG and not isinstance(value, int):
            return to_plain(value, DATE)
        plain = to_plain(value, field.result_type)
    except SchemaError as error:
        raise PartitionsError(f"partition field {field.name!r}: {error}") from None
    legal = CALENDAR_PARTS.get(field.transform.name) if is_calendar_part(field, family) else None
    if legal is not None and plain not in legal:
        raise PartitionsError(f"partition field {field.name!r}: there is no {field.transform.name} {plain!r}")
    return plain


def _facts_of_column(fields: list[PartitionField], family: Family, values: Mapping[str, object]) -> Iterable[Fact]:
    parts: dict[str, int] = {}
    for field in fields:
        if field.transform.name == "void" or not field.transform.known:
            continue
        if field.name not in values:
            raise PartitionsError(f"the partition has no value for its field {field.name!r}")
        value = values[field.name]
        if value is None:
            yield Within(nulls=Nulls.ALWAYS)
            continue
        plain = result_plain(field, family, value)
        if isinstance(field.source_type, CharType):
            if field.transform.name != "identity":
                continue
            plain = cast("str", plain).ljust(field.source_type.length)
        if is_calendar_part(field, family):
            parts[field.transform.name] = plain  # type: ignore[assignment] # parts are ints
        elif field.transform.name in ("bucket", "hash"):
            yield Hashed(field.transform, plain)
        else:
            yield Within(preimage(field.transform, plain, field.source_type, family) or EVERYWHERE, Nulls.NEVER)
    if parts:
        yield Calendar(**parts)


def possible(steps: Steps, facts: Facts) -> int:
    """What the step function can be where all that is known of its column holds."""
    return reduce(and_, (fact.possible(steps) for fact in (Within(), *facts.get(steps.column, ()))))
