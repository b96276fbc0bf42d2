"""What a generated partition column says of the column that it is made from, as bounds that prune.

delta-spark makes such a column of a timestamp in its session's time zone, which the table does not record. So the
bounds of a timestamp are a day wider on each side: rows are kept that could match, and the files' own statistics tell
the rest apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import DAY, HOUR, days_from_civil
from partita.algebra.schema import Schema
from partita.algebra.types import Kind
from partita.arrow.prune import Statistics
from partita.arrow.schema import to_arrow
from partita.formats.delta.columns import Generated

Bounds = tuple[int | str | None, int | str | None]
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def source_bounds(partitions: pa.Table, generated: Iterable[Generated], schema: Schema) -> dict[str, Statistics]:
    """Bounds of source columns for each file, by the partition that it is in."""
    found: dict[str, Statistics] = {}
    for column in generated:
        if column.name not in partitions.column_names:
            continue
        source = schema.find(column.source)
        values = partitions[column.name].combine_chunks().dictionary_encode()
        raw = values.dictionary.cast(pa.int32()) if pa.types.is_date32(values.dictionary.type) else values.dictionary
        ends = [_bounds(value, column) for value in raw.to_pylist()]
        if source.type.kind is Kind.DATE:
            ends = [_in_days(low, high) for low, high in ends]
        elif source.type.kind is not Kind.STRING:
            ends = [_wider(low, high) for low, high in ends]
        type_ = to_arrow(source.type)
        lower, upper = (pa.array(side, _plain(type_)).cast(type_).take(values.indices) for side in _sides(ends))
        bounds = Statistics(lower, upper)
        found[source.name] = bounds if source.name not in found else tighter(found[source.name], bounds)
    return found


def tighter(one: Statistics, other: Statistics) -> Statistics:
    """What both say together."""
    return Statistics(
        _chosen(one.lower, other.lower, pc.greater),
        _chosen(one.upper, other.upper, pc.less),
        one.null_count if one.null_count is not None else other.null_count,
        one.row_count if one.row_count is not None else other.row_count,
    )


def all_known(said: Mapping[str, Statistics], bounds: Mapping[str, Statistics]) -> dict[str, Statistics]:
    """Statistics of files joined with bounds from their partitions."""
    joined = dict(said)
    for name, found in bounds.items():
        joined[name] = tighter(joined[name], found) if name in joined else found
    return joined


def _chosen(one: pa.Array | None, other: pa.Array | None, better: Callable[..., pa.Array]) -> pa.Array | None:
    """For each file the better of two ends, or the one that is known."""
    if one is None or other is None:
        return other if one is None else one
    same_type = other.cast(one.type)
    return pc.coalesce(pc.if_else(better(one, same_type), one, same_type), one, same_type)


def _sides(ends: list[Bounds]) -> tuple[list[int | str | None], list[int | str | None]]:
    return [low for low, _ in ends], [high for _, high in ends]


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(type_) else type_


def _bounds(value: int | str | None, column: Generated) -> Bounds:
    """The first and the last value of the source; microseconds for times. None where it can't be told."""
    if value is None:
        return None, None
    if isinstance(value, str) and column.function == "truncate":
        return (value, value) if len(value) < column.width else (value, _after(value))
    days = _days(value, column.function)
    if days is None:
        return None, None
    first, after = days
    return first, after - 1


def _days(value: int | str, function: str) -> tuple[int, int] | None:
    if function == "year" and isinstance(value, int) and 1 <= value <= 9998:
        return days_from_civil(value, 1, 1) * DAY, days_from_civil(value + 1, 1, 1) * DAY
    if function == "day" and isinstance(value, int):
        return value * DAY, (value + 1) * DAY
    if isinstance(value, str):
        return _from_text(value, function)
    return None


_MONTH = re.compile(r"(\d{4})-(\d\d)")
_HOUR = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d)")


def _from_text(text: str, function: str) -> tuple[int, int] | None:
    month, hour = _MONTH.fullmatch(text), _HOUR.fullmatch(text)
    if function == "month" and month is not None and 1 <= int(month[2]) <= 12:
        year, number = int(month[1]), int(month[2])
        following = (year + 1, 1) if number == 12 else (year, number + 1)
        return days_from_civil(year, number, 1) * DAY, days_from_civil(*following, 1) * DAY
    if function == "hour" and hour is not None:
        start = days_from_civil(int(hour[1]), int(hour[2]), int(hour[3])) * DAY + int(hour[4]) * HOUR
        return start, start + HOUR
    return None


def _in_days(low: int | str | None, high: int | str | None) -> Bounds:
    return tuple(None if end is None else int(end) // DAY for end in (low, high))  # type: ignore[return-value] # two


def _wider(low: int | str | None, high: int | str | None) -> Bounds:
    return None if low is None else int(low) - DAY, None if high is None else int(high) + DAY


def _after(text: str) -> str | None:
    """A text that all that begin with this one are less than; None where there is none."""
    for at in reversed(range(len(text))):
        following = ord(text[at]) + 1
        if following <= _LAST:
            following = 0xE000 if following in _SURROGATES else following
            return text[:at] + chr(following)
    return None
