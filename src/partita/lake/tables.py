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
        """Create a table.

        Args:
            name: the name, with dots between its parts, such as `sales.orders`.
            schema: the columns: a `Schema`, or an Arrow or Spark schema.
            format: the name of the format.
            partition_by: partition functions or column names.
            properties: properties of the table, by the format's own names.

        Raises:
            TableExists: there is a table of that name.
            SchemaError: the format can't hold a type.
            SpecError: the format can't partition like this.
        """
        return self._tables.create(name, schema, format, partition_by, properties or {})

    def table(self, name: str) -> Table:
        """Open a table of the lake, or one that it adopted.

        Raises:
            TableMissing: there is no table of that name.
        """
        return self._tables.open(name)

    def tables(self) -> list[str]:
        """Return the sorted names of all tables, adopted ones included."""
        return self._tables.names()

    def sql(self, text: str, /, **rows: object) -> DataFrame | ChangeResult | Table:
        """Run one SQL statement on tables of the lake, whatever their format.

        SELECT returns a DataFrame; INSERT, UPDATE, DELETE and MERGE return what they changed; CREATE TABLE and ALTER
        TABLE ... PARTITION FIELD return the table. A name is looked up among `rows`, then among the tables of the lake,
        then among the views and tables of Spark: `lake.sql("MERGE INTO sales.orders t USING news s ON ...",
        news=frame)`.

        Args:
            text: the statement.
            rows: DataFrames, Arrow tables or pandas DataFrames that the statement can read by name.

        Raises:
            PredicateError: the statement can't be parsed, or a name can't be resolved.
            TableError: the statement is not supported.
        """
        from partita.sql import run_statement

        return run_statement(self, text, rows)
