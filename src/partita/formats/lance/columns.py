"""The columns of a Lance table: the names and types that they can have, and how one is added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.errors import SchemaError, TableError
from partita.formats.lance.commit import ADD_COLUMN_OPERATION, WriteRequest
from partita.formats.lance.log import WriteOutcome
from partita.formats.lance.operations import leaf_operation
from partita.formats.lance.schema_json import schema_to_json

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore


def add_column(store: LanceTableStore, field: pa.Field) -> None:
    """Add a nullable column, null in all existing rows: one write over all leaves and the root namespace.

    Raises `SchemaError` for a column that the table can't have, `TableError` if its leaves can't take another column,
    and `CommitConflict` if another write added or dropped partitions.
    """
    store.recover_unfinished_write()
    table_version = store.current_version()
    _check_new_column(table_version, field)
    new_schema = schema_to_json(table_version.definition.arrow_schema.append(field))
    columns = schema_to_json(pa.schema([field]))
    file_indices = range(len(table_version.leaf_ids))
    operations = [replace(leaf_operation(table_version, index, "widen"), columns=columns) for index in file_indices]
    leaf_ids = {operation.id for operation in operations}

    def conflict_reason(outcome: WriteOutcome) -> str | None:
        changes_partitions = any(leaf_id not in leaf_ids or rows is None for leaf_id, _, rows, _ in outcome.leaves)
        return "added or dropped partitions" if changes_partitions else None

    request = WriteRequest(
        ADD_COLUMN_OPERATION, operations, conflict_reason, {"column": field.name}, schema_json=new_schema
    )
    table_version.committer().commit(request, table_version.log_snapshot)


def _check_new_column(table_version: LanceTableVersion, field: pa.Field) -> None:
    if not field.nullable:
        raise SchemaError(f"column {field.name!r} must be nullable, since it is null in the existing rows")
    if field.name.casefold() in {name.casefold() for name in table_version.schema.names}:
        raise SchemaError(f"the table has a column {field.name!r} already")
    if any(f.name.casefold() == field.name.casefold() for f in table_version.spec.fields):
        raise SchemaError(f"{field.name!r} is the name of a partition field")
    if _stores_partition_columns(table_version) and len(table_version.leaf_ids):
        raise TableError(
            "the table has only partition columns, which its leaves store because a leaf needs a column; create a new "
            f"table with {field.name!r}, and append the rows of this one"
        )
    check_column_name(field.name)
    check_column_type(field.name, field.type)


def _stores_partition_columns(table_version: LanceTableVersion) -> bool:
    """Whether all columns are partition columns, so that leaves store them."""
    sources = {f.source for f in table_version.spec.fields if f.transform.is_identity}
    return not table_version.definition.omitted_columns and sources >= set(table_version.definition.arrow_schema.names)


def check_column_name(name: str) -> None:
    """Raise `SchemaError` for a name that Lance or Partita reserve, or that Lance can't have."""
    if name.casefold() in _RESERVED_COLUMN_NAMES or name.startswith("__partita_"):
        raise SchemaError(f"column {name!r}: the name is taken by what Lance adds to rows; give it another")
    if not name or "." in name or "`" in name:
        raise SchemaError(f"column {name!r}: Lance takes no empty name, and none with a dot or a backquote")


_RESERVED_COLUMN_NAMES = frozenset({
    "_rowid", "_rowaddr", "_rowoffset", "_distance", "_score", "_relevance_score", "_row_created_at_version",
    "_row_last_updated_at_version",
})  # fmt: skip


def check_column_type(name: str, type_: pa.DataType) -> None:
    """Raise `SchemaError` for a type that Spark can't read and write without loss."""
    if isinstance(type_, pa.BaseExtensionType):
        raise SchemaError(f"column {name!r}: Spark has no type for {type_}; store {type_.storage_type} or text")
    if (pa.types.is_timestamp(type_) or pa.types.is_time(type_)) and type_.unit == "ns":
        raise SchemaError(f"column {name!r}: Spark has no nanoseconds, as {type_} has; use microseconds, or an int64")
    if pa.types.is_decimal(type_) and not (
        type_.precision <= _MAX_DECIMAL_PRECISION and 0 <= type_.scale <= type_.precision
    ):
        raise SchemaError(
            f"column {name!r}: Spark has no type for {type_}; a decimal has up to {_MAX_DECIMAL_PRECISION} digits, and "
            "a scale from 0 up to their number"
        )
    for i in range(type_.num_fields):
        inner = type_.field(i)
        if pa.types.is_struct(type_):
            check_column_name(inner.name)
        check_column_type(f"{name}.{inner.name}", inner.type)


_MAX_DECIMAL_PRECISION = 38
