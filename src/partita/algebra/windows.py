"""Time windows: the hours, days, weeks and months by which a dimension is partitioned.

A window has a number, its ordinal, a value under which it stands in keys, and two instants: where it starts and where
the next one does. Days, weeks and months are those of a calendar in a time zone, so that a day may have 23 or 25 hours;
hours are 3,600 seconds each.

| unit | value in a key | ordinal |
|---|---|---|
| hour | timestamp of its start, in UTC | hours from 1970 |
| day | date | days from 1970-01-01 |
| week | date of its Monday | weeks from 1969-12-29 |
| month | date of its first day | months from January 1970 |
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from partita.algebra.key import checked_name
from partita.algebra.key_text import KeyValue
from partita.algebra.plain import EPOCH_DAY, days_of
from partita.algebra.time_zones import rules_of
from partita.errors import DefinitionError, TimeZoneError

HOUR, DAY, WEEK, MONTH = "hour", "day", "week", "month"
UNITS = (HOUR, DAY, WEEK, MONTH)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_HOUR = timedelta(hours=1)
_MICRO = timedelta(microseconds=1)
_MONDAY = 3
"""1970-01-01 was a Thursday."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one unit from `start` on, up to `end` where there is one.

    `start` and `end` are naive and count in the time zone; a window belongs to the set when it starts at `start` or
    later and is over at `end`. `offset` moves the start of every window.
    """

    dimension: str
    unit: str
    start: datetime
    end: datetime | None = None
    time_zone: str = "UTC"
    offset: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        checked_name(self.dimension)
        if self.unit not in UNITS:
            raise DefinitionError(f"no unit {self.unit!r} of time windows; the units are {', '.join(UNITS)}")
        zone(self.time_zone)

    @property
    def grid(self) -> tuple[str, str, timedelta]:
        """What says where windows start; two sets of one grid have the same windows."""
        return self.unit, self.time_zone, self.offset

    def value(self, ordinal: int) -> KeyValue:
        """The value under which a window stands in keys."""
        if self.unit == HOUR:
            return self.starts_at(ordinal)
        return self._date(ordinal)

    def ordinal(self, value: object) -> int | None:
        """The window of a value; None where no window has it."""
        if self.unit == HOUR:
            if not isinstance(value, datetime) or value.utcoffset() is None:
                return None
            whole, rest = divmod(value - _EPOCH - self._phase(), _ONE_HOUR)
            return None if rest else whole
        if not isinstance(value, date) or isinstance(value, datetime):
            return None
        found = self._ordinal_of_date(value)
        return found if self._date(found) == value else None

    def ordinal_at(self, instant: datetime) -> int:
        """The window that an instant is in."""
        if self.unit == HOUR:
            return (instant - _EPOCH - self._phase()) // _ONE_HOUR
        local = instant.replace(tzinfo=None)
        with suppress(OverflowError):
            local = instant.astimezone(zone(self.time_zone)).replace(tzinfo=None) - self.offset
        guess = self._ordinal_of_date(local.date())
        # An hour that the clock skips or repeats can put the guess one off.
        while not self._has_started(guess, instant):
            guess -= 1
        while self._has_started(guess + 1, instant):
            guess += 1
        return guess

    def starts_at(self, ordinal: int) -> datetime:
        """The instant at which a window starts, in UTC; that is where the one before it ends."""
        if self.unit == HOUR:
            return _EPOCH + self._phase() + ordinal * _ONE_HOUR
        start = self._date(ordinal)
        return _instant(datetime(start.year, start.month, start.day) + self.offset, self.time_zone)  # noqa: DTZ001

    def expected(self, now: datetime) -> range:
        """The windows of the set that are over at `now`."""
        first = self._first()
        until = now if self.end is None else min(now, _nearest_instant(self.end, self.time_zone))
        return range(first, max(first, self.ordinal_at(until)))

    def is_later(self, ordinal: int, now: datetime) -> bool:
        """Whether a window belongs to the set and is not over at `now`."""
        whole = self.end is None or self.starts_at(ordinal + 1) <= _instant(self.end, self.time_zone)
        return whole and ordinal >= self.expected(now).stop

    def is_empty(self, ordinal: int) -> bool:
        """Whether a window has no time in it: a day that a zone left out when it changed sides of the date line."""
        is_steady = self.unit != DAY or self.time_zone == "UTC"
        return not is_steady and self.starts_at(ordinal) == self.starts_at(ordinal + 1)

    def overlapping(self, other: Windows, first: int, last: int) -> range:
        """The windows of this set that overlap with those of another, from its `first` to its `last`."""
        if self.grid == other.grid:
            return range(first, last + 1)
        return range(self.ordinal_at(other.starts_at(first)), self.ordinal_at(other.starts_at(last + 1) - _MICRO) + 1)

    def document(self) -> dict[str, Any]:
        """The set as JSON."""
        return {
            "dimension": self.dimension,
            "windows": self.unit,
            "start": self.start.isoformat(),
            "end": None if self.end is None else self.end.isoformat(),
            "time_zone": self.time_zone,
            "offset": self.offset.total_seconds(),
        }

    def _has_started(self, ordinal: int, instant: datetime) -> bool:
        """Whether a window starts at an instant or before it; one may start before the year 1 or after 9999."""
        try:
            return self.starts_at(ordinal) <= instant
        except (ValueError, OverflowError):
            return ordinal < 0

    def _first(self) -> int:
        """The first window that starts at the set's start or later."""
        start = _nearest_instant(self.start, self.time_zone)
        found = self.ordinal_at(start)
        with suppress(ValueError, OverflowError):
            return found if self.starts_at(found) == start else found + 1
        return found + 1

    def _phase(self) -> timedelta:
        """How far behind the hour of UTC the hours of the zone start."""
        local = self.start.replace(tzinfo=zone(self.time_zone)).utcoffset() or timedelta(0)
        return (self.offset - local) % _ONE_HOUR

    def _ordinal_of_date(self, day: date) -> int:
        if self.unit == MONTH:
            return (day.year - 1970) * 12 + day.month - 1
        return days_of(day) if self.unit == DAY else (days_of(day) + _MONDAY) // 7

    def _date(self, ordinal: int) -> date:
        if self.unit == MONTH:
            return date(1970 + ordinal // 12, ordinal % 12 + 1, 1)
        return date.fromordinal(EPOCH_DAY + (ordinal if self.unit == DAY else ordinal * 7 - _MONDAY))


def windows_of(document: dict[str, Any]) -> Windows:
    """The set that `Windows.document` gave."""
    return Windows(
        document["dimension"],
        document["windows"],
        datetime.fromisoformat(document["start"]),
        None if document["end"] is None else datetime.fromisoformat(document["end"]),
        document["time_zone"],
        timedelta(seconds=document["offset"]),
    )


def zone(name: str) -> tzinfo:
    """The rules of the time zone of that name; a name that none has is a `DefinitionError`."""
    try:
        return rules_of(name)
    except TimeZoneError as error:
        raise DefinitionError(str(error)) from None


def _instant(local: datetime, time_zone: str) -> datetime:
    """The first instant at which clocks show that time; where they skip it, as long after as they skip."""
    return local.replace(tzinfo=zone(time_zone)).astimezone(UTC)


_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _nearest_instant(local: datetime, time_zone: str) -> datetime:
    """The same; the first or the last instant there is where that one is outside of the years 1 to 9999."""
    try:
        return _instant(local, time_zone)
    except OverflowError:
        return _EARLIEST if local.year == 1 else _LATEST
