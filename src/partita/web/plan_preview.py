"""Previews of plans: which partitions would run and why, and which are held back.

A plan that was shown is kept under an id, so that exactly this plan can be run.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from partita.algebra.key_label import key_label
from partita.algebra.ulid import new_ulid
from partita.display.coordinates import PARTITIONS
from partita.status.duckdb_sql import sql
from partita.status.states import PLANNABLE_STATES
from partita.status.text import json_timestamp
from partita.web.asset_view import AssetView, QueryParameters, parse_choices, read_asset_view, selected_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.assets.planner import PlanRequest
    from partita.assets.run_plan import RunPlan
    from partita.web.snapshot_refresh import SnapshotRefresher

MAX_SHOWN_PARTITIONS = 20
"""The number of partitions that a preview lists for each asset, and of those that are held back."""
MAX_CACHED_PLANS = 4
"""The number of plans that are kept until they run."""


@dataclass(frozen=True, slots=True)
class PlanPreviewQuery:
    """The parameters of a plan, as `lake.plan` takes them; `asset_view` restricts it to partitions of one asset."""

    select: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    where: str | None = None
    allow_missing: bool = False
    asset_view: AssetView | None = None

    @property
    def has_map_selection(self) -> bool:
        """Whether the view restricts partitions in a way that `lake.plan` has no parameter for."""
        view = self.asset_view
        return view is not None and bool(
            view.selected_box or view.marks or view.reasons or set(view.states) - set(PLANNABLE_STATES)
        )

    @property
    def selection_text(self) -> str:
        """The selection as one text, with quotes around words that contain spaces, as `read_plan_query` parses it."""
        return shlex.join(self.select)

    def query_string(self) -> str:
        """Return the parameters as the query of a URL."""
        if self.asset_view is not None:
            rest = urlencode({"allow_missing": "1"} if self.allow_missing else {})
            return "&".join(filter(None, (self.asset_view.query_string(view=None), rest)))
        parts = {"select": self.select, "need": self.needs, "where": self.where}
        parts |= {"allow_missing": "1" if self.allow_missing else None}
        return urlencode({name: value for name, value in parts.items() if value}, doseq=True)


def read_plan_query(query: QueryParameters) -> PlanPreviewQuery:
    """Return the parameters of a plan from the query of a URL: words that select assets, or a view of one asset."""
    allow_missing = bool(query.get("allow_missing"))
    if query.get("asset"):
        view = read_asset_view(query)
        needs = tuple(state for state in view.states if state in PLANNABLE_STATES)
        needs = needs if len(needs) == len(view.states) else ()
        return PlanPreviewQuery((view.asset,), needs, view.where, allow_missing, view)
    words = (*query.getlist("select"), *_split_words(query.get("words") or ""))
    where = (query.get("where") or "").strip() or None
    return PlanPreviewQuery(
        tuple(dict.fromkeys(words)),
        parse_choices("need", query.getlist("need"), PLANNABLE_STATES),
        where,
        allow_missing,
    )


def _split_words(words: str) -> list[str]:
    lexer = shlex.shlex(words, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        # A quote without an end is an ordinary character.
        return words.split()


@dataclass(slots=True)
class PlanPreviews:
    """Makes plans and keeps the last few; `batch_limits` and `asset_names` are those of the server's runner."""

    snapshots: SnapshotRefresher
    batch_limits: Mapping[str, int] = field(default_factory=dict)
    asset_names: tuple[str, ...] | None = None
    _plans_by_id: dict[str, RunPlan] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def make_plan(self, query: PlanPreviewQuery) -> tuple[str, RunPlan]:
        """Make a plan of the current state of the lake, and return its id and the plan."""
        if query.asset_view is not None:
            # The name of an asset may contain characters of the selection syntax, so it must exist exactly.
            self.snapshots.latest.asset(query.asset_view.asset)
        plan = self.snapshots.lake_queries.plan(self._plan_request(query))
        if query.has_map_selection:
            plan = self._narrow_to_selection(plan, query)
        plan_id = new_ulid()
        with self._lock:
            self._plans_by_id[plan_id] = plan
            if len(self._plans_by_id) > MAX_CACHED_PLANS:
                del self._plans_by_id[next(iter(self._plans_by_id))]
        return plan_id, plan

    def _plan_request(self, query: PlanPreviewQuery) -> PlanRequest:
        from partita.assets.planner import PlanRequest
        from partita.assets.run_plan import BatchLimits
        from partita.formats.conditions import current_condition

        needs = tuple(need for need in PLANNABLE_STATES if need in query.needs) or PLANNABLE_STATES
        sizes = BatchLimits(**{name.removeprefix("batch_"): size for name, size in self.batch_limits.items()})
        asset_names = None if self.asset_names is None else frozenset(self.asset_names)
        zone = self.snapshots.lake.time_zone
        where = None if query.where is None else current_condition(query.where, zone)
        return PlanRequest(needs, query.select, where, None, query.allow_missing, sizes, asset_names)

    def plan_by_id(self, plan_id: str) -> RunPlan:
        """Return the plan with this id. Raises `HTTPException` with status 404 if it is no longer kept."""
        plan = self._plans_by_id.get(plan_id)
        if plan is None:
            raise HTTPException(404, "this plan is no longer available; make a new one")
        return plan

    def _narrow_to_selection(self, plan: RunPlan, query: PlanPreviewQuery) -> RunPlan:
        """Restrict a plan to the partitions that were selected on the map, as the snapshot shows them."""
        from partita.assets.run_plan import narrow_plan

        assert query.asset_view is not None  # noqa: S101 - `has_map_selection` is true
        snapshot = self.snapshots.latest
        condition = selected_sql(snapshot, query.asset_view)
        select = sql("SELECT partition_key FROM {rows} WHERE {condition}", rows=PARTITIONS, condition=condition)
        (keys,) = snapshot.fetch_columns(select)
        return narrow_plan(plan, query.asset_view.asset, keys)


def preview_document(plan_id: str, plan: RunPlan, *, may_run: bool) -> dict[str, Any]:
    """Return a plan with the first partitions of each asset, as values that JSON can represent."""
    import pyarrow.compute as pc

    assets = list(_asset_documents(plan))
    return {
        "plan": plan_id,
        "made_at": json_timestamp(plan.made_at),
        "needs": plan.request["needs"],
        "select": plan.request["select"],
        "where": plan.request["where"],
        "time_zone": plan.time_zone,
        "chosen": plan.request.get("chosen"),
        "partitions": len(plan),
        "batches": sum(asset["batches"] for asset in assets),
        "bytes": pc.sum(plan.partitions["bytes"]).as_py(),
        "held_back": plan.blocked.num_rows,
        "assets": assets,
        "held": [_blocked_row(row) for row in plan.blocked.slice(0, MAX_SHOWN_PARTITIONS).to_pylist()],
        "may_run": may_run,
    }


def _asset_documents(plan: RunPlan) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc

    for asset in pc.unique(plan.partitions["asset_key"]).to_pylist():
        rows = plan.partitions.filter(pc.equal(plan.partitions["asset_key"], asset))
        yield {
            "asset": asset,
            "partitions": rows.num_rows,
            "batches": len(pc.unique(rows["batch"])),
            "bytes": pc.sum(rows["bytes"]).as_py(),
            "reasons": _reason_counts(rows),
            "rows": [_partition_row(row) for row in rows.slice(0, MAX_SHOWN_PARTITIONS).to_pylist()],
        }


def _reason_counts(rows: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    counts = pc.value_counts(pc.list_flatten(rows["reasons"])).to_pylist()
    return {count["values"]: count["counts"] for count in counts}


def _partition_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": row["partition_key"],
        "label": key_label(row["partition_key"]),
        "batch": row["batch"] + 1,
        "reasons": row["reasons"],
        "since": json_timestamp(row["since"]),
        **_cause_fields(row),
    }


def _blocked_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "asset": row["asset_key"],
        "key": row["partition_key"],
        "label": key_label(row["partition_key"]),
        "reasons": row["reasons"],
        **_cause_fields(row),
    }


def _cause_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    key = row["by_partition"]
    return {"by_asset": row["by_asset"], "by_key": key, "by_label": None if key is None else key_label(key)}
