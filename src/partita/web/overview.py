"""The overview: all assets of a workspace with their counts, and those that need attention."""

from __future__ import annotations

from typing import Any

from partita.display.status_snapshot import AssetSummary, StatusSnapshot
from partita.status.states import ATTENTION_MARKS, MARKS
from partita.status.text import json_timestamp


def overview_document(snapshot: StatusSnapshot, search: str = "") -> dict[str, Any]:
    """Return the assets whose name or table contains a text, ignoring case, and all assets that need attention."""
    text = search.casefold().strip()
    matches = [facts for facts in snapshot.assets.values() if text in f"{facts.name}\n{facts.table or ''}".casefold()]
    return {
        "as_of": json_timestamp(snapshot.as_of),
        "ledger_version": snapshot.ledger_version,
        "partitions": sum(facts.partition_count for facts in snapshot.assets.values()),
        "assets": [asset_document(facts) for facts in matches],
        "attention": assets_needing_attention(snapshot),
    }


def assets_needing_attention(snapshot: StatusSnapshot) -> list[dict[str, Any]]:
    """Return the assets with partitions that are not current, those with problems and failures first.

    `marks` counts each partition once, as the map shows it.
    """
    documents = [
        {
            "asset": facts.name,
            "trouble": facts.problem,
            "marks": {name: _mark_counts(facts)[name] for name in ATTENTION_MARKS},
        }
        for facts in snapshot.assets.values()
        if facts.not_current_count or facts.problem
    ]
    return sorted(
        documents, key=lambda asset: (not asset["trouble"], *(-asset["marks"][name] for name in ATTENTION_MARKS))
    )


def asset_document(facts: AssetSummary) -> dict[str, Any]:
    """Return the facts of an asset as values that JSON can represent."""
    return {
        "asset": facts.name,
        "partitions": facts.partition_count,
        "not_current": facts.not_current_count,
        "states": dict(facts.state_counts),
        "marks": _mark_counts(facts),
        "dimensions": list(facts.dimensions),
        "upstreams": list(facts.upstreams),
        "table": facts.table,
        "freshness": facts.freshness,
        "code_version": facts.code_version,
        "registered": facts.is_registered,
        "retired": facts.is_retired,
        "trouble": facts.problem,
        "last_materialized": json_timestamp(facts.last_materialized),
        "stale_since": json_timestamp(facts.stale_since),
        "last_run": facts.last_run,
        "last_run_at": json_timestamp(facts.last_run_at),
        "last_run_outcome": facts.last_run_outcome,
    }


def _mark_counts(facts: AssetSummary) -> dict[str, int]:
    return {mark.name: count for mark, count in zip(MARKS, facts.mark_counts, strict=True)}
