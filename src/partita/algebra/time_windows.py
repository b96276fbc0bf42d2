"""Time windows: the hours, days, weeks and months by which a dimension is partitioned.

A window has an ordinal, a value that represents it in keys, and a start; it ends where the next window starts. Days,
weeks and months are those of the calendar in a time zone, so that a day may have 23 or 25 hours; an hour always has
3,600 seconds.

| unit | value in a key | ordinal |
|---|---|---|
| hour | timestamp of its start, in UTC | hours since 1970 |
| day | date | days since 1970-01-01 |
| week | date of its Monday | weeks since 1969-12-29 |
| month | date of its first day | months since January 1970 |
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from partita.algebra.calendar import DAY, HOUR, MONTH
from partita.algebra.key import check_dimension_name
from partita.algebra.key_text import KeyValue
from partita.algebra.physical_values import EPOCH_ORDINAL, date_to_days
from partita.algebra.time_zones import find_zone_rules
from partita.errors import DefinitionError, TimeZoneError

WEEK = "week"
WINDOW_UNITS = (HOUR, DAY, WEEK, MONTH)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """The windows of one unit from `start` on, until `end` if it is given.

    `start` and `end` are naive local times of the time zone; a window belongs to the set if it starts at `start` or
    later and ends at `end` or earlier. `offset` shifts the start of every window.
    """

    name: str
    unit: str
    start: datetime
    end: datetime | None = None
    time_zone: str = "UTC"
    offset: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        check_dimension_name(self.name)
        if self.unit not in WINDOW_UNITS:
            raise DefinitionError(f"unknown unit {self.unit!r} of time windows; use one of {', '.join(WINDOW_UNITS)}")
        definition_time_zone(self.time_zone)

    @property
    def grid(self) -> tuple[str, str, timedelta]:
        """What determines where windows start; two sets with the same grid have the same windows."""
        return self.unit, self.time_zone, self.offset

    def key_value(self, ordinal: int) -> KeyValue:
        """Return the value of a window in keys."""
        if self.unit == HOUR:
            return self.window_start(ordinal)
        return self._start_date(ordinal)

    def ordinal_of(self, value: object) -> int | None:
        """Return the ordinal of the window with the given key value, or None if there is none."""
        if self.unit == HOUR:
            if not isinstance(value, datetime) or value.utcoffset() is None:
                return None
            hours, remainder = divmod(value - _EPOCH - self._hour_offset(), _ONE_HOUR)
            return None if remainder else hours
        if not isinstance(value, date) or isinstance(value, datetime):
            return None
        ordinal = self._ordinal_of_date(value)
        return ordinal if self._start_date(ordinal) == value else None

    def ordinal_at(self, instant: datetime) -> int:
        """Return the ordinal of the window that contains an instant."""
        if self.unit == HOUR:
            return (instant - _EPOCH - self._hour_offset()) // _ONE_HOUR
        local = instant.replace(tzinfo=None)
        with suppress(OverflowError):
            local = instant.astimezone(definition_time_zone(self.time_zone)).replace(tzinfo=None) - self.offset
        ordinal = self._ordinal_of_date(local.date())
        # The estimate can be off by one where the clocks change.
        while not self._has_started(ordinal, instant):
            ordinal -= 1
        while self._has_started(ordinal + 1, instant):
            ordinal += 1
        return ordinal

    def window_start(self, ordinal: int) -> datetime:
        """Return the instant at which a window starts, and the previous one ends, in UTC."""
        if self.unit == HOUR:
            return _EPOCH + self._hour_offset() + ordinal * _ONE_HOUR
        start = self._start_date(ordinal)
        return _local_to_instant(datetime(start.year, start.month, start.day) + self.offset, self.time_zone)  # noqa: DTZ001

    def expected_ordinals(self, now: datetime) -> range:
        """Return the ordinals of the windows of the set that have ended at `now`."""
        first = self._first_ordinal()
        until = now if self.end is None else min(now, _nearest_instant(self.end, self.time_zone))
        return range(first, max(first, self.ordinal_at(until)))

    def is_pending(self, ordinal: int, now: datetime) -> bool:
        """Return whether a window belongs to the set and has not ended at `now`."""
        is_in_set = self.end is None or self.window_start(ordinal + 1) <= _local_to_instant(self.end, self.time_zone)
        return is_in_set and ordinal >= self.expected_ordinals(now).stop

    def is_empty(self, ordinal: int) -> bool:
        """Return whether a window is empty: a day that a zone skipped when it moved across the date line."""
        is_steady = self.unit != DAY or self.time_zone == "UTC"
        return not is_steady and self.window_start(ordinal) == self.window_start(ordinal + 1)

    def overlapping_ordinals(self, other: TimeWindows, first: int, last: int) -> range:
        """Return the ordinals of the windows that overlap with the windows `first` to `last` of another set."""
        if self.grid == other.grid:
            return range(first, last + 1)
        return range(
            self.ordinal_at(other.window_start(first)), self.ordinal_at(other.window_start(last + 1) - _MICROSECOND) + 1
        )

    def document(self) -> dict[str, Any]:
        """Return the definition as JSON."""
        return {
            "dimension": self.name,
            "windows": self.unit,
            "start": self.start.isoformat(),
            "end": None if self.end is None else self.end.isoformat(),
            "time_zone": self.time_zone,
            "offset": self.offset.total_seconds(),
        }

    def _has_started(self, ordinal: int, instant: datetime) -> bool:
        """Return whether a window starts at or before an instant; it may start outside of the years 1 to 9999."""
        try:
            return self.window_start(ordinal) <= instant
        except (ValueError, OverflowError):
            return ordinal < 0

    def _first_ordinal(self) -> int:
        """Return the ordinal of the first window that starts at `start` or later."""
        start = _nearest_instant(self.start, self.time_zone)
        ordinal = self.ordinal_at(start)
        with suppress(ValueError, OverflowError):
            return ordinal if self.window_start(ordinal) == start else ordinal + 1
        return ordinal + 1

    def _hour_offset(self) -> timedelta:
        """Return how long after a full hour of UTC the windows start."""
        local = self.start.replace(tzinfo=definition_time_zone(self.time_zone)).utcoffset() or timedelta(0)
        return (self.offset - local) % _ONE_HOUR

    def _ordinal_of_date(self, day: date) -> int:
        if self.unit == MONTH:
            return (day.year - 1970) * 12 + day.month - 1
        return date_to_days(day) if self.unit == DAY else (date_to_days(day) + _EPOCH_WEEKDAY) // 7

    def _start_date(self, ordinal: int) -> date:
        if self.unit == MONTH:
            return date(1970 + ordinal // 12, ordinal % 12 + 1, 1)
        return date.fromordinal(EPOCH_ORDINAL + (ordinal if self.unit == DAY else ordinal * 7 - _EPOCH_WEEKDAY))


def windows_from_document(document: dict[str, Any]) -> TimeWindows:
    """Return the set from the JSON of `TimeWindows.document`."""
    return TimeWindows(
        document["dimension"],
        document["windows"],
        datetime.fromisoformat(document["start"]),
        None if document["end"] is None else datetime.fromisoformat(document["end"]),
        document["time_zone"],
        timedelta(seconds=document["offset"]),
    )


def definition_time_zone(name: str) -> tzinfo:
    """Return the rules of the time zone with the given name; raise `DefinitionError` if there is none."""
    try:
        return find_zone_rules(name)
    except TimeZoneError as error:
        raise DefinitionError(str(error)) from None


def _local_to_instant(local: datetime, time_zone: str) -> datetime:
    """Return the first instant at which clocks show a local time; a time that they skip is shifted by the gap."""
    return local.replace(tzinfo=definition_time_zone(time_zone)).astimezone(UTC)


_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _nearest_instant(local: datetime, time_zone: str) -> datetime:
    """Like `_local_to_instant`, but limited to the years 1 to 9999."""
    try:
        return _local_to_instant(local, time_zone)
    except OverflowError:
        return _EARLIEST if local.year == 1 else _LATEST
