"""The tables of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partita.algebra.transforms import PartitionFunction
from partita.lake.base import LakeBase

if TYPE_CHECKING:
    from partita.formats.operations.write_operation import ChangeResult
    from partita.formats.table import Table
    from partita.spark.rows import DataFrame


class LakeTableMethods(LakeBase):
    """Create, open and query the tables of a lake."""

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002 - the public name
        partition_by: Sequence[PartitionFunction | str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create a table. `schema` is Partita's, Arrow's or Spark's; `properties` are the format's own."""
        return self._tables.create(name, schema, format, partition_by, properties or {})

    def table(self, name: str) -> Table:
        """Open a table, whatever its format; an adopted one is opened where it is."""
        return self._tables.open(name)

    def tables(self) -> list[str]:
        """Return the sorted names of all tables, adopted ones included."""
        return self._tables.names()

    def sql(self, text: str, /, **rows: object) -> DataFrame | ChangeResult | Table:
        """Run one SQL statement on tables of the lake, whatever their format.

        SELECT returns a DataFrame; INSERT, UPDATE, DELETE and MERGE return what they changed; CREATE TABLE and ALTER
        TABLE ... PARTITION FIELD return the table. A name refers to one of the `rows`, else to a table of the lake,
        else to a view or a table of Spark: `lake.sql("MERGE INTO sales.orders t USING news s ON ...", news=frame)`.
        """
        from partita.sql import run_statement

        return run_statement(self, text, rows)
