"""The time zone and the case sensitivity of names with which a predicate is read: those of the running Spark session.

Without a running session, the time zone is that of the lake.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.time_zones import find_time_zone

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession


def current_condition(where: PredicateLike, default_time_zone: str) -> UnboundPredicate:
    """Return a predicate as the running session reads it, or in `default_time_zone` if none runs.

    Spark is neither started nor imported.
    """
    if all(sys.modules.get(name) is not None for name in ("pyspark", "pyspark.sql")):
        from partita.spark.session import running_session

        session = running_session()
        if session is not None:
            return _session_condition(where, session)
    return UnboundPredicate(where, find_time_zone(default_time_zone))


def evaluated_condition(
    where: PredicateLike, default_time_zone: str, spark: SparkSession | None = None
) -> UnboundPredicate:
    """Return a predicate as the session that will evaluate it reads it: the given, the running, or a new one.

    A new one will have `default_time_zone`. It is started here if that zone has rules, since those of its JVM apply.
    """
    from partita.spark.session import running_session, spark_session

    zone = find_time_zone(default_time_zone)
    session = spark or running_session() or (None if zone.is_fixed else spark_session())
    return UnboundPredicate(where, zone) if session is None else _session_condition(where, session)


def _session_condition(where: PredicateLike, spark: SparkSession) -> UnboundPredicate:
    from partita.spark.sql_semantics import name_matching
    from partita.spark.time_zones import session_time_zone

    return UnboundPredicate(where, session_time_zone(spark), name_matching(spark))
