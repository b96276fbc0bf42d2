"""The time zone of a session, and whether this Python and that JVM know the same rules of it.

Both have a tz database of their own, of different years as a rule, and governments change their rules. Where the two
differ in a zone, what a local time means there is left to Spark.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from partita.algebra.time_zones import FIRST_YEAR, LAST_YEAR, TimeZone, find_time_zone
from partita.errors import TimeZoneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.session.timeZone"
_TIMESTAMP = "spark.sql.timestampType"


def session_time_zone(spark: SparkSession) -> TimeZone:
    """The time zone of a session; without rules where Python has none of that name, or others than the JVM."""
    name = cast("str", spark.conf.get(SETTING))
    is_ntz = (spark.conf.get(_TIMESTAMP, None) or "").upper() == "TIMESTAMP_NTZ"
    try:
        zone = find_time_zone(name)
    except TimeZoneError:
        return TimeZone(name, None, is_ntz)
    rules = zone.rules if zone.is_fixed or _has_same_rules(spark, zone) else None
    return TimeZone(zone.name, rules, is_ntz)


_same_rules: dict[tuple[str | None, str], bool] = {}
"""Whether the rules are the same, by application and zone."""


def _has_same_rules(spark: SparkSession, zone: TimeZone) -> bool:
    key = spark.conf.get("spark.app.id", None), zone.name
    if key not in _same_rules:
        _same_rules[key] = _compare_rules(spark, zone)
    return _same_rules[key]


def _compare_rules(spark: SparkSession, zone: TimeZone) -> bool:
    """Whether the JVM has the same local times as Python, once a week and around each change of the offset."""
    changes = _changes(zone)
    edges = ",".join(str(second) for change in changes for second in (change - 1, change))
    instants = f"sequence({_FIRST}L, {_LAST}L, {_WEEK}L)"
    if edges:
        instants = f"concat({instants}, transform(split('{edges}', ','), i -> CAST(i AS BIGINT)))"
    found = spark.sql(f"SELECT transform({instants}, i -> CAST(timestamp_seconds(i) AS TIMESTAMP_NTZ)) AS local")
    theirs = found.toArrow()["local"].combine_chunks().values.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    ours = [_local_second(zone, second) for second in range(_FIRST, _LAST + 1, _WEEK)]
    ours += [_local_second(zone, second) for change in changes for second in (change - 1, change)]
    return bool(np.array_equal(np.array(ours, np.int64) * 1_000_000, theirs))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_WEEK = 7 * 24 * 3600
_FIRST = (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND - _WEEK
_LAST = (datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND + _WEEK


@lru_cache(maxsize=32)
def _changes(zone: TimeZone) -> tuple[int, ...]:
    """The seconds from 1970 at which the offset changes."""
    found = []
    for week in range(_FIRST, _LAST, _WEEK):
        low, high = week, week + _WEEK
        before = _offset(zone, low)
        if _offset(zone, high) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
        found.append(high)
    return tuple(found)


def _offset(zone: TimeZone, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone.rules).utcoffset()
    return cast("timedelta", offset) // _SECOND


def _local_second(zone: TimeZone, second: int) -> int:
    return second + _offset(zone, second)
