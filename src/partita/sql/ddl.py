"""CREATE TABLE, and ALTER TABLE for partition fields as in Iceberg; neither needs a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionField
from partita.algebra.spec_text import parse_spec
from partita.algebra.transforms import PartitionFunction
from partita.algebra.type_text import parse_type
from partita.algebra.types import Field
from partita.errors import PartitaError, SpecError, TableExists
from partita.formats.registry import table_format
from partita.formats.table import Table
from partita.sql.statements import AlterPartitionStatement, CreateTableStatement


class TableCatalog(Protocol):
    """What opens and creates tables by name: a lake."""

    time_zone: str

    def table(self, name: str) -> Table: ...

    def create_table(
        self,
        name: str,
        schema: object,
        *,
        format: str,  # noqa: A002
        partition_by: Sequence[PartitionFunction | str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> Table: ...


def create_table(tables: TableCatalog, statement: CreateTableStatement) -> Table:
    """Create the table; with IF NOT EXISTS, return the table that exists unchanged."""
    schema = Schema(tuple(Field(name, parse_type(text), nullable) for name, text, nullable in statement.columns))
    family = table_format(statement.format).family
    fields = parse_spec(statement.partition_by, schema, family).fields
    try:
        return tables.create_table(
            str(statement.table),
            schema,
            format=statement.format,
            partition_by=[field.function for field in fields],
            properties=dict(statement.properties),
        )
    except TableExists:
        if not statement.if_not_exists:
            raise
        return tables.table(str(statement.table))


def alter_partition_fields(tables: TableCatalog, statement: AlterPartitionStatement) -> Table:
    """Change the partition spec for files that are written from now on.

    REPLACE with the same function under another name renames the field, as in Iceberg.
    """
    table = tables.table(str(statement.table))
    new_field = None if statement.add is None else _partition_function(statement.add, table)
    old_field = None if statement.drop is None else _find_partition_field(statement.drop, table)
    if new_field is not None and old_field is not None and _is_same_field(new_field, old_field):
        if new_field.name != old_field.name:
            table.evolve(rename={old_field.name: new_field.name})
    else:
        table.evolve(add=[] if new_field is None else [new_field], drop=[] if old_field is None else [old_field.name])
    return table


def _is_same_field(function: PartitionFunction, field: PartitionField) -> bool:
    return (function.source, function.transform) == (field.source, field.transform)


def _partition_function(text: str, table: Table) -> PartitionFunction:
    fields = parse_spec(text, table.schema, table.spec.family).fields
    if len(fields) != 1:
        raise SpecError(f"one partition field at a time; {text!r} has {len(fields)}")
    return fields[0].function


def _find_partition_field(text: str, table: Table) -> PartitionField:
    """Return the partition field of that name, or else of that function; raise `SpecError` if there is none."""
    fields = [field for field in table.spec.fields if not field.transform.is_void]
    name = text[1:-1].replace("``", "`") if text.startswith("`") and text.endswith("`") else text
    for field in fields:
        if field.name.casefold() == name.casefold():
            return field
    field_names = ", ".join(field.name for field in fields) or "none"
    problem = f"there is no partition field {text}; the table has {field_names}"
    try:
        function = _partition_function(text, table)
    except PartitaError:
        raise SpecError(problem) from None
    for field in fields:
        if _is_same_field(function, field):
            return field
    raise SpecError(problem)
