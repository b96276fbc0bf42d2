"""Observing sources: what others committed to a table becomes materializations of the partitions that it touched.

```text
observed/<hash of the asset>.json   the source, its table, and how far the table's log was read
```

The file only spares reading again: an event counts once by the commit's id, however often it is recorded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.partition_sets import PartitionSet
from partita.algebra.ulid import new_ulid
from partita.arrow.key_reader import key_columns
from partita.arrow.spec import spec_columns
from partita.assets.ground import Ground
from partita.assets.holding import Holding
from partita.errors import TableMissing
from partita.status.definitions import Definition
from partita.status.events import Event, Outcome, repeated

if TYPE_CHECKING:
    from partita.formats.table import Table


@dataclass(frozen=True, slots=True)
class Observed:
    """How many commits of a source were found, and how many partitions they touched."""

    asset: str
    commits: int
    partitions: int


def watch(ground: Ground, definition: Definition) -> None:
    """Observe a source from now on, from the start of its table's log."""
    path = _path(ground, definition.asset)
    data = ground.storage.get(path)
    if data is None or json.loads(data)["table"] != definition.table:
        ground.storage.put(path, _document(definition.asset, definition.table, None))


def unwatch(ground: Ground, asset: str) -> None:
    """Observe a source no more."""
    ground.storage.delete([_path(ground, asset)])


def observe(ground: Ground) -> list[Observed]:
    """Record what others committed to the tables of sources since it was looked at last."""
    found: list[Observed] = []
    for path, _ in ground.storage.list(f"{ground.folder}/observed"):
        data = ground.storage.get(path)
        if data is not None:
            # A table that isn't there yet has no commits.
            with suppress(TableMissing):
                found += _observe(ground, path, json.loads(data))
    return found


def _observe(ground: Ground, path: str, watched: Mapping[str, Any]) -> Iterator[Observed]:
    table = ground.table(watched["table"])
    found = table.commits(watched["cursor"])
    definition = ground.workspace.definition(watched["asset"]) if found.commits else None
    if definition is not None:
        observing = _Observing(ground, definition, table)
        touched = [(commit, key) for commit in found.commits for key in observing.keys(commit.partitions)]
        if touched:
            ground.workspace.ledger.append_rows(observing.events(touched))
        yield Observed(watched["asset"], len(found.commits), len(touched))
    if found.cursor != watched["cursor"]:
        ground.storage.put(path, _document(watched["asset"], watched["table"], found.cursor))


class _Observing:
    """A source, and how its table holds its partitions."""

    def __init__(self, ground: Ground, definition: Definition, table: Table) -> None:
        self._ground = ground
        self._definition = definition
        self._specs = table.spec_history
        self._known: pa.Array | None = None

    def keys(self, partitions: pa.Table) -> list[str]:
        """The partitions of the source that partitions of the table are a part of."""
        found: dict[str, None] = {}
        ids = partitions["spec_id"]
        for spec in self._specs.specs:
            rows = partitions.filter(pc.equal(ids, spec.spec_id))
            if rows.num_rows:
                columns = spec_columns(self._specs, spec, rows)
                wanted = self._definition.partitions
                held = PartitionSet(tuple(d for d in wanted.dimensions if d.dimension in spec.names))
                keys = Holding.of(self._definition.asset, held, spec).keys(columns)
                whole = held.names == wanted.names
                found.update(dict.fromkeys((keys if whole else self._spread(keys, held)).to_pylist()))
        return list(found)

    def _spread(self, keys: pa.Array, held: PartitionSet) -> pa.Array:
        """Of a spec that lacks dimensions: every known partition that has the values that it does hold."""
        if self._known is None:
            question: dict[str, Any] = {"assets": [self._definition.asset], "partly": True}
            with self._ground.workspace.ask(**question) as answer:
                self._known = answer.rows(["partition_key"])["partition_key"].combine_chunks()
        if not held.names or not len(self._known):
            return self._known
        known = key_columns(self._known).select(list(held.names))
        wanted = key_columns(keys.unique())
        numbered = known.append_column("place", pa.array(range(len(self._known)), pa.int64()))
        shared = numbered.join(wanted.cast(known.schema), list(held.names), join_type="left semi")
        return self._known.take(shared["place"])

    def events(self, touched: Sequence[tuple[Any, str]]) -> pa.Table:
        """A success for each commit and partition, with the commit's time and id."""
        ledger = self._ground.workspace.ledger
        commit, key = touched[0]
        first = Event(
            kind=Outcome.SUCCEEDED.kind, tenant_id=ledger.tenant, workspace_id=ledger.workspace,
            asset_key=self._definition.asset, partition_key=key, run_id=commit.id, attempt=1, occurred_at=commit.at,
            table_version=commit.version,
        )  # fmt: skip
        moments: list[datetime] = [one.at for one, _ in touched]
        return repeated(first, {
            "event_id": [new_ulid() for _ in touched], "partition_key": [key for _, key in touched],
            "run_id": [one.id for one, _ in touched], "occurred_at": moments,
            "table_version": [one.version for one, _ in touched],
        })  # fmt: skip


def _path(ground: Ground, asset: str) -> str:
    return f"{ground.folder}/observed/{hashlib.sha256(asset.encode()).hexdigest()[:32]}.json"


def _document(asset: str, table: str | None, cursor: str | None) -> bytes:
    return json.dumps({"asset": asset, "table": table, "cursor": cursor}, ensure_ascii=False).encode()
