"""The log of a Lance table: one write after the other, each atomic over all of its leaves.

```text
_partita/log/00000000000000000007.json        intent: what write 7 does to which leaves, in full
_partita/log/00000000000000000007.done.json   outcome: the versions of the leaves after it, or that it was undone
_partita/log/00000000000000000020.arrow       checkpoint: the versions of all leaves after write 20
```

Each file is written once, with put-if-absent. An intent without an outcome is a write that is running or was killed: no
other write begins before it has ended, and whoever opens the table next finishes it (`partita.formats.lance.commit`).
Readers only need outcomes.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from partita.errors import TableError
from partita.formats.containment import check_inside
from partita.formats.run_transactions import expired_applications
from partita.storage import Storage
from partita.untrusted_input import parse_json_object, translate_read_errors

LOG_FOLDER = "_partita/log"
CHECKPOINT_INTERVAL = 20
"""Number of writes between two checkpoints."""
CHECKPOINT_LEAF_COUNT = 1000
"""Number of leaves of one write from which on it gets a checkpoint of its own."""

LEAF_VERSION_SCHEMA = pa.schema(
    [("id", pa.string()), ("version", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())]
)
"""The committed version of each leaf, by its id under the root, with its rows and bytes."""

LeafVersion: TypeAlias = tuple[str, int, int | None, int | None]
"""A row of `LEAF_VERSION_SCHEMA`: id, version, rows, bytes."""

_LOG_FILE_PATTERN = re.compile(r"(\d{20})(\.done\.json|\.json|\.arrow)$")


class LanceLogOperation(StrEnum):
    """The operations of the log that other formats don't have, beside those of `Operation`."""

    CREATE = "create"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    ADD_COLUMN = "add column"
    COMPACT = "compact"
    INDEX = "index"
    REPAIR = "repair"
    CLEANUP = "cleanup"


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """What a write is about to do; `leaves` are operations as JSON (`partita.formats.lance.leaf_operations`).

    `write` is the id of the write, `at` the time in milliseconds since 1970, `owner` the process that began it.
    `schema` is the new schema of the table, as its root namespace has it, or None if the write doesn't change it.
    """

    number: int
    write: str
    operation: str
    at: int
    owner: Mapping[str, Any]
    leaves: tuple[Mapping[str, Any], ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    schema: str | None = None

    def as_json(self) -> bytes:
        """Return the content of the log file."""
        document = {name: getattr(self, name) for name in self.__slots__ if name != "number"}
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, number: int, data: bytes) -> WriteIntent:
        """Parse the content of an intent file."""
        with translate_read_errors(f"write {number} of the Lance table's log"):
            document = parse_json_object(data)
            transaction = _transaction_from_json(document.pop("transaction"))
            leaves = tuple(document.pop("leaves"))
            return cls(number=number, leaves=leaves, transaction=transaction, **document)


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """How a write ended: finished, or undone for a `reason`.

    `leaves` are the leaf versions after a finished write; a leaf with None for its rows was dropped. `suspects` are the
    leaves of an undone write, with True for those that it created.
    """

    number: int
    is_finished: bool
    operation: str
    at: int
    leaves: tuple[LeafVersion, ...] = ()
    suspects: Mapping[str, bool] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    reason: str | None = None

    def as_json(self) -> bytes:
        """Return the content of the log file."""
        names = {"finished" if name == "is_finished" else name: name for name in self.__slots__ if name != "number"}
        document = {key: getattr(self, name) for key, name in names.items()}
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, number: int, data: bytes) -> WriteOutcome:
        """Parse the content of an outcome file."""
        with translate_read_errors(f"the end of write {number} of the Lance table's log"):
            document = parse_json_object(data)
            transaction = _transaction_from_json(document.pop("transaction"))
            leaves = tuple((*leaf,) for leaf in document.pop("leaves"))
            is_finished = document.pop("finished")
            return cls(number=number, is_finished=is_finished, leaves=leaves, transaction=transaction, **document)


def _transaction_from_json(document: Any) -> tuple[str, int] | None:
    if document is None:
        return None
    application, number = document
    return str(application), int(number)


@dataclass(frozen=True, slots=True, eq=False)
class LogSnapshot:
    """The state of the log after one write.

    `suspects` are leaves in which an undone write may have left commits, with True for those that it created;
    `dropped_versions` are the versions that dropped leaves, by leaf id.
    """

    version: int
    leaf_versions: pa.Table
    transactions: Mapping[str, int] = field(default_factory=dict)
    suspects: Mapping[str, bool] = field(default_factory=dict)
    dropped_versions: Mapping[str, int] = field(default_factory=dict)

    def leaf_versions_of(self, ids: pa.Array) -> pa.Table:
        """Return version, rows and bytes of some leaves, null for unknown ones; fast if `ids` are all, in order."""
        all_ids = self.leaf_versions["id"].combine_chunks()
        versions = self.leaf_versions.select(["version", "rows", "bytes"])
        return versions if all_ids.equals(ids) else versions.take(pc.index_in(ids, value_set=all_ids))

    def with_leaf_order(self, ids: pa.Array) -> LogSnapshot:
        """Return the snapshot with the versions of these leaves first, in their order."""
        all_ids = self.leaf_versions["id"].combine_chunks()
        ordered_indices = pc.index_in(ids, value_set=all_ids).drop_null().to_numpy()
        other_indices = np.setdiff1d(np.arange(len(all_ids)), ordered_indices)
        return replace(
            self, leaf_versions=self.leaf_versions.take(pa.array(np.concatenate([ordered_indices, other_indices])))
        )

    def committed_versions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the versions of leaves that finished writes made, by id; 0 if only other writers have written."""
        indices = pc.index_in(pa.array(ids, pa.string()), value_set=self.leaf_versions["id"].combine_chunks())
        versions = self.leaf_versions["version"].take(indices).to_pylist()
        return {i: self.dropped_versions.get(i, 0) if v is None else v for i, v in zip(ids, versions, strict=True)}


EMPTY_LOG_SNAPSHOT = LogSnapshot(-1, LEAF_VERSION_SCHEMA.empty_table())


@dataclass(frozen=True, slots=True)
class LanceLog:
    """The log of the table in a folder."""

    storage: Storage

    def read_latest(self, previous: LogSnapshot = EMPTY_LOG_SNAPSHOT) -> tuple[LogSnapshot, WriteIntent | None]:
        """Return the current snapshot and the intent of an unfinished write; `previous` saves reading older files."""
        check_inside(self.storage.uri, LOG_FOLDER, "the log")
        with translate_read_errors(f"the log of the Lance table at {self.storage.uri}"):
            names = self._log_files(previous.version)
            base = previous
            if (previous.version, ".done.json") not in names:  # nothing known yet, or another table in its place
                base, names = EMPTY_LOG_SNAPSHOT, self._log_files()
            latest = max((n for n, kind in names if kind == ".done.json"), default=-1)
            checkpoint = max((n for n, kind in names if kind == ".arrow" and n <= latest), default=-1)
            if checkpoint > base.version:
                base = self._read_checkpoint(checkpoint)
            intent = self.write_intent(latest + 1) if (latest + 1, ".json") in names else None
            return self._fold_until(base, latest), intent

    def snapshot_at(self, number: int) -> LogSnapshot:
        """Return the snapshot after a write; outcomes are never deleted."""
        with translate_read_errors(f"the log of the Lance table at {self.storage.uri}"):
            checkpoint = max((n for n, kind in self._log_files() if kind == ".arrow" and n <= number), default=-1)
            base = self._read_checkpoint(checkpoint) if checkpoint >= 0 else EMPTY_LOG_SNAPSHOT
            return self._fold_until(base, number)

    def _fold_until(self, base: LogSnapshot, number: int) -> LogSnapshot:
        """Return the snapshot after a write, from an earlier one."""
        outcomes = [self.write_outcome(n) for n in range(base.version + 1, number + 1)]
        return fold_outcomes(base, [outcome for outcome in outcomes if outcome is not None])

    def first_outcome_bytes(self) -> bytes | None:
        """Return the content of the first outcome file; None if there is none."""
        return self.storage.get(f"{_log_path(0)}.done.json")

    def write_intent(self, number: int) -> WriteIntent | None:
        """Return the intent of a write; None if there is none."""
        data = self.storage.get(f"{_log_path(number)}.json")
        return None if data is None else WriteIntent.from_json(number, data)

    def write_outcome(self, number: int) -> WriteOutcome | None:
        """Return the outcome of a write; None if it has not ended."""
        data = self.storage.get(f"{_log_path(number)}.done.json")
        return None if data is None else WriteOutcome.from_json(number, data)

    def begin_write(self, intent: WriteIntent) -> bool:
        """Write an intent; return False if another write has that number."""
        return self.storage.put_if_absent(f"{_log_path(intent.number)}.json", intent.as_json())

    def end_write(self, outcome: WriteOutcome) -> bool:
        """Write an outcome; return False if another process has ended the write."""
        return self.storage.put_if_absent(f"{_log_path(outcome.number)}.done.json", outcome.as_json())

    def write_checkpoint(self, snapshot: LogSnapshot) -> None:
        """Write a checkpoint, which saves readers the outcomes before; expired transactions of runs are left out."""
        out = io.BytesIO()
        expired_names = set(expired_applications(snapshot.transactions))
        transactions = {app: number for app, number in snapshot.transactions.items() if app not in expired_names}
        extra = {"transactions": transactions, "suspects": snapshot.suspects, "dropped": snapshot.dropped_versions}
        table = snapshot.leaf_versions.replace_schema_metadata({"partita": json.dumps(extra)})
        with ipc.new_file(out, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
        self.storage.put_if_absent(f"{_log_path(snapshot.version)}.arrow", out.getvalue())

    def write_outcomes(self) -> Iterator[WriteOutcome]:
        """Return the outcomes of all writes, newest first."""
        for number in sorted((n for n, kind in self._log_files() if kind == ".done.json"), reverse=True):
            outcome = self.write_outcome(number)
            if outcome is not None:
                yield outcome

    def remove_old_entries(self, before: float) -> None:
        """Delete intents and checkpoints that are older than a time and precede the last checkpoint.

        Outcomes stay.
        """
        names = self._log_files()
        last_checkpoint = max((n for n, kind in names if kind == ".arrow"), default=-1)
        paths = [
            f"{_log_path(number)}{kind}" for number, kind in names if kind != ".done.json" and number < last_checkpoint
        ]
        self.storage.delete([path for path in paths if self.storage.modified_time(path) < before])

    def _read_checkpoint(self, number: int) -> LogSnapshot:
        data = self.storage.get(f"{_log_path(number)}.arrow")
        if data is None:
            raise TableError(
                f"the checkpoint of write {number} in {self.storage.uri} was deleted while it was read; try again"
            )
        table = ipc.open_file(pa.BufferReader(data)).read_all()
        extra = parse_json_object(table.schema.metadata[b"partita"])
        dropped_versions = extra.pop("dropped")
        return LogSnapshot(number, table.replace_schema_metadata(None), dropped_versions=dropped_versions, **extra)

    def _log_files(self, first: int = 0) -> set[tuple[int, str]]:
        after = _log_path(first) if first > 0 else ""
        matches = (_LOG_FILE_PATTERN.search(path) for path, _ in self.storage.list_paths(LOG_FOLDER, after))
        return {(int(match[1]), match[2]) for match in matches if match}


def fold_outcomes(base: LogSnapshot, outcomes: list[WriteOutcome]) -> LogSnapshot:
    """Return the snapshot after some more writes."""
    if not outcomes:
        return base
    changed_leaves: dict[str, LeafVersion] = {}
    transactions, suspects, dropped_versions = dict(base.transactions), dict(base.suspects), dict(base.dropped_versions)
    for outcome in outcomes:
        if outcome.is_finished and outcome.transaction:
            application, number = outcome.transaction
            transactions[application] = max(number, transactions.get(application, number))
        suspects |= outcome.suspects
        for leaf in outcome.leaves:
            name, version, rows, _ = changed_leaves[leaf[0]] = leaf
            suspects.pop(name, None)
            dropped_versions.pop(name, None)
            if rows is None:
                dropped_versions[name] = version
    return LogSnapshot(
        outcomes[-1].number,
        _update_leaf_versions(base.leaf_versions, changed_leaves),
        transactions,
        suspects,
        dropped_versions,
    )


def _update_leaf_versions(leaf_versions: pa.Table, changed_leaves: Mapping[str, LeafVersion]) -> pa.Table:
    """Replace changed leaf versions in place, append new ones, and remove those of dropped leaves."""
    remaining_leaves = [leaf for leaf in changed_leaves.values() if leaf[2] is not None]
    new_versions = pa.Table.from_pylist(
        [dict(zip(LEAF_VERSION_SCHEMA.names, leaf, strict=True)) for leaf in remaining_leaves], LEAF_VERSION_SCHEMA
    )
    all_versions = pa.concat_tables([leaf_versions, new_versions])
    order = np.arange(leaf_versions.num_rows)
    indices = pc.index_in(leaf_versions["id"].combine_chunks(), value_set=new_versions["id"].combine_chunks())
    is_changed = indices.is_valid().to_numpy(zero_copy_only=False)
    order[is_changed] = leaf_versions.num_rows + indices.drop_null().to_numpy()
    appended_indices = np.setdiff1d(np.arange(leaf_versions.num_rows, all_versions.num_rows), order)
    updated_versions = all_versions.take(pa.array(np.concatenate([order, appended_indices])))
    dropped_ids = pa.array([leaf[0] for leaf in changed_leaves.values() if leaf[2] is None], pa.string())
    return (
        updated_versions.filter(pc.invert(pc.is_in(updated_versions["id"], value_set=dropped_ids)))
        if len(dropped_ids)
        else updated_versions
    )


def _log_path(number: int) -> str:
    return f"{LOG_FOLDER}/{number:020}"
