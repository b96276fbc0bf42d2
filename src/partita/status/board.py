"""The board: every partition with what is shown of it, as one relation of DuckDB.

`base` has the rows and what is expected besides, other relations the reasons for staleness; the board joins them. What
an answer doesn't ask for is not computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from partita.status.display import CANCELLED_SQL, DISPLAY_SQL, FAILED_SQL
from partita.status.engine import instant, quoted
from partita.status.fold import values_sql
from partita.status.rows import SEED, our_names, row_names
from partita.status.running import RUNNING
from partita.status.staleness import FIRST, UPSTREAM_STALE, Joined

BOARD = "board"
COLUMNS = (
    *SEED, "display_status", "stale_reasons", "expected", "running", "failed", "cancelled", "staleness",
    "stale_upstream_asset_key", "stale_upstream_partition_key", "stale_root_asset_key", "stale_root_partition_key",
    *our_names(), "swept_at", "running_since", "running_run_id", "last_materialization_started_at",
)  # fmt: skip
"""The columns of an answer: the seed's, then ours; later versions add to the end."""
NOT_CURRENT = "expected IS NOT FALSE AND (display_status <> 'MATERIALIZED' OR staleness = 'unknown')"
"""The condition that something is to be done about a partition, or that this can't be told."""
STATES = {
    "missing": "display_status = 'NEVER_MATERIALIZED' AND expected IS NOT FALSE",
    "stale": "stale_since IS NOT NULL",
    "failed": "failed OR display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'",
    "running": "running",
    "cancelled": "cancelled",
    "unexpected": "expected IS FALSE",
    "never_materialized": "display_status = 'NEVER_MATERIALIZED'",
    "materialized_but_last_attempt_failed": "display_status = 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'",
    "materialized": "display_status = 'MATERIALIZED'",
    "unknown": "staleness = 'unknown'",
    "current": "display_status = 'MATERIALIZED' AND expected IS NOT FALSE AND staleness <> 'unknown'",
}
"""What an answer can be narrowed to, and the condition of each."""


def counts_sql() -> str:
    """The select of how many partitions of each asset are in each state."""
    first = ("current", *(name for name in STATES if name != "current"))
    counted = ", ".join(f"count(*) FILTER (WHERE {STATES[name]}) AS {name}" for name in first)
    return f"SELECT asset_key, count(*) AS partitions, {counted} FROM {BOARD} GROUP BY asset_key ORDER BY asset_key"  # noqa: S608


def board_sql(fresh: Joined, code: Joined, now: datetime, unasked: Iterable[str], troubled: Iterable[str]) -> str:
    """The select that joins the reasons to the base and computes what is shown.

    Of `unasked` assets an upstream can't be judged here, so a sweep's word counts; of `troubled` ones nothing can.
    """
    computed = ("stale_since", "stale_reason_code", "stale_reasons", "partition_values")
    kept = ", ".join(f"base.{c}" for c in (*row_names(), "expected") if c not in computed)
    causes = (
        "[{'since': fresh_since, 'rank': 1, 'code': 'FRESHNESS_POLICY'}, "
        "{'since': upstream_since, 'rank': 2, 'code': 'UPSTREAM_CHANGED'}, "
        "{'since': code_since, 'rank': 3, 'code': 'CODE_CHANGED'}]"
    )
    above = "stale_since = upstream_since AND stale_since IS DISTINCT FROM fresh_since"
    ordered = f"list_sort(list_filter({causes}, lambda c: c.since IS NOT NULL))"
    return f"""
        WITH upstream AS (
            SELECT asset_key, partition_key, min(since) AS since, arg_min(by_asset, {FIRST}) AS by_asset,
                   arg_min(by_partition, {FIRST}) AS by_partition, arg_min(root_asset, {FIRST}) AS root_asset,
                   arg_min(root_partition, {FIRST}) AS root_partition
            FROM {UPSTREAM_STALE} WHERE since <= {instant(now)} GROUP BY asset_key, partition_key
        ), judged AS (
            SELECT {kept}, running_since, running_run_id,
                   CASE WHEN {fresh.value} < {instant(now)} THEN {fresh.value} END AS fresh_since,
                   {code.value} AS code_since, upstream.since AS upstream_since, by_asset, by_partition, root_asset,
                   root_partition
            FROM base {fresh.joins} {code.joins}
            LEFT JOIN upstream ON upstream.asset_key = base.asset_key AND upstream.partition_key = base.partition_key
            LEFT JOIN {RUNNING} AS r ON r.asset_key = base.asset_key AND r.partition_key = base.partition_key
        ), dated AS (
            SELECT *, least(fresh_since, upstream_since, code_since) AS stale_since FROM judged
        )
        SELECT *,
               {values_sql("partition_key")} AS partition_values,
               CASE WHEN stale_since IS NULL THEN NULL WHEN stale_since = fresh_since THEN 'FRESHNESS_POLICY'
                    WHEN stale_since = upstream_since THEN 'UPSTREAM_CHANGED' ELSE 'CODE_CHANGED' END
                   AS stale_reason_code,
               CASE WHEN stale_since IS NULL THEN []::VARCHAR[]
                    ELSE list_transform({ordered}, lambda c: c.code) END AS stale_reasons,
               {DISPLAY_SQL} AS display_status, running_since IS NOT NULL AS running, {FAILED_SQL} AS failed,
               {CANCELLED_SQL} AS cancelled, {_staleness(unasked, troubled)} AS staleness,
               by_asset AS stale_upstream_asset_key, by_partition AS stale_upstream_partition_key,
               CASE WHEN stale_since IS NULL THEN NULL WHEN {above} THEN root_asset ELSE asset_key END
                   AS stale_root_asset_key,
               CASE WHEN stale_since IS NULL THEN NULL WHEN {above} THEN root_partition ELSE partition_key END
                   AS stale_root_partition_key
        FROM dated
    """  # noqa: S608 - our own names


def _staleness(unasked: Iterable[str], troubled: Iterable[str]) -> str:
    """How staleness was found; of what isn't materialized there is nothing to find."""
    cases = "WHEN last_materialization_at IS NULL THEN 'computed' "
    if names := ", ".join(map(quoted, sorted(troubled))):
        cases += f"WHEN asset_key IN ({names}) THEN 'unknown' "
    if names := ", ".join(map(quoted, sorted(unasked))):
        cases += f"WHEN asset_key IN ({names}) THEN CASE WHEN swept_at IS NULL THEN 'unknown' ELSE 'swept' END "
    return f"CASE {cases} ELSE 'computed' END"
