"""The tables of a lake by name: those in its folder or its Iceberg catalog, and those that it adopted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from partita.errors import TableError, TableExists, TableMissing, value_repr
from partita.status.workspace import METADATA_FOLDER
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.algebra.freshness import FreshnessPolicy
    from partita.algebra.partition_sets import PartitionSet
    from partita.algebra.transforms import PartitionFunction
    from partita.assets.asset import Asset
    from partita.formats.lake_tables import LakeTables
    from partita.formats.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class TableDirectory:
    """Creates, opens and lists the tables of a lake.

    `catalog` are the properties of the Iceberg catalog; without it, that is a SQLite file in the lake's folder.
    """

    storage: Storage
    catalog: Mapping[str, str] | None = None
    time_zone: str = "UTC"

    def create(
        self,
        name: str,
        schema: object,
        format_name: str,
        partition_by: Sequence[PartitionFunction | str],
        properties: Mapping[str, str],
    ) -> Table:
        """Create a table. Raise `TableExists` if the name is taken, by an adopted table too."""
        from partita.assets.adopted_tables import is_adopted

        if is_adopted(self.storage, _check_name(name)):
            raise TableExists(f"{name}, which was adopted")
        return self._lake_tables.create_table(name, schema, format_name, partition_by, properties)

    def open(self, name: str) -> Table:
        """Open a table, in whatever format it is; an adopted one is opened where it is. Raise `TableMissing`."""
        from partita.assets.adopted_tables import adopted_table

        try:
            return self._lake_tables.find_table(_check_name(name))
        except TableMissing:
            table = adopted_table(self.storage, name, self.time_zone)
            if table is None:
                raise
            return table

    def names(self) -> list[str]:
        """Return the sorted names of all tables."""
        from partita.assets.adopted_tables import adopted_table_names

        return sorted(self._lake_tables.table_names(METADATA_FOLDER) | adopted_table_names(self.storage))

    def adopt(  # noqa: PLR0913, PLR0917 - the properties of a source
        self,
        uri: str,
        format_name: str,
        name: str | None,
        partitions: PartitionSet | None,
        catalog: Mapping[str, str] | None,
        freshness: timedelta | FreshnessPolicy | None,
    ) -> Asset:
        """Record where a table is that the lake doesn't own, and return it as a source.

        Raise `TableExists` if the name is taken: `open` would find the lake's own table of that name first.
        """
        from partita.assets.adopted_tables import adopt_table
        from partita.formats.registry import table_format

        if not isinstance(uri, str) or not uri:
            raise TableError(f"a table is adopted by its URI, or by its name in a catalog, not {value_repr(uri)}")
        default_name = uri if table_format(format_name).table_subfolder is None else _name_from_uri(uri)
        table_name = _check_name(default_name if name is None else name)
        self._lake_tables.check_name_is_free(table_name)
        return adopt_table(self.storage, table_name, uri, format_name, partitions, catalog, freshness)

    @property
    def _lake_tables(self) -> LakeTables:
        from partita.formats.lake_tables import LakeTables

        return LakeTables(self.storage, self.catalog, self.time_zone)


def _name_from_uri(uri: str) -> str:
    """Return the last segment of a table's URI, with other characters replaced, as its name."""
    return re.sub(r"[^\w-]+", "_", uri.rstrip("/").rpartition("/")[2]).strip("_-") or "adopted"


def _check_name(name: str) -> str:
    """Return a table's name. Raise `TableError` if it is not words joined by dots, or Partita's own folder."""
    from partita.formats.lake_tables import TABLE_NAME_PART

    parts = name.split(".") if isinstance(name, str) else []
    if not parts or not all(TABLE_NAME_PART.fullmatch(part) for part in parts):
        raise TableError(
            f"{value_repr(name)} is not a table name; use words of letters, digits, _ and -, joined by dots"
        )
    if parts[0] == METADATA_FOLDER:
        raise TableError(
            f"{value_repr(name)} is not a table name: in {METADATA_FOLDER} Partita keeps the status of partitions"
        )
    return name
