"""Bounds of a column from the values of the partition columns that are generated from it.

delta-spark generates a column from a timestamp in its session's time zone, which the table doesn't record. So the
bounds of a timestamp are a day wider on each side; the statistics of the files are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.calendar import DAY, HOUR, MICROS_PER_DAY, MONTH, YEAR, days_from_civil
from partita.algebra.schema import Schema
from partita.algebra.transforms import Transform, TransformFamily
from partita.algebra.types import STRING, TIMESTAMP, TypeKind
from partita.arrow.prune import ColumnStatistics
from partita.arrow.schema import to_arrow_type
from partita.formats.delta.columns import GeneratedColumn

SourceBounds = tuple[int | str | None, int | str | None]


def source_bounds(
    partitions: pa.Table, generated_columns: Iterable[GeneratedColumn], schema: Schema
) -> dict[str, ColumnStatistics]:
    """Return the bounds of each source column, one value per row of `partitions` (one row per file)."""
    bounds_by_source: dict[str, ColumnStatistics] = {}
    for column in generated_columns:
        if column.name not in partitions.column_names:
            continue
        source = schema.find_field(column.source)
        values = partitions[column.name].combine_chunks().dictionary_encode()
        raw = values.dictionary.cast(pa.int32()) if pa.types.is_date32(values.dictionary.type) else values.dictionary
        pairs = [_bounds_from_value(value, column) for value in raw.to_pylist()]
        if source.type.kind is TypeKind.DATE:
            pairs = [_bounds_in_days(low, high) for low, high in pairs]
        elif source.type.kind is not TypeKind.STRING:
            pairs = [_widen_by_day(low, high) for low, high in pairs]
        type_ = to_arrow_type(source.type)
        lower, upper = (
            pa.array(side, _ordinal_type(type_)).cast(type_).take(values.indices) for side in _lower_and_upper(pairs)
        )
        bounds = ColumnStatistics(lower, upper)
        earlier_bounds = bounds_by_source.get(source.name)
        bounds_by_source[source.name] = bounds if earlier_bounds is None else intersect_bounds(earlier_bounds, bounds)
    return bounds_by_source


def intersect_bounds(left: ColumnStatistics, right: ColumnStatistics) -> ColumnStatistics:
    """Return the tighter of two lower and two upper bounds per file, with the counts of either side."""
    return ColumnStatistics(
        _tighter_bound(left.lower, right.lower, pc.greater),
        _tighter_bound(left.upper, right.upper, pc.less),
        left.null_count if left.null_count is not None else right.null_count,
        left.row_count if left.row_count is not None else right.row_count,
    )


def add_source_bounds(
    statistics: Mapping[str, ColumnStatistics], bounds: Mapping[str, ColumnStatistics]
) -> dict[str, ColumnStatistics]:
    """Join the statistics of files with the bounds that follow from their partitions."""
    all_statistics = dict(statistics)
    for name, column_bounds in bounds.items():
        all_statistics[name] = (
            intersect_bounds(all_statistics[name], column_bounds) if name in all_statistics else column_bounds
        )
    return all_statistics


def _tighter_bound(
    left: pa.Array | None, right: pa.Array | None, is_tighter: Callable[..., pa.Array]
) -> pa.Array | None:
    """Return per file the tighter of two bounds, or the one that is not null."""
    if left is None or right is None:
        return right if left is None else left
    same_type = right.cast(left.type)
    return pc.coalesce(pc.if_else(is_tighter(left, same_type), left, same_type), left, same_type)


def _lower_and_upper(bounds: list[SourceBounds]) -> tuple[list[int | str | None], list[int | str | None]]:
    return [low for low, _ in bounds], [high for _, high in bounds]


def _ordinal_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(type_) else type_


def _bounds_from_value(value: int | str | None, column: GeneratedColumn) -> SourceBounds:
    """Return the bounds of the source for one generated value, in microseconds for dates and timestamps.

    Both are None if the value is null or not one that the column's function generates.
    """
    if value is None:
        return None, None
    transform = column.transform
    interval = None
    if transform.time_unit is None and isinstance(value, str):
        interval = transform.preimage(value, STRING, TransformFamily.ICEBERG)
    elif (ordinal := _ordinal_of(value, transform)) is not None:
        interval = transform.preimage(ordinal, TIMESTAMP, TransformFamily.ICEBERG)
    return (None, None) if interval is None else cast("SourceBounds", (interval.lower, interval.upper))


_MONTH_PATTERN = re.compile(r"(\d{4})-(\d\d)")
_HOUR_PATTERN = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d)")


def _ordinal_of(value: int | str, transform: Transform) -> int | None:
    """Return the Iceberg ordinal of a generated year, month, day or hour; None if the value is not one."""
    if transform.time_unit == YEAR and isinstance(value, int) and 1 <= value <= 9998:
        return value - 1970
    if transform.time_unit == DAY and isinstance(value, int):
        return value
    if not isinstance(value, str):
        return None
    month, hour = _MONTH_PATTERN.fullmatch(value), _HOUR_PATTERN.fullmatch(value)
    if transform.time_unit == MONTH and month is not None and 1 <= int(month[2]) <= 12:
        return (int(month[1]) - 1970) * 12 + int(month[2]) - 1
    if transform.time_unit == HOUR and hour is not None:
        days: int = days_from_civil(int(hour[1]), int(hour[2]), int(hour[3]))
        return days * 24 + int(hour[4])
    return None


def _bounds_in_days(low: int | str | None, high: int | str | None) -> SourceBounds:
    return tuple(None if end is None else int(end) // MICROS_PER_DAY for end in (low, high))  # type: ignore[return-value] # two


def _widen_by_day(low: int | str | None, high: int | str | None) -> SourceBounds:
    return None if low is None else int(low) - MICROS_PER_DAY, None if high is None else int(high) + MICROS_PER_DAY
