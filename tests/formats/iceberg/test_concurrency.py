"""Concurrent changes: each is committed as if it came last, or refused as a whole; no deleted row comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import CommitConflict
from partita.formats.iceberg.state import IcebergTableVersion
from partita.formats.iceberg.store import IcebergTableStore
from partita.formats.table_change import TableChange
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    CATALOG_NAME,
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    added_spec_ids,
    agreed_rows,
    jvm_session,
    live_spec_ids,
    pyiceberg_table,
    roll_back,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int"})
GIVEN = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "p": pa.array(["a", "b", "c"] * 4),
        "k": pa.array([i % 4 for i in range(12)], pa.int32()),
    }
)


def row(number: int, p: str, k: int = 0) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "p": [p], "k": pa.array([k], pa.int32())})


class Beside:
    """A table of two specs, by partition and by partition and bucket, that is reset for each case."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.jvm = jvm_session(spark, folder)
        self.lake = pt.Lake(str(folder))
        table = self.lake.create_table("t.t", SCHEMA, format="iceberg", partition_by=["p"])
        table.append(GIVEN.slice(0, 6))
        table.evolve(add=[pt.bucket("id", 2)])
        table.append(GIVEN.slice(6))
        self.base = table.version

    @property
    def table(self) -> pt.Table:
        """Open the table as a writer of its own."""
        return self.lake.table("t.t")


@pytest.fixture(scope="module")
def beside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside(spark, tmp_path_factory.mktemp("lake"))


@contextmanager
def meanwhile(table: pt.Table, *early: Callable[[], object]) -> Iterator[None]:
    """A block in which other changes are committed after the table was read and before its change is committed."""
    remaining = list(early)
    real = IcebergTableVersion.commit

    def commit(table_version: IcebergTableVersion, change: TableChange) -> int:
        if table_version.uri == table.uri:
            first, remaining[:] = list(remaining), []
            for land in first:
                land()
        return real(table_version, change)

    IcebergTableVersion.commit = commit  # type: ignore[method-assign,assignment] # put back below
    try:
        yield
    finally:
        IcebergTableVersion.commit = real  # type: ignore[method-assign]
    assert not remaining


Step = Callable[[Any], object]


def delete(where: str) -> Step:
    return lambda on: on.delete(where)


def update(where: str, **values: str) -> Step:
    return lambda on: on.update(values, where)


def append(rows: pa.Table) -> Step:
    return lambda on: on.append(rows)


def merge(rows: pa.Table) -> Step:
    return lambda on: on.merge(
        rows, "t.id = s.id", pt.when_matched().update({"k": "s.k"}), pt.when_not_matched().insert()
    )


def replace(rows: pa.Table) -> Step:
    def run(on: Any) -> object:
        if isinstance(on, pt.Table):
            return on.overwrite_partitions(rows)
        return on.overwrite(rows, ["p", f"{CATALOG_NAME}.system.bucket(2, id)"])

    return run


SNAPSHOT = {f"write.{what}.isolation-level": "snapshot" for what in ("delete", "update", "merge")}

CASES: dict[str, tuple[Step, Step, dict[str, str], bool]] = {
    "two appends": (append(row(20, "a")), append(row(21, "a")), {}, True),
    "an append after a delete": (append(row(20, "a")), delete("p = 'a'"), {}, True),
    "a delete, and an append of what it deletes": (delete("k = 1"), append(row(20, "a", 1)), {}, False),
    "that as others may see it": (delete("k = 1"), append(row(20, "a", 1)), SNAPSHOT, True),
    "a delete, and an append elsewhere": (delete("p = 'a' and k > 0"), append(row(20, "b", 1)), {}, True),
    "a delete, and an append that can't match": (delete("k = 1"), append(row(20, "a", 7)), {}, True),
    "two deletes in the same files": (delete("id in (0, 1, 6)"), delete("id in (3, 1, 9)"), {}, True),
    "two deletes of one row": (delete("id = 0"), delete("id = 0"), {}, True),
    "a delete of rows that move": (delete("id = 0"), update("id = 0", p="'b'"), {}, False),
    "an update of what another deletes": (update("id = 0", k="9"), delete("id = 0"), {}, False),
    "the same, as others may see it": (update("id = 0", k="9"), delete("id = 0"), SNAPSHOT, False),
    "two updates of one row": (update("id = 0", k="k + 9"), update("id = 0", k="k + 1"), SNAPSHOT, False),
    "updates in different files": (update("p = 'a' and k > 0", k="9"), update("p = 'b' and k > 0", k="8"), {}, True),
    "a merge, and an append that it would match": (merge(row(30, "a")), append(row(30, "a")), {}, False),
    "a merge, and an append that it can't match": (merge(row(30, "a")), append(row(31, "a")), {}, True),
    "a whole file that another deletes from": (delete("p = 'a'"), delete("id = 0"), {}, True),
    "an overwrite, and an append into it": (replace(row(30, "a")), append(row(32, "a")), {}, False),
    "an overwrite, and an append beside it": (replace(row(30, "a")), append(row(32, "c")), {}, True),
    "two overwrites of one partition": (replace(row(30, "z")), replace(row(32, "z")), {}, False),
}  # fmt: skip


SIMILAR_CASES = {
    "two deletes of one row", "an update of what another deletes", "two updates of one row",
    "updates in different files", "two overwrites of one partition",
}  # fmt: skip
"""Cases that nearly repeat others, which `make test` leaves out."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in SIMILAR_CASES else ()) for name in CASES]
)
def test_a_change_beside_another(spark: SparkSession, beside: Beside, name: str) -> None:
    late, early, properties, lands = CASES[name]
    table = beside.table
    roll_back(table, beside.base)
    with pyiceberg_table(table).transaction() as transaction:
        transaction.remove_properties(*(SNAPSHOT.keys() & pyiceberg_table(table).properties.keys()))
        if properties:
            transaction.set_properties(properties)
    truth = ReferenceTable(beside.jvm, GIVEN)
    with meanwhile(table, lambda: early(beside.table)):
        if lands:
            late(table)
        else:
            with pytest.raises(CommitConflict):
                late(table)
    # One that minds no rows which it didn't see is as if it came before.
    for change in ([late, early] if properties else [early, late]) if lands else [early]:
        change(truth)
    assert agreed_rows(table, piled=True) == truth.rows
    if not lands:
        # The same on the table as it is then.
        late(table)
        late(truth)
        assert sorted_rows(table.read()) == truth.rows


def test_an_evolution_beside_an_append_and_a_delete(spark: SparkSession, tmp_path: Path) -> None:
    """Files that were written keep the spec that they were written under."""
    beside = Beside(spark, tmp_path)
    table = beside.table
    truth = ReferenceTable(spark, GIVEN)
    with meanwhile(table, lambda: beside.table.evolve(drop=["p"])):
        append(row(20, "a", 5))(table)
    append(row(20, "a", 5))(truth)
    assert (table.spec.spec_id, added_spec_ids(table, DATA_CONTENT)) == (2, [1])
    with meanwhile(table, lambda: beside.table.evolve(drop=["id_bucket"]), lambda: append(row(21, "d"))(beside.table)):
        delete("k in (1, 5) and id <> 21")(table)
    append(row(21, "d"))(truth)
    delete("k in (1, 5) and id <> 21")(truth)
    assert agreed_rows(table) == truth.rows
    assert set(live_spec_ids(table, POSITION_DELETES_CONTENT)) <= {0, 1}
    with meanwhile(table, lambda: beside.table.evolve(add=["k"])):
        update("id % 5 = 1", k="k + 7")(table)
    update("id % 5 = 1", k="k + 7")(truth)
    assert set(added_spec_ids(table, DATA_CONTENT)) == {3}
    assert agreed_rows(table) == truth.rows


def test_a_change_that_loses_again_and_again(spark: SparkSession, tmp_path: Path) -> None:
    """Other writers commit between all attempts; each of their deletes stays."""
    beside = Beside(spark, tmp_path)
    table, truth = beside.table, ReferenceTable(spark, GIVEN)
    others = [append(row(40, "z", 5)), delete("id = 4"), append(row(41, "z", 6)), delete("id = 10")]
    remaining = list(others)
    store = table._store
    assert isinstance(store, IcebergTableStore)
    real = store._table.catalog.commit_table

    def commit_table(*arguments: Any) -> Any:
        if remaining:
            remaining.pop(0)(beside.table)
        return real(*arguments)

    store._table.catalog.commit_table = commit_table  # type: ignore[method-assign,assignment]
    outcome = table.delete("p = 'b' and k in (1, 3)")
    assert not remaining
    for each in others:
        each(truth)
    truth.delete("p = 'b' and k in (1, 3)")
    assert agreed_rows(table, piled=True) == truth.rows
    assert outcome.version == table.version
