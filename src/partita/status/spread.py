"""Transitive staleness: what is made from something stale is stale too, and the root of it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from partita.status.engine import instant, quoted
from partita.status.links import Link, in_asset, make_groups
from partita.status.snapshot import ROWS
from partita.status.staleness import FIRST, UPSTREAM_STALE, Joined

if TYPE_CHECKING:
    import duckdb

_STALE = "stale_partitions"


def make_transitive(
    connection: duckdb.DuckDBPyConnection, links: Sequence[Link], fresh: Joined, code: Joined, now: datetime
) -> None:
    """Add to `UPSTREAM_STALE` the partitions whose upstreams are stale themselves.

    Links come in an order where those of an upstream stand before those to it. A partition is stale since its upstream
    is, or since it was itself made from what was stale already.
    """
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_STALE} (asset_key VARCHAR, partition_key VARCHAR, since TIMESTAMPTZ, "
        "root_asset VARCHAR, root_partition VARCHAR)"
    )
    done: set[str] = set()
    for at, link in enumerate(links):
        if link.upstream not in done:
            _judge(connection, link.upstream, fresh, code, now)
            done.add(link.upstream)
        _spread(connection, f"spread_{at}", link)


def _judge(connection: duckdb.DuckDBPyConnection, asset: str, fresh: Joined, code: Joined, now: datetime) -> None:
    """Put the stale partitions of an asset, all of whose own links are done, into the table."""
    connection.execute(f"""
        INSERT INTO {_STALE}
        WITH base AS (SELECT * FROM {ROWS} WHERE {in_asset(asset)} AND last_materialization_at IS NOT NULL),
        upstream AS (
            SELECT partition_key, min(since) AS since, arg_min(root_asset, {FIRST}) AS root_asset,
                   arg_min(root_partition, {FIRST}) AS root_partition
            FROM {UPSTREAM_STALE} WHERE {in_asset(asset)} AND since <= {instant(now)} GROUP BY partition_key
        ), judged AS (
            SELECT base.partition_key, upstream.since AS upstream_since, root_asset, root_partition,
                   least(CASE WHEN {fresh.value} < {instant(now)} THEN {fresh.value} END, {code.value}) AS own_since
            FROM base {fresh.joins} {code.joins} LEFT JOIN upstream ON upstream.partition_key = base.partition_key
        )
        SELECT {quoted(asset)}, partition_key, least(own_since, upstream_since),
               CASE WHEN own_since IS NULL OR upstream_since < own_since THEN root_asset ELSE {quoted(asset)} END,
               CASE WHEN own_since IS NULL OR upstream_since < own_since THEN root_partition ELSE partition_key END
        FROM judged WHERE own_since IS NOT NULL OR upstream_since IS NOT NULL
    """)  # noqa: S608 - our own names


def _spread(connection: duckdb.DuckDBPyConnection, name: str, link: Link) -> None:
    ours, theirs = f"{name}_rows", f"{name}_stale"
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {ours} AS SELECT partition_key, last_materialization_at FROM {ROWS} "  # noqa: S608
        f"WHERE {in_asset(link.asset)} AND last_materialization_at IS NOT NULL"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {theirs} AS SELECT * FROM {_STALE} WHERE {in_asset(link.upstream)}"  # noqa: S608
    )
    if link.is_same_key:
        for side, source in (("ours", ours), ("theirs", theirs)):
            connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {name}_{side} AS "  # noqa: S608 - our own names
                f"SELECT partition_key, partition_key AS grouped FROM {source}"
            )
    else:
        make_groups(connection, name, link, ours, theirs)
    connection.execute(f"""
        INSERT INTO {UPSTREAM_STALE}
        WITH first AS (
            SELECT g.grouped, arg_min(struct_pack(s := s.since, p := s.partition_key, a := s.root_asset,
                                                  r := s.root_partition), (s.since, s.partition_key)) AS x
            FROM {name}_theirs AS g JOIN {theirs} AS s USING (partition_key) GROUP BY g.grouped
        ), found AS (
            SELECT r.partition_key, greatest(x.s, r.last_materialization_at) AS since, x
            FROM {ours} AS r JOIN {name}_ours AS g USING (partition_key) JOIN first USING (grouped)
        )
        SELECT {quoted(link.asset)}, partition_key, min(since), {quoted(link.upstream)},
               arg_min(x.p, (since, x.s, x.p)), arg_min(x.a, (since, x.s, x.p)), arg_min(x.r, (since, x.s, x.p)),
               arg_min(x.s, (since, x.s, x.p))
        FROM found GROUP BY partition_key
    """)  # noqa: S608 - our own names
