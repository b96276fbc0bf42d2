"""A writer without Spark: what an executor and the driver do, in one process that may die on the way.

`python -m tests.formats.delta.writing <uri> many <start>` appends 25 times; `... <uri> append <step>` dies at a step.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

import partita as pt
from partita.algebra.parse import parse_predicate
from partita.formats.chosen import choose
from partita.formats.delta.store import DeltaState, DeltaStore
from partita.formats.plan import make_plan
from partita.formats.store import TOLD, Change
from partita.storage import Storage

SCHEMA = pt.Schema.of({"id": "long", "p": "string"})
STEPS = ("before files", "in a file", "between files", "before the log entry", "after the log entry")
COMMITS = 25
KILLED = 42


def store_at(uri: str) -> DeltaStore:
    """The table in that folder."""
    return DeltaStore(Storage.at(uri))


def write_file(store: DeltaStore, state: DeltaState, partition: str | None, *ids: int) -> dict[str, Any]:
    """Write a file of those ids in that partition, as an executor does."""
    sink = store.target(state, "UTC").open((partition,), "00000-0")
    sink.write(_rows(ids))
    return {**sink.close(), "partition": [partition]}


def append_of(*files: dict[str, Any]) -> Change:
    """An append of those files."""
    return Change("append", pa.Table.from_pylist(list(files), TOLD))


def delete_of(state: DeltaState, where: str) -> Change:
    """A delete of every file that a predicate may match, by metadata alone."""
    predicate = parse_predicate(where, state.schema)
    return Change("delete", TOLD.empty_table(), make_plan(state, predicate).kept, predicate)


def overwrite_of(state: DeltaState, partition: str, *files: dict[str, Any]) -> Change:
    """An overwrite of one partition."""
    places = [at for at, value in enumerate(state.partitions["p"].to_pylist()) if value == partition]
    told = pa.Table.from_pylist(list(files), TOLD)
    chosen = choose(state, pa.table({"p": [partition]}))
    return Change("overwrite_partitions", told, np.array(places, np.int64), chosen)


def append_many(uri: str, start: int) -> int:
    """Commit 25 files, one at a time; how many landed."""
    store = store_at(uri)
    for number in range(start, start + COMMITS):
        state = store.state()
        store.commit(state, append_of(write_file(store, state, f"p{number % 3}", number)))
    return COMMITS


def append_until(uri: str, step: str) -> None:
    """Append two files, and die at that step."""
    store = store_at(uri)
    state = store.state()
    _die_if(step, "before files")
    first = write_file(store, state, "a", 1)
    if step == "in a file":
        store.target(state, "UTC").open(("b",), "00000-0").write(_rows((2,)))
        os._exit(KILLED)
    _die_if(step, "between files")
    second = write_file(store, state, "b", 2)
    link = os.link
    if step == "before the log entry":
        os.link = _killed
    elif step == "after the log entry":

        def link_and_die(source: Any, to: Any) -> None:
            link(source, to)
            os._exit(KILLED)

        os.link = link_and_die  # type: ignore[assignment] # as it is called
    store.commit(state, append_of(first, second))


def _rows(ids: tuple[int, ...]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def _die_if(step: str, here: str) -> None:
    if step == here:
        os._exit(KILLED)


def _killed(*_: object, **__: object) -> NoReturn:
    os._exit(KILLED)


if __name__ == "__main__":
    uri, what, argument = sys.argv[1:]
    if what == "many":
        append_many(uri, int(argument))
    else:
        append_until(uri, argument)
