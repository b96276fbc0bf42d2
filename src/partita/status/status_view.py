"""The status view: every selected partition with its full status, as one relation.

The view joins the facts of staleness and the running attempts to the selected partitions. DuckDB computes only those
columns that a query reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from partita.status.duckdb_sql import Sql, comma_separated, name, names, sql
from partita.status.fold import partition_values_sql
from partita.status.relations import RUNNING_PARTITIONS, SELECTED_PARTITIONS, STATUS_VIEW, UPSTREAM_STALENESS
from partita.status.schema import PARTITION_STATUS_COLUMNS, added_column_names, status_column_names
from partita.status.staleness_facts import StalenessFacts
from partita.status.states import CANCELLED_SQL, DISPLAY_STATUS_SQL, FAILED_SQL, STATE_FILTERS, StaleReason
from partita.status.upstream_staleness import UPSTREAM_ORDER

STATUS_COLUMNS = (
    *PARTITION_STATUS_COLUMNS, "display_status", "stale_reasons", "expected", "running", "failed", "cancelled",
    "staleness", "stale_upstream_asset_key", "stale_upstream_partition_key", "stale_root_asset_key",
    "stale_root_partition_key", *added_column_names(), "swept_at", "running_since", "running_run_id",
    "last_materialization_started_at",
)  # fmt: skip
"""The columns of an answer: those of the status document, then our own; later versions add to the end."""


def state_counts_sql() -> Sql:
    """Return the select of how many partitions of each asset match each state filter."""
    filters = {"current": STATE_FILTERS["current"], **STATE_FILTERS}
    counts = (
        sql("count(*) FILTER (WHERE {condition}) AS {state}", condition=condition, state=name(state))
        for state, condition in filters.items()
    )
    return sql(
        "SELECT asset_key, count(*) AS partitions, {counts} FROM {view} GROUP BY asset_key ORDER BY asset_key",
        counts=comma_separated(counts),
        view=STATUS_VIEW,
    )


def status_view_sql(
    facts: StalenessFacts, now: datetime, unmapped_assets: Iterable[str], problem_assets: Iterable[str]
) -> Sql:
    """Return the select of the status view.

    The mappings of `unmapped_assets` can't be evaluated in this process, so their staleness is that of the last sweep;
    that of `problem_assets` is unknown.
    """
    computed_columns = ("stale_since", "stale_reason_code", "stale_reasons", "partition_values")
    since_columns = [name(reason.since_column) for reason in StaleReason]
    return sql(
        """
        WITH upstream AS (
            SELECT asset_key, partition_key, min(since) AS since, arg_min(by_asset, {order}) AS by_asset,
                   arg_min(by_partition, {order}) AS by_partition, arg_min(root_asset, {order}) AS root_asset,
                   arg_min(root_partition, {order}) AS root_partition
            FROM {upstream_staleness} WHERE since <= {now} GROUP BY asset_key, partition_key
        ), facts AS (
            SELECT {columns}, running_since, running_run_id, {fact_columns}, upstream.since AS upstream_changed_at,
                   by_asset, by_partition, root_asset, root_partition
            FROM {partitions} AS base {fact_joins}
            LEFT JOIN upstream ON upstream.asset_key = base.asset_key AND upstream.partition_key = base.partition_key
            LEFT JOIN {running} AS r ON r.asset_key = base.asset_key AND r.partition_key = base.partition_key
        ), reasons AS (
            SELECT *, {reasons} FROM facts
        ), dated AS (
            SELECT *, least({since_columns}) AS stale_since FROM reasons
        ), coded AS (
            SELECT *, CASE {reason_cases} END AS stale_reason_code FROM dated
        )
        SELECT *,
               {partition_values} AS partition_values,
               CASE WHEN stale_since IS NULL THEN []::VARCHAR[] ELSE list_transform(
                    list_sort(list_filter([{causes}], lambda c: c.since IS NOT NULL)), lambda c: c.code
               ) END AS stale_reasons,
               {display_status} AS display_status, running_since IS NOT NULL AS running, {failed} AS failed,
               {cancelled} AS cancelled, {staleness} AS staleness,
               by_asset AS stale_upstream_asset_key, by_partition AS stale_upstream_partition_key,
               CASE WHEN stale_since IS NULL THEN NULL WHEN stale_reason_code = {upstream_changed} THEN root_asset
                    ELSE asset_key END AS stale_root_asset_key,
               CASE WHEN stale_since IS NULL THEN NULL WHEN stale_reason_code = {upstream_changed} THEN root_partition
                    ELSE partition_key END AS stale_root_partition_key
        FROM coded
        """,
        order=UPSTREAM_ORDER,
        upstream_staleness=UPSTREAM_STALENESS,
        now=now,
        columns=names((c for c in (*status_column_names(), "expected") if c not in computed_columns), relation="base"),
        fact_columns=facts.columns,
        partitions=SELECTED_PARTITIONS,
        fact_joins=facts.joins,
        running=RUNNING_PARTITIONS,
        reasons=comma_separated(
            sql("{since} AS {column}", since=reason.since_sql(now), column=name(reason.since_column))
            for reason in StaleReason
        ),
        since_columns=comma_separated(since_columns),
        reason_cases=Sql(
            " ".join(
                sql("WHEN stale_since = {column} THEN {reason}", column=name(reason.since_column), reason=reason)
                for reason in StaleReason
            )
        ),
        partition_values=partition_values_sql(Sql("partition_key")),
        causes=comma_separated(
            sql("struct_pack(since := {column}, rank := {i}, code := {reason})", column=column, i=i, reason=reason)
            for i, (column, reason) in enumerate(zip(since_columns, StaleReason, strict=True))
        ),
        display_status=DISPLAY_STATUS_SQL,
        failed=FAILED_SQL,
        cancelled=CANCELLED_SQL,
        staleness=_staleness_sql(unmapped_assets, problem_assets),
        upstream_changed=StaleReason.UPSTREAM_CHANGED,
    )


def _staleness_sql(unmapped_assets: Iterable[str], problem_assets: Iterable[str]) -> Sql:
    """Return how staleness was found: `computed`, `swept` or `unknown`; `computed` for a missing partition."""
    return sql(
        """CASE WHEN last_materialization_at IS NULL THEN 'computed'
                WHEN asset_key IN ({problem_assets}) THEN 'unknown'
                WHEN asset_key IN ({unmapped_assets}) THEN CASE WHEN swept_at IS NULL THEN 'unknown' ELSE 'swept' END
                ELSE 'computed' END""",
        problem_assets=sorted(problem_assets),
        unmapped_assets=sorted(unmapped_assets),
    )
