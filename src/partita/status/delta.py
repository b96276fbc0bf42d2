"""The Delta tables of this room, through deltalake: opened, read into DuckDB, written, kept small.

Readers get the files of one version; writers that lose a race try again. What deltalake raises is translated here.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from partita.errors import Conflict, StorageError
from partita.status.engine import quoted

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

T = TypeVar("T")
Columns: TypeAlias = Mapping[str, str]
"""The columns of a relation: their names, and their types in DuckDB."""

RETRIES = 60
_SETTINGS = {
    "delta.checkpointInterval": "100",
    # Nobody travels back in these tables, and each commit that is kept makes them slower to open.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_VACUUM_HOURS = 48
"""How long files that no version names are left to slow readers, and to writers that are about to name them."""
_MEBI = 2**20
_TIERS = ((1_000_000, 512 * _MEBI), (10_000, 64 * _MEBI), (100, 2 * _MEBI))
"""Every so many versions, the files below a size are put together, so that none is copied more than a few times."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is, and how its store is reached."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the table is on a local disk."""
        return "://" not in self.uri


def open_table(place: Place, version: int | None = None) -> DeltaTable | None:
    """The table at its newest version, or at the one asked for; None where there is none."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    check_usable(place)
    with translated(place.uri):
        try:
            return DeltaTable(place.uri, version=version, storage_options=dict(place.options))
        except TableNotFoundError:
            return None


def open_version(place: Place, version: int) -> DeltaTable | None:
    """The table at a version; None where its log doesn't reach that far back any more."""
    with suppress(StorageError):
        return open_table(place, version)
    return None


def make_table(place: Place, schema: pa.Schema, partition_by: list[str]) -> DeltaTable:
    """The table, made if it isn't there; several may make it at once."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    check_usable(place)
    with translated(place.uri):
        try:
            return DeltaTable.create(
                place.uri,
                schema,
                mode="error",
                partition_by=partition_by,
                configuration=_SETTINGS,
                storage_options=dict(place.options),
            )
        except DeltaError:
            made = open_table(place)
            if made is None:
                raise
            return made


def check_usable(place: Place) -> None:
    """Refuse what deltalake would answer with a panic, or in another folder."""
    refused = _REFUSED.search(place.uri) if place.is_local else None
    if refused is not None:
        raise StorageError(
            f"status can't be kept at {place.uri}: deltalake can't name a folder with {refused[0]!r}; rename it"
        )
    if _process.is_forked:
        raise StorageError(
            "status was used in this process before it was forked, which deltalake's threads don't survive; start "
            'processes by multiprocessing.get_context("spawn")'
        )
    _process.is_used = True


_REFUSED = re.compile(r"[\[\]\\^|]|%[0-9A-Fa-f]{2}")


class _Process:
    """Whether deltalake was used in this process, and whether that was before it was forked."""

    is_used = False
    is_forked = False

    def fork(self) -> None:
        self.is_forked = self.is_used


_process = _Process()
os.register_at_fork(after_in_child=_process.fork)


def retried(operation: str, attempt: Callable[[], T]) -> T:
    """What `attempt` gives, once no other writer gets in its way; it must start from the newest version each time."""
    from deltalake.exceptions import CommitFailedError

    for number in range(RETRIES):
        try:
            return attempt()
        except CommitFailedError:
            time.sleep(random.uniform(0, min(1.0, 0.01 * 2**number)))  # noqa: S311 - no secret
    raise Conflict(operation, f"was first {RETRIES} times")


def tidy(table: DeltaTable) -> None:
    """Put small files together and let go of old ones, where it is this version's turn.

    Whoever commits a version does what is due at it. If that fails or its process dies, the next turn does it.
    """
    from deltalake.exceptions import DeltaError

    version = table.version()
    due = next((size for every, size in _TIERS if version and version % every == 0), None)
    if due is None:
        return
    with suppress(DeltaError, OSError):
        table.optimize.compact(target_size=due)
    if due > _TIERS[-1][1]:
        with suppress(DeltaError, OSError):
            table.vacuum(_VACUUM_HOURS, dry_run=False, enforce_retention_duration=False, full=True)


def paths_of(table: DeltaTable) -> dict[str, str]:
    """The files of a version, by path, and the kind of event that each holds; '' in a table without kinds."""
    actions = table.get_add_actions(flatten=True)
    paths = actions.column("path").to_pylist()
    is_kinded = "partition.kind" in actions.column_names
    kinds = actions.column("partition.kind").to_pylist() if is_kinded else [""] * len(paths)
    return dict(zip(paths, kinds, strict=True))


def make_view(
    connection: duckdb.DuckDBPyConnection, name: str, place: Place, paths: Mapping[str, str], columns: Columns
) -> None:
    """Make the files a relation of DuckDB, with these columns and `position`, a number for each row."""

    def selected(kind: str, at: int) -> str:
        """The columns of the files of a kind; positions in different kinds of files are different."""
        named = (f"{quoted(kind)} AS kind" if column == "kind" else column for column in columns)
        return f"{', '.join(named)}, ({at}::BIGINT << 56) + position AS position"

    kinds = sorted(set(paths.values()))
    parts = [
        _scan(connection, f"{name}_{at}", place, [p for p, k in paths.items() if k == kind], selected(kind, at))
        for at, kind in enumerate(kinds)
    ]
    if not parts:
        nothing = ", ".join(f"NULL::{type_} AS {column}" for column, type_ in columns.items())
        parts = [f"SELECT {nothing}, 0::BIGINT AS position WHERE false"]
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _scan(connection: duckdb.DuckDBPyConnection, name: str, place: Place, paths: list[str], selected: str) -> str:
    if not place.is_local:
        connection.register(name, _loaded(place, paths))
        return f"SELECT {selected} FROM {name}"  # noqa: S608 - our own names
    files = ", ".join(quoted(f"{_escaped(place.uri)}/{path}") for path in paths)
    position = "(file_index::BIGINT << 36) + file_row_number AS position"
    scan = f"read_parquet([{files}], hive_partitioning = false, file_row_number = true)"
    return f"SELECT {selected} FROM (SELECT *, {position} FROM {scan})"  # noqa: S608 - our own names


def _escaped(path: str) -> str:
    """A path with nothing in it that DuckDB would take for a pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _loaded(place: Place, paths: list[str]) -> pa.Table:
    """The files of an object store, which DuckDB itself can't reach."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    with translated(place.uri):
        store = PyFileSystem(DeltaStorageHandler(place.uri, dict(place.options)))
        tables = [pq.read_table(path, filesystem=store, partitioning=None) for path in paths]
    table = pa.concat_tables(tables, promote_options="default")
    return table.append_column("position", pa.array(range(table.num_rows), pa.int64()))


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """Foreign errors as `StorageError`s that say which table; a lost race stays what it is, for `retried`."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"the table {uri} can't be used: {_first_line(error)}") from error


def _first_line(error: Any) -> str:
    return str(error).partition("\n")[0]
