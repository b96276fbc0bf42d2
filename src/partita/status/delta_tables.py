"""The Delta tables of the ledger and of status, through deltalake: open, read into DuckDB, commit, compact.

Readers get the files of one version; writers that lose a race retry. Errors of deltalake are translated here.
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

from partita.errors import CommitConflict, StorageError
from partita.status.duckdb_engine import create_view
from partita.status.duckdb_sql import Sql, comma_separated, empty_select, literal, name, sql, union_all

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from deltalake import DeltaTable

T = TypeVar("T")
ColumnTypes: TypeAlias = Mapping[str, str]
"""The columns of a relation: names and DuckDB types."""

MAX_COMMIT_ATTEMPTS = 60
_TABLE_PROPERTIES = {
    "delta.checkpointInterval": "100",
    # Nobody reads old versions of these tables, and each commit in the log makes them slower to open.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
_VACUUM_HOURS = 48
"""How long unreferenced files are kept, for slow readers and for writers that are about to commit them."""
_MIB = 2**20
_COMPACTION_TIERS = ((1_000_000, 512 * _MIB), (10_000, 64 * _MIB), (100, 2 * _MIB))
"""The number of versions between two compactions of files below a size, so that a row is copied only a few times."""


_EVERY_ROW = Sql("true")


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The URI of a table and the options of its object store."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the table is on a local disk."""
        return "://" not in self.uri


def open_table(location: TableLocation, version: int | None = None) -> DeltaTable | None:
    """Open a table at its newest version, or at the given one; None where there is no table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    check_location(location)
    with translate_delta_errors(location.uri):
        try:
            return DeltaTable(location.uri, version=version, storage_options=dict(location.options))
        except TableNotFoundError:
            return None


def open_table_version(location: TableLocation, version: int) -> DeltaTable | None:
    """Open a table at a version; None where its log no longer reaches back that far."""
    with suppress(StorageError):
        return open_table(location, version)
    return None


def create_or_open_table(location: TableLocation, schema: pa.Schema, partition_by: list[str]) -> DeltaTable:
    """Create a table, or open it where it exists; several processes may create it at once."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    check_location(location)
    with translate_delta_errors(location.uri):
        try:
            return DeltaTable.create(
                location.uri,
                schema,
                mode="error",
                partition_by=partition_by,
                configuration=_TABLE_PROPERTIES,
                storage_options=dict(location.options),
            )
        except DeltaError:
            table = open_table(location)
            if table is None:
                raise
            return table


def check_location(location: TableLocation) -> None:
    """Raise `StorageError` for a location at which deltalake would panic or use another folder."""
    bad_character = _UNSUPPORTED_CHARACTERS.search(location.uri) if location.is_local else None
    if bad_character is not None:
        raise StorageError(
            f"status can't be stored at {location.uri}: deltalake can't use a folder with {bad_character[0]!r} in its "
            "name; rename it"
        )
    if _fork_guard.is_forked:
        raise StorageError(
            "status was used in this process before it was forked, which deltalake's threads don't survive; start "
            'processes by multiprocessing.get_context("spawn")'
        )
    _fork_guard.is_used = True


_UNSUPPORTED_CHARACTERS = re.compile(r"[\[\]\\^|]|%[0-9A-Fa-f]{2}")


class _ForkGuard:
    """Remembers whether deltalake was used in this process before it was forked."""

    is_used = False
    is_forked = False

    def mark_forked(self) -> None:
        self.is_forked = self.is_used


_fork_guard = _ForkGuard()
os.register_at_fork(after_in_child=_fork_guard.mark_forked)


def retry_commit(operation: str, commit: Callable[[], T]) -> T:
    """Return what `commit` returns, calling it again while another writer wins the race.

    `commit` must start from the newest version each time. Raises `CommitConflict` after too many attempts.
    """
    from deltalake.exceptions import CommitFailedError

    for number in range(MAX_COMMIT_ATTEMPTS):
        try:
            return commit()
        except CommitFailedError:
            time.sleep(random.uniform(0, min(1.0, 0.01 * 2**number)))  # noqa: S311 - no secret
    raise CommitConflict(operation, f"was first {MAX_COMMIT_ATTEMPTS} times")


def maintain_table(table: DeltaTable) -> None:
    """Compact small files and vacuum unreferenced ones, where that is due at the table's version.

    The process that commits a version does the maintenance due at it. If that fails, the next due version repeats it.
    """
    from deltalake.exceptions import DeltaError

    version = table.version()
    target_size = next((size for interval, size in _COMPACTION_TIERS if version and version % interval == 0), None)
    if target_size is None:
        return
    with suppress(DeltaError, OSError):
        table.optimize.compact(target_size=target_size)
    if target_size > _COMPACTION_TIERS[-1][1]:
        with suppress(DeltaError, OSError):
            table.vacuum(_VACUUM_HOURS, dry_run=False, enforce_retention_duration=False, full=True)


def data_files_of(table: DeltaTable) -> dict[str, str]:
    """Return the files of a table by path, with the event kind that each holds; '' in a table without kinds."""
    actions = table.get_add_actions(flatten=True)
    paths = actions.column("path").to_pylist()
    has_kinds = "partition.kind" in actions.column_names
    kinds = actions.column("partition.kind").to_pylist() if has_kinds else [""] * len(paths)
    return dict(zip(paths, kinds, strict=True))


def create_files_view(  # noqa: PLR0913, PLR0917 - a relation: its name, files, columns and rows
    connection: duckdb.DuckDBPyConnection,
    view: Sql,
    location: TableLocation,
    data_files: Mapping[str, str],
    columns: ColumnTypes,
    condition: Sql = _EVERY_ROW,
) -> None:
    """Create a view of the rows in some data files that meet a condition.

    It has these columns and `position`, a number for each row.
    """
    kinds = sorted(set(data_files.values()))
    selects = []
    for i, kind in enumerate(kinds):
        paths = [path for path, file_kind in data_files.items() if file_kind == kind]
        rows = _scan_sql(connection, Sql(f"{view}_{i}"), location, paths)
        selects.append(
            sql(
                # The files of each kind number their rows from 0.
                "SELECT {columns}, ({i}::BIGINT << 56) + position AS position FROM {rows}",
                columns=comma_separated(
                    sql("{kind} AS kind", kind=kind) if column == "kind" else name(column) for column in columns
                ),
                i=i,
                rows=rows,
            )
        )
    rows = union_all(selects) or empty_select([*columns.items(), ("position", "BIGINT")])
    create_view(connection, view, sql("SELECT * FROM ({rows}) WHERE {condition}", rows=rows, condition=condition))


def _scan_sql(connection: duckdb.DuckDBPyConnection, relation: Sql, location: TableLocation, paths: list[str]) -> Sql:
    """Return a relation of the rows in some files of a table, with `position`."""
    if not location.is_local:
        connection.register(relation, _read_object_store_files(location, paths))
        return relation
    return sql(
        """(SELECT *, (file_index::BIGINT << 36) + file_row_number AS position
            FROM read_parquet([{files}], hive_partitioning = false, file_row_number = true))""",
        files=[literal(f"{_escape_glob(location.uri)}/{path}") for path in paths],
    )


def _escape_glob(path: str) -> str:
    """Escape what DuckDB would take for a glob pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _read_object_store_files(location: TableLocation, paths: list[str]) -> pa.Table:
    """Read files of an object store through deltalake, as DuckDB itself can't reach it."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    with translate_delta_errors(location.uri):
        store = PyFileSystem(DeltaStorageHandler(location.uri, dict(location.options)))
        tables = [pq.read_table(path, filesystem=store, partitioning=None) for path in paths]
    table = pa.concat_tables(tables, promote_options="default")
    return table.append_column("position", pa.array(range(table.num_rows), pa.int64()))


@contextmanager
def translate_delta_errors(uri: str) -> Iterator[None]:
    """Raise errors of deltalake as `StorageError` with the table's URI; `retry_commit` handles a lost race itself."""
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
