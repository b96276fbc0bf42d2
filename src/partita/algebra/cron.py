"""Cron schedules: five fields (minute, hour, day of month, month, day of week), evaluated in a time zone.

A field is `*`, a number, a name of a month or a weekday, a list, a range or a step; `@hourly`, `@daily`, `@weekly`,
`@monthly` and `@yearly` are schedules too. If both day fields are restricted, a day has to match only one of them, as
in cron. A local time that the clocks skip is shifted by the length of the gap; one that they repeat counts once, unless
the schedule runs every hour. A schedule that can never match a day is refused.

croniter and cronsim treat these clock changes in other ways: a skipped time runs at the end of the gap, a repeated one
twice (croniter), and a gap of half an hour loses a tick of an hourly schedule (both). So this module evaluates
schedules itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from partita.algebra.physical_values import datetime_to_micros
from partita.algebra.time_windows import definition_time_zone
from partita.errors import DefinitionError, value_repr

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FieldFormat: TypeAlias = tuple[str, int, int, tuple[str, ...]]
_FIELDS: tuple[_FieldFormat, ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_MICROS_PER_MINUTE = 60_000_000
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MIN_INSTANT, _MAX_INSTANT = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""Between these instants, the local time of every zone is within the years that Python has."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A cron schedule in a time zone."""

    text: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DefinitionError(f"a cron schedule must be a string, not {value_repr(self.text)}")
        _parse_schedule(self.text)
        definition_time_zone(self.time_zone)

    def ticks(self, first: datetime, last: datetime) -> list[int]:
        """Return the ticks from `first` to `last`, both included, in microseconds since 1970."""
        minutes, hours, *_ = _parse_schedule(self.text)
        first, last = max(first, _MIN_INSTANT), min(last, _MAX_INSTANT)
        low, high = datetime_to_micros(first), datetime_to_micros(last)
        ticks: set[int] = set()
        day = first.astimezone(definition_time_zone(self.time_zone)).date() - timedelta(days=1)
        until = last.astimezone(definition_time_zone(self.time_zone)).date() + timedelta(days=1)
        while day <= until:
            if self._has_day(day):
                ticks.update(self._ticks_of_day(day, minutes, hours))
            day += timedelta(days=1)
        return sorted(tick for tick in ticks if low <= tick <= high)

    def next_ticks(self, after: datetime, count: int, last: datetime) -> list[int]:
        """Return the first `count` ticks after a moment, or fewer if `last` comes before."""
        until, days = after, 2
        ticks: list[int] = []
        while until < last and len(ticks) < count:
            until = last if (last - after).days < days else after + timedelta(days=days)
            ticks = self.ticks(after + timedelta(microseconds=1), until)
            days *= 8
        return ticks[:count]

    def _has_day(self, day: date) -> bool:
        _, _, month_days, months, week_days = _parse_schedule(self.text)
        if day.month not in months:
            return False
        in_month = day.day in month_days
        in_week = day.isoweekday() % 7 in {week_day % 7 for week_day in week_days}
        return in_month or in_week if _has_two_day_conditions(_field_texts(self.text)) else in_month and in_week

    def _ticks_of_day(self, day: date, minutes: frozenset[int], hours: frozenset[int]) -> list[int]:
        midnight = datetime(day.year, day.month, day.day, tzinfo=definition_time_zone(self.time_zone))
        next_midnight = midnight + timedelta(days=1)
        if midnight.utcoffset() == next_midnight.utcoffset():
            start = datetime_to_micros(midnight)
            return [start + (hour * 60 + minute) * _MICROS_PER_MINUTE for hour in hours for minute in minutes]
        times = [midnight.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
        if len(hours) == 24:
            times += [second for time in times if _is_repeated_time(time, second := time.replace(fold=1))]
        return [datetime_to_micros(time.astimezone(UTC)) for time in times]


def _is_repeated_time(time: datetime, second: datetime) -> bool:
    """Return whether clocks show a local time twice; for a time that they skip, fold 1 is before fold 0."""
    return second.astimezone(UTC) > time.astimezone(UTC)


def _field_texts(text: str) -> list[str]:
    return _MACROS.get(text.strip().lower(), text).split()


def _has_two_day_conditions(field_texts: list[str]) -> bool:
    return not field_texts[2].startswith("*") and not field_texts[4].startswith("*")


@lru_cache(maxsize=64)
def _parse_schedule(text: str) -> list[frozenset[int]]:
    field_texts = _field_texts(text)
    if len(field_texts) != len(_FIELDS):
        raise DefinitionError(f"{text!r} is not a cron schedule: it has {len(field_texts)} fields instead of five")
    fields = [_parse_field(text, field_text, field) for field_text, field in zip(field_texts, _FIELDS, strict=True)]
    _, _, month_days, months, _ = fields
    has_day = any(min(month_days) <= _MONTH_LENGTHS[month - 1] for month in months)
    if not has_day and not _has_two_day_conditions(field_texts):
        raise DefinitionError(f"{text!r} is not a cron schedule: none of its months has such a day")
    return fields


def _parse_field(text: str, field_text: str, field: _FieldFormat) -> frozenset[int]:
    name, low, high, names = field
    values: set[int] = set()
    for part in field_text.lower().split(","):
        body, slash, step = part.partition("/")
        first, dash, last = body.partition("-")
        try:
            if body == "*":
                start, stop = low, high
            else:
                start = _parse_value(first, low, names)
                stop = _parse_value(last, low, names) if dash else high if slash else start
                # A range that ends on Sunday ends on day 7.
                stop = 7 if names is _DAYS and last == "sun" and start else stop
            increment = _parse_digits(step) if slash else 1
        except ValueError:
            raise DefinitionError(f"{text!r} is not a cron schedule: {part!r} is not a {name}") from None
        if not low <= start <= stop <= high or increment < 1:
            raise DefinitionError(f"{text!r} is not a cron schedule: {part!r} is not a {name} from {low} to {high}")
        values.update(range(start, stop + 1, increment))
    return frozenset(values)


def _parse_value(word: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(word) + (low if names is _MONTHS else 0) if word in names else _parse_digits(word)


_MAX_DIGITS = 9


def _parse_digits(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _MAX_DIGITS):
        raise ValueError(word)
    return int(word)
