"""The states that a map shows: the marks and words of `partita status`, each with a number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A state as it is shown: its name in URLs and style sheets, its word, its glyph, and its name on the board."""

    name: str
    word: str
    glyph: str
    board: str


MARKS = (
    Mark("current", "current", "■", "MATERIALIZED"),
    Mark("stale", "stale", "◪", "STALE"),
    Mark("retry-failed", "last attempt failed", "▲", "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"),
    Mark("missing", "missing", "·", "NEVER_MATERIALIZED"),
    Mark("failed", "failed", "✗", "failed"),
    Mark("running", "running", "▶", "running"),
    Mark("unexpected", "not expected", "?", "unexpected"),
    Mark("unknown", "not known", "◌", "unknown"),
)
"""The place of a mark is its number in counts."""
WORST = (4, 2, 1, 7, 5, 6, 3, 0)
"""The numbers of marks, the worst first."""

MARK_SQL = f"""CASE
    WHEN running THEN 5 WHEN failed THEN 4 WHEN expected IS FALSE THEN 6
    WHEN display_status = 'MATERIALIZED' AND staleness = 'unknown' THEN 7
    {" ".join(f"WHEN display_status = '{mark.board}' THEN {number}" for number, mark in enumerate(MARKS[:4]))}
END"""
"""The number of a partition's mark, over the board; every partition has one."""

FILTERS = ("missing", "stale", "failed", "running", "cancelled", "unexpected", "unknown", "current")
"""The states of `lake.status(state=...)` that pages offer; a partition can be in several."""
