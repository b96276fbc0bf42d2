"""Checks of a plan before it runs: that this process can run it, and that its inputs haven't changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.algebra.key_label import partition_label
from partita.assets.asset import Asset
from partita.assets.lake_context import LakeContext
from partita.assets.run_plan import RunPlan
from partita.errors import DefinitionError, PlanError, PlanOutdated
from partita.status.duckdb_engine import fetch_rows
from partita.status.duckdb_sql import Sql, sql
from partita.status.relations import RUNNING_PARTITIONS, STATUS_ROWS, STATUS_VIEW

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.status.queries import StatusReader

_PLAN_PARTITIONS = Sql("checked_partitions")
"""The partitions of the plan that is checked."""


def check_plan_assets(lake: LakeContext, plan: RunPlan, assets: Mapping[str, Asset]) -> None:
    """Raise `PlanError` if the plan is for another lake, or `assets` lacks a function that it needs."""
    ledger = lake.workspace.ledger
    if (plan.lake_uri, plan.tenant, plan.workspace) != (lake.storage.uri, ledger.tenant, ledger.workspace):
        raise PlanError(f"the plan is for {plan.tenant}/{plan.workspace} of {plan.lake_uri}, not for this lake")
    for name in plan.assets:
        if name not in assets:
            names = ", ".join(assets) or "none"
            raise PlanError(f"the plan runs {name!r}, which this process has no function for; it has: {names}")
        if assets[name].is_source:
            raise PlanError(f"the plan runs {name!r}, which is a source: others write it")
        for upstream in assets[name].definition.upstreams:
            if upstream.asset not in assets:
                raise DefinitionError(f"{name!r} is made from {upstream.asset!r}, which this process doesn't have")


def check_plan_inputs(lake: LakeContext, plan: RunPlan, assets: Mapping[str, Asset]) -> frozenset[str]:
    """Return the runs that have open attempts at partitions of the plan.

    Raise `PlanOutdated` if an input's status or definition changed since the plan was made, and `PlanError` if a
    partition is not expected or is in the plan twice.
    """
    inputs = {*plan.assets, *(u.asset for name in plan.assets for u in assets[name].definition.upstreams)}
    if not inputs <= set(plan.input_digests):
        missing_input = min(inputs - set(plan.input_digests))
        raise PlanError(f"the plan has no digest of its input {missing_input!r}; make a new one")
    with lake.workspace.open_reader(allow_unknown=True) as reader:
        digests = input_digests(reader, plan.input_digests)
        invalid_partition = find_invalid_partition(reader, plan.partitions)
        open_run_ids = runs_with_open_attempts(reader, plan.partitions)
    changed_assets = tuple(asset for asset, digest in plan.input_digests.items() if digests.get(asset) != digest)
    if changed_assets:
        raise PlanOutdated(changed_assets)
    if invalid_partition is not None:
        asset, key, problem = invalid_partition
        raise PlanError(f"the plan has {partition_label(asset, key)}, {problem}")
    return open_run_ids


def input_digests(status_reader: StatusReader, assets: Iterable[str]) -> dict[str, str]:
    """Return, for each asset, a digest of its definition and of the events that were recorded of its partitions."""
    asset_names = sorted(assets)
    rows = fetch_rows(
        status_reader.connection,
        sql(
            # Another version of DuckDB may hash differently; a plan that is kept that long is refused as outdated.
            "SELECT asset_key, count(*), bit_xor(hash(partition_key, row_version, last_materialization_event_id, "
            "last_attempt_event_id)) FROM {rows} WHERE asset_key IN ({assets}) GROUP BY asset_key",
            rows=STATUS_ROWS,
            assets=asset_names,
        ),
    )
    row_digests = {asset: (count, digest) for asset, count, digest in rows}
    digests = {}
    for asset in asset_names:
        history = status_reader.catalog.histories.get(asset)
        definition = (
            None if history is None else (history.records[-1].code_version, history.records[-1].definition_json)
        )
        digests[asset] = hashlib.sha256(repr((definition, row_digests.get(asset))).encode()).hexdigest()[:16]
    return digests


def find_invalid_partition(status_reader: StatusReader, partitions: pa.Table) -> tuple[str, str, str] | None:
    """Return the first partition that can't run, and why: no definition expects it, or the plan has it twice.

    The result is an asset, a key and the reason; None if every partition can run.
    """
    query = sql(
        """
        SELECT asset_key, partition_key, 'which is there twice' FROM {planned} GROUP BY ALL HAVING count(*) > 1
        UNION ALL
        SELECT asset_key, partition_key, 'which its definition does not expect' FROM {planned}
        ANTI JOIN (FROM {view} WHERE expected IS NOT FALSE) USING (asset_key, partition_key) LIMIT 1
        """,
        planned=_PLAN_PARTITIONS,
        view=STATUS_VIEW,
    )
    rows = _query_partitions(status_reader, partitions, query)
    return rows[0] if rows else None


def runs_with_open_attempts(status_reader: StatusReader, partitions: pa.Table) -> frozenset[str]:
    """Return the ids of the runs that started attempts at some of these partitions and recorded no outcome."""
    query = sql(
        "SELECT DISTINCT unnest(open_run_ids) FROM {running} SEMI JOIN {planned} USING (asset_key, partition_key)",
        running=RUNNING_PARTITIONS,
        planned=_PLAN_PARTITIONS,
    )
    return frozenset(run_id for (run_id,) in _query_partitions(status_reader, partitions, query))


def partitions_made_by_others(
    status_reader: StatusReader, partitions: pa.Table, run_id: str, since: datetime
) -> frozenset[tuple[str, str]]:
    """Return the asset and key of each partition that other runs materialized since a moment."""
    query = sql(
        """
        SELECT asset_key, partition_key FROM {rows} SEMI JOIN {planned} USING (asset_key, partition_key)
        WHERE last_materialization_at > {since} AND last_materialization_run_id <> {run_id}
        """,
        rows=STATUS_ROWS,
        planned=_PLAN_PARTITIONS,
        since=since,
        run_id=run_id,
    )
    return frozenset((asset, key) for asset, key in _query_partitions(status_reader, partitions, query))


def _query_partitions(status_reader: StatusReader, partitions: pa.Table, query: Sql) -> list[tuple[Any, ...]]:
    """Return the rows of a query that reads the partitions of a plan from `_PLAN_PARTITIONS`."""
    status_reader.connection.register(_PLAN_PARTITIONS, partitions.select(["asset_key", "partition_key"]))
    try:
        return fetch_rows(status_reader.connection, query)
    finally:
        status_reader.connection.unregister(_PLAN_PARTITIONS)
