"""Foreign errors of catalogs and of file systems as Partita's own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from partita.errors import StorageError, TableError, TableMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table


def refresh(table: Table) -> None:
    """Load what the catalog has now; a table that another was made in place of is refused."""
    with translated(table):
        try:
            table.refresh()
        except ValueError as error:
            raise TableError(
                f"{name_of(table)} was dropped and made anew since it was opened; open it again"
            ) from error


@contextmanager
def translated(table: Table) -> Iterator[None]:
    """Errors of reading and writing a table's metadata."""
    try:
        yield
    except StorageError:
        raise
    except NoSuchTableError as error:
        raise TableMissing(name_of(table)) from error
    except OSError as error:
        raise StorageError(f"can't read or write the metadata of {name_of(table)}: {error}") from error


def name_of(table: Table) -> str:
    """The table's name in its catalog."""
    return ".".join(table.name())


def delete_all(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files as far as that goes: what stays is an orphan, and no reason to fail."""
    with ThreadPoolExecutor(8, thread_name_prefix="partita-delete") as pool:
        list(pool.map(lambda path: _delete(io, path), paths))


def _delete(io: FileIO, path: str) -> None:
    # Each store has errors of its own, and none of them undoes what was committed.
    with suppress(Exception):
        io.delete(path)
