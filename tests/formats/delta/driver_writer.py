"""A writer without Spark: does the work of an executor and of the driver in one process, which may be killed.

`python -m tests.formats.delta.driver_writer <uri> many <start>` appends 25 times; `append <step>` dies at a step.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.formats.capabilities import Operation
from partita.formats.delta.state import DeltaTableVersion
from partita.formats.delta.store import DeltaTableStore
from partita.formats.file_plan import plan_files
from partita.formats.partition_selection import select_partitions
from partita.formats.table_change import WRITTEN_FILE_SCHEMA, TableChange
from partita.storage import Storage

SCHEMA = pt.Schema.of({"id": "long", "p": "string"})
KILL_STEPS = ("before files", "in a file", "between files", "before the log entry", "after the log entry")
COMMIT_COUNT = 25
KILLED_EXIT_CODE = 42


def open_store(uri: str) -> DeltaTableStore:
    """Open the table in a folder."""
    return DeltaTableStore(Storage.from_uri(uri))


def write_data_file(
    store: DeltaTableStore, state: DeltaTableVersion, partition: str | None, *ids: int
) -> dict[str, Any]:
    """Write a file with some ids in a partition, as an executor does."""
    sink = state.write_target("UTC").open_sink((partition,), "00000-0")
    sink.write(_id_rows(ids))
    return {**sink.close(), "partition": [partition]}


def append_change(*files: dict[str, Any]) -> TableChange:
    """Return the change that appends some files."""
    return TableChange(Operation.APPEND, pa.Table.from_pylist(list(files), WRITTEN_FILE_SCHEMA))


def delete_change(state: DeltaTableVersion, where: str) -> TableChange:
    """Return the change that removes every file that a predicate may match."""
    predicate = parse_predicate(where, state.schema)
    return TableChange(
        Operation.DELETE, WRITTEN_FILE_SCHEMA.empty_table(), plan_files(state, predicate).file_indices, predicate
    )


def overwrite_change(state: DeltaTableVersion, partition: str, *files: dict[str, Any]) -> TableChange:
    """Return the change that overwrites one partition."""
    file_indices = [index for index, value in enumerate(state.partitions["p"].to_pylist()) if value == partition]
    added_files = pa.Table.from_pylist(list(files), WRITTEN_FILE_SCHEMA)
    chosen = select_partitions(state, pa.table({"p": [partition]}))
    return TableChange(Operation.OVERWRITE_PARTITIONS, added_files, np.array(file_indices, np.int64), chosen)


def append_many_files(uri: str, start: int) -> int:
    """Append 25 files, each in a commit of its own, and return how many were committed."""
    store = open_store(uri)
    for number in range(start, start + COMMIT_COUNT):
        state = store.current_version()
        state.commit(append_change(write_data_file(store, state, f"p{number % 3}", number)))
    return COMMIT_COUNT


def append_and_die_at(uri: str, step: str) -> None:
    """Append two files, and exit at a step as if killed."""
    store = open_store(uri)
    state = store.current_version()
    _exit_if(step, "before files")
    first = write_data_file(store, state, "a", 1)
    if step == "in a file":
        state.write_target("UTC").open_sink(("b",), "00000-0").write(_id_rows((2,)))
        os._exit(KILLED_EXIT_CODE)
    _exit_if(step, "between files")
    second = write_data_file(store, state, "b", 2)
    link = os.link
    if step == "before the log entry":
        os.link = _exit_killed
    elif step == "after the log entry":

        def link_and_die(source: Any, to: Any) -> None:
            link(source, to)
            os._exit(KILLED_EXIT_CODE)

        os.link = link_and_die  # type: ignore[assignment] # as it is called
    state.commit(append_change(first, second))


def _id_rows(ids: tuple[int, ...]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def _exit_if(step: str, here: str) -> None:
    if step == here:
        os._exit(KILLED_EXIT_CODE)


def _exit_killed(*_: object, **__: object) -> NoReturn:
    os._exit(KILLED_EXIT_CODE)


if __name__ == "__main__":
    uri, what, argument = sys.argv[1:]
    if what == "many":
        append_many_files(uri, int(argument))
    else:
        append_and_die_at(uri, argument)
