"""Partition sets: the partitions of an asset as products of time windows, static values and dynamic values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

from partita.algebra.calendar import DAY, HOUR, MONTH
from partita.algebra.key import PartitionKey, check_dimension_name
from partita.algebra.key_text import KeyValue, canonical_value_text
from partita.algebra.time_windows import WEEK, TimeWindows, definition_time_zone, windows_from_document
from partita.errors import DefinitionError, value_repr


@dataclass(frozen=True, slots=True)
class StaticDimension:
    """A dimension with fixed values."""

    name: str
    values: tuple[KeyValue, ...]

    def document(self) -> dict[str, Any]:
        """Return the definition as JSON."""
        return {"dimension": self.name, "static": [canonical_value_text(value) for value in self.values]}


@dataclass(frozen=True, slots=True)
class DynamicDimension:
    """A dimension whose values are added by events."""

    name: str

    def document(self) -> dict[str, Any]:
        """Return the definition as JSON."""
        return {"dimension": self.name, "dynamic": True}


Dimension: TypeAlias = TimeWindows | StaticDimension | DynamicDimension


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """The partitions of an asset: all combinations of the values of its dimensions, which are sorted by name.

    `daily`, `hourly`, `weekly`, `monthly`, `static` and `dynamic` make a set of one dimension, and `*` multiplies sets:
    `pt.daily("date", start="2025-01-01") * pt.static("region", ["us", "eu"])` has two partitions per day.
    """

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        dimensions = tuple(sorted(self.dimensions, key=lambda d: d.name))
        for dimension, following in pairwise(dimensions):
            if dimension.name == following.name:
                raise DefinitionError(f"the partitions have the dimension {dimension.name!r} twice")
        object.__setattr__(self, "dimensions", dimensions)

    def __mul__(self, other: PartitionSet) -> PartitionSet:
        if not isinstance(other, PartitionSet):
            return NotImplemented
        return PartitionSet((*self.dimensions, *other.dimensions))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in the order of a key."""
        return tuple(d.name for d in self.dimensions)

    def find_dimension(self, name: str) -> Dimension | None:
        """Return the dimension with the given name, or None."""
        return next((d for d in self.dimensions if d.name == name), None)

    def document(self) -> list[dict[str, Any]]:
        """Return the definition as JSON."""
        return [d.document() for d in self.dimensions]


UNPARTITIONED = PartitionSet(())
"""A set of one partition, with the empty key."""


def partition_set_from_document(document: Iterable[dict[str, Any]]) -> PartitionSet:
    """Return the set from the JSON of `PartitionSet.document`."""
    return PartitionSet(tuple(map(_dimension_from_document, document)))


def _dimension_from_document(document: dict[str, Any]) -> Dimension:
    name = document["dimension"]
    if "windows" in document:
        return windows_from_document(document)
    if "static" in document:
        return StaticDimension(name, tuple(PartitionKey.parse(f"{name}={text}")[name] for text in document["static"]))
    if "dynamic" in document:
        return DynamicDimension(name)
    raise DefinitionError(f"unknown kind of dimension {name!r}; a newer version of Partita wrote it")


TimestampLike: TypeAlias = str | date | datetime


def hourly(dimension: str, start: TimestampLike, *, end: TimestampLike | None = None, time_zone: str = "UTC",
           offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """Partition by hour: one partition per complete hour, whose key value is the timestamp of its start.

    The arguments are those of `daily`.
    """
    return _time_windows(dimension, HOUR, start, end, time_zone, offset)


def daily(dimension: str, start: TimestampLike, *, end: TimestampLike | None = None, time_zone: str = "UTC",
          offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """Partition by day: one partition per complete day, whose key value is the date.

    The first day is the first that begins at `start` or later, and the last one ends at `end` or earlier.

    Args:
        dimension: the name of the dimension.
        start: the earliest time: a date, a naive datetime or their ISO text, in `time_zone`.
        end: the latest time; None for a set that grows with time.
        time_zone: the time zone in which days begin.
        offset: how much later than midnight a day begins; it keeps the date of that midnight. Negative for earlier.
    """
    return _time_windows(dimension, DAY, start, end, time_zone, offset)


def weekly(dimension: str, start: TimestampLike, *, end: TimestampLike | None = None, time_zone: str = "UTC",
           offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """Partition by week: one partition per complete week, whose key value is the date of its Monday.

    The arguments are those of `daily`.
    """
    return _time_windows(dimension, WEEK, start, end, time_zone, offset)


def monthly(dimension: str, start: TimestampLike, *, end: TimestampLike | None = None, time_zone: str = "UTC",
            offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """Partition by month: one partition per complete month, whose key value is the date of its first day.

    The arguments are those of `daily`.
    """
    return _time_windows(dimension, MONTH, start, end, time_zone, offset)


def static(dimension: str, values: Iterable[object]) -> PartitionSet:
    """Partition by fixed values: one partition per value."""
    check_dimension_name(dimension)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DefinitionError(f"the values of {dimension!r} must be a list, not {value_repr(values)}")
    key_values = tuple(PartitionKey.of({dimension: value})[dimension] for value in values)
    if len(set(map(canonical_value_text, key_values))) < len(key_values):
        raise DefinitionError(f"the values of {dimension!r} have a duplicate")
    return PartitionSet((StaticDimension(dimension, key_values),))


def dynamic(dimension: str) -> PartitionSet:
    """Partition by values that become known at run time: `lake.add_partitions` or an attempt adds them."""
    return PartitionSet((DynamicDimension(check_dimension_name(dimension)),))


def _time_windows(  # noqa: PLR0913, PLR0917 - the settings of time windows
    dimension: str, unit: str, start: TimestampLike, end: TimestampLike | None, time_zone: str, offset: timedelta
) -> PartitionSet:
    if not isinstance(offset, timedelta):
        raise DefinitionError(f"the offset of {dimension!r} must be a timedelta, not {value_repr(offset)}")
    first = _to_local_time(start, time_zone)
    last = None if end is None else _to_local_time(end, time_zone)
    if last is not None and last < first:
        raise DefinitionError(f"the windows of {dimension!r} end at {end}, which is before their start at {start}")
    return PartitionSet((TimeWindows(dimension, unit, first, last, time_zone, offset),))


def _to_local_time(timestamp: TimestampLike, time_zone: str) -> datetime:
    """Return the local time in the zone, without its offset."""
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise DefinitionError(
                f"{value_repr(timestamp)} is not a date or timestamp; write 2025-01-15 or an ISO 8601 timestamp"
            ) from None
    if not isinstance(timestamp, date):
        raise DefinitionError(
            f"{value_repr(timestamp)} is not a date or timestamp; write 2025-01-15 or an ISO 8601 timestamp"
        )
    if not isinstance(timestamp, datetime):
        return datetime(timestamp.year, timestamp.month, timestamp.day)  # noqa: DTZ001 - in the zone of the windows
    return (
        timestamp
        if timestamp.tzinfo is None
        else timestamp.astimezone(definition_time_zone(time_zone)).replace(tzinfo=None)
    )
