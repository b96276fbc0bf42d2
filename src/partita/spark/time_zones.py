"""The time zone of a session, and whether Python and the JVM have the same rules for it.

Each has its own tz database, often of different years, and governments change the rules of time zones. If the two
differ for a zone, Partita leaves it to Spark what a local time means there.
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

TIME_ZONE_SETTING = "spark.sql.session.timeZone"
_TIMESTAMP_TYPE_SETTING = "spark.sql.timestampType"


def session_time_zone(spark: SparkSession) -> TimeZone:
    """Return the time zone of a session; it has no rules if Python doesn't know it, or has other rules than the JVM."""
    name = cast("str", spark.conf.get(TIME_ZONE_SETTING))
    is_ntz = (spark.conf.get(_TIMESTAMP_TYPE_SETTING, None) or "").upper() == "TIMESTAMP_NTZ"
    try:
        zone = find_time_zone(name)
    except TimeZoneError:
        return TimeZone(name, None, is_ntz)
    rules = zone.rules if zone.is_fixed or _has_same_rules(spark, zone) else None
    return TimeZone(zone.name, rules, is_ntz)


_same_rules: dict[tuple[str | None, str], bool] = {}
"""Whether Python and the JVM have the same rules, by application and zone."""


def _has_same_rules(spark: SparkSession, zone: TimeZone) -> bool:
    key = spark.conf.get("spark.app.id", None), zone.name
    if key not in _same_rules:
        _same_rules[key] = _has_equal_local_times(spark, zone)
    return _same_rules[key]


def _has_equal_local_times(spark: SparkSession, zone: TimeZone) -> bool:
    """Compare the local times of the JVM and Python, once a week and around each change of the offset."""
    changes = _offset_changes(zone)
    edges = ",".join(str(second) for change in changes for second in (change - 1, change))
    instants = f"sequence({_FIRST_SECOND}L, {_LAST_SECOND}L, {_WEEK_SECONDS}L)"
    if edges:
        instants = f"concat({instants}, transform(split('{edges}', ','), i -> CAST(i AS BIGINT)))"
    rows = spark.sql(f"SELECT transform({instants}, i -> CAST(timestamp_seconds(i) AS TIMESTAMP_NTZ)) AS local")
    jvm_times = rows.toArrow()["local"].combine_chunks().values.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    python_times = [_local_second(zone, second) for second in range(_FIRST_SECOND, _LAST_SECOND + 1, _WEEK_SECONDS)]
    python_times += [_local_second(zone, second) for change in changes for second in (change - 1, change)]
    return bool(np.array_equal(np.array(python_times, np.int64) * 1_000_000, jvm_times))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_WEEK_SECONDS = 7 * 24 * 3600
_FIRST_SECOND = (datetime(FIRST_YEAR, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND - _WEEK_SECONDS
_LAST_SECOND = (datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND + _WEEK_SECONDS


@lru_cache(maxsize=32)
def _offset_changes(zone: TimeZone) -> tuple[int, ...]:
    """Return the seconds from 1970 at which the UTC offset changes."""
    changes = []
    for week in range(_FIRST_SECOND, _LAST_SECOND, _WEEK_SECONDS):
        low, high = week, week + _WEEK_SECONDS
        old_offset = _utc_offset(zone, low)
        if _utc_offset(zone, high) == old_offset:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _utc_offset(zone, middle) == old_offset else (low, middle)
        changes.append(high)
    return tuple(changes)


def _utc_offset(zone: TimeZone, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone.rules).utcoffset()
    return cast("timedelta", offset) // _SECOND


def _local_second(zone: TimeZone, second: int) -> int:
    return second + _utc_offset(zone, second)
