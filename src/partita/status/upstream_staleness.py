"""Upstream staleness: which partitions are stale because an upstream changed, directly or transitively.

A partition is stale since the first success of an upstream partition after it read that. Where it is known when its
attempt began, that is when it read its upstreams: what they got while it ran is not in it. In a transitive query, what
is made from a stale partition is stale too, and the root of the chain is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from partita.errors import DefinitionError
from partita.status.duckdb_engine import (
    TIMESTAMPTZ,
    VARCHAR,
    create_table,
    create_temp_table,
    create_view,
    fetch_rows,
)
from partita.status.duckdb_sql import Sql, comma_separated, sql, tuple_of
from partita.status.events import EventKind
from partita.status.lineage import LineageEdge, asset_condition, create_edge_groups
from partita.status.relations import (
    CHANGED_UPSTREAMS,
    STALE_PARTITIONS,
    STATUS_ROWS,
    SUCCESS_EVENTS,
    UPSTREAM_STALENESS,
)
from partita.status.selected_partitions import QueryInputs
from partita.status.staleness_facts import StalenessFacts
from partita.status.states import StaleReason

if TYPE_CHECKING:
    import duckdb

UPSTREAM_ORDER = Sql("(since, origin, by_asset, by_partition)")
"""The order of the rows of `UPSTREAM_STALENESS` for one partition; the first one is shown."""


def create_upstream_staleness(
    inputs: QueryInputs, edges: Sequence[LineageEdge], rows: Sql
) -> list[tuple[LineageEdge, DefinitionError]]:
    """Create `UPSTREAM_STALENESS`: the partitions of `rows` whose upstreams were materialized after they read them.

    Edges whose mapping function fails are left out, and returned with the error.
    """
    connection = inputs.connection
    success_files = inputs.ledger_files.files_of(EventKind.SUCCEEDED)
    inputs.ledger.create_view(connection, SUCCESS_EVENTS, success_files, until=inputs.now)
    columns = (
        "asset_key",
        "partition_key",
        "since",
        "by_asset",
        "by_partition",
        "root_asset",
        "root_partition",
        "origin",
    )
    types = {"since": TIMESTAMPTZ, "origin": TIMESTAMPTZ}
    create_temp_table(connection, UPSTREAM_STALENESS, {column: types.get(column, VARCHAR) for column in columns})
    same_key_edges = [edge for edge in edges if edge.is_same_key]
    if same_key_edges:
        _add_same_key_changes(connection, same_key_edges, rows)
    failures = []
    for i, edge in enumerate(edge for edge in edges if not edge.is_same_key):
        try:
            _add_mapped_changes(connection, f"edge_{i}", edge, rows)
        except DefinitionError as error:
            failures.append((edge, error))
    return failures


def add_swept_staleness(connection: duckdb.DuckDBPyConnection, assets: Iterable[str]) -> None:
    """Add to `UPSTREAM_STALENESS` what a sweep stored of assets whose mappings this process can't evaluate.

    A sweep stores the moment of the first reason alone; where that was another reason, the upstream had changed by the
    time of the sweep. Other reasons are computed as always.
    """
    asset_names = sorted(assets)
    if asset_names:
        connection.execute(
            sql(
                """
                INSERT INTO {staleness}
                SELECT asset_key, partition_key,
                       CASE WHEN stale_reason_code = {reason} THEN stale_since ELSE swept_at END AS since, NULL, NULL,
                       asset_key, partition_key, since
                FROM {rows} WHERE asset_key IN ({assets}) AND list_contains(stale_reasons, {reason})
                  AND last_materialization_at IS NOT NULL
                """,
                staleness=UPSTREAM_STALENESS,
                reason=StaleReason.UPSTREAM_CHANGED,
                rows=STATUS_ROWS,
                assets=asset_names,
            )
        )


def _add_same_key_changes(connection: duckdb.DuckDBPyConnection, edges: Sequence[LineageEdge], rows: Sql) -> None:
    create_table(
        connection,
        CHANGED_UPSTREAMS,
        sql(
            """
            SELECT downstream.asset_key, downstream.partition_key, {read_at} AS read_at,
                   upstream_rows.asset_key AS by_asset, upstream_rows.last_materialization_at AS changed_at,
                   upstream_rows.wiped_at IS NULL
                   AND upstream_rows.first_materialization_at = upstream_rows.last_materialization_at AS is_once
            FROM {rows} AS downstream
            JOIN (VALUES {edges}) AS edges(asset_key, upstream) ON edges.asset_key = downstream.asset_key
            JOIN {all_rows} AS upstream_rows
              ON upstream_rows.asset_key = edges.upstream AND upstream_rows.partition_key = downstream.partition_key
            WHERE greatest(upstream_rows.last_materialization_at, upstream_rows.wiped_at) > {read_at}
            """,
            read_at=_read_time_sql(Sql("downstream")),
            rows=rows,
            edges=[tuple_of(edge.asset, edge.upstream) for edge in edges],
            all_rows=STATUS_ROWS,
        ),
    )
    connection.execute(
        sql(
            """
            INSERT INTO {staleness}
            SELECT asset_key, partition_key, changed_at, by_asset, partition_key, by_asset, partition_key, changed_at
            FROM {changed} WHERE is_once
            """,
            staleness=UPSTREAM_STALENESS,
            changed=CHANGED_UPSTREAMS,
        )
    )
    # Where an upstream succeeded more than once, or was wiped, the events tell its first success after that of the
    # downstream.
    first_read_of_repeated = sql(
        "SELECT epoch_us(min(read_at)) FROM {changed} WHERE NOT is_once", changed=CHANGED_UPSTREAMS
    )
    (since_micros,) = fetch_rows(connection, first_read_of_repeated)[0]
    if since_micros is None:
        return
    connection.execute(
        sql(
            """
            INSERT INTO {staleness}
            SELECT p.asset_key, p.partition_key, min(s.occurred_at), p.by_asset, p.partition_key, p.by_asset,
                   p.partition_key, min(s.occurred_at)
            FROM {changed} AS p JOIN (
                -- Each attempt once, as it was last reported.
                SELECT asset_key, partition_key, max(occurred_at) AS occurred_at FROM {successes} AS s
                SEMI JOIN (FROM {changed} WHERE NOT is_once) AS p
                  ON p.by_asset = s.asset_key AND p.partition_key = s.partition_key
                GROUP BY asset_key, partition_key, run_id, attempt
            ) AS s ON s.asset_key = p.by_asset AND s.partition_key = p.partition_key AND s.occurred_at > p.read_at
            WHERE NOT p.is_once GROUP BY ALL
            """,
            staleness=UPSTREAM_STALENESS,
            changed=CHANGED_UPSTREAMS,
            successes=_successes_after_sql({edge.upstream for edge in edges}, since_micros),
        )
    )


def _read_time_sql(rows: Sql) -> Sql:
    """Return the moment at which a materialization read its upstreams."""
    return sql("least({rows}.last_materialization_at, {rows}.last_materialization_started_at)", rows=rows)


def _successes_after_sql(assets: Iterable[str], micros: int) -> Sql:
    """Return a relation of the successes of some assets after a moment; DuckDB skips most files by it."""
    return sql(
        "(SELECT * FROM {events} WHERE asset_key IN ({assets}) AND occurred_at > make_timestamptz({micros}))",
        events=SUCCESS_EVENTS,
        assets=sorted(assets),
        micros=micros,
    )


def _add_mapped_changes(connection: duckdb.DuckDBPyConnection, prefix: str, edge: LineageEdge, rows: Sql) -> None:
    downstream_rows, upstream_rows = Sql(f"{prefix}_downstream"), Sql(f"{prefix}_upstream")
    create_view(
        connection,
        downstream_rows,
        sql(
            "SELECT partition_key, {read_at} AS read_at FROM {rows} "
            "WHERE {is_asset} AND last_materialization_at IS NOT NULL",
            read_at=_read_time_sql(rows),
            rows=rows,
            is_asset=asset_condition(edge.asset),
        ),
    )
    create_view(
        connection,
        upstream_rows,
        sql(
            "SELECT partition_key FROM {rows} WHERE {is_asset} AND first_materialization_at IS NOT NULL",
            rows=STATUS_ROWS,
            is_asset=asset_condition(edge.upstream),
        ),
    )
    (since_micros,) = fetch_rows(
        connection, sql("SELECT epoch_us(min(read_at)) FROM {downstream}", downstream=downstream_rows)
    )[0]
    if since_micros is None:
        return
    groups = create_edge_groups(connection, prefix, edge, downstream_rows, upstream_rows)
    connection.execute(
        sql(
            """
            INSERT INTO {staleness}
            WITH successes AS (
                SELECT partition_key, max(occurred_at) AS occurred_at FROM {successes}
                GROUP BY partition_key, run_id, attempt
            ), changes AS (
                SELECT g.grouped, s.occurred_at, min(s.partition_key) AS partition_key
                FROM {upstream_groups} AS g JOIN successes AS s USING (partition_key) GROUP BY ALL
            ), first_changes AS (
                SELECT o.partition_key, c.occurred_at, c.partition_key AS by_partition
                FROM (SELECT r.partition_key, r.read_at, g.grouped
                      FROM {downstream} AS r JOIN {downstream_groups} AS g USING (partition_key)) AS o
                ASOF JOIN changes AS c ON o.grouped = c.grouped AND o.read_at < c.occurred_at
            )
            SELECT {asset}, partition_key, min(occurred_at), {upstream},
                   arg_min(by_partition, (occurred_at, by_partition)), {upstream},
                   arg_min(by_partition, (occurred_at, by_partition)), min(occurred_at)
            FROM first_changes GROUP BY partition_key
            """,
            staleness=UPSTREAM_STALENESS,
            successes=_successes_after_sql([edge.upstream], since_micros),
            upstream_groups=groups.upstream,
            downstream_groups=groups.downstream,
            downstream=downstream_rows,
            asset=edge.asset,
            upstream=edge.upstream,
        )
    )


# --- Transitive staleness: what is made from a stale partition is stale too, and the root of the chain is shown ---


def add_transitive_staleness(
    connection: duckdb.DuckDBPyConnection, edges: Sequence[LineageEdge], facts: StalenessFacts, now: datetime
) -> None:
    """Add to `UPSTREAM_STALENESS` the partitions whose upstreams are stale themselves.

    `edges` are ordered: those of an upstream come before those to it. A partition is stale since its upstream is, or
    since it was itself made from a partition that was stale already.
    """
    columns = {"asset_key": VARCHAR, "partition_key": VARCHAR, "since": TIMESTAMPTZ}
    columns |= {"root_asset": VARCHAR, "root_partition": VARCHAR}
    create_temp_table(connection, STALE_PARTITIONS, columns)
    inserted_assets: set[str] = set()
    for i, edge in enumerate(edges):
        if edge.upstream not in inserted_assets:
            _insert_stale_partitions(connection, edge.upstream, facts, now)
            inserted_assets.add(edge.upstream)
        _insert_downstream_staleness(connection, f"transitive_{i}", edge)


def _insert_stale_partitions(
    connection: duckdb.DuckDBPyConnection, asset: str, facts: StalenessFacts, now: datetime
) -> None:
    """Insert the stale partitions of an asset, all of whose own edges are done, into `STALE_PARTITIONS`."""
    own_reasons = [reason for reason in StaleReason if reason is not StaleReason.UPSTREAM_CHANGED]
    connection.execute(
        sql(
            """
            INSERT INTO {stale}
            WITH base AS (SELECT * FROM {rows} WHERE {is_asset} AND last_materialization_at IS NOT NULL),
            upstream AS (
                SELECT partition_key, min(since) AS since, arg_min(root_asset, {order}) AS root_asset,
                       arg_min(root_partition, {order}) AS root_partition
                FROM {staleness} WHERE {is_asset} AND since <= {now} GROUP BY partition_key
            ), facts AS (
                SELECT base.*, {columns}, upstream.since AS upstream_since, root_asset, root_partition
                FROM base {joins} LEFT JOIN upstream ON upstream.partition_key = base.partition_key
            ), judged AS (
                SELECT partition_key, upstream_since, root_asset, root_partition, least({own_since}) AS own_since
                FROM facts
            )
            SELECT {asset}, partition_key, least(own_since, upstream_since),
                   CASE WHEN own_since IS NULL OR upstream_since < own_since THEN root_asset ELSE {asset} END,
                   CASE WHEN own_since IS NULL OR upstream_since < own_since THEN root_partition ELSE partition_key END
            FROM judged WHERE own_since IS NOT NULL OR upstream_since IS NOT NULL
            """,
            stale=STALE_PARTITIONS,
            rows=STATUS_ROWS,
            is_asset=asset_condition(asset),
            order=UPSTREAM_ORDER,
            staleness=UPSTREAM_STALENESS,
            now=now,
            columns=facts.columns,
            joins=facts.joins,
            own_since=comma_separated(reason.since_sql(now) for reason in own_reasons),
            asset=asset,
        )
    )


def _insert_downstream_staleness(connection: duckdb.DuckDBPyConnection, prefix: str, edge: LineageEdge) -> None:
    downstream_rows, upstream_rows = Sql(f"{prefix}_downstream"), Sql(f"{prefix}_upstream")
    create_view(
        connection,
        downstream_rows,
        sql(
            "SELECT partition_key, last_materialization_at FROM {rows} "
            "WHERE {is_asset} AND last_materialization_at IS NOT NULL",
            rows=STATUS_ROWS,
            is_asset=asset_condition(edge.asset),
        ),
    )
    is_upstream = asset_condition(edge.upstream)
    create_view(
        connection, upstream_rows, sql("SELECT * FROM {stale} WHERE {c}", stale=STALE_PARTITIONS, c=is_upstream)
    )
    groups = create_edge_groups(connection, prefix, edge, downstream_rows, upstream_rows)
    connection.execute(
        sql(
            """
            INSERT INTO {staleness}
            WITH first AS (
                SELECT g.grouped, arg_min(struct_pack(s := s.since, p := s.partition_key, a := s.root_asset,
                                                      r := s.root_partition), (s.since, s.partition_key)) AS x
                FROM {upstream_groups} AS g JOIN {upstream_rows} AS s USING (partition_key) GROUP BY g.grouped
            ), causes AS (
                SELECT r.partition_key, greatest(x.s, r.last_materialization_at) AS since, x
                FROM {downstream} AS r JOIN {downstream_groups} AS g USING (partition_key) JOIN first USING (grouped)
            )
            SELECT {asset}, partition_key, min(since), {upstream},
                   arg_min(x.p, (since, x.s, x.p)), arg_min(x.a, (since, x.s, x.p)), arg_min(x.r, (since, x.s, x.p)),
                   arg_min(x.s, (since, x.s, x.p))
            FROM causes GROUP BY partition_key
            """,
            staleness=UPSTREAM_STALENESS,
            upstream_groups=groups.upstream,
            downstream_groups=groups.downstream,
            upstream_rows=upstream_rows,
            downstream=downstream_rows,
            asset=edge.asset,
            upstream=edge.upstream,
        )
    )
