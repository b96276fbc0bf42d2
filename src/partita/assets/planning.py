"""Planning: from the status of every partition to what would run, for all partitions of an asset at once in DuckDB.

Assets are taken upstreams first. Of each, those partitions come into the plan that are missing, stale or failed, as
asked, and those whose upstreams are in it. One whose upstream is not there, and not about to be, is held back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any

import pyarrow as pa

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.algebra.mappings import MappedBy, upstream_windows
from partita.algebra.parse import Condition
from partita.algebra.windows import Windows
from partita.assets.batching import Sizes, batch_numbers
from partita.assets.plan import BLOCKED, PLANNED, Plan
from partita.assets.selection import NEEDS, selected
from partita.errors import DefinitionError, PlanError, PredicateError, value_repr
from partita.status.board import BOARD, STATES
from partita.status.definitions import Definition
from partita.status.engine import TEXT, fetch, instant, listed, make_table, quoted
from partita.status.events import checked_instant
from partita.status.keys import check_columns, matching
from partita.status.links import Link, dimension_sql, in_asset, make_groups, shared_dimensions
from partita.status.query import Answering
from partita.status.running import RUNNING
from partita.status.snapshot import ROWS
from partita.status.staleness import Reason

REASONS = ("MISSING", "FAILED", *(reason.value for reason in Reason), "UPSTREAM_PLANNED")
"""Why a partition is in a plan; the last where one of its upstreams is."""
GOOD = "display_status IN ('MATERIALIZED', 'STALE')"
"""The condition that a partition can be read by what is made from it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a plan.

    `needs` are of missing, stale and failed; `select` names assets, as `selected` reads them; `where` is a predicate on
    the dimensions of keys; `since` leaves out what has been so for longer. With `allow_missing`, a source's partition
    that was never written holds nothing back. `among` are the assets that there are, where not all that are registered.
    """

    needs: tuple[str, ...] = NEEDS
    select: tuple[str, ...] = ()
    where: Condition | None = None
    since: datetime | None = None
    allow_missing: bool = False
    sizes: Sizes = field(default_factory=Sizes)
    among: frozenset[str] | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "needs": list(self.needs), "select": list(self.select),
            "where": None if self.where is None else str(self.where),
            "time_zone": None if self.where is None else self.where.time_zone.name,
            "since": None if self.since is None else self.since.isoformat(), "allow_missing": self.allow_missing,
            "sizes": asdict(self.sizes),
        }  # fmt: skip


def make_plan(answer: Answering, asked: Asked, lake: str, tenant: str, workspace: str) -> Plan:
    """The plan, out of the relations that answer a question about every asset."""
    planning = _Planning(answer, asked)
    planning.run()
    partitions, blocked = planning.found()
    question = {**asked.document(), "left_out": planning.left_out, "not_among": planning.not_among}
    return Plan(
        lake, tenant, workspace, answer.now, question, partitions, blocked,
        world_of(answer, planning.involved(partitions)),
    )  # fmt: skip


def world_of(answer: Answering, assets: Iterable[str]) -> dict[str, str]:
    """For each asset a digest of its definition and of what was recorded of its partitions."""
    wanted = sorted(assets)
    among = ", ".join(map(quoted, wanted)) or "NULL"
    rows = listed(
        answer.connection,
        # Another version of DuckDB may hash another way; a plan that is kept that long is refused, and made again.
        "SELECT asset_key, count(*), bit_xor(hash(partition_key, row_version, last_materialization_event_id, "  # noqa: S608
        f"last_attempt_event_id)) FROM {ROWS} WHERE asset_key IN ({among}) GROUP BY asset_key",
    )
    recorded = {asset: (count, digest) for asset, count, digest in rows}
    found = {}
    for asset in wanted:
        timeline = answer.catalog.timelines.get(asset)
        seen = None if timeline is None else (timeline.seen[-1].code_version, timeline.seen[-1].text)
        found[asset] = hashlib.sha256(repr((seen, recorded.get(asset))).encode()).hexdigest()[:16]
    return found


def unexpected(answer: Answering, partitions: pa.Table) -> tuple[str, str, str] | None:
    """A partition of a plan that can't be run, and why: nobody expects it, or it is there twice."""
    sql = f"""
        SELECT asset_key, partition_key, 'which is there twice' FROM plan_given GROUP BY ALL HAVING count(*) > 1
        UNION ALL
        SELECT asset_key, partition_key, 'which its definition does not expect' FROM plan_given
        ANTI JOIN (FROM {BOARD} WHERE expected IS NOT FALSE) USING (asset_key, partition_key) LIMIT 1
    """  # noqa: S608 - our own names
    found = _listed_of(answer, partitions, sql)
    return found[0] if found else None


def open_runs(answer: Answering, partitions: pa.Table) -> frozenset[str]:
    """The runs that began some of these partitions and said no more of it."""
    sql = f"SELECT DISTINCT unnest(open_run_ids) FROM {RUNNING} SEMI JOIN plan_given USING (asset_key, partition_key)"  # noqa: S608
    found = _listed_of(answer, partitions, sql)
    return frozenset(run_id for (run_id,) in found)


def made_by_others(answer: Answering, partitions: pa.Table, run_id: str, since: datetime) -> frozenset[tuple[str, str]]:
    """Those of the partitions that others than a run made since a moment, and that are there."""
    sql = f"""
        SELECT asset_key, partition_key FROM {ROWS} SEMI JOIN plan_given USING (asset_key, partition_key)
        WHERE last_materialization_at > {instant(since)} AND last_materialization_run_id <> {quoted(run_id)}
    """  # noqa: S608 - our own names
    found = _listed_of(answer, partitions, sql)
    return frozenset((asset, key) for asset, key in found)


def _listed_of(answer: Answering, partitions: pa.Table, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query that knows the partitions of a plan as `plan_given`."""
    answer.connection.register("plan_given", partitions.select(["asset_key", "partition_key"]))
    try:
        return listed(answer.connection, sql)
    finally:
        answer.connection.unregister("plan_given")


class _Planning:
    """The relations of one plan: `plan_board`, what is expected, and `plan_found`, what came into it."""

    def __init__(self, answer: Answering, asked: Asked) -> None:
        self.answer = answer
        self.asked = asked
        self.connection = answer.connection
        for need in asked.needs:
            if need not in NEEDS:
                raise PlanError(f"a plan is for what is {', '.join(NEEDS)}, not {value_repr(need)}")
        self.since = None if asked.since is None else checked_instant("since", asked.since)
        self.not_among: list[str] = []
        self.definitions = self._definitions()
        self.selected = selected(asked.select, self.definitions)
        if asked.select:
            above = {u.asset for name in self.selected for u in self.definitions[name].upstreams}
            answer.turn_to(sorted(self.selected | (above & set(answer.known))))
            self.definitions = self._definitions()
            self.selected = selected(asked.select, self.definitions)
        self.judged = asked.where is None
        self.problem: PredicateError | None = None
        self.left_out: list[str] = []

    def _definitions(self) -> dict[str, Definition]:
        """The definitions of the assets that there are; others that would be made are noted."""
        found, among = self.answer.definitions(), self.asked.among
        if among is None:
            return found
        self.not_among = sorted(name for name in set(found) - among if not found[name].source)
        return {name: definition for name, definition in found.items() if name in among}

    def run(self) -> None:
        self.connection.execute(f"""
            CREATE OR REPLACE TEMP TABLE plan_known AS
            SELECT asset_key, partition_key, display_status, failed, expected, stale_since, stale_reasons,
                   last_attempt_at, wiped_at, last_materialization_bytes AS bytes, stale_upstream_asset_key AS by_asset,
                   stale_upstream_partition_key AS by_partition
            FROM {BOARD}
        """)  # noqa: S608 - our own names
        self.connection.execute(
            "CREATE OR REPLACE TEMP VIEW plan_board AS SELECT * FROM plan_known WHERE expected IS NOT FALSE"
        )
        self.connection.execute(
            "CREATE OR REPLACE TEMP TABLE plan_found (asset_key VARCHAR, partition_key VARCHAR, reasons VARCHAR[], "
            "since TIMESTAMPTZ, by_asset VARCHAR, by_partition VARCHAR, held_asset VARCHAR, held_partition VARCHAR)"
        )
        upstreams = {
            n: [u.asset for u in d.upstreams if u.asset in self.definitions] for n, d in self.definitions.items()
        }
        self.order = [n for n in TopologicalSorter(upstreams).static_order() if not self.definitions[n].source]
        for asset in self.order:
            if asset in self.selected:
                self._add(asset)
        if not self.judged and self.problem is not None:
            raise self.problem

    def _add(self, asset: str) -> None:
        links = self.answer.links(asset)
        for link in links:
            if not link.is_askable:
                raise DefinitionError(
                    f"{asset!r} is mapped to {link.upstream!r} by a function that this process doesn't have; load the "
                    "pipeline that has it"
                )
        self.connection.execute("CREATE OR REPLACE TEMP TABLE plan_new AS SELECT * FROM plan_found LIMIT 0")
        self._add_needed(asset)
        place = self.order.index(asset)
        named = [(f"plan_{place}_{at}", link) for at, link in enumerate(links)]
        for name, link in named:
            self._group(name, link)
            if "stale" in self.asked.needs:
                self._add_downstream(name, link)
        self._narrow(asset)
        for name, link in named:
            self._hold_back(name, link)
        ordered = f"[{', '.join(map(quoted, REASONS))}]"
        self.connection.execute(f"""
            INSERT INTO plan_found
            SELECT asset_key, partition_key,
                   list_filter({ordered}, lambda r: list_contains(flatten(list(reasons)), r)), min(since),
                   first(by_asset ORDER BY since NULLS LAST), first(by_partition ORDER BY since NULLS LAST),
                   any_value(held_asset), any_value(held_partition)
            FROM plan_new GROUP BY asset_key, partition_key
        """)  # noqa: S608 - our own names

    def _add_needed(self, asset: str) -> None:
        needed = " OR ".join(f"({STATES[need]})" for need in self.asked.needs)
        late = f"AND ({self._is_late(asset)})" if self.since is not None else ""
        failed = STATES["failed"]
        self.connection.execute(f"""
            INSERT INTO plan_new
            SELECT asset_key, partition_key,
                   list_concat(list_concat(
                       CASE WHEN display_status = 'NEVER_MATERIALIZED' THEN ['MISSING'] ELSE [] END,
                       CASE WHEN {failed} THEN ['FAILED'] ELSE [] END), stale_reasons),
                   least(stale_since, CASE WHEN {failed} THEN last_attempt_at END), by_asset, by_partition, NULL, NULL
            FROM plan_board WHERE {in_asset(asset)} AND ({needed}) {late}
        """)  # noqa: S608 - our own names

    def _is_late(self, asset: str) -> str:
        """The condition that a need is not older than `since`; what was never tried is as old as its time window."""
        assert self.since is not None  # noqa: S101 - asked before
        tried = f"coalesce(stale_since, greatest(last_attempt_at, wiped_at)) >= {instant(self.since)}"
        windows = [d for d in self.definitions[asset].partitions.dimensions if isinstance(d, Windows)]
        ended = [
            f"{dimension_sql('partition_key', w.dimension)} >= {quoted(tagged(w.value(w.ordinal_at(self.since))))}"
            for w in windows
        ]
        return f"{tried} OR (coalesce(last_attempt_at, wiped_at) IS NULL AND {' AND '.join(ended) or 'true'})"

    def _group(self, name: str, link: Link) -> None:
        ours = f"(SELECT partition_key FROM plan_board WHERE {in_asset(link.asset)})"  # noqa: S608 - our own names
        theirs = f"(SELECT partition_key FROM plan_board WHERE {in_asset(link.upstream)})"  # noqa: S608 - the same
        if link.is_same_key:
            for side, keys in (("ours", ours), ("theirs", theirs)):
                select = f"SELECT partition_key, partition_key AS grouped FROM {keys}"  # noqa: S608 - our own names
                self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name}_{side} AS {select}")
            return
        self._add_later(name, link)
        both = f"({theirs} UNION ALL SELECT partition_key FROM {name}_later)"  # noqa: S608 - the same
        make_groups(self.connection, name, link, ours, both)
        if isinstance(link.mapping, MappedBy):
            self._add_later_asked(name, link)

    def _add_later(self, name: str, link: Link) -> None:
        """Make `{name}_later`: partitions of an upstream that ours are made from, of windows that aren't over yet."""
        until: dict[str, datetime] = {}
        asked = link.upstream in self.definitions and not isinstance(link.mapping, MappedBy)
        for here, there in shared_dimensions(link) if asked else ():
            if isinstance(here, Windows) and isinstance(there, Windows) and (over := here.expected(self.answer.now)):
                # Windows outside of the years 1 to 9999 are in no key.
                with suppress(ValueError, OverflowError):
                    last = upstream_windows(link.mapping, here, there, over[-1])[-1]
                    until[there.dimension] = max(self.answer.now, there.starts_at(last + 1))
        if any(moment > self.answer.now for moment in until.values()):
            self.answer.make_later(f"{name}_later", link.upstream, until)
        else:
            make_table(self.connection, f"{name}_later", {"partition_key": TEXT}, [])

    def _add_later_asked(self, name: str, link: Link) -> None:
        """The same where a function says which."""
        theirs = self.definitions.get(link.upstream)
        windows = [] if theirs is None else [d for d in theirs.partitions.dimensions if isinstance(d, Windows)]
        unknown = f"SELECT DISTINCT grouped FROM {name}_ours WHERE grouped NOT IN (SELECT grouped FROM {name}_theirs)"  # noqa: S608
        for (text,) in listed(self.connection, unknown) if windows else ():
            key = PartitionKey.parse(text)
            places = [w.ordinal(key.get(w.dimension)) for w in windows]
            if any(at is not None and w.is_later(at, self.answer.now) for at, w in zip(places, windows, strict=True)):
                self.connection.execute(f"INSERT INTO {name}_later VALUES ({quoted(text)})")  # noqa: S608 - our own names

    def _add_downstream(self, name: str, link: Link) -> None:
        """What is made from partitions that are about to run."""
        self.connection.execute(f"""
            INSERT INTO plan_new
            SELECT {quoted(link.asset)}, ours.partition_key, ['UPSTREAM_PLANNED'], NULL, {quoted(link.upstream)},
                   min(found.partition_key), NULL, NULL
            FROM {name}_ours AS ours JOIN (
                SELECT theirs.grouped, min(theirs.partition_key) AS partition_key FROM {name}_theirs AS theirs
                SEMI JOIN ({_running(link.upstream)}) AS planned USING (partition_key) GROUP BY theirs.grouped
            ) AS found USING (grouped) GROUP BY ours.partition_key
        """)  # noqa: S608 - our own names

    def _hold_back(self, name: str, link: Link) -> None:
        """Mark what is made from partitions that are neither there nor about to run, or whose window isn't over."""
        theirs = self.definitions.get(link.upstream)
        if theirs is not None and theirs.source and self.asked.allow_missing:
            return
        self.connection.execute(f"""
            UPDATE plan_new SET held_asset = {quoted(link.upstream)}, held_partition = held.partition_key
            FROM (
                SELECT ours.partition_key AS ours_key, min(bad.partition_key) AS partition_key FROM {name}_ours AS ours
                JOIN (
                    SELECT theirs.grouped, min(theirs.partition_key) AS partition_key FROM {name}_theirs AS theirs
                    ANTI JOIN (SELECT partition_key FROM plan_known WHERE {in_asset(link.upstream)} AND {GOOD})
                        AS there USING (partition_key)
                    ANTI JOIN ({_running(link.upstream)}) AS planned USING (partition_key) GROUP BY theirs.grouped
                ) AS bad USING (grouped) GROUP BY ours.partition_key
            ) AS held WHERE held.ours_key = plan_new.partition_key AND held_asset IS NULL
        """)  # noqa: S608 - our own names

    def _narrow(self, asset: str) -> None:
        where = self.asked.where
        if where is None:
            return
        keys = fetch(self.connection, "SELECT DISTINCT partition_key FROM plan_new")["partition_key"].combine_chunks()
        try:
            # A column that isn't there is one as well where nothing is to be done.
            check_columns(self.definitions[asset].partitions.names, where)
            found = matching(keys, where) if len(keys) else keys
            self.judged = True
        except PredicateError as error:
            self.problem, found = self.problem or error, keys.slice(0, 0)
            self.left_out += [asset] if len(keys) else []
        self.connection.register("plan_matching", pa.table({"partition_key": found}))
        self.connection.execute(
            "DELETE FROM plan_new WHERE partition_key NOT IN (SELECT partition_key FROM plan_matching)"
        )
        self.connection.unregister("plan_matching")

    def found(self) -> tuple[pa.Table, pa.Table]:
        """What would run, in order and in batches, and what is held back."""
        order = ", ".join(f"({quoted(asset)}, {at})" for at, asset in enumerate(self.order)) or "('', 0)"
        rows = fetch(
            self.connection,
            f"""
            WITH sizes AS (
                SELECT asset_key, partition_key,
                       coalesce(bytes, avg(bytes) OVER (PARTITION BY asset_key)::BIGINT) AS bytes FROM plan_board
            )
            SELECT f.*, s.bytes FROM plan_found AS f JOIN (VALUES {order}) AS o(asset_key, place) USING (asset_key)
            LEFT JOIN sizes AS s ON s.asset_key = f.asset_key AND s.partition_key = f.partition_key
            ORDER BY o.place, f.partition_key
            """,  # noqa: S608 - our own names
        )
        held = rows["held_asset"].is_valid()
        running = rows.filter(pa.compute.invert(held))
        running = running.append_column("batch", pa.array(batch_numbers(running, self.asked.sizes), pa.int64()))
        blocked = rows.filter(held).drop_columns(["by_asset", "by_partition"])
        blocked = blocked.rename_columns({"held_asset": "by_asset", "held_partition": "by_partition"})
        return running.select(PLANNED.names).cast(PLANNED), blocked.select(BLOCKED.names).cast(BLOCKED)

    def involved(self, partitions: pa.Table) -> set[str]:
        """The assets that a plan hangs on: those that run, and their upstreams."""
        running = set(partitions["asset_key"].unique().to_pylist())
        return running | {u.asset for name in running for u in self.definitions[name].upstreams}


def _running(asset: str) -> str:
    return f"SELECT partition_key FROM plan_found WHERE {in_asset(asset)} AND held_asset IS NULL"  # noqa: S608 - our own
