"""The table's own log: one write after the other, each all or nothing over all of its leaves.

```text
_partita/log/00000000000000000007.json        what write 7 is about to do to which leaves, in full
_partita/log/00000000000000000007.done.json   how it ended: the versions of the leaves after it, or that it was undone
_partita/log/00000000000000000020.arrow       a checkpoint: all leaves with their versions after write 20
```

Each file is written once, if it isn't there yet. A number without its ending is a write that runs, or that was killed:
until it has ended no other begins, and whoever opens the table next ends it (`partita.formats.lance.writes`). Readers
need only what has ended.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from partita.errors import TableError
from partita.formats.containment import check_inside
from partita.formats.transactions import outlived
from partita.storage import Storage
from partita.untrusted import parse_json_object, reading

FOLDER = "_partita/log"
EVERY = 20
"""Writes between two checkpoints."""
MANY = 1000
"""Leaves in one write that make a checkpoint worth it at once."""

PINS = pa.schema([("id", pa.string()), ("version", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())])
"""The version of each leaf that finished writes made, by its id under the root, and what it holds."""

Pinned: TypeAlias = tuple[str, int, int | None, int | None]
"""A row of `PINS`."""

_NAME = re.compile(r"(\d{20})(\.done\.json|\.json|\.arrow)$")


@dataclass(frozen=True, slots=True)
class Intent:
    """What a write is about to do: `leaves` are operations as `partita.formats.lance.operations` reads them.

    `schema` are the columns that the table has from then on, as its root says them, where it gets others.
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
        """The file."""
        document = {name: getattr(self, name) for name in self.__slots__ if name != "number"}
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def of(cls, number: int, data: bytes) -> Intent:
        """The write that a file says."""
        with reading(f"write {number} of the Lance table's log"):
            document = parse_json_object(data)
            transaction = _transaction(document.pop("transaction"))
            leaves = tuple(document.pop("leaves"))
            return cls(number=number, leaves=leaves, transaction=transaction, **document)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a write ended.

    `leaves` are rows of `PINS`; a leaf whose rows are None is no longer in the table. An undone write names its leaves
    in `suspects`: those that it made have True there.
    """

    number: int
    finished: bool
    operation: str
    at: int
    leaves: tuple[Pinned, ...] = ()
    suspects: Mapping[str, bool] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    reason: str | None = None

    def as_json(self) -> bytes:
        """The file."""
        document = {name: getattr(self, name) for name in self.__slots__ if name != "number"}
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def of(cls, number: int, data: bytes) -> Ending:
        """The ending that a file says."""
        with reading(f"the end of write {number} of the Lance table's log"):
            document = parse_json_object(data)
            transaction = _transaction(document.pop("transaction"))
            leaves = tuple((*leaf,) for leaf in document.pop("leaves"))
            return cls(number=number, leaves=leaves, transaction=transaction, **document)


def _transaction(given: Any) -> tuple[str, int] | None:
    if given is None:
        return None
    application, number = given
    return str(application), int(number)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What the log says up to one write.

    `suspects` are leaves that an undone write may have left commits in, True where it also made them; `dropped` those
    that are no longer in the table, with the versions that dropping them made.
    """

    version: int
    pins: pa.Table
    transactions: Mapping[str, int] = field(default_factory=dict)
    suspects: Mapping[str, bool] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)

    def pinned(self, ids: pa.Array) -> pa.Table:
        """The pins of some leaves, null where they have none; quick where they are all of them in their order."""
        own = self.pins["id"].combine_chunks()
        found = self.pins.select(["version", "rows", "bytes"])
        return found if own.equals(ids) else found.take(pc.index_in(ids, value_set=own))

    def ordered(self, ids: pa.Array) -> Known:
        """The same with the pins of these leaves first, in their order."""
        own = self.pins["id"].combine_chunks()
        first = pc.index_in(ids, value_set=own).drop_null().to_numpy()
        rest = np.setdiff1d(np.arange(len(own)), first)
        return replace(self, pins=self.pins.take(pa.array(np.concatenate([first, rest]))))

    def floors(self, ids: Sequence[str]) -> dict[str, int]:
        """The versions of leaves that finished writes made, by id; 0 where only others have written."""
        given = pa.array(ids, pa.string())
        found = self.pins["version"].take(pc.index_in(given, value_set=self.pins["id"].combine_chunks())).to_pylist()
        return {i: self.dropped.get(i, 0) if v is None else v for i, v in zip(ids, found, strict=True)}


NOTHING = Known(-1, PINS.empty_table())


@dataclass(frozen=True, slots=True)
class Log:
    """The log of the table in a folder."""

    storage: Storage

    def known(self, after: Known = NOTHING) -> tuple[Known, Intent | None]:
        """What the log says now, and the write that has not ended, if there is one; `after` spares reading it again."""
        check_inside(self.storage.uri, FOLDER, "the log")
        with reading(f"the log of the Lance table at {self.storage.uri}"):
            return self._known(after)

    def _known(self, after: Known) -> tuple[Known, Intent | None]:
        names = self._names(after.version)
        base = after
        if (after.version, ".done.json") not in names:  # another table since, or nothing known yet
            base, names = NOTHING, self._names()
        last = max((n for n, kind in names if kind == ".done.json"), default=-1)
        checkpoint = max((n for n, kind in names if kind == ".arrow" and n <= last), default=-1)
        if checkpoint > base.version:
            base = self._checkpoint(checkpoint)
        endings = [self.ending(number) for number in range(base.version + 1, last + 1)]
        open_number = last + 1
        intent = self.intent(open_number) if (open_number, ".json") in names else None
        return folded(base, [e for e in endings if e is not None]), intent

    def known_at(self, number: int) -> Known:
        """What the log said after a write: how writes ended is never forgotten."""
        with reading(f"the log of the Lance table at {self.storage.uri}"):
            return self._known_at(number)

    def _known_at(self, number: int) -> Known:
        checkpoint = max((n for n, kind in self._names() if kind == ".arrow" and n <= number), default=-1)
        base = self._checkpoint(checkpoint) if checkpoint >= 0 else NOTHING
        endings = [self.ending(one) for one in range(base.version + 1, number + 1)]
        return folded(base, [e for e in endings if e is not None])

    def first(self) -> bytes | None:
        """How the first write ended, in its own bytes; None before there is one."""
        return self.storage.get(f"{_path(0)}.done.json")

    def intent(self, number: int) -> Intent | None:
        """What a write was about to do."""
        data = self.storage.get(f"{_path(number)}.json")
        return None if data is None else Intent.of(number, data)

    def ending(self, number: int) -> Ending | None:
        """How a write ended."""
        data = self.storage.get(f"{_path(number)}.done.json")
        return None if data is None else Ending.of(number, data)

    def begin(self, intent: Intent) -> bool:
        """Begin a write; False where that number is another's."""
        return self.storage.put_new(f"{_path(intent.number)}.json", intent.as_json())

    def end(self, ending: Ending) -> bool:
        """End a write; False where another has ended it."""
        return self.storage.put_new(f"{_path(ending.number)}.done.json", ending.as_json())

    def checkpoint(self, known: Known) -> None:
        """Spare readers the writes before; the transactions of runs that are long over are left out."""
        out = io.BytesIO()
        old = set(outlived(known.transactions))
        transactions = {one: number for one, number in known.transactions.items() if one not in old}
        extra = {"transactions": transactions, "suspects": known.suspects, "dropped": known.dropped}
        table = known.pins.replace_schema_metadata({"partita": json.dumps(extra)})
        with ipc.new_file(out, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
        self.storage.put_new(f"{_path(known.version)}.arrow", out.getvalue())

    def endings(self) -> Iterator[Ending]:
        """How every write ended, newest first."""
        for number in sorted((n for n, kind in self._names() if kind == ".done.json"), reverse=True):
            ending = self.ending(number)
            if ending is not None:
                yield ending

    def forget(self, before: float) -> None:
        """Remove what the writes before a time were about to do, and checkpoints that a later one stands for.

        How writes ended stays.
        """
        names = self._names()
        last = max((n for n, kind in names if kind == ".arrow"), default=-1)
        paths = [f"{_path(number)}{kind}" for number, kind in names if kind != ".done.json" and number < last]
        self.storage.delete([path for path in paths if self.storage.modified(path) < before])

    def _checkpoint(self, number: int) -> Known:
        data = self.storage.get(f"{_path(number)}.arrow")
        if data is None:
            raise TableError(
                f"the checkpoint of write {number} in {self.storage.uri} went while it was read; try again"
            )
        table = ipc.open_file(pa.BufferReader(data)).read_all()
        extra = parse_json_object(table.schema.metadata[b"partita"])
        return Known(number, table.replace_schema_metadata(None), **extra)

    def _names(self, first: int = 0) -> set[tuple[int, str]]:
        after = _path(first) if first > 0 else ""
        matches = (_NAME.search(path) for path, _ in self.storage.list(FOLDER, after))
        return {(int(match[1]), match[2]) for match in matches if match}


def folded(base: Known, endings: list[Ending]) -> Known:
    """What is known after some more writes have ended."""
    if not endings:
        return base
    changed: dict[str, Pinned] = {}
    transactions, suspects, dropped = dict(base.transactions), dict(base.suspects), dict(base.dropped)
    for ending in endings:
        if ending.finished and ending.transaction:
            application, number = ending.transaction
            transactions[application] = max(number, transactions.get(application, number))
        suspects |= ending.suspects
        for leaf in ending.leaves:
            name, version, rows, _ = changed[leaf[0]] = leaf
            suspects.pop(name, None)
            dropped.pop(name, None)
            if rows is None:
                dropped[name] = version
    return Known(endings[-1].number, _changed(base.pins, changed), transactions, suspects, dropped)


def _changed(pins: pa.Table, changed: Mapping[str, Pinned]) -> pa.Table:
    """The pins with some of them changed where they are, new ones behind, and without those of leaves that went."""
    there = [leaf for leaf in changed.values() if leaf[2] is not None]
    new = pa.Table.from_pylist([dict(zip(PINS.names, leaf, strict=True)) for leaf in there], PINS)
    both = pa.concat_tables([pins, new])
    order = np.arange(pins.num_rows)
    at = pc.index_in(pins["id"].combine_chunks(), value_set=new["id"].combine_chunks())
    known = at.is_valid().to_numpy(zero_copy_only=False)
    order[known] = pins.num_rows + at.drop_null().to_numpy()
    rest = np.setdiff1d(np.arange(pins.num_rows, both.num_rows), order)
    taken = both.take(pa.array(np.concatenate([order, rest])))
    gone = pa.array([leaf[0] for leaf in changed.values() if leaf[2] is None], pa.string())
    return taken.filter(pc.invert(pc.is_in(taken["id"], value_set=gone))) if len(gone) else taken


def _path(number: int) -> str:
    return f"{FOLDER}/{number:020}"
