"""Make run plans: select the partitions that must run from the status view, one asset at a time, in DuckDB.

Assets are planned upstreams first. The plan of an asset has its partitions in the requested states (missing, stale,
failed), and those whose upstream partitions are in the plan. A partition is blocked if an upstream partition can't be
read and is not in the plan, or if its window isn't over yet (`open_windows.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Any

import pyarrow as pa

from partita.algebra.key_text import canonical_value_text
from partita.algebra.mappings import FunctionMapping
from partita.algebra.predicate import UnboundPredicate
from partita.algebra.time_windows import TimeWindows
from partita.assets.open_windows import add_mapped_open_windows, create_open_windows
from partita.assets.plan_validation import input_digests
from partita.assets.run_plan import BLOCKED_SCHEMA, PLANNED_SCHEMA, BatchLimits, RunPlan, batch_numbers
from partita.assets.selection import select_assets
from partita.errors import DefinitionError, PlanError, PredicateError, value_repr
from partita.status.definitions import AssetDefinition
from partita.status.duckdb_engine import VARCHAR, create_table, create_temp_table, create_view, fetch_arrow
from partita.status.duckdb_sql import Sql, all_of, any_of, sql, tuple_of
from partita.status.events import validate_timestamp
from partita.status.key_predicates import check_predicate_columns, select_matching_keys
from partita.status.lineage import EdgeGroups, LineageEdge, asset_condition, create_edge_groups, dimension_value_sql
from partita.status.queries import StatusReader
from partita.status.relations import STATUS_VIEW
from partita.status.states import PLANNABLE_STATES, READABLE_SQL, STATE_FILTERS, StaleReason

PLAN_REASONS = ("MISSING", "FAILED", *(reason.value for reason in StaleReason), "UPSTREAM_PLANNED")
"""The reasons for which a partition is in a plan; `UPSTREAM_PLANNED`: an upstream partition is in it."""

_PARTITION_STATUS = Sql("plan_status")
"""The columns of the status view that the planner reads."""
_EXPECTED_PARTITIONS = Sql("plan_expected")
"""The rows of `_PARTITION_STATUS` that a definition expects, or that no definition judges."""
_PLANNED_PARTITIONS = Sql("plan_partitions")
"""The partitions of the plan. A blocked one has the upstream partition that it waits for."""
_ASSET_CANDIDATES = Sql("plan_candidates")
"""The rows of one asset before they are merged into the plan: a row for each reason of a partition."""
_MATCHING_KEYS = Sql("plan_matching_keys")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The parameters of a plan, as `lake.plan` takes them.

    `states` are some of `PLANNABLE_STATES`; `select` are selectors of assets, as `select_assets` reads them; `where` is
    a predicate on the dimensions of keys; `since` leaves out partitions that have been in their state for longer. With
    `allow_missing`, missing partitions of sources don't block. The plan is limited to `available_assets`, or to all
    registered assets.
    """

    states: tuple[str, ...] = PLANNABLE_STATES
    select: tuple[str, ...] = ()
    where: UnboundPredicate | None = None
    since: datetime | None = None
    allow_missing: bool = False
    batch_limits: BatchLimits = field(default_factory=BatchLimits)
    available_assets: frozenset[str] | None = None

    def document(self) -> dict[str, Any]:
        """Return the request as JSON values, for the header of the plan's file."""
        return {
            "needs": list(self.states), "select": list(self.select),
            "where": None if self.where is None else str(self.where),
            "time_zone": None if self.where is None else self.where.time_zone.name,
            "since": None if self.since is None else self.since.isoformat(), "allow_missing": self.allow_missing,
            "sizes": asdict(self.batch_limits),
        }  # fmt: skip


def make_plan(status_reader: StatusReader, request: PlanRequest, lake_uri: str, tenant: str, workspace: str) -> RunPlan:
    """Return the plan of a request, from the status view of a reader that selects every asset.

    Raises `PlanError` for an unknown state or selector, `PredicateError` for a predicate that fits no asset, and
    `DefinitionError` for a mapping function that this process doesn't have.
    """
    planner = _RunPlanner(status_reader, request)
    planner.plan_assets()
    partitions, blocked = planner.plan_tables()
    document = {**request.document(), "left_out": planner.skipped_assets, "not_among": planner.unavailable_assets}
    return RunPlan(
        lake_uri, tenant, workspace, status_reader.now, document, partitions, blocked,
        input_digests(status_reader, planner.input_assets(partitions)),
    )  # fmt: skip


class _RunPlanner:
    """Builds one plan, asset by asset, in relations of the status reader's connection."""

    def __init__(self, status_reader: StatusReader, request: PlanRequest) -> None:
        self.status_reader = status_reader
        self.request = request
        self.connection = status_reader.connection
        for state in request.states:
            if state not in PLANNABLE_STATES:
                raise PlanError(f"a plan is for the states {', '.join(PLANNABLE_STATES)}, not {value_repr(state)}")
        self.since = None if request.since is None else validate_timestamp("since", request.since)
        self.unavailable_assets: list[str] = []
        self.definitions = self._available_definitions()
        self.selected_assets = select_assets(request.select, self.definitions)
        if request.select:
            upstreams = {u.asset for name in self.selected_assets for u in self.definitions[name].upstreams}
            status_reader.select_assets(sorted(self.selected_assets | (upstreams & set(status_reader.known_assets))))
            self.definitions = self._available_definitions()
            self.selected_assets = select_assets(request.select, self.definitions)
        self.is_predicate_applied = request.where is None
        self.predicate_error: PredicateError | None = None
        self.skipped_assets: list[str] = []

    def _available_definitions(self) -> dict[str, AssetDefinition]:
        """Return the definitions of the available assets; set `unavailable_assets` to the other non-sources."""
        definitions, available_assets = self.status_reader.definitions(), self.request.available_assets
        if available_assets is None:
            return definitions
        self.unavailable_assets = sorted(
            name for name in set(definitions) - available_assets if not definitions[name].is_source
        )
        return {name: definition for name, definition in definitions.items() if name in available_assets}

    def plan_assets(self) -> None:
        """Fill `_PLANNED_PARTITIONS`, asset by asset; raise `PredicateError` for a predicate that fits no asset."""
        select_status = """
            SELECT asset_key, partition_key, display_status, failed, expected, stale_since, stale_reasons,
                   last_attempt_at, wiped_at, last_materialization_bytes AS bytes, stale_upstream_asset_key AS by_asset,
                   stale_upstream_partition_key AS by_partition
            FROM {view}
        """
        create_table(self.connection, _PARTITION_STATUS, sql(select_status, view=STATUS_VIEW))
        select_expected = sql("SELECT * FROM {rows} WHERE expected IS NOT FALSE", rows=_PARTITION_STATUS)
        create_view(self.connection, _EXPECTED_PARTITIONS, select_expected)
        columns = (
            "asset_key",
            "partition_key",
            "reasons",
            "since",
            "by_asset",
            "by_partition",
            "blocking_asset",
            "blocking_partition",
        )
        types = {"reasons": "VARCHAR[]", "since": "TIMESTAMPTZ"}
        create_temp_table(self.connection, _PLANNED_PARTITIONS, {c: types.get(c, VARCHAR) for c in columns})
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
        edges = self.status_reader.upstream_edges(asset)
        for edge in edges:
            if not edge.can_evaluate_mapping:
                raise DefinitionError(
                    f"{asset!r} is mapped to {edge.upstream!r} by a function that this process doesn't have; load the "
                    "pipeline that has it"
                )
        no_rows = sql("SELECT * FROM {planned} LIMIT 0", planned=_PLANNED_PARTITIONS)
        create_table(self.connection, _ASSET_CANDIDATES, no_rows)
        self._add_by_state(asset)
        asset_index = self.asset_order.index(asset)
        edge_groups = [
            (edge, self._create_edge_groups(f"plan_{asset_index}_{i}", edge)) for i, edge in enumerate(edges)
        ]
        for edge, groups in edge_groups if "stale" in self.request.states else ():
            self._add_downstream(edge, groups)
        self._apply_predicate(asset)
        for edge, groups in edge_groups:
            self._mark_blocked(edge, groups)
        self.connection.execute(
            sql(
                """
                INSERT INTO {planned}
                SELECT asset_key, partition_key,
                       list_filter([{reasons}], lambda r: list_contains(flatten(list(reasons)), r)), min(since),
                       first(by_asset ORDER BY since NULLS LAST), first(by_partition ORDER BY since NULLS LAST),
                       any_value(blocking_asset), any_value(blocking_partition)
                FROM {candidates} GROUP BY asset_key, partition_key
                """,
                planned=_PLANNED_PARTITIONS,
                reasons=PLAN_REASONS,
                candidates=_ASSET_CANDIDATES,
            )
        )

    def _add_by_state(self, asset: str) -> None:
        """Add the asset's partitions in the requested states."""
        conditions = [asset_condition(asset), any_of(STATE_FILTERS[state] for state in self.request.states)]
        if self.since is not None:
            conditions.append(self._since_sql(asset, self.since))
        self.connection.execute(
            sql(
                """
                INSERT INTO {candidates}
                SELECT asset_key, partition_key,
                       list_concat(list_concat(
                           CASE WHEN {missing} THEN ['MISSING'] ELSE [] END,
                           CASE WHEN {failed} THEN ['FAILED'] ELSE [] END), stale_reasons),
                       least(stale_since, CASE WHEN {failed} THEN last_attempt_at END), by_asset, by_partition,
                       NULL, NULL
                FROM {expected} WHERE {condition}
                """,
                candidates=_ASSET_CANDIDATES,
                missing=STATE_FILTERS["missing"],
                failed=STATE_FILTERS["failed"],
                expected=_EXPECTED_PARTITIONS,
                condition=all_of(conditions),
            )
        )

    def _since_sql(self, asset: str, since: datetime) -> Sql:
        """Return the condition that a partition came into its state at `since` or later.

        A partition that was never attempted is as old as its time window.
        """
        windows = [d for d in self.definitions[asset].partitions.dimensions if isinstance(d, TimeWindows)]
        is_window_late = all_of(
            sql(
                "{value} >= {first}",
                value=dimension_value_sql(Sql("partition_key"), w.name),
                first=canonical_value_text(w.key_value(w.ordinal_at(since))),
            )
            for w in windows
        )
        return sql(
            "coalesce(stale_since, greatest(last_attempt_at, wiped_at)) >= {since} "
            "OR (coalesce(last_attempt_at, wiped_at) IS NULL AND {is_window_late})",
            since=since,
            is_window_late=is_window_late,
        )

    def _create_edge_groups(self, prefix: str, edge: LineageEdge) -> EdgeGroups:
        """Create the groups of an edge: the expected partitions of both assets, and the upstream's open windows."""
        select_keys = "(SELECT partition_key FROM {expected} WHERE {is_asset})"
        downstream = sql(select_keys, expected=_EXPECTED_PARTITIONS, is_asset=asset_condition(edge.asset))
        upstream = sql(select_keys, expected=_EXPECTED_PARTITIONS, is_asset=asset_condition(edge.upstream))
        if edge.is_same_key:
            return create_edge_groups(self.connection, prefix, edge, downstream, upstream)
        open_windows = Sql(f"{prefix}_open_windows")
        upstream_definition = self.definitions.get(edge.upstream)
        create_open_windows(self.status_reader, open_windows, edge, upstream_definition)
        all_upstream = sql("({keys} UNION ALL SELECT partition_key FROM {open})", keys=upstream, open=open_windows)
        groups = create_edge_groups(self.connection, prefix, edge, downstream, all_upstream)
        if isinstance(edge.mapping, FunctionMapping):
            add_mapped_open_windows(self.status_reader, open_windows, upstream_definition, groups)
        return groups

    def _add_downstream(self, edge: LineageEdge, groups: EdgeGroups) -> None:
        """Add the partitions that are made from upstream partitions of the plan."""
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
                asset=edge.asset,
                upstream=edge.upstream,
                ours=groups.downstream,
                theirs=groups.upstream,
                planned=_planned_keys_sql(edge.upstream),
            )
        )

    def _mark_blocked(self, edge: LineageEdge, groups: EdgeGroups) -> None:
        """Set the blocking partition of candidates made from partitions that are neither readable nor planned."""
        upstream_definition = self.definitions.get(edge.upstream)
        if upstream_definition is not None and upstream_definition.is_source and self.request.allow_missing:
            return
        self.connection.execute(
            sql(
                """
                UPDATE {candidates} SET blocking_asset = {upstream}, blocking_partition = blocking.partition_key
                FROM (
                    SELECT ours.partition_key AS our_key, min(absent.partition_key) AS partition_key FROM {ours} AS ours
                    JOIN (
                        SELECT grouped, min(partition_key) AS partition_key FROM {theirs}
                        ANTI JOIN (SELECT partition_key FROM {status} WHERE {is_upstream} AND {readable})
                            AS present USING (partition_key)
                        ANTI JOIN ({planned}) AS planned USING (partition_key) GROUP BY grouped
                    ) AS absent USING (grouped) GROUP BY ours.partition_key
                ) AS blocking WHERE blocking.our_key = {candidates}.partition_key AND blocking_asset IS NULL
                """,
                candidates=_ASSET_CANDIDATES,
                upstream=edge.upstream,
                ours=groups.downstream,
                theirs=groups.upstream,
                status=_PARTITION_STATUS,
                is_upstream=asset_condition(edge.upstream),
                readable=READABLE_SQL,
                planned=_planned_keys_sql(edge.upstream),
            )
        )

    def _apply_predicate(self, asset: str) -> None:
        """Keep the candidates that match the request's predicate; skip an asset without the columns that it names."""
        where = self.request.where
        if where is None:
            return
        distinct_keys = sql("SELECT DISTINCT partition_key FROM {candidates}", candidates=_ASSET_CANDIDATES)
        keys = fetch_arrow(self.connection, distinct_keys)["partition_key"].combine_chunks()
        try:
            # A wrong column is an error even where no partition is a candidate.
            check_predicate_columns(self.definitions[asset].partitions.names, where)
            matching_keys = select_matching_keys(keys, where) if len(keys) else keys
            self.is_predicate_applied = True
        except PredicateError as error:
            self.predicate_error, matching_keys = self.predicate_error or error, keys.slice(0, 0)
            self.skipped_assets += [asset] if len(keys) else []
        self.connection.register(_MATCHING_KEYS, pa.table({"partition_key": matching_keys}))
        self.connection.execute(
            sql(
                "DELETE FROM {candidates} WHERE partition_key NOT IN (SELECT partition_key FROM {matching})",
                candidates=_ASSET_CANDIDATES,
                matching=_MATCHING_KEYS,
            )
        )
        self.connection.unregister(_MATCHING_KEYS)

    def plan_tables(self) -> tuple[pa.Table, pa.Table]:
        """Return the partitions that will run, in order and in batches, and those that are blocked."""
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
        is_blocked = rows["blocking_asset"].is_valid()
        planned_rows = rows.filter(pa.compute.invert(is_blocked))
        batches = pa.array(batch_numbers(planned_rows, self.request.batch_limits), pa.int64())
        planned_rows = planned_rows.append_column("batch", batches).select(PLANNED_SCHEMA.names)
        blocked_rows = rows.filter(is_blocked).drop_columns(["by_asset", "by_partition"])
        blocked_rows = blocked_rows.rename_columns({"blocking_asset": "by_asset", "blocking_partition": "by_partition"})
        return planned_rows.cast(PLANNED_SCHEMA), blocked_rows.select(BLOCKED_SCHEMA.names).cast(BLOCKED_SCHEMA)

    def input_assets(self, partitions: pa.Table) -> set[str]:
        """Return the assets whose status the plan depends on: those that run, and their upstreams."""
        planned_assets = set(partitions["asset_key"].unique().to_pylist())
        return planned_assets | {u.asset for name in planned_assets for u in self.definitions[name].upstreams}


def _planned_keys_sql(asset: str) -> Sql:
    return sql(
        "SELECT partition_key FROM {planned} WHERE {is_asset} AND blocking_asset IS NULL",
        planned=_PLANNED_PARTITIONS,
        is_asset=asset_condition(asset),
    )
