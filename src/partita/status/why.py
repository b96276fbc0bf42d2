"""Why a partition is as it is: the chain of causes, as data and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.algebra.freshness import Deadline, Freshness, MaximumLag
from partita.algebra.key import PartitionKey
from partita.status.definitions import Definition
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
        return "\n".join(_lines(self, ""))

    def document(self) -> dict[str, Any]:
        """The chain as values that JSON can hold."""
        return {
            "asset": self.asset,
            "key": str(self.key),
            "display_status": self.display_status,
            "facts": list(self.facts),
            "causes": [
                {
                    "code": cause.code.value,
                    "since": cause.since.isoformat(),
                    "text": cause.text,
                    "upstream": None if cause.upstream is None else cause.upstream.document(),
                }
                for cause in self.causes
            ],
        }


def _lines(why: Why, indent: str) -> Iterator[str]:
    yield f"{indent}{named(why.asset, why.key)}: {why.display_status}"
    for fact in why.facts:
        yield f"{indent}  {fact}"
    for cause in why.causes:
        yield f"{indent}  {cause.code.value} since {shown(cause.since)}: {cause.text}"
        if cause.upstream is not None:
            yield from _lines(cause.upstream, indent + "    ")


_DATES = ("fresh_since", "upstream_since", "code_since")


def explain(asset: str, key: PartitionKey, ask: Callable[[str, str], Answering], path: tuple[str, ...] = ()) -> Why:
    """The chain of causes of a partition; `ask` answers for one partition of one asset."""
    from partita.status.query import COLUMNS

    with ask(asset, str(key)) as answer:
        found = answer.rows((*COLUMNS, *_DATES)).to_pylist()
        changes = answer.upstream_changes().to_pylist()
        definition = answer.catalog.definition(asset)
    if not found:
        reason = "the asset's definition doesn't expect it" if definition is not None else "the asset has no definition"
        return Why(asset, key, "NEVER_MATERIALIZED", (f"nothing was recorded of it, and {reason}",), (), {})
    row = found[0]
    causes = [*_own_causes(row, definition)]
    for change in changes:
        upstream = None
        if change["by_asset"] not in path:
            there = PartitionKey.parse(change["by_partition"])
            upstream = explain(change["by_asset"], there, ask, (*path, asset))
        culprit = named(change["by_asset"], PartitionKey.parse(change["by_partition"]))
        causes.append(
            Cause(Reason.UPSTREAM_CHANGED, change["since"], f"{culprit} was materialized after this one", upstream)
        )
    causes.sort(key=lambda cause: cause.since)
    return Why(asset, key, row["display_status"], tuple(_facts(row)), tuple(causes), row)


def _own_causes(row: dict[str, Any], definition: Definition | None) -> Iterator[Cause]:
    if row["staleness"] == "swept":
        for code in row["stale_reasons"]:
            yield Cause(Reason(code), row["stale_since"], f"as a sweep found at {shown(row['swept_at'])}")
        return
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
        error = "" if row["last_attempt_error"] is None else f": {row['last_attempt_error']}"
        attempt = f"attempt {row['last_attempt_number']} of run {row['last_attempt_run_id']!r}"
        yield f"{attempt} {outcome.lower()} at {shown(at)}{error}"
    if row["running"]:
        yield f"run {row['last_start_run_id']!r} is at it since {shown(row['last_start_at'])}"


def named(asset: str, key: PartitionKey) -> str:
    """A partition as people read it: `orders[date=2025-01-15]`."""
    return f"{asset}[{', '.join(f'{name}={value}' for name, value in key.items())}]" if key else asset


def shown(at: datetime) -> str:
    """A moment, to the second, or finer where it is."""
    return at.replace(tzinfo=None).isoformat(sep=" ") + "Z"
