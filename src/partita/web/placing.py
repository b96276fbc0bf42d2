"""Puts the partitions of one asset on its map, in DuckDB: rows of `loaded` become rows of `partitions`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import NAME, KeyValue
from partita.algebra.windows import DAY, HOUR, Windows
from partita.errors import KeyFormatError
from partita.status.engine import TEXT, listed, make_table
from partita.status.links import dimension_sql
from partita.web.layout import (
    MINUTE,
    ORDINAL_SQL,
    PLACE,
    VALUE,
    WRAP,
    WRAPPED,
    WRAPPED_SQL,
    Axis,
    Layout,
    moment_sql,
    without_sql,
)

if TYPE_CHECKING:
    import duckdb

    from partita.status.definitions import Definition

ACROSS, DOWN = "across", "down"
_SORTED = 20_000
"""So many values are put in the order that people expect; more of them in that of their texts."""


def place(connection: duckdb.DuckDBPyConnection, asset: int, definition: Definition | None) -> Layout:
    """Add the partitions of an asset to `partitions`, with `x` and `y`; the values along axes go into `ticks`."""
    connection.execute(f"CREATE OR REPLACE TEMP VIEW own AS SELECT * FROM loaded WHERE asset = {asset:d}")  # noqa: S608
    given = _dimensions(connection) if definition is None else definition.partitions.names
    # They go into SQL, and whoever can write files into the lake can write odd ones.
    names = [name for name in given if re.fullmatch(NAME, name)]
    time, unit = _time(connection, names, definition)
    rest = [name for name in names if name != time]
    if time is not None and not rest:
        return _calendar(connection, asset, time, unit)
    if time is not None:
        return _lanes(connection, asset, time, unit, ", ".join(rest))
    if len(names) > 1:
        return _grid(connection, asset, names)
    return _wrapped(connection, asset, names)


def _dimensions(connection: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """The dimensions that the keys have; those of the one that comes first, which nearly always are those of all."""
    found = listed(connection, "SELECT min(partition_key) FROM own")
    return tuple(re.findall("(?:^|,)([^=,]*)=", found[0][0] or ""))


def _time(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], definition: Definition | None
) -> tuple[str | None, str]:
    """The dimension that goes across, and its unit: windows, or else what is a date or a timestamp in every key."""
    dimensions = () if definition is None else definition.partitions.dimensions
    windows = next((d for d in dimensions if isinstance(d, Windows)), None)
    if windows is not None:
        return windows.dimension, windows.unit
    for name in names:
        text = dimension_sql("partition_key", name)
        found = listed(
            connection,
            f"SELECT min(left(value, 2)), max(left(value, 2)), bool_and(contains(value, ':00:00.000000Z')), "  # noqa: S608
            f"bool_and(contains(value, ':00.000000Z')) FROM (SELECT {text} AS value FROM own)",
        )
        least, most, whole_hours, whole_minutes = found[0]
        if least == most == "d:":
            return name, DAY
        if least == most == "t:" and (whole_hours or whole_minutes):
            return name, HOUR if whole_hours else MINUTE
    return None, ""


def _calendar(connection: duckdb.DuckDBPyConnection, asset: int, time: str, unit: str) -> Layout:
    x, y = WRAPPED_SQL[unit]
    _insert(connection, x, y, f"(SELECT *, {moment_sql(time)} AS moment FROM own) AS o")  # noqa: S608 - our own names
    across, down = WRAPPED[unit]
    return _layout(connection, asset, (time, across), (time, down), time)


def _lanes(connection: duckdb.DuckDBPyConnection, asset: int, time: str, unit: str, rest: str) -> Layout:
    lane = without_sql(time)
    _make_ticks(connection, asset, DOWN, lane)
    _insert(
        connection,
        ORDINAL_SQL[unit],
        "t.place",
        f"(SELECT *, {moment_sql(time)} AS moment, {lane} AS lane FROM own) AS o LEFT JOIN made_ticks AS t "  # noqa: S608
        "ON t.value = o.lane",
    )
    return _layout(connection, asset, (time, unit), (rest, VALUE), time)


def _grid(connection: duckdb.DuckDBPyConnection, asset: int, names: Sequence[str]) -> Layout:
    counted = ", ".join(f"approx_count_distinct({dimension_sql('partition_key', name)})" for name in names)
    sizes = listed(connection, f"SELECT {counted} FROM own")[0]  # noqa: S608 - our own names
    widest = names[max(range(len(names)), key=lambda at: sizes[at])]
    rest = [name for name in names if name != widest]
    value = f"'{widest}=' || {dimension_sql('partition_key', widest)}"
    _make_ticks(connection, asset, ACROSS, value)
    connection.execute("ALTER TABLE made_ticks RENAME TO made_columns")
    _make_ticks(connection, asset, DOWN, without_sql(widest))
    _insert(
        connection,
        "c.place",
        "t.place",
        f"(SELECT *, {value} AS col, {without_sql(widest)} AS lane FROM own) AS o "  # noqa: S608 - our own names
        "LEFT JOIN made_columns AS c ON c.value = o.col LEFT JOIN made_ticks AS t ON t.value = o.lane",
    )
    connection.execute("DROP TABLE made_columns")
    return _layout(connection, asset, (widest, VALUE), (", ".join(rest), VALUE))


def _wrapped(connection: duckdb.DuckDBPyConnection, asset: int, names: Sequence[str]) -> Layout:
    _make_ticks(connection, asset, None, "partition_key")
    _insert(
        connection,
        f"t.place % {WRAP}",
        f"t.place // {WRAP}",
        "own AS o JOIN made_ticks AS t ON t.value = partition_key",
    )
    connection.execute(
        f"INSERT INTO ticks SELECT {asset:d}, '{DOWN}', place // {WRAP}, value FROM made_ticks WHERE place % {WRAP} = 0"  # noqa: S608
    )
    name = next(iter(names), "")
    return _layout(connection, asset, (name, PLACE), (name, VALUE))


def _insert(connection: duckdb.DuckDBPyConnection, x: str, y: str, source: str) -> None:
    """Add the rows of a source to `partitions`; it calls them `o`, and may have `moment`, `lane` and `col` besides."""
    extra = re.findall(r"AS (moment|lane|col)\b", source)
    rows = f"o.* EXCLUDE ({', '.join(extra)})" if extra else "o.*"
    moment = "moment" if "moment" in extra else "NULL"
    connection.execute(f"INSERT INTO partitions SELECT {rows}, {moment}, ({x})::INTEGER, ({y})::INTEGER FROM {source}")  # noqa: S608


def _layout(
    connection: duckdb.DuckDBPyConnection,
    asset: int,
    across: tuple[str, str],
    down: tuple[str, str],
    time: str | None = None,
) -> Layout:
    found = listed(
        connection,
        "SELECT min(x), max(x), min(y), max(y), count(*) FILTER (WHERE x IS NULL OR y IS NULL) "  # noqa: S608 - a number
        f"FROM partitions WHERE asset = {asset:d}",
    )
    x0, x1, y0, y1, unplaced = found[0]
    if across[1] in _WHOLE and x0 is not None:
        x0, x1 = 0, max(x1, _WHOLE[across[1]] - 1)
    return Layout(Axis(*across, x0 or 0, x1 or 0), Axis(*down, y0 or 0, y1 or 0), unplaced, time)


_WHOLE = {"day of the month": 31, "month of the year": 12, "hour of the day": 24, "week of the year": 53}
"""Lines of a calendar that are shown whole, whatever is in them."""


def _make_ticks(connection: duckdb.DuckDBPyConnection, asset: int, axis: str | None, value: str) -> None:
    """Make `made_ticks`, the distinct values in their order; and with an axis, add them to `ticks`."""
    texts = [text for (text,) in listed(connection, f"SELECT DISTINCT {value} AS v FROM own ORDER BY v")]  # noqa: S608
    ordered = sorted(texts, key=_order) if len(texts) <= _SORTED else texts
    connection.execute("DROP TABLE IF EXISTS made_ticks")
    make_table(connection, "made_ticks", {"place": "INTEGER", "value": TEXT}, enumerate(ordered))
    if axis is not None:
        connection.execute(f"INSERT INTO ticks SELECT {asset:d}, '{axis}', place, value FROM made_ticks")  # noqa: S608


def _order(text: str) -> tuple[Any, ...]:
    """Values in the order of their kind: numbers by size, texts by letters, and nulls first."""
    try:
        return (0, *_ranked(PartitionKey.parse(text).values()))
    except KeyFormatError:
        return (1, text)


def _ranked(values: Iterable[KeyValue]) -> Iterable[tuple[str, Any]]:
    return [("", 0) if value is None else (type(value).__name__, value) for value in values]
