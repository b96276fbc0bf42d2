"""The overview: every asset of a workspace with its counts, and what needs attention."""

from __future__ import annotations

from typing import Any

from partita.picture.marks import MARKS
from partita.picture.snapshot import AssetFacts, Snapshot
from partita.picture.words import stamp

_WRONG = ("failed", "retry-failed", "stale", "missing", "unknown", "running")
"""The marks that need attention, in the order in which they do."""


def overview(snapshot: Snapshot, search: str = "") -> dict[str, Any]:
    """The assets whose name or table has the text in it, in any case; and of all of them what needs attention."""
    wanted = search.casefold().strip()
    found = [facts for facts in snapshot.assets.values() if wanted in f"{facts.name}\n{facts.table or ''}".casefold()]
    return {
        "as_of": stamp(snapshot.as_of),
        "ledger_version": snapshot.version,
        "partitions": sum(facts.partitions for facts in snapshot.assets.values()),
        "assets": [asset_document(facts) for facts in found],
        "attention": attention(snapshot),
    }


def attention(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The assets of which something is wrong, the failed ones first, and then those with the most.

    `marks` counts their partitions as the map shows them: each once, so that all who count say the same.
    """
    found = [
        {"asset": facts.name, "trouble": facts.trouble, "marks": {name: _marks(facts)[name] for name in _WRONG}}
        for facts in snapshot.assets.values()
        if facts.not_current or facts.trouble
    ]
    return sorted(found, key=lambda one: (not one["trouble"], *(-one["marks"][name] for name in _WRONG)))


def asset_document(facts: AssetFacts) -> dict[str, Any]:
    """The facts of an asset as values that JSON can hold."""
    return {
        "asset": facts.name,
        "partitions": facts.partitions,
        "not_current": facts.not_current,
        "states": dict(facts.states),
        "marks": _marks(facts),
        "dimensions": list(facts.dimensions),
        "upstreams": list(facts.upstreams),
        "table": facts.table,
        "freshness": facts.freshness,
        "code_version": facts.code_version,
        "registered": facts.registered,
        "retired": facts.retired,
        "trouble": facts.trouble,
        "last_materialized": stamp(facts.last_materialized),
        "stale_since": stamp(facts.stale_since),
        "last_run": facts.last_run,
        "last_run_at": stamp(facts.last_run_at),
        "last_run_outcome": facts.last_run_outcome,
    }


def _marks(facts: AssetFacts) -> dict[str, int]:
    return {mark.name: count for mark, count in zip(MARKS, facts.marks, strict=True)}
