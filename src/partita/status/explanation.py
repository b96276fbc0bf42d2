"""Explain the status of a partition: its chain of causes, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from partita.algebra.key import PartitionKey
from partita.algebra.key_label import partition_label
from partita.status.events import Outcome
from partita.status.queries import MISSING_FUNCTION_REASON
from partita.status.states import DisplayStatus, StaleContext, StaleReason
from partita.status.status_view import STATUS_COLUMNS
from partita.status.text import error_line, timestamp_text

if TYPE_CHECKING:
    from partita.status.queries import StatusReader


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why a partition is stale.

    Attributes:
        code: the stale reason.
        since: since when the partition is stale for this reason.
        text: the reason in words.
        upstream: the explanation of the upstream partition that changed, if one did.
    """

    code: StaleReason
    since: datetime
    text: str
    upstream: StatusExplanation | None = None


@dataclass(frozen=True, slots=True)
class StatusExplanation:
    """The status of a partition, with the facts that it follows from and the causes of its staleness.

    `Lake.why` returns one. `str(why)` is the whole chain of causes as text, and `document()` returns it as JSON.

    Attributes:
        asset: the name of the asset.
        key: the partition key.
        display_status: the display status.
        facts: sentences about the materialization and the last attempt.
        causes: the causes, those that began first before the others.
        row: the row of the partition in `Lake.status`.
    """

    asset: str
    key: PartitionKey
    display_status: str
    facts: tuple[str, ...]
    causes: tuple[Cause, ...]
    row: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(_text_lines(self, "", set()))

    def document(self) -> dict[str, Any]:
        """Return the chain as JSON values; a partition's facts and causes stand where it comes first."""
        return _explanation_document(self, set())


def _explanation_document(explanation: StatusExplanation, rendered_ids: set[int]) -> dict[str, Any]:
    is_repeated = id(explanation) in rendered_ids
    rendered_ids.add(id(explanation))
    return {
        "asset": explanation.asset,
        "key": str(explanation.key),
        "display_status": explanation.display_status,
        "facts": [_ALREADY_SHOWN] if is_repeated else list(explanation.facts),
        "causes": []
        if is_repeated
        else [
            {
                "code": cause.code.value,
                "since": cause.since.isoformat(),
                "text": cause.text,
                "upstream": None if cause.upstream is None else _explanation_document(cause.upstream, rendered_ids),
            }
            for cause in explanation.causes
        ],
    }


def _text_lines(explanation: StatusExplanation, indent: str, rendered_ids: set[int]) -> Iterator[str]:
    yield f"{indent}{partition_label(explanation.asset, explanation.key)}: {explanation.display_status}"
    if id(explanation) in rendered_ids:
        yield f"{indent}  {_ALREADY_SHOWN}"
        return
    rendered_ids.add(id(explanation))
    for fact in explanation.facts:
        yield f"{indent}  {fact}"
    for cause in explanation.causes:
        yield f"{indent}  {cause.code.value} since {_moment_text(cause.since)}: {cause.text}"
        if cause.upstream is not None:
            yield from _text_lines(cause.upstream, indent + "    ", rendered_ids)


_ALREADY_SHOWN = "as said above"
_CAUSE_COLUMNS = tuple(reason.since_column for reason in StaleReason)

_AssetPartition: TypeAlias = tuple[str, str]
"""An asset and a canonical partition key."""


def explain_status(asset: str, key: PartitionKey, reader: StatusReader) -> StatusExplanation:
    """Return the chain of causes of a partition, with each partition in it once.

    `reader` must have this asset and key selected; the upstream partitions of the chain are selected in turn.
    """
    rows: dict[_AssetPartition, dict[str, Any]] = {}
    changes: dict[_AssetPartition, list[dict[str, Any]]] = {}
    read_partitions, pending = set[_AssetPartition](), {(asset, str(key))}
    while pending:
        if read_partitions:
            reader.select_assets(sorted({a for a, _ in pending}), sorted({k for _, k in pending}))
        read_partitions |= pending
        for row in reader.rows((*STATUS_COLUMNS, *_CAUSE_COLUMNS)).to_pylist():
            rows[row["asset_key"], row["partition_key"]] = row
        upstreams = set()
        for change in reader.upstream_changes().to_pylist():
            partition = (change["asset_key"], change["partition_key"])
            if partition in pending:
                changes.setdefault(partition, []).append(change)
                if change["by_asset"] is not None:
                    upstreams.add((change["by_asset"], change["by_partition"]))
        pending = upstreams - read_partitions
    return _CauseChain(reader, rows, changes).explanation((asset, str(key)), ())


class _CauseChain:
    """Builds the explanations of a chain from the rows and upstream changes of its partitions."""

    def __init__(
        self,
        reader: StatusReader,
        rows: dict[_AssetPartition, dict[str, Any]],
        changes: dict[_AssetPartition, list[dict[str, Any]]],
    ) -> None:
        self._reader = reader
        self._rows = rows
        self._changes = changes
        self._explanations: dict[_AssetPartition, StatusExplanation] = {}

    def explanation(self, partition: _AssetPartition, path: tuple[_AssetPartition, ...]) -> StatusExplanation:
        """Return the explanation of a partition; the same partition is the same object wherever it stands."""
        if partition not in self._explanations:
            self._explanations[partition] = self._build_explanation(partition, (*path, partition))
        return self._explanations[partition]

    def _build_explanation(self, partition: _AssetPartition, path: tuple[_AssetPartition, ...]) -> StatusExplanation:
        asset, key = partition[0], PartitionKey.parse(partition[1])
        problem = self._reader.problems.get(asset)
        definition = None if problem is not None else self._reader.catalog.definition(asset)
        row = self._rows.get(partition)
        if row is None:
            is_defined = definition is not None
            reason = "the asset's definition doesn't expect it" if is_defined else "the asset has no definition"
            fact = f"nothing was recorded of it, and {reason}"
            return StatusExplanation(asset, key, DisplayStatus.NEVER_MATERIALIZED.value, (fact,), (), {})
        causes = [
            Cause(reason, row[reason.since_column], reason.text(StaleContext(row, definition)))
            for reason in StaleReason
            if reason is not StaleReason.UPSTREAM_CHANGED
            and row[reason.since_column] is not None
            and definition is not None
        ]
        for change in self._changes.get(partition, ()):
            upstream_text, upstream = None, None
            if change["by_asset"] is not None:
                upstream_partition = change["by_asset"], change["by_partition"]
                upstream_text = partition_label(*upstream_partition)
                upstream = None if upstream_partition in path else self.explanation(upstream_partition, path)
            text = StaleReason.UPSTREAM_CHANGED.text(StaleContext(row, definition, upstream_text))
            causes.append(Cause(StaleReason.UPSTREAM_CHANGED, change["since"], text, upstream))
        causes.sort(key=lambda cause: cause.since)
        facts = (*_status_facts(row), *_unknown_facts(row, problem))
        return StatusExplanation(asset, key, row["display_status"], facts, tuple(causes), row)


def _unknown_facts(row: dict[str, Any], problem: str | None) -> Iterator[str]:
    if row["staleness"] == "unknown":
        yield f"whether it is stale is not known: {problem or f'{MISSING_FUNCTION_REASON}, and no sweep has stored it'}"


def _status_facts(row: dict[str, Any]) -> Iterator[str]:
    if row["expected"] is False:
        yield "the asset's definition doesn't expect it"
    if row["last_materialization_at"] is not None:
        version = row["last_materialization_code_version"]
        code = "" if version is None else f" with code version {version!r}"
        run = f"run {row['last_materialization_run_id']!r}"
        yield f"materialized at {_moment_text(row['last_materialization_at'])} by {run}{code}"
    elif row["wiped_at"] is not None:
        yield f"wiped at {_moment_text(row['wiped_at'])}, and not materialized since"
    elif row["last_attempt_at"] is None:
        yield "it was never tried"
    outcome, attempted_at = row["last_attempt_outcome"], row["last_attempt_at"]
    if outcome is not None and outcome != Outcome.SUCCEEDED:
        line = error_line(row["last_attempt_error"] or "")
        error = f": {line}" if line else ""
        attempt = f"attempt {row['last_attempt_number']} of run {row['last_attempt_run_id']!r}"
        yield f"{attempt} {outcome.lower()} at {_moment_text(attempted_at)}{error}"
    if row["running"]:
        yield f"run {row['running_run_id']!r} is at it since {_moment_text(row['running_since'])}"


def _moment_text(timestamp: datetime) -> str:
    return timestamp_text(timestamp, separator=" ")
