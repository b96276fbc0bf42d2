"""A transaction of an application is committed once, however often it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.capabilities import Operation
from tests.conformance.row_model import ROWS, arrow_rows, assert_nothing_written, concurrent_change, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from partita.formats.operations.write_operation import ChangeResult

NEW = [{"id": 5, "p": "c", "n": 50}]


@pytest.mark.needs(Operation.TRANSACTIONS)
def test_a_transaction_that_runs_twice_is_one(model_lake: pt.Lake, table: pt.Table) -> None:
    rows, c = arrow_rows(NEW), pa.table({"p": ["c"]})
    assert not table.has_transaction(("job", 5))
    assert table.append(rows, transaction=("job", 5)).version == table.version
    assert table.has_transaction(("job", 5))
    assert not table.has_transaction(("job", 6))
    again: list[Callable[[], ChangeResult]] = [
        lambda: table.append(rows, transaction=("job", 5)),
        lambda: table.append(rows, transaction=("job", 4)),
        lambda: table.overwrite(rows, transaction=("job", 5)),
        lambda: table.overwrite_partitions(rows, transaction=("job", 5)),
        lambda: table.replace_partitions(rows, c, transaction=("job", 5)),
    ]
    with assert_nothing_written(model_lake):
        for change in again:
            assert change().version is None
    assert read_rows(table) == ROWS + NEW
    for transaction in (("other", 5), ("job", 6)):
        assert table.append(rows, transaction=transaction).version == table.version
    assert read_rows(table) == ROWS + NEW * 3
    reopened = model_lake.table("t.t")
    assert [reopened.has_transaction((job, 5)) for job in ("job", "other", "third")] == [True, True, False]


@pytest.mark.needs(Operation.TRANSACTIONS)
def test_a_transaction_that_two_writers_run_at_once_is_one(model_lake: pt.Lake, table: pt.Table) -> None:
    other = model_lake.table("t.t")
    with concurrent_change(table, lambda: other.append(arrow_rows(NEW), transaction=("job", 1))):
        table.append(arrow_rows(NEW), transaction=("job", 1))
    assert read_rows(table) == ROWS + NEW
    assert table.version == other.version
