"""What is looked at: a part of an asset's map and filters, as it stands in URLs, and as conditions in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from partita.errors import StatusError
from partita.picture.box import Box, box_sql
from partita.picture.marks import FILTERS, MARKS
from partita.picture.snapshot import REASON_BITS, STATE_BITS, Snapshot
from partita.web.predicates import matching_sql

MARK_NUMBERS = {mark.name: number for number, mark in enumerate(MARKS)}


class Query(Protocol):
    """The parameters of a URL, of which some are there more than once."""

    def get(self, key: str, /) -> str | None: ...
    def getlist(self, key: Any, /) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class View:
    """What is looked at. `view` is the part of the map that is shown, `selected` the part that the list is of.

    `marks` are the states as a map shows them, one for each partition; `states` are those of `lake.status`, of which a
    partition may be in several. Of each, as of reasons, any is enough; a partition must meet all of these.
    """

    asset: str
    view: Box | None = None
    selected: Box | None = None
    marks: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    where: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether some partitions are left out for what they are."""
        return bool(self.marks or self.states or self.reasons or self.where)

    def query(self, **changes: Any) -> str:
        """The view as the query of a URL, with parts changed; one that is None is left out."""
        parts: dict[str, Any] = {
            "asset": self.asset,
            "view": self.view,
            "selected": self.selected,
            "mark": self.marks,
            "state": self.states,
            "reason": self.reasons,
            "where": self.where,
            **changes,
        }
        return urlencode({k: v if isinstance(v, tuple) else str(v) for k, v in parts.items() if v}, doseq=True)


def read_view(query: Query) -> View:
    """The view that a URL holds; what it can't mean is refused."""
    asset = query.get("asset")
    if not asset:
        raise StatusError("say which asset: ?asset=NAME")
    return View(
        asset,
        _read_box(query.get("view")),
        _read_box(query.get("selected")),
        known_words("mark", query.getlist("mark"), MARK_NUMBERS),
        known_words("state", query.getlist("state"), FILTERS),
        known_words("reason", query.getlist("reason"), REASON_BITS),
        (query.get("where") or "").strip() or None,
    )


def _read_box(text: str | None) -> Box | None:
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,9}(,-?\d{1,9}){3}", text):
        raise StatusError(f"{text!r} is no part of a map; write four whole numbers, as in 0,30,0,5")
    x0, x1, y0, y1 = map(int, text.split(","))
    return Box(min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1))


def known_words(what: str, given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Words as they are spelled, each once, in any case; one that isn't known is refused."""
    words = {word.lower(): word for word in known}
    asked = [word for word in given if word]
    wrong = next((word for word in asked if word.lower() not in words), None)
    if wrong is not None:
        raise StatusError(f"no {what} {wrong!r}; there is: {', '.join(words.values())}")
    return tuple(dict.fromkeys(words[word.lower()] for word in asked))


def filter_sql(snapshot: Snapshot, view: View) -> str:
    """The condition that a row of `partitions` is of the view's asset and passes its filters."""
    conditions = [f"asset = {snapshot.asset(view.asset).number:d}"]
    for column, bits, words in (("states", STATE_BITS, view.states), ("reasons", REASON_BITS, view.reasons)):
        if words:
            conditions.append(f"{column} & {sum(bits[word] for word in words):d} <> 0")
    if view.marks:
        conditions.append(f"mark IN ({', '.join(str(MARK_NUMBERS[name]) for name in view.marks)})")
    if view.where is not None:
        conditions.append(matching_sql(snapshot, view.asset, view.where))
    return " AND ".join(conditions)


def selected_sql(snapshot: Snapshot, view: View) -> str:
    """The condition that a row of `partitions` passes the view's filters and lies in what is selected."""
    condition = filter_sql(snapshot, view)
    if view.selected is None:
        return condition
    return f"{condition} AND {box_sql(view.selected)}"
