"""Observing sources: what others committed to a table becomes materializations of the partitions that it touched.

```text
observed/<hash of the asset>.json   the source, its table, how far the log was read, when it was last read from
```

An event counts once by the commit's id, however often it is recorded, so a file that is lost costs a look. A commit
that wasn't there when something read the table counts from that moment on, even where its own time lies before it:
clocks of writers are theirs, and a snapshot may be old when a branch is moved to it.
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
from partita.arrow.key_reader import key_columns
from partita.assets.ground import Ground
from partita.assets.holding import keys_by_spec
from partita.errors import PartitaError, TableMissing
from partita.formats.commits import TableCommit
from partita.status.definitions import Definition
from partita.status.events import Event, Outcome, repeated
from partita.untrusted import parse_json_object

if TYPE_CHECKING:
    from partita.formats.table import Table


@dataclass(frozen=True, slots=True)
class Observed:
    """How many commits of a source were found, and how many partitions they touched; or why it can't be observed."""

    asset: str
    commits: int = 0
    partitions: int = 0
    error: str | None = None


def watch(ground: Ground, definition: Definition) -> None:
    """Observe a source from now on, from the start of its table's log; anew where its table or dimensions changed."""
    path = _path(ground, definition.asset)
    data = ground.storage.get(path)
    wanted = {"asset": definition.asset, "table": definition.table, "dimensions": list(definition.partitions.names)}
    known = None if data is None else _watched(data)
    if known is None or {**known, **wanted} != known:
        ground.storage.put(path, _document({**wanted, "cursor": None, "looked_at": None}))


def unwatch(ground: Ground, asset: str) -> None:
    """Observe a source no more."""
    ground.storage.delete([_path(ground, asset)])


def observe(ground: Ground, assets: Collection[str] | None = None, *, reading: bool = False) -> list[Observed]:
    """Record what others committed to the tables of sources, all or some, since they were looked at last.

    What is about to read them says so: what is seen later was not there then, whatever time its writer gave it.
    """
    found: list[Observed] = []
    for path, _ in ground.storage.list(f"{ground.folder}/observed"):
        data = ground.storage.get(path)
        watched = None if data is None else _watched(data)
        if data is not None and watched is None:
            found.append(Observed(path, error=f"{path} can't be read; register the source again"))
        elif watched is not None and (assets is None or watched["asset"] in assets):
            try:
                found += _observe(ground, path, watched, reading=reading)
            except PartitaError as error:
                found.append(Observed(watched["asset"], error=str(error)))
    return found


def _watched(data: bytes) -> dict[str, Any] | None:
    """What a file of `observed` says; None where it is damaged."""
    try:
        watched = parse_json_object(data)
        looked_at = watched["looked_at"]
        if looked_at is not None:
            datetime.fromisoformat(looked_at)
    except (ValueError, KeyError, TypeError):
        return None
    is_text = all(isinstance(watched.get(name), str) for name in ("asset", "table"))
    return watched if is_text and isinstance(watched.get("cursor"), str | None) else None


def _observe(ground: Ground, path: str, watched: Mapping[str, Any], *, reading: bool) -> Iterator[Observed]:
    now = datetime.now(UTC)
    try:
        table = ground.table(watched["table"])
    except TableMissing:
        # One that was never there has no commits.
        if watched["cursor"] is not None:
            raise
        return
    found = table.commits(watched["cursor"])
    definition = ground.workspace.definition(watched["asset"]) if found.commits else None
    if definition is not None:
        observing = _Observing(ground, definition, table)
        floor = None if watched["looked_at"] is None else datetime.fromisoformat(watched["looked_at"])
        touched = observing.touched(found.commits, floor, anew=_table_of(watched["cursor"]) != _table_of(found.cursor))
        if touched:
            ground.workspace.ledger.append_rows(observing.events(touched))
        yield Observed(watched["asset"], len(found.commits), len(touched))
    if found.cursor != watched["cursor"] or reading:
        looked_at = now.isoformat() if reading else watched["looked_at"]
        ground.storage.put(path, _document({**watched, "cursor": found.cursor, "looked_at": looked_at}))


def _table_of(cursor: str | None) -> object:
    """Which table a cursor is of; None where there was none."""
    return None if cursor is None else parse_json_object(cursor).get("table")


@dataclass(frozen=True, slots=True)
class Touch:
    """A partition that a commit touched, and when that counts."""

    key: str
    commit: TableCommit
    at: datetime


class _Observing:
    """A source, and how its table holds its partitions."""

    def __init__(self, ground: Ground, definition: Definition, table: Table) -> None:
        self._ground = ground
        self._definition = definition
        self._specs = table.spec_history
        self._known: pa.Array | None = None

    def touched(self, commits: Sequence[TableCommit], floor: datetime | None, *, anew: bool) -> list[Touch]:
        """What commits touched, each not before the floor; the first of another table touches all that was there."""
        found = []
        for number, commit in enumerate(commits):
            at = commit.at if floor is None else max(commit.at, floor)
            keys = dict.fromkeys(self.keys(commit.partitions))
            if anew and floor is not None and not number:
                keys |= dict.fromkeys(self._known_keys().to_pylist())
            found += [Touch(key, commit, at) for key in keys]
        return found

    def keys(self, partitions: pa.Table) -> list[str]:
        """The partitions of the source that partitions of the table are a part of."""
        found: dict[str, None] = {}
        wanted = self._definition.partitions
        for held, _, keys in keys_by_spec(self._definition.asset, wanted, self._specs, partitions):
            whole = held.names == wanted.names
            found.update(dict.fromkeys((keys if whole else self._spread(keys, held)).to_pylist()))
        return list(found)

    def _spread(self, keys: pa.Array, held: PartitionSet) -> pa.Array:
        """Of a spec that lacks dimensions: every known partition that has the values that it does hold."""
        every = self._known_keys()
        if not held.names or not len(every):
            return every
        known = key_columns(every).select(list(held.names))
        wanted = key_columns(keys.unique())
        numbered = known.append_column("place", pa.array(range(len(every)), pa.int64()))
        shared = numbered.join(wanted.cast(known.schema), list(held.names), join_type="left semi")
        return every.take(shared["place"])

    def _known_keys(self) -> pa.Array:
        """The partitions of the source that are expected, or were seen."""
        if self._known is None:
            question: dict[str, Any] = {"assets": [self._definition.asset], "partly": True}
            with self._ground.workspace.ask(**question) as answer:
                self._known = answer.rows(["partition_key"])["partition_key"].combine_chunks()
        return self._known

    def events(self, touched: Sequence[Touch]) -> pa.Table:
        """A success for each commit and partition, with the commit's time and id."""
        ledger, first = self._ground.workspace.ledger, touched[0]
        event = Event(
            kind=Outcome.SUCCEEDED.kind, tenant_id=ledger.tenant, workspace_id=ledger.workspace,
            asset_key=self._definition.asset, partition_key=first.key, run_id=first.commit.id, attempt=1,
            occurred_at=first.at, table_version=first.commit.version,
        )  # fmt: skip
        return repeated(event, {
            "event_id": [new_ulid() for _ in touched], "partition_key": [one.key for one in touched],
            "run_id": [one.commit.id for one in touched], "occurred_at": [one.at for one in touched],
            "table_version": [one.commit.version for one in touched],
        })  # fmt: skip


def _path(ground: Ground, asset: str) -> str:
    return f"{ground.folder}/observed/{hashlib.sha256(asset.encode()).hexdigest()[:32]}.json"


def _document(watched: Mapping[str, Any]) -> bytes:
    return json.dumps(watched, ensure_ascii=False).encode()
