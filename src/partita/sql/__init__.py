"""SQL statements on the tables of a lake.

| module | what it holds |
|---|---|
| `tokens` | the text of a statement as sqlglot's tokens, read from left to right |
| `statements` | a class for each kind of statement |
| `parser` | statements from their text |
| `name_resolution` | which table a name in an expression means, and the expression with other qualifiers |
| `queries` | the tables that a query reads, and the predicate that its WHERE implies for one of them |
| `ddl` | CREATE TABLE and ALTER TABLE, which need no JVM |
| `spark` | queries, INSERT, UPDATE, DELETE and MERGE |

sqlglot parses every text and gives the positions of names in it. Spark gets the author's own text with those names
replaced, never text that sqlglot has written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from partita.formats.table import Table
from partita.sql.ddl import TableCatalog, alter_partition_fields, create_table
from partita.sql.parser import parse_statement
from partita.sql.statements import AlterPartitionStatement, CreateTableStatement

if TYPE_CHECKING:
    from partita.formats.operations.write_operation import ChangeResult
    from partita.spark.rows import DataFrame

__all__ = ["run_statement"]


def run_statement(
    tables: TableCatalog, text: str, named_rows: Mapping[str, object]
) -> DataFrame | ChangeResult | Table:
    """Run one statement: return the rows of a query, the result of a change, or the table that DDL created or altered.

    `named_rows` are rows of Spark, Arrow or pandas that the statement reads by name. Only statements other than CREATE
    and ALTER start Spark.
    """
    statement = parse_statement(text)
    if isinstance(statement, CreateTableStatement):
        return create_table(tables, statement)
    if isinstance(statement, AlterPartitionStatement):
        return alter_partition_fields(tables, statement)

    from partita.spark.session import new_session_time_zone
    from partita.sql.spark import StatementRunner

    with new_session_time_zone(tables.time_zone):
        return StatementRunner(tables, named_rows).run(statement)
