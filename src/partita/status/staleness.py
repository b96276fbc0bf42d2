"""Staleness: for all partitions at once, since when each is stale and for which reasons.

| reason | since |
|---|---|
| FRESHNESS_POLICY | the deadline that passed without a new materialization |
| UPSTREAM_CHANGED | the first success of an upstream's partition after ours was materialized, or began to be |
| CODE_CHANGED | the definition that brought another code version, or our materialization where it came later |

A partition that isn't materialized is missing, not stale. A code version that isn't known is not compared. Where it is
known when an attempt began, that is when it read its upstreams: what they got while it ran is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from partita.algebra.freshness import Deadline, MaximumLag
from partita.algebra.plain import micros_of
from partita.errors import DefinitionError
from partita.status.definitions import Definition, Timeline
from partita.status.engine import MOMENT, TEXT, listed, make_table, moment, quoted
from partita.status.links import Link, in_asset, make_groups
from partita.status.snapshot import ROWS

if TYPE_CHECKING:
    import duckdb


class Reason(StrEnum):
    """Why a partition is stale, in the seed's words."""

    FRESHNESS_POLICY = "FRESHNESS_POLICY"
    UPSTREAM_CHANGED = "UPSTREAM_CHANGED"
    CODE_CHANGED = "CODE_CHANGED"


UPSTREAM_STALE = "upstream_stale"
"""The relation of stale pairs: asset_key, partition_key, since, by_asset, by_partition, root_asset, root_partition, and
origin, the moment since which the upstream itself is as it is. What a sweep found has no by_asset."""
FIRST = "(since, origin, by_asset, by_partition)"
"""The order of stale pairs in which the first is shown."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Joins to a relation `base`, and a value that they bring; both are SQL."""

    joins: str
    value: str


def make_deadlines(
    connection: duckdb.DuckDBPyConnection, definitions: Iterable[Definition], rows: str, now: datetime
) -> Joined:
    """What joins the moment until which each row is fresh, as `fresh_until`, to a relation `base` of rows."""
    lags: list[str] = []
    pairs: list[tuple[str, int, int]] = []
    for definition in definitions:
        if isinstance(definition.freshness, MaximumLag):
            lags.append(f"({quoted(definition.asset)}, {definition.freshness.lag // timedelta(microseconds=1)})")
        elif isinstance(definition.freshness, Deadline):
            found = {
                pair
                for first, last in _materialized(connection, definition.asset, rows)
                for pair in definition.freshness.deadlines(first, last, now)
            }
            pairs += [(definition.asset, up_to, deadline) for up_to, deadline in found]
    joins, until = [], []
    if lags:
        joins.append(f"LEFT JOIN (VALUES {', '.join(lags)}) AS lags(asset_key, lag) ON lags.asset_key = base.asset_key")
        until.append("make_timestamptz(epoch_us(base.last_materialization_at) + lags.lag)")
    if pairs:
        make_table(connection, "deadlines", {"asset_key": TEXT, "up_to": MOMENT, "deadline": MOMENT}, pairs)
        joins.append(
            "ASOF LEFT JOIN deadlines ON deadlines.asset_key = base.asset_key "
            "AND base.last_materialization_at <= deadlines.up_to"
        )
        until.append("deadlines.deadline")
    return Joined(" ".join(joins), f"coalesce({', '.join(until)})" if until else "NULL::TIMESTAMPTZ")


def _materialized(connection: duckdb.DuckDBPyConnection, asset: str, rows: str) -> Iterator[tuple[datetime, datetime]]:
    """The spans of days in a row in which partitions of an asset were materialized last."""
    days = listed(
        connection,
        "SELECT DISTINCT epoch_us(date_trunc('day', last_materialization_at)) AS day "  # noqa: S608 - our own names
        f"FROM {rows} WHERE {in_asset(asset)} AND last_materialization_at IS NOT NULL ORDER BY day",
    )
    one_day = timedelta(days=1)
    first = last = None
    for (micros,) in days:
        day = moment(micros)
        if first is None or last is None or day > last:
            if first is not None and last is not None:
                yield first, last
            first = day
        last = min(day, _LAST_DAY) + one_day
    if first is not None and last is not None:
        yield first, last


_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def make_code_changes(connection: duckdb.DuckDBPyConnection, timelines: Mapping[str, Timeline]) -> Joined:
    """What joins the moment since which each row's code version is not current, to a relation `base` of rows."""
    versioned = {asset: t for asset, t in timelines.items() if t.seen[-1].code_version is not None}
    if not versioned:
        return Joined("", "NULL::TIMESTAMPTZ")
    current = [(asset, t.seen[-1].code_version, micros_of(t.seen[0].at)) for asset, t in versioned.items()]
    make_table(connection, "current_code", {"asset_key": TEXT, "version": TEXT, "first_at": MOMENT}, current)
    gone = [(asset, version, micros_of(at)) for asset, t in versioned.items() for version, at in t.not_since().items()]
    make_table(connection, "gone_code", {"asset_key": TEXT, "version": TEXT, "since": MOMENT}, gone)
    return Joined(
        "LEFT JOIN current_code ON current_code.asset_key = base.asset_key LEFT JOIN gone_code "
        "ON gone_code.asset_key = base.asset_key AND gone_code.version = base.last_materialization_code_version",
        "CASE WHEN base.last_materialization_code_version <> current_code.version "
        "THEN greatest(base.last_materialization_at, coalesce(gone_code.since, current_code.first_at)) END",
    )


def make_upstream_changes(
    connection: duckdb.DuckDBPyConnection, links: Sequence[Link], rows: str, successes: str
) -> list[tuple[Link, DefinitionError]]:
    """Make `UPSTREAM_STALE` a table of the partitions of `rows` whose upstreams were materialized after them.

    `successes` is a relation of the succeeded events that count. Links whose function fails are left out, and returned.
    """
    wrong = []
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {UPSTREAM_STALE} (asset_key VARCHAR, partition_key VARCHAR, since TIMESTAMPTZ, "
        "by_asset VARCHAR, by_partition VARCHAR, root_asset VARCHAR, root_partition VARCHAR, origin TIMESTAMPTZ)"
    )
    same = [link for link in links if link.is_same_key]
    if same:
        _add_same_keys(connection, same, rows, successes)
    for at, link in enumerate(link for link in links if not link.is_same_key):
        try:
            _add_mapped(connection, f"link_{at}", link, rows, successes)
        except DefinitionError as error:
            wrong.append((link, error))
    return wrong


def add_swept(connection: duckdb.DuckDBPyConnection, assets: Iterable[str], rows: str) -> None:
    """Add to `UPSTREAM_STALE` what a sweep found of assets whose upstreams can't be judged here.

    Other reasons are computed afresh. A sweep keeps the moment of the first reason alone; where that was another one,
    the upstream had changed by the time of the sweep.
    """
    names = ", ".join(map(quoted, sorted(assets)))
    if names:
        upstream = quoted(Reason.UPSTREAM_CHANGED)
        connection.execute(f"""
            INSERT INTO {UPSTREAM_STALE}
            SELECT asset_key, partition_key, CASE WHEN stale_reason_code = {upstream} THEN stale_since ELSE swept_at END
                   AS since, NULL, NULL, asset_key, partition_key, since
            FROM {rows} WHERE asset_key IN ({names}) AND list_contains(stale_reasons, {upstream})
              AND last_materialization_at IS NOT NULL
        """)  # noqa: S608 - our own names


def _add_same_keys(connection: duckdb.DuckDBPyConnection, links: Sequence[Link], rows: str, successes: str) -> None:
    pairs = ", ".join(f"({quoted(link.asset)}, {quoted(link.upstream)})" for link in links)
    connection.execute(f"""
        CREATE OR REPLACE TEMP TABLE changed_pairs AS
        SELECT ours.asset_key, ours.partition_key, {_read_at("ours")} AS ours_at,
               theirs.asset_key AS by_asset, theirs.last_materialization_at AS theirs_at,
               theirs.wiped_at IS NULL AND theirs.first_materialization_at = theirs.last_materialization_at AS once
        FROM {rows} AS ours
        JOIN (VALUES {pairs}) AS links(asset_key, upstream) ON links.asset_key = ours.asset_key
        JOIN {ROWS} AS theirs ON theirs.asset_key = links.upstream AND theirs.partition_key = ours.partition_key
        WHERE greatest(theirs.last_materialization_at, theirs.wiped_at) > {_read_at("ours")}
    """)  # noqa: S608 - our own names
    connection.execute(f"""
        INSERT INTO {UPSTREAM_STALE}
        SELECT asset_key, partition_key, theirs_at, by_asset, partition_key, by_asset, partition_key, theirs_at
        FROM changed_pairs WHERE once
    """)  # noqa: S608 - our own names
    # An upstream that succeeded more than once, or was wiped: the first success after ours is in the history.
    (since,) = listed(connection, "SELECT epoch_us(min(ours_at)) FROM changed_pairs WHERE NOT once")[0]
    if since is not None:
        later = _after(successes, {link.upstream for link in links}, since)
        connection.execute(f"""
            INSERT INTO {UPSTREAM_STALE}
            SELECT p.asset_key, p.partition_key, min(s.occurred_at), p.by_asset, p.partition_key, p.by_asset,
                   p.partition_key, min(s.occurred_at)
            FROM changed_pairs AS p JOIN ({_counted(later, "changed_pairs", "by_asset")}) AS s
              ON s.asset_key = p.by_asset AND s.partition_key = p.partition_key AND s.occurred_at > p.ours_at
            WHERE NOT p.once GROUP BY ALL
        """)  # noqa: S608 - our own names


def _read_at(rows: str) -> str:
    """The moment as of which a materialization has what its upstreams had."""
    return f"least({rows}.last_materialization_at, {rows}.last_materialization_started_at)"


def _after(successes: str, assets: Iterable[str], micros: int) -> str:
    """The successes of some assets after a moment, as a relation; most files hold none of them."""
    names = ", ".join(map(quoted, sorted(assets)))
    return f"(SELECT * FROM {successes} WHERE asset_key IN ({names}) AND occurred_at > make_timestamptz({micros}))"  # noqa: S608


def _counted(successes: str, pairs: str, asset: str) -> str:
    """The successes of the partitions in pairs, each attempt once: as it was last reported."""
    return (
        f"SELECT asset_key, partition_key, max(occurred_at) AS occurred_at FROM {successes} AS s "  # noqa: S608
        f"SEMI JOIN (FROM {pairs} WHERE NOT once) AS p "
        f"ON p.{asset} = s.asset_key AND p.partition_key = s.partition_key "
        "GROUP BY asset_key, partition_key, run_id, attempt"
    )


def _add_mapped(connection: duckdb.DuckDBPyConnection, name: str, link: Link, rows: str, successes: str) -> None:
    ours, theirs = f"{name}_rows", f"{name}_upstream"
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {ours} AS SELECT partition_key, {_read_at(rows)} AS read_at FROM {rows} "  # noqa: S608
        f"WHERE {in_asset(link.asset)} AND last_materialization_at IS NOT NULL"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {theirs} AS SELECT partition_key FROM {ROWS} "  # noqa: S608 - our own names
        f"WHERE {in_asset(link.upstream)} AND first_materialization_at IS NOT NULL"
    )
    (since,) = listed(connection, f"SELECT epoch_us(min(read_at)) FROM {ours}")[0]  # noqa: S608 - our own
    if since is None:
        return
    make_groups(connection, name, link, ours, theirs)
    connection.execute(f"""
        INSERT INTO {UPSTREAM_STALE}
        WITH history AS (
            SELECT partition_key, max(occurred_at) AS occurred_at FROM {_after(successes, [link.upstream], since)}
            GROUP BY partition_key, run_id, attempt
        ), theirs AS (
            SELECT g.grouped, h.occurred_at, min(h.partition_key) AS partition_key
            FROM {name}_theirs AS g JOIN history AS h USING (partition_key) GROUP BY ALL
        ), found AS (
            SELECT o.partition_key, s.occurred_at, s.partition_key AS by_partition
            FROM (SELECT r.partition_key, r.read_at, g.grouped
                  FROM {ours} AS r JOIN {name}_ours AS g USING (partition_key)) AS o
            ASOF JOIN theirs AS s ON o.grouped = s.grouped AND o.read_at < s.occurred_at
        )
        SELECT {quoted(link.asset)}, partition_key, min(occurred_at), {quoted(link.upstream)},
               arg_min(by_partition, (occurred_at, by_partition)), {quoted(link.upstream)},
               arg_min(by_partition, (occurred_at, by_partition)), min(occurred_at)
        FROM found GROUP BY partition_key
    """)  # noqa: S608 - our own names
