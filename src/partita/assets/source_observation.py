"""Observing sources: each commit by others to a source's table is recorded as a materialization of its partitions.

```text
observed/<hash of the asset>.json   the source, its table, the cursor in the table's log, and when it was last read from
```

An event counts once by the commit's id, however often it is recorded, so a lost file only costs reading the log again.
A commit that was not there when a run read the table counts as later than that read, even if its own timestamp is
earlier: writers have clocks of their own, and a branch may be moved to an old snapshot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from partita.algebra.partition_sets import PartitionSet
from partita.algebra.ulid import new_ulid
from partita.arrow.key_parser import key_columns
from partita.assets.dimension_fields import keys_by_spec
from partita.assets.lake_context import LakeContext
from partita.errors import PartitaError, TableMissing
from partita.formats.change_feed import TableCommit
from partita.status.definitions import AssetDefinition
from partita.status.events import Event, Outcome, repeat_event
from partita.untrusted_input import parse_json_object

if TYPE_CHECKING:
    from partita.formats.table import Table


@dataclass(frozen=True, slots=True)
class SourceObservation:
    """How many new commits a source has and how many partitions they changed, or why it can't be observed."""

    asset: str
    commits: int = 0
    partitions: int = 0
    error: str | None = None


def watch_source(lake: LakeContext, definition: AssetDefinition) -> None:
    """Observe a source from the beginning of its table's log; begin again if its table or dimensions changed."""
    path = _watch_path(lake, definition.asset)
    data = lake.storage.get(path)
    source = {"asset": definition.asset, "table": definition.table, "dimensions": list(definition.partitions.names)}
    watch_state = None if data is None else _watch_state_from_json(data)
    if watch_state is None or {**watch_state, **source} != watch_state:
        lake.storage.put(path, _watch_state_json({**source, "cursor": None, "looked_at": None}))


def unwatch_source(lake: LakeContext, asset: str) -> None:
    """Stop observing a source."""
    lake.storage.delete([_watch_path(lake, asset)])


def observe_sources(
    lake: LakeContext, assets: Collection[str] | None = None, *, will_read: bool = False
) -> list[SourceObservation]:
    """Record the commits to the tables of sources since the last observation; `assets` limits which sources.

    With `will_read`, the caller is about to read the tables: commits that are observed later count as later than now,
    whatever their timestamp.
    """
    observations: list[SourceObservation] = []
    for path, _ in lake.storage.list_paths(f"{lake.folder}/observed"):
        data = lake.storage.get(path)
        watch_state = None if data is None else _watch_state_from_json(data)
        if data is not None and watch_state is None:
            observations.append(SourceObservation(path, error=f"{path} can't be read; register the source again"))
        elif watch_state is not None and (assets is None or watch_state["asset"] in assets):
            try:
                observations += _observe_source(lake, path, watch_state, will_read=will_read)
            except PartitaError as error:
                observations.append(SourceObservation(watch_state["asset"], error=str(error)))
    return observations


def _watch_state_from_json(data: bytes) -> dict[str, Any] | None:
    """Parse a file of `observed`; return None if it is damaged."""
    try:
        watch_state = parse_json_object(data)
        looked_at = watch_state["looked_at"]
        if looked_at is not None:
            datetime.fromisoformat(looked_at)
    except (ValueError, KeyError, TypeError):
        return None
    has_names = all(isinstance(watch_state.get(name), str) for name in ("asset", "table"))
    return watch_state if has_names and isinstance(watch_state.get("cursor"), str | None) else None


def _observe_source(
    lake: LakeContext, path: str, watch_state: Mapping[str, Any], *, will_read: bool
) -> Iterator[SourceObservation]:
    now = datetime.now(UTC)
    try:
        table = lake.tables.open(watch_state["table"])
    except TableMissing:
        # A table that was never created has no commits.
        if watch_state["cursor"] is not None:
            raise
        return
    feed = table.change_feed(watch_state["cursor"])
    definition = lake.workspace.definition(watch_state["asset"]) if feed.commits else None
    if definition is not None:
        observer = _SourceObserver(lake, definition, table)
        last_read = None if watch_state["looked_at"] is None else datetime.fromisoformat(watch_state["looked_at"])
        is_new_table = _cursor_table_id(watch_state["cursor"]) != _cursor_table_id(feed.cursor)
        changes = observer.observed_changes(feed.commits, last_read, is_new_table=is_new_table)
        if changes:
            lake.workspace.ledger.append_rows(observer.materialization_events(changes))
        yield SourceObservation(watch_state["asset"], len(feed.commits), len(changes))
    if feed.cursor != watch_state["cursor"] or will_read:
        looked_at = now.isoformat() if will_read else watch_state["looked_at"]
        lake.storage.put(path, _watch_state_json({**watch_state, "cursor": feed.cursor, "looked_at": looked_at}))


def _cursor_table_id(cursor: str | None) -> object:
    """Return the id of the table that a cursor belongs to; None without a cursor."""
    return None if cursor is None else parse_json_object(cursor).get("table")


@dataclass(frozen=True, slots=True)
class ObservedChange:
    """A partition that a commit changed, and when the change counts as having happened."""

    key: str
    commit: TableCommit
    occurred_at: datetime


class _SourceObserver:
    """Turns the commits to one source's table into events of the source's partitions."""

    def __init__(self, lake: LakeContext, definition: AssetDefinition, table: Table) -> None:
        self._lake = lake
        self._definition = definition
        self._specs = table.spec_history
        self._key_cache: pa.Array | None = None

    def observed_changes(
        self, commits: Sequence[TableCommit], not_before: datetime | None, *, is_new_table: bool
    ) -> list[ObservedChange]:
        """Return the partitions that each commit changed, dated no earlier than `not_before`.

        The first commit of a table that replaced another changes every known partition.
        """
        changes = []
        for index, commit in enumerate(commits):
            occurred_at = commit.committed_at if not_before is None else max(commit.committed_at, not_before)
            keys = dict.fromkeys(self.source_keys(commit.partitions))
            if is_new_table and not_before is not None and index == 0:
                keys |= dict.fromkeys(self._known_keys().to_pylist())
            changes += [ObservedChange(key, commit, occurred_at) for key in keys]
        return changes

    def source_keys(self, partitions: pa.Table) -> list[str]:
        """Return the keys of the source's partitions that contain these partitions of the table, each once."""
        source_keys: dict[str, None] = {}
        dimensions = self._definition.partitions
        for stored_dimensions, _, keys in keys_by_spec(self._definition.asset, dimensions, self._specs, partitions):
            is_complete = stored_dimensions.names == dimensions.names
            source_keys.update(
                dict.fromkeys((keys if is_complete else self._expand_keys(keys, stored_dimensions)).to_pylist())
            )
        return list(source_keys)

    def _expand_keys(self, keys: pa.Array, stored_dimensions: PartitionSet) -> pa.Array:
        """Return the known keys with the same values in the dimensions that a spec stores, if it lacks some."""
        known_keys = self._known_keys()
        if not stored_dimensions.names or not len(known_keys):
            return known_keys
        known_values = key_columns(known_keys).select(list(stored_dimensions.names))
        changed_values = key_columns(keys.unique()).cast(known_values.schema)
        numbered_values = known_values.append_column(_INDEX_COLUMN, pa.array(range(len(known_keys)), pa.int64()))
        matching = numbered_values.join(changed_values, list(stored_dimensions.names), join_type="left semi")
        return known_keys.take(matching[_INDEX_COLUMN])

    def _known_keys(self) -> pa.Array:
        """Return the keys of the source that are expected or were recorded."""
        if self._key_cache is None:
            with self._lake.workspace.open_reader(assets=[self._definition.asset], allow_unknown=True) as reader:
                self._key_cache = reader.rows(["partition_key"])["partition_key"].combine_chunks()
        return self._key_cache

    def materialization_events(self, changes: Sequence[ObservedChange]) -> pa.Table:
        """Return a success event for each change, with the commit's id as its run."""
        ledger, first = self._lake.workspace.ledger, changes[0]
        event = Event(
            kind=Outcome.SUCCEEDED.event_kind, tenant_id=ledger.tenant, workspace_id=ledger.workspace,
            asset_key=self._definition.asset, partition_key=first.key, run_id=first.commit.id, attempt=1,
            occurred_at=first.occurred_at, table_version=first.commit.version,
        )  # fmt: skip
        return repeat_event(event, {
            "event_id": [new_ulid() for _ in changes],
            "partition_key": [change.key for change in changes],
            "run_id": [change.commit.id for change in changes],
            "occurred_at": [change.occurred_at for change in changes],
            "table_version": [change.commit.version for change in changes],
        })  # fmt: skip


_INDEX_COLUMN = "#index"
"""No dimension can have this name."""


def _watch_path(lake: LakeContext, asset: str) -> str:
    return f"{lake.folder}/observed/{hashlib.sha256(asset.encode()).hexdigest()[:32]}.json"


def _watch_state_json(watch_state: Mapping[str, Any]) -> bytes:
    return json.dumps(watch_state, ensure_ascii=False).encode()
