"""The rows of a table as a list of Python dicts: what every format is compared with."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import PartitaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from partita.formats.table_change import TableChange
    from partita.formats.table_version import TableVersion

Row = dict[str, Any]
SCHEMA = pt.Schema.of({"id": "long", "p": "string", "n": "int"})
ARROW_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", pa.int32())])
ROWS: list[Row] = [
    {"id": 1, "p": "a", "n": 10},
    {"id": 2, "p": "a", "n": None},
    {"id": 3, "p": "b", "n": 30},
    {"id": 4, "p": None, "n": 40},
]


def arrow_rows(rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table of the suite's schema."""
    return pa.Table.from_pylist(list(rows), ARROW_SCHEMA)


def read_rows(table: pt.Table, where: str | None = None) -> list[Row]:
    """Return the rows of a table, by id."""
    return sorted(table.read(where).toArrow().to_pylist(), key=lambda row: row["id"])


def row_ids(rows: Any) -> list[Any]:
    """Return the sorted ids of a DataFrame."""
    return sorted(rows.toArrow()["id"].to_pylist())


def refusal_of(call: Callable[[], object]) -> PartitaError | None:
    """Return the error of Partita with which a call is refused; None if it is not."""
    try:
        call()
    except PartitaError as error:
        return error
    return None


def files_on_disk(lake: pt.Lake) -> dict[str, str]:
    """Return the digest of every file below a lake's folder, by its path."""
    root = Path(lake.uri)
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def data_files(lake: pt.Lake) -> set[str]:
    """Return the digests of the files below a lake's folder that may hold rows, as a commit may move them."""
    suffixes = (".parquet", ".lance", ".arrow", ".bin", ".staged")
    return {digest for path, digest in files_on_disk(lake).items() if path.endswith(suffixes)}


@contextmanager
def assert_nothing_written(lake: pt.Lake) -> Iterator[None]:
    """Check that a block changes no file of a lake."""
    before = files_on_disk(lake)
    yield
    assert files_on_disk(lake) == before


@contextmanager
def replaced_commit(
    table: pt.Table, commit: Callable[[Callable[[TableVersion, TableChange], int], TableVersion, TableChange], int]
) -> Iterator[None]:
    """Call `commit(real_commit, table_version, change)` for every commit to a table of the same format in a block."""
    kind: type[TableVersion] = type(table._store.current_version())
    real_commit = kind.commit
    kind.commit = lambda self, change: commit(real_commit, self, change)  # type: ignore[method-assign] # put back below
    try:
        yield
    finally:
        kind.commit = real_commit  # type: ignore[method-assign]


@contextmanager
def concurrent_change(table: pt.Table, change_table: Callable[[], object]) -> Iterator[None]:
    """A block in which another writer commits after the table was read and before the block's change is committed."""
    remaining = [change_table]

    def commit(real: Callable[[TableVersion, TableChange], int], version: TableVersion, change: TableChange) -> int:
        if remaining:
            remaining.pop()()
        return real(version, change)

    with replaced_commit(table, commit):
        yield
    assert not remaining, "nothing was committed"


@contextmanager
def expected_conflict(*, conflicts: bool = True) -> Iterator[None]:
    """Check that a block is refused as a conflict that names what was tried and what another writer did, or is not."""
    if not conflicts:
        yield
        return
    with pytest.raises(pt.CommitConflict) as caught:
        yield
    assert caught.value.operation
    assert caught.value.reason
    assert "nothing was changed here, try again" in str(caught.value)


def written_change(table: pt.Table, rows: pa.Table) -> TableChange:
    """Write the files of an append, and return the change that commits them."""
    changes = []

    def keep(_: object, version: TableVersion, change: TableChange) -> int:
        changes.append(change)
        return version.version

    with replaced_commit(table, keep):
        table.append(rows)
    [change] = changes
    return change
