"""The view of an asset: a part of its map and filters, in URLs and as SQL conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from partita.display.layout import Box
from partita.display.status_snapshot import REASON_BITS, STATE_BITS, StatusSnapshot
from partita.errors import StatusError
from partita.status.duckdb_sql import Sql, all_of, sql
from partita.status.states import COMMON_STATE_FILTERS, MARKS
from partita.web.snapshot_predicates import predicate_sql

MARK_NUMBERS = {mark.name: number for number, mark in enumerate(MARKS)}


class QueryParameters(Protocol):
    """The query parameters of a URL, which may be repeated."""

    def get(self, key: str, /) -> str | None: ...
    def getlist(self, key: Any, /) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class AssetView:
    """A view of an asset. `visible_box` is the part of the map that is shown, `selected_box` the part that is listed.

    `marks` are the states of the map, of which each partition has one; `states` are those of `lake.status`, of which a
    partition may have several. A partition passes if it has one of the marks, one of the states and one of the reasons,
    as far as there are any, and matches `where`.
    """

    asset: str
    visible_box: Box | None = None
    selected_box: Box | None = None
    marks: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    where: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether filters hide some partitions."""
        return bool(self.marks or self.states or self.reasons or self.where)

    def query_string(self, **changes: Any) -> str:
        """Return the view as the query of a URL, with some parameters changed, or left out if they are None."""
        parameters: dict[str, Any] = {
            "asset": self.asset,
            "view": self.visible_box,
            "selected": self.selected_box,
            "mark": self.marks,
            "state": self.states,
            "reason": self.reasons,
            "where": self.where,
            **changes,
        }
        return urlencode({k: v if isinstance(v, tuple) else str(v) for k, v in parameters.items() if v}, doseq=True)


def read_asset_view(query: QueryParameters) -> AssetView:
    """Return the view that the query of a URL describes. Raises `StatusError` for invalid parameters."""
    asset = query.get("asset")
    if not asset:
        raise StatusError("the parameter asset is missing; add ?asset=NAME to the URL")
    return AssetView(
        asset,
        _read_box(query.get("view")),
        _read_box(query.get("selected")),
        parse_choices("mark", query.getlist("mark"), MARK_NUMBERS),
        parse_choices("state", query.getlist("state"), COMMON_STATE_FILTERS),
        parse_choices("reason", query.getlist("reason"), REASON_BITS),
        (query.get("where") or "").strip() or None,
    )


def _read_box(text: str | None) -> Box | None:
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,9}(,-?\d{1,9}){3}", text):
        raise StatusError(f"{text!r} is not a part of a map; write four integers, as in 0,30,0,5")
    x0, x1, y0, y1 = map(int, text.split(","))
    return Box(min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1))


def parse_choices(parameter: str, values: Iterable[str], choices: Iterable[str]) -> tuple[str, ...]:
    """Return the choices that the values name, ignoring case, without repetitions.

    Raises `StatusError` for a value that is none of the choices.
    """
    choice_by_name = {choice.lower(): choice for choice in choices}
    names = [value for value in values if value]
    unknown = next((name for name in names if name.lower() not in choice_by_name), None)
    if unknown is not None:
        raise StatusError(f"{unknown!r} is not a {parameter}; choose from {', '.join(choice_by_name.values())}")
    return tuple(dict.fromkeys(choice_by_name[name.lower()] for name in names))


def filter_sql(snapshot: StatusSnapshot, view: AssetView) -> Sql:
    """Return the condition that a row of `PARTITIONS` belongs to the view's asset and passes its filters."""
    conditions = [sql("asset = {number}", number=snapshot.asset(view.asset).asset_number)]
    if view.states:
        conditions.append(sql("states & {bits} <> 0", bits=sum(STATE_BITS[state] for state in view.states)))
    if view.reasons:
        conditions.append(sql("reasons & {bits} <> 0", bits=sum(REASON_BITS[reason] for reason in view.reasons)))
    if view.marks:
        conditions.append(sql("mark IN ({numbers})", numbers=[MARK_NUMBERS[name] for name in view.marks]))
    if view.where is not None:
        conditions.append(predicate_sql(snapshot, view.asset, view.where))
    return all_of(conditions)


def selected_sql(snapshot: StatusSnapshot, view: AssetView) -> Sql:
    """Return the condition that a row of `PARTITIONS` passes the view's filters and lies in the selected part."""
    condition = filter_sql(snapshot, view)
    return condition if view.selected_box is None else all_of((condition, view.selected_box.condition()))
