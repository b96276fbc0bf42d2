"""Plans that are looked at before they run: what was asked for, what would run and why, and what is held back.

A plan that was shown is kept for a while under an id, so that what runs is what was seen.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from partita.algebra.ulid import new_ulid
from partita.assets.selection import NEEDS
from partita.picture.words import stamp
from partita.web.labels import label_of
from partita.web.view import Query, View, known_words, read_view, selected_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.assets.plan import Plan
    from partita.assets.planning import Asked
    from partita.web.watch import Watch

SHOWN = 20
"""How many partitions of each asset are shown, and how many of those that are held back."""
KEPT = 4
"""How many plans are kept until they run."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a plan, as `lake.plan` has it; with a view, only those partitions of its asset."""

    select: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    where: str | None = None
    allow_missing: bool = False
    view: View | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether partitions were chosen on a map, or by what a plan can't be asked for."""
        view = self.view
        return view is not None and bool(view.selected or view.marks or view.reasons or set(view.states) - set(NEEDS))

    @property
    def words(self) -> str:
        """What selects assets as one text, in quotes where it has spaces, as `read_question` takes it apart."""
        return shlex.join(self.select)

    def query(self) -> str:
        """The question as the query of a URL."""
        if self.view is not None:
            rest = urlencode({"allow_missing": "1"} if self.allow_missing else {})
            return "&".join(filter(None, (self.view.query(view=None), rest)))
        parts = {"select": self.select, "need": self.needs, "where": self.where}
        parts |= {"allow_missing": "1" if self.allow_missing else None}
        return urlencode({name: value for name, value in parts.items() if value}, doseq=True)


def read_question(query: Query) -> Question:
    """The question that a URL holds: words that select assets, or a view of one; `words` are several in one text."""
    allow_missing = bool(query.get("allow_missing"))
    if query.get("asset"):
        view = read_view(query)
        needs = tuple(state for state in view.states if state in NEEDS)
        needs = needs if len(needs) == len(view.states) else ()
        return Question((view.asset,), needs, view.where, allow_missing, view)
    words = (*query.getlist("select"), *_split(query.get("words") or ""))
    where = (query.get("where") or "").strip() or None
    return Question(
        tuple(dict.fromkeys(words)), known_words("need", query.getlist("need"), NEEDS), where, allow_missing
    )


def _split(words: str) -> list[str]:
    lexer = shlex.shlex(words, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        # A quote that has no end is a sign like any other.
        return words.split()


@dataclass(slots=True)
class Plans:
    """Makes plans, and keeps the last few; `sizes` and `among` are as `lake.plan` takes them."""

    watch: Watch
    sizes: Mapping[str, int] = field(default_factory=dict)
    among: tuple[str, ...] | None = None
    _kept: dict[str, Plan] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def make(self, question: Question) -> tuple[str, Plan]:
        """A plan of how the lake is now, and its id."""
        if question.view is not None:
            # What `lake.plan` selects by has signs of its own; here it is a name.
            self.watch.newest.asset(question.view.asset)
        plan = self.watch.asking.plan(self._asked(question))
        if question.is_chosen:
            plan = self._chosen(plan, question)
        number = new_ulid()
        with self._lock:
            self._kept[number] = plan
            if len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return number, plan

    def _asked(self, question: Question) -> Asked:
        from partita.assets.batching import Sizes
        from partita.assets.planning import Asked
        from partita.formats.conditions import current_condition

        needs = tuple(need for need in NEEDS if need in question.needs) or NEEDS
        sizes = Sizes(**{name.removeprefix("batch_"): size for name, size in self.sizes.items()})
        among = None if self.among is None else frozenset(self.among)
        zone = self.watch.lake.time_zone
        where = None if question.where is None else current_condition(question.where, zone)
        return Asked(needs, question.select, where, None, question.allow_missing, sizes, among)

    def kept(self, number: str) -> Plan:
        """The plan that was shown under an id."""
        plan = self._kept.get(number)
        if plan is None:
            raise HTTPException(404, "this server has no such plan any more; look at it anew")
        return plan

    def _chosen(self, plan: Plan, question: Question) -> Plan:
        """What of a plan was chosen on a map, as it was seen there."""
        from partita.assets.batching import narrowed

        assert question.view is not None  # noqa: S101 - asked before
        snapshot = self.watch.newest
        condition = selected_sql(snapshot, question.view)
        found = snapshot.connection.cursor().sql(f"SELECT partition_key FROM partitions WHERE {condition}")  # noqa: S608
        keys = found.to_arrow_table()["partition_key"].combine_chunks()
        return narrowed(plan, question.view.asset, keys)


def preview(number: str, plan: Plan, *, may_run: bool) -> dict[str, Any]:
    """A plan as values that JSON can hold, with the first partitions of each asset."""
    import pyarrow.compute as pc

    assets = list(_assets(plan))
    return {
        "plan": number,
        "made_at": stamp(plan.made_at),
        "needs": plan.asked["needs"],
        "select": plan.asked["select"],
        "where": plan.asked["where"],
        "time_zone": plan.time_zone,
        "chosen": plan.asked.get("chosen"),
        "partitions": len(plan),
        "batches": sum(one["batches"] for one in assets),
        "bytes": pc.sum(plan.partitions["bytes"]).as_py(),
        "held_back": plan.blocked.num_rows,
        "assets": assets,
        "held": [_held(row) for row in plan.blocked.slice(0, SHOWN).to_pylist()],
        "may_run": may_run,
    }


def _assets(plan: Plan) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc

    for asset in pc.unique(plan.partitions["asset_key"]).to_pylist():
        rows = plan.partitions.filter(pc.equal(plan.partitions["asset_key"], asset))
        yield {
            "asset": asset,
            "partitions": rows.num_rows,
            "batches": len(pc.unique(rows["batch"])),
            "bytes": pc.sum(rows["bytes"]).as_py(),
            "reasons": _reasons(rows),
            "rows": [_row(row) for row in rows.slice(0, SHOWN).to_pylist()],
        }


def _reasons(rows: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    counted = pc.value_counts(pc.list_flatten(rows["reasons"])).to_pylist()
    return {one["values"]: one["counts"] for one in counted}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": row["partition_key"],
        "label": label_of(row["partition_key"]),
        "batch": row["batch"] + 1,
        "reasons": row["reasons"],
        "since": stamp(row["since"]),
        **_by(row),
    }


def _held(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "asset": row["asset_key"],
        "key": row["partition_key"],
        "label": label_of(row["partition_key"]),
        "reasons": row["reasons"],
        **_by(row),
    }


def _by(row: Mapping[str, Any]) -> dict[str, Any]:
    key = row["by_partition"]
    return {"by_asset": row["by_asset"], "by_key": key, "by_label": None if key is None else label_of(key)}
