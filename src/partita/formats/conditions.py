"""How a predicate is read: its time zone and which columns its names find, as in the Spark session that runs.

Where none runs, the time zone is the lake's.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.time_zones import find_time_zone

if TYPE_CHECKING:
    from partita.spark.rows import SparkSession


def current_condition(where: PredicateLike, default_time_zone: str) -> UnboundPredicate:
    """A predicate as the session that is running reads it; Spark is neither started nor imported.

    Where none runs, it is in the time zone `otherwise`.
    """
    if all(sys.modules.get(name) is not None for name in ("pyspark", "pyspark.sql")):
        from partita.spark.session import running_session

        running = running_session()
        if running is not None:
            return _session_condition(where, running)
    return UnboundPredicate(where, find_time_zone(default_time_zone))


def evaluated_condition(
    where: PredicateLike, default_time_zone: str, spark: SparkSession | None = None
) -> UnboundPredicate:
    """A predicate as the session that will evaluate it reads it: the given one, the one that runs, or a new one.

    A new one will have the time zone `otherwise`. It is started here if that has rules, for those of its JVM count.
    """
    from partita.spark.session import running_session, spark_session

    zone = find_time_zone(default_time_zone)
    evaluating = spark or running_session() or (None if zone.is_fixed else spark_session())
    return UnboundPredicate(where, zone) if evaluating is None else _session_condition(where, evaluating)


def _session_condition(where: PredicateLike, spark: SparkSession) -> UnboundPredicate:
    from partita.spark.sql_semantics import name_matching
    from partita.spark.time_zones import session_time_zone

    return UnboundPredicate(where, session_time_zone(spark), name_matching(spark))
