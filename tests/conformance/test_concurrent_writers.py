"""Writers at the same time, in threads and in processes: no row is lost, none is there twice, conflicts are errors."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import partita as pt
from partita.formats.capabilities import Operation
from tests.conformance.row_model import (
    ROWS,
    Row,
    arrow_rows,
    assert_nothing_written,
    concurrent_change,
    expected_conflict,
    read_rows,
    written_change,
)

if TYPE_CHECKING:
    from partita.formats.table_change import TableChange

ROOT = Path(__file__).parents[2]
WRITERS, COMMITS = 3, 3


def new_row(number: int, p: str) -> Row:
    return {"id": number, "p": p, "n": number}


@pytest.mark.needs(Operation.APPEND)
def test_threads_that_append_lose_no_row(model_lake: pt.Lake) -> None:
    new_rows = [new_row(100 + number, "abnew"[number % 2 : number % 2 + 1]) for number in range(6)]

    def append(start: int) -> None:
        table = model_lake.table("t.t")
        for row in new_rows[start::3]:
            table.append(arrow_rows([row]))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(append, range(3)))
    table = model_lake.table("t.t")
    assert read_rows(table) == ROWS + new_rows
    assert sum(table.partitions()["rows"].to_pylist()) == len(ROWS) + len(new_rows)


@pytest.mark.needs(Operation.APPEND)
def test_processes_that_append_lose_no_row(model_lake: pt.Lake, table: pt.Table, tmp_path: Path) -> None:
    new_rows = [new_row(100 + number, f"p{number % 2}") for number in range(2 * WRITERS * COMMITS)]
    changes = [written_change(table, arrow_rows(new_rows[at : at + 2])) for at in range(0, len(new_rows), 2)]
    assert read_rows(table) == ROWS
    run_writers(model_lake, tmp_path, [changes[writer::WRITERS] for writer in range(WRITERS)])
    reopened = model_lake.table("t.t")
    assert read_rows(reopened) == ROWS + new_rows
    rows_by_partition = {row["p"]: row["rows"] for row in reopened.partitions().to_pylist()}
    assert rows_by_partition == {"a": 2, "b": 1, None: 1, "p0": WRITERS * COMMITS, "p1": WRITERS * COMMITS}
    paths = reopened.plan().files["path"].to_pylist()
    assert len(set(paths)) == len(paths)


def run_writers(lake: pt.Lake, folder: Path, changes: list[list[TableChange]]) -> None:
    """Commit lists of changes in a process for each list, at the same time."""
    processes = []
    for number, own_changes in enumerate(changes):
        file = folder / f"changes-{number}.pickle"
        file.write_bytes(pickle.dumps(own_changes))
        command = [sys.executable, "-m", "tests.conformance.commit_process", lake.uri, str(file)]
        processes.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


Change = Callable[[pt.Table], object]


def check_pair(lake: pt.Lake, late: Change, early: Change, model: list[Row], *, conflicts: bool) -> None:
    """Check that a change conflicts, or does not, with one that commits between its read and its commit."""
    table, other = lake.table("t.t"), lake.table("t.t")
    with concurrent_change(table, lambda: early(other)), expected_conflict(conflicts=conflicts):
        late(table)
    assert read_rows(table) == model


def append_a(table: pt.Table) -> object:
    return table.append(arrow_rows([new_row(9, "a")]))


def overwrite_a(table: pt.Table) -> object:
    return table.overwrite_partitions(arrow_rows([new_row(8, "a")]))


@pytest.mark.needs(Operation.APPEND)
def test_two_appends_of_one_version_are_both_committed(model_lake: pt.Lake) -> None:
    model = [*ROWS, new_row(8, "b"), new_row(9, "a")]
    check_pair(model_lake, append_a, lambda t: t.append(arrow_rows([new_row(8, "b")])), model, conflicts=False)


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_an_append_into_an_overwritten_partition_is_a_conflict(model_lake: pt.Lake) -> None:
    check_pair(model_lake, overwrite_a, append_a, [*ROWS, new_row(9, "a")], conflicts=True)


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_an_append_beside_an_overwritten_partition_is_no_conflict(model_lake: pt.Lake) -> None:
    model = [*ROWS[2:], new_row(8, "a"), new_row(9, "b")]
    check_pair(
        model_lake, overwrite_a, lambda t: t.append(arrow_rows([new_row(9, "b")])), model, conflicts=False
    )  # fmt: skip


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_two_overwrites_of_a_new_partition_are_a_conflict(model_lake: pt.Lake) -> None:
    check_pair(
        model_lake,
        lambda t: t.overwrite_partitions(arrow_rows([new_row(8, "z")])),
        lambda t: t.overwrite_partitions(arrow_rows([new_row(9, "z")])),
        [*ROWS, new_row(9, "z")],
        conflicts=True,
    )


@pytest.mark.needs(Operation.UPDATE)
def test_two_updates_of_one_row_are_a_conflict(model_lake: pt.Lake) -> None:
    model = [ROWS[0] | {"n": 11}, *ROWS[1:]]
    check_pair(
        model_lake,
        lambda t: t.update({"n": "n + 9"}, "id = 1"),
        lambda t: t.update({"n": "n + 1"}, "id = 1"),
        model,
        conflicts=True,
    )
    table = model_lake.table("t.t")
    with assert_nothing_written(model_lake):
        assert table.version == model_lake.table("t.t").version
    table.update({"n": "n + 9"}, "id = 1")
    assert read_rows(table) == [ROWS[0] | {"n": 20}, *ROWS[1:]]


@pytest.mark.needs(Operation.DELETE, Operation.UPDATE)
def test_changes_of_different_partitions_are_both_committed(model_lake: pt.Lake) -> None:
    check_pair(
        model_lake,
        lambda t: t.update({"n": "31"}, "p = 'b' AND n > 0"),
        lambda t: t.delete("p = 'a' AND n = 10"),
        [ROWS[1], ROWS[2] | {"n": 31}, ROWS[3]],
        conflicts=False,
    )


@pytest.mark.needs(Operation.DELETE)
def test_an_append_after_a_delete_is_committed(model_lake: pt.Lake) -> None:
    check_pair(model_lake, append_a, lambda t: t.delete("p = 'a'"), [*ROWS[2:], new_row(9, "a")], conflicts=False)


@pytest.mark.needs(Operation.MERGE)
def test_a_merge_conflicts_with_an_append_that_it_would_match(model_lake: pt.Lake) -> None:
    def merge(table: pt.Table) -> object:
        return table.merge(
            arrow_rows([new_row(9, "a")]), "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert()
        )

    check_pair(model_lake, merge, append_a, [*ROWS, new_row(9, "a")], conflicts=True)
