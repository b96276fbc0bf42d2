"""Cron schedules: five fields (minute, hour, day of month, month, day of week) and the moments they name in a zone.

Fields are `*`, numbers, names of months and days, lists, ranges and steps; `@hourly`, `@daily`, `@weekly`, `@monthly`
and `@yearly` are schedules too. Where both days are restricted, either is enough, as cron has always had it. A time
that the clocks skip counts as long after as they skip; one that they repeat counts once, unless the schedule has every
hour. A schedule that names no day that there is is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from partita.algebra.plain import micros_of
from partita.algebra.windows import zone
from partita.errors import DefinitionError, value_repr

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_Form: TypeAlias = tuple[str, int, int, tuple[str, ...]]
_FIELDS: tuple[_Form, ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_MINUTE = 60_000_000
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIRST, _LAST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)
"""Between these, every zone has a calendar."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule in a time zone."""

    text: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise DefinitionError(f"a cron schedule is text, not {value_repr(self.text)}")
        _parsed(self.text)
        zone(self.time_zone)

    def ticks(self, first: datetime, last: datetime) -> list[int]:
        """The moments from `first` to `last`, both included, in microseconds from 1970."""
        minutes, hours, *_ = _parsed(self.text)
        first, last = max(first, _FIRST), min(last, _LAST)
        low, high = micros_of(first), micros_of(last)
        found: set[int] = set()
        day = first.astimezone(zone(self.time_zone)).date() - timedelta(days=1)
        until = last.astimezone(zone(self.time_zone)).date() + timedelta(days=1)
        while day <= until:
            if self._has(day):
                found.update(self._of_day(day, minutes, hours))
            day += timedelta(days=1)
        return sorted(tick for tick in found if low <= tick <= high)

    def following(self, after: datetime, count: int, last: datetime) -> list[int]:
        """The first so many moments after one, as far as they come until `last`."""
        until, days = after, 2
        found: list[int] = []
        while until < last and len(found) < count:
            until = last if (last - after).days < days else after + timedelta(days=days)
            found = self.ticks(after + timedelta(microseconds=1), until)
            days *= 8
        return found[:count]

    def _has(self, day: date) -> bool:
        _, _, of_month, months, of_week = _parsed(self.text)
        if day.month not in months:
            return False
        of_week = frozenset(one % 7 for one in of_week)
        words = _words(self.text)
        by_month, by_week = day.day in of_month, day.isoweekday() % 7 in of_week
        restricted = not words[2].startswith("*") and not words[4].startswith("*")
        return by_month or by_week if restricted else by_month and by_week

    def _of_day(self, day: date, minutes: frozenset[int], hours: frozenset[int]) -> list[int]:
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone(self.time_zone))
        next_one = midnight + timedelta(days=1)
        if midnight.utcoffset() == next_one.utcoffset():
            start = micros_of(midnight)
            return [start + (hour * 60 + minute) * _MINUTE for hour in hours for minute in minutes]
        times = [midnight.replace(hour=hour, minute=minute) for hour in hours for minute in minutes]
        if len(hours) == 24:
            times += [again for time in times if _is_repeated(time, again := time.replace(fold=1))]
        return [micros_of(time.astimezone(UTC)) for time in times]


def _is_repeated(time: datetime, again: datetime) -> bool:
    """Whether clocks show a time a second time. Of one that they skip, the second reading is before the skip."""
    return again.astimezone(UTC) > time.astimezone(UTC)


def _words(text: str) -> list[str]:
    return _NAMED.get(text.strip().lower(), text).split()


@lru_cache(maxsize=64)
def _parsed(text: str) -> list[frozenset[int]]:
    words = _words(text)
    if len(words) != len(_FIELDS):
        raise DefinitionError(f"{text!r} is no cron schedule: it has {len(words)} fields, and not five")
    found = [_read(text, word, form) for word, form in zip(words, _FIELDS, strict=True)]
    _, _, of_month, months, _ = found
    by_week = not words[2].startswith("*") and not words[4].startswith("*")
    if not by_week and not any(min(of_month) <= _LENGTHS[month - 1] for month in months):
        raise DefinitionError(f"{text!r} is no cron schedule: no month that it names has such a day")
    return found


def _read(text: str, word: str, form: _Form) -> frozenset[int]:
    name, low, high, names = form
    found: set[int] = set()
    for part in word.lower().split(","):
        body, slash, step = part.partition("/")
        first, dash, last = body.partition("-")
        try:
            if body == "*":
                start, stop = low, high
            else:
                start = _number(first, low, names)
                stop = _number(last, low, names) if dash else high if slash else start
                # A week that ends on Sunday has it as its seventh day.
                stop = 7 if names is _DAYS and last == "sun" and start else stop
            every = _digits(step) if slash else 1
        except ValueError:
            raise DefinitionError(f"{text!r} is no cron schedule: {part!r} is no {name}") from None
        if not low <= start <= stop <= high or every < 1:
            raise DefinitionError(f"{text!r} is no cron schedule: {part!r} is no {name} of {low} to {high}")
        found.update(range(start, stop + 1, every))
    return frozenset(found)


def _number(word: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(word) + (low if names is _MONTHS else 0) if word in names else _digits(word)


_MAX_DIGITS = 9


def _digits(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= _MAX_DIGITS):
        raise ValueError(word)
    return int(word)
