"""Why a partition is as it is: the chain of causes, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from partita.algebra.freshness import Deadline, Freshness, MaximumLag
from partita.algebra.key import PartitionKey
from partita.status.board import COLUMNS
from partita.status.definitions import Definition
from partita.status.query import UNASKED
from partita.status.shown import error_line, escaped, one_line, value_text
from partita.status.staleness import Reason

if TYPE_CHECKING:
    from partita.status.query import Answering


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a partition is stale; `upstream` is the partition that changed, where one did."""

    code: Reason
    since: datetime
    text: str
    upstream: Why | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """A partition, what is to be said of it, and the causes, the earliest first.

    `str(why)` is the whole chain as text; `document()` is it as JSON.
    """

    asset: str
    key: PartitionKey
    display_status: str
    facts: tuple[str, ...]
    causes: tuple[Cause, ...]
    row: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(_lines(self, "", set()))

    def document(self) -> dict[str, Any]:
        """The chain as values that JSON can hold; a partition's facts and causes stand where it comes first."""
        return _document(self, set())


def _document(why: Why, told: set[int]) -> dict[str, Any]:
    again = id(why) in told
    told.add(id(why))
    return {
        "asset": why.asset,
        "key": str(why.key),
        "display_status": why.display_status,
        "facts": [_ABOVE] if again else list(why.facts),
        "causes": []
        if again
        else [
            {
                "code": cause.code.value,
                "since": cause.since.isoformat(),
                "text": cause.text,
                "upstream": None if cause.upstream is None else _document(cause.upstream, told),
            }
            for cause in why.causes
        ],
    }


def _lines(why: Why, indent: str, told: set[int]) -> Iterator[str]:
    yield f"{indent}{named(why.asset, why.key)}: {why.display_status}"
    if id(why) in told:
        yield f"{indent}  {_ABOVE}"
        return
    told.add(id(why))
    for fact in why.facts:
        yield f"{indent}  {fact}"
    for cause in why.causes:
        yield f"{indent}  {cause.code.value} since {shown(cause.since)}: {cause.text}"
        if cause.upstream is not None:
            yield from _lines(cause.upstream, indent + "    ", told)


_ABOVE = "as said above"
_DATES = ("fresh_since", "upstream_since", "code_since")


def explain(asset: str, key: PartitionKey, answer: Answering) -> Why:
    """The chain of causes of a partition, each partition in it once; `answer` is open, and asked of this one."""
    rows: dict[_Partition, dict[str, Any]] = {}
    changes: dict[_Partition, list[dict[str, Any]]] = {}
    asked, wanted = set[_Partition](), {(asset, str(key))}
    while wanted:
        if asked:
            answer.turn_to(sorted({a for a, _ in wanted}), sorted({k for _, k in wanted}))
        asked |= wanted
        for row in answer.rows((*COLUMNS, *_DATES)).to_pylist():
            rows[row["asset_key"], row["partition_key"]] = row
        found = [c for c in answer.upstream_changes().to_pylist() if (c["asset_key"], c["partition_key"]) in wanted]
        for change in found:
            changes.setdefault((change["asset_key"], change["partition_key"]), []).append(change)
        wanted = {(c["by_asset"], c["by_partition"]) for c in found if c["by_asset"] is not None} - asked
    return _Chain(answer, rows, changes).why((asset, str(key)), ())


_Partition: TypeAlias = tuple[str, str]
"""An asset and a canonical key."""


class _Chain:
    """What was found of the partitions of a chain, put together from its end."""

    def __init__(
        self,
        answer: Answering,
        rows: dict[_Partition, dict[str, Any]],
        changes: dict[_Partition, list[dict[str, Any]]],
    ) -> None:
        self._answer = answer
        self._rows = rows
        self._changes = changes
        self._made: dict[_Partition, Why] = {}

    def why(self, which: _Partition, path: tuple[_Partition, ...]) -> Why:
        """A partition with its causes; the same partition is the same value wherever it stands."""
        if which not in self._made:
            self._made[which] = self._explained(which, (*path, which))
        return self._made[which]

    def _explained(self, which: _Partition, path: tuple[_Partition, ...]) -> Why:
        asset, key = which[0], PartitionKey.parse(which[1])
        definition = None if asset in self._answer.troubles else self._answer.catalog.definition(asset)
        row = self._rows.get(which)
        if row is None:
            known = definition is not None
            reason = "the asset's definition doesn't expect it" if known else "the asset has no definition"
            return Why(asset, key, "NEVER_MATERIALIZED", (f"nothing was recorded of it, and {reason}",), (), {})
        causes = [*_own_causes(row, definition)]
        for change in self._changes.get(which, ()):
            if change["by_asset"] is None:
                text = f"as a sweep found at {shown(row['swept_at'])}"
                causes.append(Cause(Reason.UPSTREAM_CHANGED, change["since"], text))
                continue
            culprit = change["by_asset"], change["by_partition"]
            upstream = None if culprit in path else self.why(culprit, path)
            text = f"{named(culprit[0], PartitionKey.parse(culprit[1]))} was materialized after this one"
            causes.append(Cause(Reason.UPSTREAM_CHANGED, change["since"], text, upstream))
        causes.sort(key=lambda cause: cause.since)
        facts = (*_facts(row), *_doubts(row, self._answer.troubles.get(asset)))
        return Why(asset, key, row["display_status"], facts, tuple(causes), row)


def _doubts(row: dict[str, Any], trouble: str | None) -> Iterator[str]:
    if row["staleness"] == "unknown":
        yield f"whether it is stale is not known: {trouble or f'{UNASKED}, and no sweep has judged it'}"


def _own_causes(row: dict[str, Any], definition: Definition | None) -> Iterator[Cause]:
    if row["fresh_since"] is not None and definition is not None:
        yield Cause(Reason.FRESHNESS_POLICY, row["fresh_since"], _policy(definition.freshness))
    if row["code_since"] is not None and definition is not None:
        text = f"it was made with code version {row['last_materialization_code_version']!r}, the asset has "
        yield Cause(Reason.CODE_CHANGED, row["code_since"], f"{text}{definition.code_version!r}")


def _policy(freshness: Freshness | None) -> str:
    if isinstance(freshness, MaximumLag):
        return f"it is to be materialized every {freshness.lag}"
    if isinstance(freshness, Deadline):
        lag = "" if freshness.lag is None else f", at most {freshness.lag} before"
        return f"it is to be materialized by cron {freshness.cron.text!r} in {freshness.cron.time_zone}{lag}"
    return "the deadline for a new materialization passed"


def _facts(row: dict[str, Any]) -> Iterator[str]:
    if row["expected"] is False:
        yield "the asset's definition doesn't expect it"
    if row["last_materialization_at"] is not None:
        version = row["last_materialization_code_version"]
        code = "" if version is None else f" with code version {version!r}"
        run = f"run {row['last_materialization_run_id']!r}"
        yield f"materialized at {shown(row['last_materialization_at'])} by {run}{code}"
    elif row["wiped_at"] is not None:
        yield f"wiped at {shown(row['wiped_at'])}, and not materialized since"
    elif row["last_attempt_at"] is None:
        yield "it was never tried"
    outcome, at = row["last_attempt_outcome"], row["last_attempt_at"]
    if outcome is not None and outcome != "SUCCEEDED":
        said = error_line(row["last_attempt_error"] or "")
        error = f": {said}" if said else ""
        attempt = f"attempt {row['last_attempt_number']} of run {row['last_attempt_run_id']!r}"
        yield f"{attempt} {outcome.lower()} at {shown(at)}{error}"
    if row["running"]:
        yield f"run {row['running_run_id']!r} is at it since {shown(row['running_since'])}"


def named(asset: str, key: PartitionKey) -> str:
    """A partition as people read it: `orders[date=2025-01-15]`."""
    values = ", ".join(f"{name}={escaped(value_text(value))}" for name, value in key.items())
    return f"{one_line(asset)}[{values}]" if key else one_line(asset)


def shown(at: datetime) -> str:
    """A moment, to the second, or finer where it is."""
    return at.replace(tzinfo=None).isoformat(sep=" ") + "Z"
