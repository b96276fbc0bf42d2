"""The layout of a heat map: time across and the other dimensions down, with integer coordinates.

| an asset's dimensions | across | down |
|---|---|---|
| time and others | the windows of time | the values of the others, together |
| time alone, by minute or hour | the minutes or hours of a day | the days |
| time alone, by day | the days of a month | the months |
| time alone, by week or month | the weeks or months of a year | the years |
| several, none of them time | that with the most values | the values of the others |
| one, which isn't time | fifty values a row | the rows |

Coordinates of time are absolute (days from 1970, months from 1970, years), so that a link to a part of a map keeps its
meaning as time goes on; those of other values are their positions in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from partita.algebra.calendar import DAY, HOUR, MONTH
from partita.algebra.time_windows import WEEK
from partita.status.duckdb_sql import Sql, sql

MINUTE, YEAR, VALUE, WRAPPED_VALUE = "minute", "year", "value", "place"
WRAP_WIDTH = 50
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a map: the name of its dimension, its unit, and its first and last coordinate."""

    name: str
    unit: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a map: the first and last coordinate across and down, both included; in URLs four numbers."""

    x0: int
    x1: int
    y0: int
    y1: int

    def __str__(self) -> str:
        return f"{self.x0},{self.x1},{self.y0},{self.y1}"

    def intersection(self, other: Box) -> Box:
        """Return the part that both boxes cover; `other` where they have nothing in common."""
        x0, x1 = max(self.x0, other.x0), min(self.x1, other.x1)
        y0, y1 = max(self.y0, other.y0), min(self.y1, other.y1)
        return Box(x0, x1, y0, y1) if x0 <= x1 and y0 <= y1 else other

    def condition(self) -> Sql:
        """Return the condition that a row of `PARTITIONS` lies in the box."""
        condition = "x BETWEEN {x0} AND {x1} AND y BETWEEN {y0} AND {y1}"
        return sql(condition, x0=self.x0, x1=self.x1, y0=self.y0, y1=self.y1)


@dataclass(frozen=True, slots=True)
class Layout:
    """The two axes of an asset's map, and how many of its partitions have no coordinates.

    `time_dimension` is the dimension whose text is in the column `moment`, where time goes across.
    """

    across: Axis
    down: Axis
    unplaced_count: int = 0
    time_dimension: str | None = None

    @property
    def box(self) -> Box:
        """The whole map."""
        return Box(self.across.first, self.across.last, self.down.first, self.down.last)


CALENDAR_UNITS = {
    MINUTE: ("minute of the day", DAY),
    HOUR: ("hour of the day", DAY),
    DAY: ("day of the month", MONTH),
    WEEK: ("week of the year", YEAR),
    MONTH: ("month of the year", YEAR),
}
"""For time alone: the units across and down."""


def coordinate_label(axis: Axis, coordinate: int) -> str | None:
    """Return the label of a coordinate; None where the labels are the dimension's values."""
    if axis.unit in (VALUE, ""):
        return None
    return _UNIT_LABELS[axis.unit](coordinate)


def _day_label(ordinal: int) -> str:
    try:
        return (_EPOCH + timedelta(days=ordinal)).isoformat()
    except OverflowError:
        return "-"


_UNIT_LABELS: Mapping[str, Callable[[int], str]] = {
    MINUTE: lambda n: f"{_day_label(n // 1440)} {n // 60 % 24:02}:{n % 60:02}",
    HOUR: lambda n: f"{_day_label(n // 24)} {n % 24:02}:00",
    DAY: _day_label,
    WEEK: lambda n: f"week of {_day_label(n * 7 - 3)}",
    MONTH: lambda n: f"{1970 + n // 12:04}-{n % 12 + 1:02}",
    YEAR: lambda n: f"{n:04}",
    "minute of the day": lambda n: f"{n // 60:02}:{n % 60:02}",
    "hour of the day": lambda n: f"{n:02}:00",
    "day of the month": lambda n: str(n + 1),
    "week of the year": lambda n: f"week {n + 1}",
    "month of the year": lambda n: f"month {n + 1}",
    WRAPPED_VALUE: lambda n: f"+{n}",
}

_DATE_SQL = "try_cast(left(moment, 10) AS DATE)"
_EPOCH_DAYS_SQL = f"({_DATE_SQL} - DATE '1970-01-01')"
_TIMESTAMP_SQL = "try_cast(moment AS TIMESTAMP)"
ORDINAL_SQL: Mapping[str, str] = {
    MINUTE: f"{_EPOCH_DAYS_SQL} * 1440 + hour({_TIMESTAMP_SQL}) * 60 + minute({_TIMESTAMP_SQL})",
    HOUR: f"{_EPOCH_DAYS_SQL} * 24 + hour({_TIMESTAMP_SQL})",
    DAY: _EPOCH_DAYS_SQL,
    WEEK: f"floor(({_EPOCH_DAYS_SQL} + 3) / 7.0)",
    MONTH: f"(year({_DATE_SQL}) - 1970) * 12 + month({_DATE_SQL}) - 1",
}
"""The coordinate of a time, given as the text `moment` of a key."""
_MONTH_SQL = ORDINAL_SQL[MONTH]
CALENDAR_SQL: Mapping[str, tuple[str, str]] = {
    MINUTE: (f"hour({_TIMESTAMP_SQL}) * 60 + minute({_TIMESTAMP_SQL})", _EPOCH_DAYS_SQL),
    HOUR: (f"hour({_TIMESTAMP_SQL})", _EPOCH_DAYS_SQL),
    DAY: (f"day({_DATE_SQL}) - 1", _MONTH_SQL),
    WEEK: (f"floor((dayofyear({_DATE_SQL}) - 1) / 7.0)", f"year({_DATE_SQL})"),
    MONTH: (f"month({_DATE_SQL}) - 1", f"year({_DATE_SQL})"),
}
"""The coordinates across and down of a time, for time alone."""


def time_text_sql(dimension: str) -> Sql:
    """Return the text of the date or timestamp of a dimension in `partition_key`; empty where it has none."""
    return sql("regexp_extract(partition_key, {pattern}, 1)", pattern=f"(?:^|,){dimension}=[dt]:([^,]*)")


def key_without_sql(dimension: str) -> Sql:
    """Return `partition_key` without a dimension, which is a canonical key again."""
    return sql("ltrim(regexp_replace(partition_key, {pattern}, ''), ',')", pattern=f"(?:^|,){dimension}=[^,]*")
