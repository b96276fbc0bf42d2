"""Assign coordinates to partitions in DuckDB: rows of `LOADED_PARTITIONS` become rows of `PARTITIONS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from partita.algebra.calendar import DAY, HOUR
from partita.algebra.key import PartitionKey
from partita.algebra.key_text import NAME_PATTERN, KeyValue
from partita.algebra.time_windows import TimeWindows
from partita.display.layout import (
    CALENDAR_SQL,
    CALENDAR_UNITS,
    MINUTE,
    ORDINAL_SQL,
    VALUE,
    WRAP_WIDTH,
    WRAPPED_VALUE,
    Axis,
    Layout,
    key_without_sql,
    time_text_sql,
)
from partita.errors import KeyFormatError
from partita.status.duckdb_engine import VARCHAR, create_temp_table, create_view, fetch_rows
from partita.status.duckdb_sql import Sql, comma_separated, name, sql
from partita.status.lineage import dimension_value_sql

if TYPE_CHECKING:
    import duckdb

    from partita.status.definitions import AssetDefinition

LOADED_PARTITIONS = Sql("loaded_partitions")
"""The partitions of all assets, without coordinates."""
PARTITIONS = Sql("partitions")
"""The partitions of all assets, with `moment`, the text of their time, and the coordinates `x` and `y`."""
TICKS = Sql("ticks")
"""The values along axes that aren't time: asset, axis, coordinate, value."""
ASSET_PARTITIONS = Sql("asset_partitions")
"""The rows of `LOADED_PARTITIONS` of the asset that is shown."""
_DOWN_TICKS, _ACROSS_TICKS = Sql("down_ticks"), Sql("across_ticks")
ACROSS, DOWN = "across", "down"
_MAX_SORTED_VALUES = 20_000
"""At most this many values are sorted by their type; more are sorted by their text."""
_FULL_AXIS_SIZES = {"day of the month": 31, "month of the year": 12, "hour of the day": 24, "week of the year": 53}
"""The rows of a calendar that are shown whole, whatever partitions they have."""
_PARTITION_KEY = Sql("partition_key")
_NO_JOINS, _NO_MOMENT = Sql(""), Sql("NULL")


def assign_coordinates(
    connection: duckdb.DuckDBPyConnection, asset_number: int, definition: AssetDefinition | None
) -> Layout:
    """Insert the partitions of an asset into `PARTITIONS` with coordinates, and the values along axes into `TICKS`."""
    own_rows = sql("SELECT * FROM {rows} WHERE asset = {asset}", rows=LOADED_PARTITIONS, asset=asset_number)
    create_view(connection, ASSET_PARTITIONS, own_rows)
    dimensions = _key_dimensions(connection) if definition is None else definition.partitions.names
    # Names become part of regular expressions, and whoever can write files into the lake can write odd ones.
    names = [dimension for dimension in dimensions if re.fullmatch(NAME_PATTERN, dimension)]
    time, unit = _time_dimension(connection, names, definition)
    rest = [dimension for dimension in names if dimension != time]
    if time is not None and not rest:
        return _calendar_layout(connection, asset_number, time, unit)
    if time is not None:
        return _lane_layout(connection, asset_number, time, unit, ", ".join(rest))
    if len(names) > 1:
        return _grid_layout(connection, asset_number, names)
    return _wrapped_layout(connection, asset_number, names)


def _key_dimensions(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Return the dimensions of the first key, which nearly always are those of all keys."""
    rows = fetch_rows(connection, sql("SELECT min(partition_key) FROM {rows}", rows=ASSET_PARTITIONS))
    return tuple(re.findall("(?:^|,)([^=,]*)=", rows[0][0] or ""))


def _time_dimension(
    connection: duckdb.DuckDBPyConnection, dimensions: Sequence[str], definition: AssetDefinition | None
) -> tuple[str | None, str]:
    """Return the dimension that goes across, and its unit: time windows, or else dates or timestamps in every key."""
    windows = () if definition is None else definition.partitions.dimensions
    time_windows = next((d for d in windows if isinstance(d, TimeWindows)), None)
    if time_windows is not None:
        return time_windows.name, time_windows.unit
    for dimension in dimensions:
        rows = fetch_rows(
            connection,
            sql(
                """
                SELECT min(left(value, 2)), max(left(value, 2)), bool_and(contains(value, ':00:00.000000Z')),
                       bool_and(contains(value, ':00.000000Z')) FROM (SELECT {value} AS value FROM {rows})
                """,
                value=dimension_value_sql(_PARTITION_KEY, dimension),
                rows=ASSET_PARTITIONS,
            ),
        )
        first_tag, last_tag, is_whole_hours, is_whole_minutes = rows[0]
        if first_tag == last_tag == "d:":
            return dimension, DAY
        if first_tag == last_tag == "t:" and (is_whole_hours or is_whole_minutes):
            return dimension, HOUR if is_whole_hours else MINUTE
    return None, ""


def _calendar_layout(connection: duckdb.DuckDBPyConnection, asset: int, time: str, unit: str) -> Layout:
    x, y = CALENDAR_SQL[unit]
    _insert_partitions(connection, Sql(x), Sql(y), moment=time_text_sql(time))
    across, down = CALENDAR_UNITS[unit]
    return _layout_from_extent(connection, asset, (time, across), (time, down), time)


def _lane_layout(connection: duckdb.DuckDBPyConnection, asset: int, time: str, unit: str, rest: str) -> Layout:
    lane = key_without_sql(time)
    _create_ticks(connection, _DOWN_TICKS, lane)
    _insert_ticks(connection, asset, DOWN, _DOWN_TICKS)
    join = _tick_join(_DOWN_TICKS, lane)
    _insert_partitions(connection, Sql(ORDINAL_SQL[unit]), _coordinate(_DOWN_TICKS), join, moment=time_text_sql(time))
    return _layout_from_extent(connection, asset, (time, unit), (rest, VALUE), time)


def _grid_layout(connection: duckdb.DuckDBPyConnection, asset: int, dimensions: Sequence[str]) -> Layout:
    counts = comma_separated(
        sql("approx_count_distinct({value})", value=dimension_value_sql(_PARTITION_KEY, dimension))
        for dimension in dimensions
    )
    sizes = fetch_rows(connection, sql("SELECT {counts} FROM {rows}", counts=counts, rows=ASSET_PARTITIONS))[0]
    widest = dimensions[max(range(len(dimensions)), key=lambda i: sizes[i])]
    rest = [dimension for dimension in dimensions if dimension != widest]
    column = sql("{prefix} || {v}", prefix=f"{widest}=", v=dimension_value_sql(_PARTITION_KEY, widest))
    lane = key_without_sql(widest)
    for axis, ticks, value in ((ACROSS, _ACROSS_TICKS, column), (DOWN, _DOWN_TICKS, lane)):
        _create_ticks(connection, ticks, value)
        _insert_ticks(connection, asset, axis, ticks)
    joins = Sql(f"{_tick_join(_ACROSS_TICKS, column)} {_tick_join(_DOWN_TICKS, lane)}")
    _insert_partitions(connection, _coordinate(_ACROSS_TICKS), _coordinate(_DOWN_TICKS), joins)
    return _layout_from_extent(connection, asset, (widest, VALUE), (", ".join(rest), VALUE))


def _wrapped_layout(connection: duckdb.DuckDBPyConnection, asset: int, dimensions: Sequence[str]) -> Layout:
    _create_ticks(connection, _DOWN_TICKS, _PARTITION_KEY)
    position = _coordinate(_DOWN_TICKS)
    x = sql("{position} % {width}", position=position, width=WRAP_WIDTH)
    y = sql("{position} // {width}", position=position, width=WRAP_WIDTH)
    _insert_partitions(connection, x, y, _tick_join(_DOWN_TICKS, _PARTITION_KEY))
    connection.execute(
        sql(
            "INSERT INTO {ticks} SELECT {asset}, {axis}, coordinate // {width}, value FROM {values} "
            "WHERE coordinate % {width} = 0",
            ticks=TICKS,
            asset=asset,
            axis=DOWN,
            width=WRAP_WIDTH,
            values=_DOWN_TICKS,
        )
    )
    dimension = next(iter(dimensions), "")
    return _layout_from_extent(connection, asset, (dimension, WRAPPED_VALUE), (dimension, VALUE))


def _coordinate(ticks: Sql) -> Sql:
    return name("coordinate", relation=ticks)


def _tick_join(ticks: Sql, value: Sql) -> Sql:
    """Return the join of a partition to its tick on an axis."""
    return sql("LEFT JOIN {ticks} ON {ticks}.value = {value}", ticks=ticks, value=value)


def _insert_partitions(
    connection: duckdb.DuckDBPyConnection, x: Sql, y: Sql, joins: Sql = _NO_JOINS, *, moment: Sql = _NO_MOMENT
) -> None:
    """Insert the asset's rows into `PARTITIONS`; `x` and `y` may use `moment`, the text of the partition's time."""
    connection.execute(
        sql(
            """
            INSERT INTO {partitions} SELECT p.*, ({x})::INTEGER, ({y})::INTEGER
            FROM (SELECT *, {moment} AS moment FROM {rows}) AS p {joins}
            """,
            partitions=PARTITIONS,
            x=x,
            y=y,
            moment=moment,
            rows=ASSET_PARTITIONS,
            joins=joins,
        )
    )


def _layout_from_extent(
    connection: duckdb.DuckDBPyConnection,
    asset: int,
    across: tuple[str, str],
    down: tuple[str, str],
    time: str | None = None,
) -> Layout:
    """Return the layout of an asset's partitions, from the dimension and unit of each axis and the coordinates used."""
    rows = fetch_rows(
        connection,
        sql(
            "SELECT min(x), max(x), min(y), max(y), count(*) FILTER (WHERE x IS NULL OR y IS NULL) "
            "FROM {partitions} WHERE asset = {asset}",
            partitions=PARTITIONS,
            asset=asset,
        ),
    )
    x0, x1, y0, y1, unplaced_count = rows[0]
    if across[1] in _FULL_AXIS_SIZES and x0 is not None:
        x0, x1 = 0, max(x1, _FULL_AXIS_SIZES[across[1]] - 1)
    return Layout(Axis(*across, x0 or 0, x1 or 0), Axis(*down, y0 or 0, y1 or 0), unplaced_count, time)


def _create_ticks(connection: duckdb.DuckDBPyConnection, table: Sql, value: Sql) -> None:
    """Create a table of the distinct values of an axis, numbered in their order."""
    distinct_values = sql("SELECT DISTINCT {value} AS v FROM {rows} ORDER BY v", value=value, rows=ASSET_PARTITIONS)
    texts = [text for (text,) in fetch_rows(connection, distinct_values)]
    sorted_texts = sorted(texts, key=_sort_key) if len(texts) <= _MAX_SORTED_VALUES else texts
    create_temp_table(connection, table, {"coordinate": "INTEGER", "value": VARCHAR}, enumerate(sorted_texts))


def _insert_ticks(connection: duckdb.DuckDBPyConnection, asset: int, axis: str, table: Sql) -> None:
    insert = "INSERT INTO {ticks} SELECT {asset}, {axis}, coordinate, value FROM {values}"
    connection.execute(sql(insert, ticks=TICKS, asset=asset, axis=axis, values=table))


def _sort_key(text: str) -> tuple[Any, ...]:
    """Return the sort key of a canonical key: numbers by size, texts by letters, nulls first."""
    try:
        return (0, *_typed_sort_keys(PartitionKey.parse(text).values()))
    except KeyFormatError:
        return (1, text)


def _typed_sort_keys(values: Iterable[KeyValue]) -> Iterable[tuple[str, Any]]:
    return [("", 0) if value is None else (type(value).__name__, value) for value in values]
