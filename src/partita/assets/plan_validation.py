"""Checks of a plan before it runs: that this process can run it, and that its inputs haven't changed."""

from __future__ import annotations

from collections.abc import Mapping

from partita.assets.asset import Asset
from partita.assets.lake_context import LakeContext
from partita.assets.planner import find_invalid_partition, input_digests, runs_with_open_attempts
from partita.assets.run_plan import RunPlan, key_label
from partita.errors import DefinitionError, PlanError, PlanOutdated


def check_plan_assets(lake: LakeContext, plan: RunPlan, assets: Mapping[str, Asset]) -> None:
    """Raise `PlanError` if the plan is for another lake, or `assets` lacks a function that it needs."""
    ledger = lake.workspace.ledger
    if (plan.lake_uri, plan.tenant, plan.workspace) != (lake.storage.uri, ledger.tenant, ledger.workspace):
        raise PlanError(f"the plan is for {plan.tenant}/{plan.workspace} of {plan.lake_uri}, not for this lake")
    for name in plan.assets:
        if name not in assets:
            known = ", ".join(assets) or "none"
            raise PlanError(f"the plan runs {name!r}, which this process has no function for; it has: {known}")
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
        missing = min(inputs - set(plan.input_digests))
        raise PlanError(f"the plan has no digest of its input {missing!r}; make a new one")
    with lake.workspace.open_reader(allow_unknown=True) as reader:
        digests = input_digests(reader, plan.input_digests)
        invalid = find_invalid_partition(reader, plan.partitions)
        open_run_ids = runs_with_open_attempts(reader, plan.partitions)
    changed = tuple(asset for asset, digest in plan.input_digests.items() if digests.get(asset) != digest)
    if changed:
        raise PlanOutdated(changed)
    if invalid is not None:
        asset, key, problem = invalid
        raise PlanError(f"the plan has {asset} {key_label(key)}, {problem}")
    return open_run_ids
