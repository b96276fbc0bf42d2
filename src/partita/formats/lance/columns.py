"""The columns and the partitioning of a Lance table, as the root namespace defines them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec
from partita.algebra.spec_text import parse_spec
from partita.arrow.schema import to_schema
from partita.errors import SchemaError
from partita.formats.lance.schema_json import schema_from_json

UNPARTITIONED_LEAF_NAME = "data"
"""The name of the only leaf of a table without partition fields."""


@dataclass(frozen=True, slots=True)
class LanceTableDefinition:
    """The columns in Arrow's types and in Partita's, and the partition spec."""

    arrow_schema: pa.Schema
    schema: Schema
    spec: PartitionSpec

    @property
    def omitted_columns(self) -> frozenset[str]:
        """The columns that leaves don't store because their names hold them: identity fields, unless all are."""
        sources = {f.source for f in self.spec.fields if f.transform.is_identity}
        names = {name for name in self.arrow_schema.names if name in sources}
        return frozenset() if len(names) == len(self.arrow_schema) else frozenset(names)

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns that leaves store."""
        return pa.schema([f for f in self.arrow_schema if f.name not in self.omitted_columns])


@lru_cache(maxsize=64)
def table_definition(schema: str, partition_columns: str) -> LanceTableDefinition:
    """Parse the properties of the root namespace."""
    arrow = schema_from_json(schema)
    logical = to_schema(arrow)
    return LanceTableDefinition(arrow, logical, parse_spec(partition_columns, logical, "lance"))


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
