"""Foreign errors of catalogs and of file systems as Partita's own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from partita.errors import StorageError, TableError, TableMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

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
