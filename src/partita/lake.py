"""A lake: the folder where tables live, each under its dotted name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partita.algebra.transforms import PartitionFunction
from partita.errors import TableError
from partita.formats.opening import Tables
from partita.formats.table import Table
from partita.storage import Storage

if TYPE_CHECKING:
    from partita.formats.on_spark.job import Outcome
    from partita.spark.rows import DataFrame

_PART = re.compile(r"\w[\w-]*")


class Lake:
    """A folder of tables, on a disk or in an object store (`s3://`, `gs://`, `abfss://`).

    `options` are the settings of the object store, by obstore's names. `catalog` is where Iceberg tables are kept, by
    pyiceberg's names; without it that is a SQLite file in the folder.
    """

    def __init__(
        self,
        uri: str,
        *,
        tenant: str = "default",
        workspace: str = "default",
        options: Mapping[str, str] | None = None,
        catalog: Mapping[str, str] | None = None,
    ) -> None:
        self.storage = Storage.at(uri, options)
        self._tables = Tables(self.storage, catalog)
        self.tenant = tenant
        self.workspace = workspace

    def __repr__(self) -> str:
        return f"<Lake {self.uri}>"

    @property
    def uri(self) -> str:
        """Where the lake is."""
        return self.storage.uri

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002
        partition_by: Sequence[PartitionFunction | str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Make a table; `schema` is Partita's, Arrow's or Spark's, and `properties` are the format's own settings."""
        return Table(name, self._tables.create(_checked(name), schema, format, partition_by, properties or {}))

    def table(self, name: str) -> Table:
        """The table of that name, in the format that it is in."""
        return Table(name, self._tables.find(_checked(name)))

    def sql(self, text: str, /, **rows: object) -> DataFrame | Outcome | Table:
        """Run one SQL statement on tables of the lake, whatever their format.

        A SELECT gives a DataFrame; INSERT, UPDATE, DELETE and MERGE say what they did; CREATE TABLE and ALTER TABLE ...
        PARTITION FIELD give the table. A name means `rows` that are given by that name, or else a table of the lake, or
        else a view or a table of Spark's: `lake.sql("MERGE INTO sales.orders t USING news s ON ...", news=frame)`.
        """
        from partita.sql.run import run

        return run(self, text, rows)


def _checked(name: str) -> str:
    parts = name.split(".") if isinstance(name, str) else []
    if not parts or not all(_PART.fullmatch(part) for part in parts):
        raise TableError(f"{name!r} is no table's name; use words of letters, digits, _ and -, with dots between")
    return name
