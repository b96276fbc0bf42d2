"""A new Lance table: its root namespace, and the first entry of its log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

from partita.algebra.schema import check_distinct
from partita.algebra.spec import PartitionSpec
from partita.algebra.spec_text import spec_json
from partita.algebra.transforms import PartitionFunction
from partita.arrow.schema import to_arrow, to_schema
from partita.errors import SchemaError, SpecError, TableExists, value_repr
from partita.formats.lance.log import Ending, Log
from partita.formats.lance.namespace import IS_PARTITIONED, PARTITION_COLUMNS, SCHEMA, create_root
from partita.formats.lance.schema_json import schema_to_json
from partita.storage import Storage


def create(
    storage: Storage, schema: object, functions: Sequence[PartitionFunction | str], properties: Mapping[str, str]
) -> None:
    """Make a new table; one that exists is `TableExists`.

    An Arrow schema is kept as it is, so that vectors keep their size; any other is put into Arrow's types.
    """
    arrow = arrow_schema(schema)
    spec = PartitionSpec.of(functions, to_schema(arrow), "lance")
    nested = [f.source for f in spec.fields if f.source not in arrow.names]
    if nested:
        raise SpecError(f"{nested[0]} is inside a struct; a Lance table is partitioned by whole columns")
    _check_properties(properties)
    log = Log(storage)
    if log.ending(0) is not None:
        raise TableExists(storage.uri)
    own = {IS_PARTITIONED: "true", PARTITION_COLUMNS: spec_json(spec), SCHEMA: schema_to_json(arrow)}
    create_root(storage, {**properties, **own})
    log.end(Ending(0, finished=True, operation="create", at=time.time_ns() // 1_000_000))


def _check_properties(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if name in (IS_PARTITIONED, PARTITION_COLUMNS, SCHEMA):
            raise SpecError(f"the property {name} is made from the table's columns and partitioning")
        if name.startswith(_OWN):
            raise SpecError(f"there is no property {name}; those of your own begin otherwise")
        if not isinstance(value, str):
            raise SpecError(f"the property {name} is a text, not {value_repr(value)}")


_OWN = ("lance.partitioning.", "partita.")


def arrow_schema(schema: object) -> pa.Schema:
    """The schema in Arrow's types; names that differ in case alone are refused, for Spark can't tell them apart."""
    if isinstance(schema, pa.Schema):
        arrow = schema.remove_metadata()
    else:
        arrow = pa.schema([pa.field(f.name, to_arrow(f.type), f.nullable) for f in to_schema(schema)])
    check_distinct(arrow.names)
    if not len(arrow):
        raise SchemaError("a table has at least one column")
    for field in arrow:
        check_name(field.name)
        check_type(field.name, field.type)
    return arrow


def check_name(name: str) -> None:
    """Refuse a name that means something else to Lance or to Partita."""
    if name.casefold() in _RESERVED or name.startswith("__partita_"):
        raise SchemaError(f"column {name!r}: the name is taken by what Lance adds to rows; give it another")
    if not name or "." in name or "`" in name:
        raise SchemaError(f"column {name!r}: Lance takes no empty name, and none with a dot or a backquote")


_RESERVED = frozenset({
    "_rowid", "_rowaddr", "_rowoffset", "_distance", "_score", "_relevance_score", "_row_created_at_version",
    "_row_last_updated_at_version",
})  # fmt: skip


def check_type(name: str, type_: pa.DataType) -> None:
    """Refuse a type of which Spark can't hold every value: a column of it could be neither written nor read whole."""
    if isinstance(type_, pa.BaseExtensionType):
        raise SchemaError(f"column {name!r}: Spark has no type for {type_}; store {type_.storage_type} or text")
    if (pa.types.is_timestamp(type_) or pa.types.is_time(type_)) and type_.unit == "ns":
        raise SchemaError(f"column {name!r}: Spark has no nanoseconds, as {type_} has; use microseconds, or an int64")
    if pa.types.is_decimal(type_) and not (type_.precision <= _DIGITS and 0 <= type_.scale <= type_.precision):
        raise SchemaError(
            f"column {name!r}: Spark has no type for {type_}; a decimal has up to {_DIGITS} digits, and a scale "
            "from 0 up to their number"
        )
    for at in range(type_.num_fields):
        inner = type_.field(at)
        if pa.types.is_struct(type_):
            check_name(inner.name)
        check_type(f"{name}.{inner.name}", inner.type)


_DIGITS = 38
