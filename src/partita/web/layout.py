"""Where partitions lie on a map: time across and the other dimensions down, each place a whole number.

| an asset's dimensions | across | down |
|---|---|---|
| time and others | the windows of time | the values of the others, together |
| time alone, by minute or hour | the minutes or hours of a day | the days |
| time alone, by day | the days of a month | the months |
| time alone, by week or month | the weeks or months of a year | the years |
| several, none of them time | that with the most values | the values of the others |
| one, which isn't time | fifty values | and so on |

Places in time are absolute (days from 1970, months from 1970, years), so that a link to a part of a map keeps its
meaning as time goes on; places of other values are in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from partita.algebra.windows import DAY, HOUR, MONTH, WEEK

MINUTE, YEAR, VALUE, PLACE = "minute", "year", "value", "place"
WRAP = 50
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a map: the dimension's name, what its places are, and the first and last of them."""

    name: str
    unit: str
    first: int
    last: int

    @property
    def size(self) -> int:
        """How many places there are."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Layout:
    """The two axes of an asset's map, and how many of its partitions have no place on it.

    `time` is the dimension whose text is in the column `moment`, where one goes across.
    """

    across: Axis
    down: Axis
    unplaced: int = 0
    time: str | None = None


WRAPPED = {
    MINUTE: ("minute of the day", DAY),
    HOUR: ("hour of the day", DAY),
    DAY: ("day of the month", MONTH),
    WEEK: ("week of the year", YEAR),
    MONTH: ("month of the year", YEAR),
}
"""For time alone: what goes across, and what a line is."""


def label(axis: Axis, place: int) -> str | None:
    """The place of an axis in words; None where its words are the values themselves."""
    if axis.unit in (VALUE, ""):
        return None
    return _LABELS[axis.unit](place)


def _day(ordinal: int) -> str:
    try:
        return (_EPOCH + timedelta(days=ordinal)).isoformat()
    except OverflowError:
        return "-"


_LABELS: Mapping[str, Callable[[int], str]] = {
    MINUTE: lambda n: f"{_day(n // 1440)} {n // 60 % 24:02}:{n % 60:02}",
    HOUR: lambda n: f"{_day(n // 24)} {n % 24:02}:00",
    DAY: _day,
    WEEK: lambda n: f"week of {_day(n * 7 - 3)}",
    MONTH: lambda n: f"{1970 + n // 12:04}-{n % 12 + 1:02}",
    YEAR: lambda n: f"{n:04}",
    "minute of the day": lambda n: f"{n // 60:02}:{n % 60:02}",
    "hour of the day": lambda n: f"{n:02}:00",
    "day of the month": lambda n: str(n + 1),
    "week of the year": lambda n: f"week {n + 1}",
    "month of the year": lambda n: f"month {n + 1}",
    PLACE: lambda n: f"+{n}",
}

_DATE = "try_cast(left(moment, 10) AS DATE)"
_DAYS = f"({_DATE} - DATE '1970-01-01')"
_AT = "try_cast(moment AS TIMESTAMP)"
ORDINAL_SQL = {
    MINUTE: f"{_DAYS} * 1440 + hour({_AT}) * 60 + minute({_AT})",
    HOUR: f"{_DAYS} * 24 + hour({_AT})",
    DAY: _DAYS,
    WEEK: f"floor(({_DAYS} + 3) / 7.0)",
    MONTH: f"(year({_DATE}) - 1970) * 12 + month({_DATE}) - 1",
}
"""The place of a moment, given as the text `moment` of a key."""
_MONTH = ORDINAL_SQL[MONTH]
WRAPPED_SQL = {
    MINUTE: (f"hour({_AT}) * 60 + minute({_AT})", _DAYS),
    HOUR: (f"hour({_AT})", _DAYS),
    DAY: (f"day({_DATE}) - 1", _MONTH),
    WEEK: (f"floor((dayofyear({_DATE}) - 1) / 7.0)", f"year({_DATE})"),
    MONTH: (f"month({_DATE}) - 1", f"year({_DATE})"),
}
"""The places across and down of a moment, for time alone."""


def moment_sql(name: str) -> str:
    """The text of the date or timestamp that a dimension has in `partition_key`; empty where it has none."""
    return f"regexp_extract(partition_key, '(?:^|,){name}=[dt]:([^,]*)', 1)"


def without_sql(name: str) -> str:
    """What is left of `partition_key` without a dimension: a canonical key too."""
    return f"ltrim(regexp_replace(partition_key, '(?:^|,){name}=[^,]*', ''), ',')"
