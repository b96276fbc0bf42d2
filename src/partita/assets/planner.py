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
from partita.algebra.key_text import tagged_text
from partita.algebra.mappings import FunctionMapping, upstream_windows
from partita.algebra.predicate import UnboundPredicate
from partita.algebra.time_windows import TimeWindows
from partita.assets.run_plan import BLOCKED_SCHEMA, PLANNED_SCHEMA, BatchLimits, RunPlan, batch_numbers
from partita.assets.selection import PLANNABLE_STATES, select_assets
from partita.errors import DefinitionError, PlanError, PredicateError, value_repr
from partita.status.definitions import AssetDefinition
from partita.status.duckdb_engine import (
    VARCHAR,
    create_empty_table,
    create_table,
    create_temp_table,
    create_view,
    fetch_arrow,
    fetch_rows,
)
from partita.status.duckdb_sql import Sql, all_of, any_of, sql, tuple_of
from partita.status.events import validate_timestamp
from partita.status.key_predicates import check_predicate_columns, select_matching_keys
from partita.status.lineage import (
    EdgeGroups,
    LineageEdge,
    asset_condition,
    create_edge_groups,
    dimension_value_sql,
    shared_dimensions,
)
from partita.status.queries import StatusReader
from partita.status.relations import RUNNING_PARTITIONS, STATUS_ROWS, STATUS_VIEW
from partita.status.states import STATE_FILTERS, StaleReason

PLAN_REASONS = ("MISSING", "FAILED", *(reason.value for reason in StaleReason), "UPSTREAM_PLANNED")
"""Why a partition is in a plan; the last where one of its upstreams is."""
READABLE_SQL = Sql("display_status IN ('MATERIALIZED', 'STALE')")
"""The condition that a partition can be read by what is made from it."""

_GIVEN_PARTITIONS = Sql("plan_given")
"""The partitions of a plan that was made before."""
_KNOWN_PARTITIONS = Sql("plan_known")
"""What the planner needs of the status view."""
_EXPECTED_PARTITIONS = Sql("plan_expected")
"""The rows of `_KNOWN_PARTITIONS` that are expected, or that nothing is known to expect."""
_PLANNED_PARTITIONS = Sql("plan_partitions")
"""The partitions of the plan; those that are held back name the upstream partition that they wait for."""
_ASSET_CANDIDATES = Sql("plan_candidates")
"""The rows of one asset before they come into the plan; a partition may be there several times."""
_MATCHING_KEYS = Sql("plan_matching_keys")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is asked of a plan.

    `needs` are of missing, stale and failed; `select` names assets, as `selected` reads them; `where` is a predicate on
    the dimensions of keys; `since` leaves out what has been so for longer. With `allow_missing`, a source's partition
    that was never written holds nothing back. `among` are the assets that there are, where not all that are registered.
    """

    states: tuple[str, ...] = PLANNABLE_STATES
    select: tuple[str, ...] = ()
    where: UnboundPredicate | None = None
    since: datetime | None = None
    allow_missing: bool = False
    batch_limits: BatchLimits = field(default_factory=BatchLimits)
    available_assets: frozenset[str] | None = None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "needs": list(self.states), "select": list(self.select),
            "where": None if self.where is None else str(self.where),
            "time_zone": None if self.where is None else self.where.time_zone.name,
            "since": None if self.since is None else self.since.isoformat(), "allow_missing": self.allow_missing,
            "sizes": asdict(self.batch_limits),
        }  # fmt: skip


def make_plan(status_reader: StatusReader, request: PlanRequest, lake_uri: str, tenant: str, workspace: str) -> RunPlan:
    """The plan, out of the relations that answer a question about every asset."""
    planning = _RunPlanner(status_reader, request)
    planning.plan_assets()
    partitions, blocked = planning.plan_tables()
    question = {**request.document(), "left_out": planning.skipped_assets, "not_among": planning.unavailable_assets}
    return RunPlan(
        lake_uri, tenant, workspace, status_reader.now, question, partitions, blocked,
        input_digests(status_reader, planning.input_assets(partitions)),
    )  # fmt: skip


def input_digests(status_reader: StatusReader, assets: Iterable[str]) -> dict[str, str]:
    """For each asset a digest of its definition and of what was recorded of its partitions."""
    asset_names = sorted(assets)
    rows = fetch_rows(
        status_reader.connection,
        sql(
            # Another version of DuckDB may hash another way; a plan that is kept that long is refused, and made again.
            "SELECT asset_key, count(*), bit_xor(hash(partition_key, row_version, last_materialization_event_id, "
            "last_attempt_event_id)) FROM {rows} WHERE asset_key IN ({assets}) GROUP BY asset_key",
            rows=STATUS_ROWS,
            assets=asset_names,
        ),
    )
    recorded = {asset: (count, digest) for asset, count, digest in rows}
    digests = {}
    for asset in asset_names:
        history = status_reader.catalog.histories.get(asset)
        defined = None if history is None else (history.records[-1].code_version, history.records[-1].definition_json)
        digests[asset] = hashlib.sha256(repr((defined, recorded.get(asset))).encode()).hexdigest()[:16]
    return digests


def find_invalid_partition(status_reader: StatusReader, partitions: pa.Table) -> tuple[str, str, str] | None:
    """A partition of a plan that can't be run, and why: nobody expects it, or it is there twice."""
    query = sql(
        """
        SELECT asset_key, partition_key, 'which is there twice' FROM {given} GROUP BY ALL HAVING count(*) > 1
        UNION ALL
        SELECT asset_key, partition_key, 'which its definition does not expect' FROM {given}
        ANTI JOIN (FROM {view} WHERE expected IS NOT FALSE) USING (asset_key, partition_key) LIMIT 1
        """,
        given=_GIVEN_PARTITIONS,
        view=STATUS_VIEW,
    )
    rows = _query_partitions(status_reader, partitions, query)
    return rows[0] if rows else None


def runs_with_open_attempts(status_reader: StatusReader, partitions: pa.Table) -> frozenset[str]:
    """The runs that began some of these partitions and said no more of it."""
    query = sql(
        "SELECT DISTINCT unnest(open_run_ids) FROM {running} SEMI JOIN {given} USING (asset_key, partition_key)",
        running=RUNNING_PARTITIONS,
        given=_GIVEN_PARTITIONS,
    )
    return frozenset(run_id for (run_id,) in _query_partitions(status_reader, partitions, query))


def partitions_made_by_others(
    status_reader: StatusReader, partitions: pa.Table, run_id: str, since: datetime
) -> frozenset[tuple[str, str]]:
    """Those of the partitions that others than a run made since a moment, and that are there."""
    query = sql(
        """
        SELECT asset_key, partition_key FROM {rows} SEMI JOIN {given} USING (asset_key, partition_key)
        WHERE last_materialization_at > {since} AND last_materialization_run_id <> {run_id}
        """,
        rows=STATUS_ROWS,
        given=_GIVEN_PARTITIONS,
        since=since,
        run_id=run_id,
    )
    return frozenset((asset, key) for asset, key in _query_partitions(status_reader, partitions, query))


def _query_partitions(status_reader: StatusReader, partitions: pa.Table, query: Sql) -> list[tuple[Any, ...]]:
    """Return the rows of a query that reads the partitions of a plan from `_GIVEN_PARTITIONS`."""
    status_reader.connection.register(_GIVEN_PARTITIONS, partitions.select(["asset_key", "partition_key"]))
    try:
        return fetch_rows(status_reader.connection, query)
    finally:
        status_reader.connection.unregister(_GIVEN_PARTITIONS)


class _RunPlanner:
    """Builds one plan, asset by asset, in relations of the status reader's connection."""

    def __init__(self, status_reader: StatusReader, request: PlanRequest) -> None:
        self.status_reader = status_reader
        self.request = request
        self.connection = status_reader.connection
        for need in request.states:
            if need not in PLANNABLE_STATES:
                raise PlanError(f"a plan is for what is {', '.join(PLANNABLE_STATES)}, not {value_repr(need)}")
        self.since = None if request.since is None else validate_timestamp("since", request.since)
        self.unavailable_assets: list[str] = []
        self.definitions = self._available_definitions()
        self.selected_assets = select_assets(request.select, self.definitions)
        if request.select:
            above = {u.asset for name in self.selected_assets for u in self.definitions[name].upstreams}
            status_reader.select_assets(sorted(self.selected_assets | (above & set(status_reader.known_assets))))
            self.definitions = self._available_definitions()
            self.selected_assets = select_assets(request.select, self.definitions)
        self.is_predicate_applied = request.where is None
        self.predicate_error: PredicateError | None = None
        self.skipped_assets: list[str] = []

    def _available_definitions(self) -> dict[str, AssetDefinition]:
        """The definitions of the assets that there are; others that would be made are noted."""
        found, among = self.status_reader.definitions(), self.request.available_assets
        if among is None:
            return found
        self.unavailable_assets = sorted(name for name in set(found) - among if not found[name].is_source)
        return {name: definition for name, definition in found.items() if name in among}

    def plan_assets(self) -> None:
        known = """
            SELECT asset_key, partition_key, display_status, failed, expected, stale_since, stale_reasons,
                   last_attempt_at, wiped_at, last_materialization_bytes AS bytes, stale_upstream_asset_key AS by_asset,
                   stale_upstream_partition_key AS by_partition
            FROM {view}
        """
        create_table(self.connection, _KNOWN_PARTITIONS, sql(known, view=STATUS_VIEW))
        expected = sql("SELECT * FROM {known} WHERE expected IS NOT FALSE", known=_KNOWN_PARTITIONS)
        create_view(self.connection, _EXPECTED_PARTITIONS, expected)
        columns = (
            "asset_key",
            "partition_key",
            "reasons",
            "since",
            "by_asset",
            "by_partition",
            "held_asset",
            "held_partition",
        )
        types = {"reasons": "VARCHAR[]", "since": "TIMESTAMPTZ"}
        create_empty_table(self.connection, _PLANNED_PARTITIONS, {c: types.get(c, VARCHAR) for c in columns})
        upstreams = {
            n: [u.asset for u in d.upstreams if u.asset in self.definitions] for n, d in self.definitions.items()
        }
        self.asset_order = [n for n in TopologicalSorter(upstreams).static_order() if not self.definitions[n].is_source]
        for asset in self.asset_order:
            if asset in self.selected_assets:
                self._plan_asset(asset)
        if not self.is_predicate_applied and self.predicate_error is not None:
            raise self.predicate_error

    def _plan_asset(self, asset: str) -> None:
        links = self.status_reader.upstream_edges(asset)
        for link in links:
            if not link.can_evaluate_mapping:
                raise DefinitionError(
                    f"{asset!r} is mapped to {link.upstream!r} by a function that this process doesn't have; load the "
                    "pipeline that has it"
                )
        no_rows = sql("SELECT * FROM {planned} LIMIT 0", planned=_PLANNED_PARTITIONS)
        create_table(self.connection, _ASSET_CANDIDATES, no_rows)
        self._add_by_state(asset)
        asset_index = self.asset_order.index(asset)
        grouped = [(link, self._group_upstream_keys(f"plan_{asset_index}_{i}", link)) for i, link in enumerate(links)]
        for link, groups in grouped if "stale" in self.request.states else ():
            self._add_downstream(link, groups)
        self._apply_predicate(asset)
        for link, groups in grouped:
            self._mark_blocked(link, groups)
        self.connection.execute(
            sql(
                """
                INSERT INTO {planned}
                SELECT asset_key, partition_key,
                       list_filter([{reasons}], lambda r: list_contains(flatten(list(reasons)), r)), min(since),
                       first(by_asset ORDER BY since NULLS LAST), first(by_partition ORDER BY since NULLS LAST),
                       any_value(held_asset), any_value(held_partition)
                FROM {candidates} GROUP BY asset_key, partition_key
                """,
                planned=_PLANNED_PARTITIONS,
                reasons=PLAN_REASONS,
                candidates=_ASSET_CANDIDATES,
            )
        )

    def _add_by_state(self, asset: str) -> None:
        conditions = [asset_condition(asset), any_of(STATE_FILTERS[state] for state in self.request.states)]
        if self.since is not None:
            conditions.append(self._since_sql(asset, self.since))
        self.connection.execute(
            sql(
                """
                INSERT INTO {candidates}
                SELECT asset_key, partition_key,
                       list_concat(list_concat(
                           CASE WHEN display_status = 'NEVER_MATERIALIZED' THEN ['MISSING'] ELSE [] END,
                           CASE WHEN {failed} THEN ['FAILED'] ELSE [] END), stale_reasons),
                       least(stale_since, CASE WHEN {failed} THEN last_attempt_at END), by_asset, by_partition,
                       NULL, NULL
                FROM {expected} WHERE {condition}
                """,
                candidates=_ASSET_CANDIDATES,
                failed=STATE_FILTERS["failed"],
                expected=_EXPECTED_PARTITIONS,
                condition=all_of(conditions),
            )
        )

    def _since_sql(self, asset: str, since: datetime) -> Sql:
        """The condition that a need is not older than `since`; what was never tried is as old as its time window."""
        windows = [d for d in self.definitions[asset].partitions.dimensions if isinstance(d, TimeWindows)]
        is_window_late = all_of(
            sql(
                "{value} >= {first}",
                value=dimension_value_sql(Sql("partition_key"), w.name),
                first=tagged_text(w.key_value(w.ordinal_at(since))),
            )
            for w in windows
        )
        return sql(
            "coalesce(stale_since, greatest(last_attempt_at, wiped_at)) >= {since} "
            "OR (coalesce(last_attempt_at, wiped_at) IS NULL AND {is_window_late})",
            since=since,
            is_window_late=is_window_late,
        )

    def _group_upstream_keys(self, prefix: str, link: LineageEdge) -> EdgeGroups:
        keys_of = "(SELECT partition_key FROM {expected} WHERE {is_asset})"
        ours = sql(keys_of, expected=_EXPECTED_PARTITIONS, is_asset=asset_condition(link.asset))
        theirs = sql(keys_of, expected=_EXPECTED_PARTITIONS, is_asset=asset_condition(link.upstream))
        if link.is_same_key:
            return create_edge_groups(self.connection, prefix, link, ours, theirs)
        open_windows = Sql(f"{prefix}_open_windows")
        self._create_open_windows(open_windows, link)
        both = sql("({theirs} UNION ALL SELECT partition_key FROM {later})", theirs=theirs, later=open_windows)
        groups = create_edge_groups(self.connection, prefix, link, ours, both)
        if isinstance(link.mapping, FunctionMapping):
            self._add_mapped_open_windows(open_windows, link, groups)
        return groups

    def _create_open_windows(self, table: Sql, link: LineageEdge) -> None:
        """Create a relation of upstream partitions that ours are made from, of windows that aren't over yet."""
        until: dict[str, datetime] = {}
        asked = link.upstream in self.definitions and not isinstance(link.mapping, FunctionMapping)
        for here, there in shared_dimensions(link) if asked else ():
            if (
                isinstance(here, TimeWindows)
                and isinstance(there, TimeWindows)
                and (over := here.expected_ordinals(self.status_reader.now))
            ):
                # Windows outside of the years 1 to 9999 are in no key.
                with suppress(ValueError, OverflowError):
                    last = upstream_windows(link.mapping, here, there, over[-1])[-1]
                    until[there.name] = max(self.status_reader.now, there.window_start(last + 1))
        if any(moment > self.status_reader.now for moment in until.values()):
            self.status_reader.create_future_partitions(table, link.upstream, until)
        else:
            create_temp_table(self.connection, table, {"partition_key": VARCHAR}, [])

    def _add_mapped_open_windows(self, table: Sql, link: LineageEdge, groups: EdgeGroups) -> None:
        """Add the partitions of open windows that a mapping function returns."""
        theirs = self.definitions.get(link.upstream)
        windows = [] if theirs is None else [d for d in theirs.partitions.dimensions if isinstance(d, TimeWindows)]
        unknown = sql(
            "SELECT DISTINCT grouped FROM {ours} WHERE grouped NOT IN (SELECT grouped FROM {theirs})",
            ours=groups.downstream,
            theirs=groups.upstream,
        )
        for (text,) in fetch_rows(self.connection, unknown) if windows else ():
            key = PartitionKey.parse(text)
            places = [w.ordinal_of(key.get(w.name)) for w in windows]
            if any(
                at is not None and w.is_pending(at, self.status_reader.now)
                for at, w in zip(places, windows, strict=True)
            ):
                self.connection.execute(sql("INSERT INTO {table} VALUES ({key})", table=table, key=text))

    def _add_downstream(self, link: LineageEdge, groups: EdgeGroups) -> None:
        """Add the partitions that are made from partitions that are about to run."""
        self.connection.execute(
            sql(
                """
                INSERT INTO {candidates}
                SELECT {asset}, ours.partition_key, ['UPSTREAM_PLANNED'], NULL, {upstream},
                       min(theirs.partition_key), NULL, NULL
                FROM {ours} AS ours JOIN (
                    SELECT grouped, min(partition_key) AS partition_key FROM {theirs}
                    SEMI JOIN ({planned}) AS planned USING (partition_key) GROUP BY grouped
                ) AS theirs USING (grouped) GROUP BY ours.partition_key
                """,
                candidates=_ASSET_CANDIDATES,
                asset=link.asset,
                upstream=link.upstream,
                ours=groups.downstream,
                theirs=groups.upstream,
                planned=_planned_keys_sql(link.upstream),
            )
        )

    def _mark_blocked(self, link: LineageEdge, groups: EdgeGroups) -> None:
        """Mark what is made from partitions that are neither there nor about to run, or whose window isn't over."""
        theirs = self.definitions.get(link.upstream)
        if theirs is not None and theirs.is_source and self.request.allow_missing:
            return
        self.connection.execute(
            sql(
                """
                UPDATE {candidates} SET held_asset = {upstream}, held_partition = held.partition_key
                FROM (
                    SELECT ours.partition_key AS our_key, min(absent.partition_key) AS partition_key FROM {ours} AS ours
                    JOIN (
                        SELECT grouped, min(partition_key) AS partition_key FROM {theirs}
                        ANTI JOIN (SELECT partition_key FROM {known} WHERE {is_upstream} AND {readable})
                            AS present USING (partition_key)
                        ANTI JOIN ({planned}) AS planned USING (partition_key) GROUP BY grouped
                    ) AS absent USING (grouped) GROUP BY ours.partition_key
                ) AS held WHERE held.our_key = {candidates}.partition_key AND held_asset IS NULL
                """,
                candidates=_ASSET_CANDIDATES,
                upstream=link.upstream,
                ours=groups.downstream,
                theirs=groups.upstream,
                known=_KNOWN_PARTITIONS,
                is_upstream=asset_condition(link.upstream),
                readable=READABLE_SQL,
                planned=_planned_keys_sql(link.upstream),
            )
        )

    def _apply_predicate(self, asset: str) -> None:
        where = self.request.where
        if where is None:
            return
        distinct_keys = sql("SELECT DISTINCT partition_key FROM {candidates}", candidates=_ASSET_CANDIDATES)
        keys = fetch_arrow(self.connection, distinct_keys)["partition_key"].combine_chunks()
        try:
            # A column that isn't there is one as well where nothing is to be done.
            check_predicate_columns(self.definitions[asset].partitions.names, where)
            found = select_matching_keys(keys, where) if len(keys) else keys
            self.is_predicate_applied = True
        except PredicateError as error:
            self.predicate_error, found = self.predicate_error or error, keys.slice(0, 0)
            self.skipped_assets += [asset] if len(keys) else []
        self.connection.register(_MATCHING_KEYS, pa.table({"partition_key": found}))
        self.connection.execute(
            sql(
                "DELETE FROM {candidates} WHERE partition_key NOT IN (SELECT partition_key FROM {matching})",
                candidates=_ASSET_CANDIDATES,
                matching=_MATCHING_KEYS,
            )
        )
        self.connection.unregister(_MATCHING_KEYS)

    def plan_tables(self) -> tuple[pa.Table, pa.Table]:
        """What would run, in order and in batches, and what is held back."""
        rows = fetch_arrow(
            self.connection,
            sql(
                """
                WITH sizes AS (
                    SELECT asset_key, partition_key,
                           coalesce(bytes, avg(bytes) OVER (PARTITION BY asset_key)::BIGINT) AS bytes FROM {expected}
                )
                SELECT p.*, s.bytes FROM {planned} AS p
                JOIN (VALUES {order}) AS o(asset_key, asset_index) USING (asset_key)
                LEFT JOIN sizes AS s ON s.asset_key = p.asset_key AND s.partition_key = p.partition_key
                ORDER BY o.asset_index, p.partition_key
                """,
                expected=_EXPECTED_PARTITIONS,
                planned=_PLANNED_PARTITIONS,
                order=[tuple_of(asset, i) for i, asset in enumerate(self.asset_order or [""])],
            ),
        )
        held = rows["held_asset"].is_valid()
        running = rows.filter(pa.compute.invert(held))
        running = running.append_column(
            "batch", pa.array(batch_numbers(running, self.request.batch_limits), pa.int64())
        )
        blocked = rows.filter(held).drop_columns(["by_asset", "by_partition"])
        blocked = blocked.rename_columns({"held_asset": "by_asset", "held_partition": "by_partition"})
        return running.select(PLANNED_SCHEMA.names).cast(PLANNED_SCHEMA), blocked.select(BLOCKED_SCHEMA.names).cast(
            BLOCKED_SCHEMA
        )

    def input_assets(self, partitions: pa.Table) -> set[str]:
        """The assets that a plan hangs on: those that run, and their upstreams."""
        running = set(partitions["asset_key"].unique().to_pylist())
        return running | {u.asset for name in running for u in self.definitions[name].upstreams}


def _planned_keys_sql(asset: str) -> Sql:
    return sql(
        "SELECT partition_key FROM {planned} WHERE {is_asset} AND held_asset IS NULL",
        planned=_PLANNED_PARTITIONS,
        is_asset=asset_condition(asset),
    )
