"""Which partitions an asset should have: time windows, static values, dynamic ones, and products of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

from partita.algebra.key import PartitionKey, checked_name
from partita.algebra.key_text import KeyValue, tagged
from partita.algebra.windows import DAY, HOUR, MONTH, WEEK, Windows, windows_of, zone
from partita.errors import DefinitionError, value_repr


@dataclass(frozen=True, slots=True)
class Static:
    """A dimension with these values."""

    dimension: str
    values: tuple[KeyValue, ...]

    def document(self) -> dict[str, Any]:
        """The set as JSON."""
        return {"dimension": self.dimension, "static": [tagged(value) for value in self.values]}


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A dimension whose values come from events."""

    dimension: str

    def document(self) -> dict[str, Any]:
        """The set as JSON."""
        return {"dimension": self.dimension, "dynamic": True}


Dimension: TypeAlias = Windows | Static | Dynamic


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """The partitions of an asset: every combination of the values of its dimensions, which stand by name.

    `daily("date", start="2025-01-01") * static("region", ["us", "eu"])` has two for each day.
    """

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.dimensions, key=lambda d: d.dimension))
        for one, next_one in pairwise(ordered):
            if one.dimension == next_one.dimension:
                raise DefinitionError(f"the dimension {one.dimension!r} stands twice in the partitions")
        object.__setattr__(self, "dimensions", ordered)

    def __mul__(self, other: PartitionSet) -> PartitionSet:
        if not isinstance(other, PartitionSet):
            return NotImplemented
        return PartitionSet((*self.dimensions, *other.dimensions))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, as in a key."""
        return tuple(d.dimension for d in self.dimensions)

    def find(self, name: str) -> Dimension | None:
        """The dimension of that name."""
        return next((d for d in self.dimensions if d.dimension == name), None)

    def document(self) -> list[dict[str, Any]]:
        """The set as JSON."""
        return [d.document() for d in self.dimensions]


NOT_PARTITIONED = PartitionSet(())
"""One partition, of the empty key."""


def partition_set_of(document: Iterable[dict[str, Any]]) -> PartitionSet:
    """The set that `PartitionSet.document` gave."""
    return PartitionSet(tuple(map(_dimension_of, document)))


def _dimension_of(document: dict[str, Any]) -> Dimension:
    name = document["dimension"]
    if "windows" in document:
        return windows_of(document)
    if "static" in document:
        return Static(name, tuple(PartitionKey.parse(f"{name}={text}")[name] for text in document["static"]))
    if "dynamic" in document:
        return Dynamic(name)
    raise DefinitionError(f"the dimension {name!r} is of a kind that this version of Partita doesn't know")


Moment: TypeAlias = str | date | datetime


def hourly(dimension: str, start: Moment, *, end: Moment | None = None, time_zone: str = "UTC",
           offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """A partition for each hour that is over, its key's value the timestamp of its start."""
    return _windows(dimension, HOUR, start, end, time_zone, offset)


def daily(dimension: str, start: Moment, *, end: Moment | None = None, time_zone: str = "UTC",
          offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """A partition for each day of the time zone that is over, from `start` on, without `end`.

    With an `offset`, days start so much later than midnight, or earlier where it is negative, and keep the date of that
    midnight. The first is the first that starts at `start` or later.
    """
    return _windows(dimension, DAY, start, end, time_zone, offset)


def weekly(dimension: str, start: Moment, *, end: Moment | None = None, time_zone: str = "UTC",
           offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """A partition for each week that is over, Monday to Sunday, its key's value the date of the Monday."""
    return _windows(dimension, WEEK, start, end, time_zone, offset)


def monthly(dimension: str, start: Moment, *, end: Moment | None = None, time_zone: str = "UTC",
            offset: timedelta = timedelta(0)) -> PartitionSet:  # fmt: skip
    """A partition for each month that is over, its key's value the date of its first day."""
    return _windows(dimension, MONTH, start, end, time_zone, offset)


def static(dimension: str, values: Iterable[object]) -> PartitionSet:
    """A partition for each of these values."""
    checked_name(dimension)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DefinitionError(f"the values of {dimension!r} are a list, not {value_repr(values)}")
    found = tuple(PartitionKey.of({dimension: value})[dimension] for value in values)
    if len(set(map(tagged, found))) < len(found):
        raise DefinitionError(f"a value of {dimension!r} stands twice")
    return PartitionSet((Static(dimension, found),))


def dynamic(dimension: str) -> PartitionSet:
    """A partition for each value that an event has brought: one that was added, or tried."""
    return PartitionSet((Dynamic(checked_name(dimension)),))


def _windows(  # noqa: PLR0913, PLR0917 - what windows are made of
    dimension: str, unit: str, start: Moment, end: Moment | None, time_zone: str, offset: timedelta
) -> PartitionSet:
    if not isinstance(offset, timedelta):
        raise DefinitionError(f"the offset of {dimension!r} is a timedelta, not {value_repr(offset)}")
    first = _local(start, time_zone)
    last = None if end is None else _local(end, time_zone)
    if last is not None and last < first:
        raise DefinitionError(f"the windows of {dimension!r} end at {end} before they start at {start}")
    return PartitionSet((Windows(dimension, unit, first, last, time_zone, offset),))


def _local(moment: Moment, time_zone: str) -> datetime:
    """A moment as clocks in the zone show it."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise DefinitionError(
                f"{value_repr(moment)} is no date or timestamp; write 2025-01-15 or an ISO 8601 time"
            ) from None
    if not isinstance(moment, date):
        raise DefinitionError(f"{value_repr(moment)} is no date or timestamp; write 2025-01-15 or an ISO 8601 time")
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - in the zone of the windows
    return moment if moment.tzinfo is None else moment.astimezone(zone(time_zone)).replace(tzinfo=None)
