"""Stage 1: check names and types of partition values against the schema, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

from partita.algebra.physical_values import round_to_float32, to_physical_value
from partita.algebra.schema import Schema
from partita.algebra.time_zones import find_zone_rules
from partita.algebra.types import FLOAT_KINDS, NESTED_KINDS, TIMESTAMP_KINDS, CharType, Field, TypeKind, VarcharType
from partita.errors import PartitionValueError, SchemaError, TimeZoneError, value_repr

PARTITION_KINDS = (
    frozenset(TypeKind) - NESTED_KINDS - {TypeKind.OTHER, TypeKind.NULL, TypeKind.TIME, TypeKind.UUID, TypeKind.FIXED}
)
"""The types of columns that can partition a Delta table."""

_ORDINAL_KINDS = TIMESTAMP_KINDS | {TypeKind.DATE}


def time_zone_rules(name: str) -> tzinfo:
    """Return the time zone of a name; raise `PartitionValueError` if there is none."""
    try:
        return find_zone_rules(name)
    except TimeZoneError as error:
        raise PartitionValueError("time_zone", "the name of a time zone", value_repr(name)) from error


def validate_partition_values(values: Mapping[str, object], schema: Schema, zone: tzinfo) -> list[tuple[Field, object]]:
    """Return each partition column with its physical value, in the schema's order.

    Floats stay floats, because their text needs the sign of zero, which the physical value drops. Raises
    `PartitionValueError`, naming the column, for a value that doesn't fit.
    """
    by_column = _values_by_column(values, schema)
    return [(column, _validate_value(by_column[column.name], column, zone)) for column in schema]


def _values_by_column(values: Mapping[str, object], schema: Schema) -> dict[str, object]:
    if not isinstance(values, Mapping):
        raise PartitionValueError("values", "values by the names of columns", type(values).__name__)
    by_column: dict[str, object] = {}
    spellings: dict[str, str] = {}
    columns = {name.casefold(): name for name in schema.names}
    for spelling, value in values.items():
        name = columns.get(spelling.casefold()) if isinstance(spelling, str) else None
        if name is None:
            raise PartitionValueError(str(spelling), f"one of the columns {', '.join(schema.names)}", "no such column")
        if name in by_column:
            raise PartitionValueError(name, "one value", f"two, as {spellings[name]!r} and {spelling!r}")
        by_column[name], spellings[name] = value, spelling
    for name in schema.names:
        if name not in by_column:
            raise PartitionValueError(name, "a value", "none; for null give None")
    return by_column


def _validate_value(value: object, column: Field, zone: tzinfo) -> object:
    if column.type.kind not in PARTITION_KINDS:
        raise PartitionValueError(column.name, "a type that Delta partitions by", str(column.type))
    if value is None:
        if not column.nullable:
            raise PartitionValueError(column.name, f"{column.type}, not null", "null")
        return None
    if column.type.kind in _ORDINAL_KINDS and isinstance(value, int) and not isinstance(value, bool):
        bits = 31 if column.type.kind is TypeKind.DATE else 63
        if not -(2**bits) <= value < 2**bits:
            raise PartitionValueError(column.name, str(column.type), f"the number {value_repr(value)}")
        return value
    if column.type.kind is TypeKind.TIMESTAMP and isinstance(value, datetime) and value.utcoffset() is None:
        value = value.replace(tzinfo=zone)
    try:
        plain = to_physical_value(value, column.type)
    except SchemaError:
        raise PartitionValueError(
            column.name, str(column.type), f"{type(value).__name__} {value_repr(value)}"
        ) from None
    if column.type.kind in FLOAT_KINDS:
        return _validate_float(value, column)
    return _validate_text(plain, column) if isinstance(plain, str | bytes) else plain


def _validate_float(value: object, column: Field) -> float:
    """Return the number that the column stores: the nearest 32-bit float for FLOAT.

    Raises `PartitionValueError` for a number beyond the greatest float, which would become infinity.
    """
    number = float(value)  # type: ignore[arg-type] # to_physical_value checked it
    nearest = round_to_float32(number) if column.type.kind is TypeKind.FLOAT else number
    if nearest is None:
        raise PartitionValueError(column.name, "a float of 32 bits", f"the double {number!r}")
    return nearest


def _validate_text(plain: str | bytes, column: Field) -> str:
    """Return the text of a string or of bytes; raise `PartitionValueError` for text that no path or JSON can hold."""
    text = plain if isinstance(plain, str) else _decode_bytes(plain, column)
    if isinstance(column.type, CharType | VarcharType) and len(text) > column.type.length:
        raise PartitionValueError(column.name, str(column.type), f"{len(text)} characters")
    for index, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            escaped_text = text.encode("unicode_escape", "backslashreplace").decode()
            actual = f"U+{ord(character):04X} at {index} of '{escaped_text}'"
            raise PartitionValueError(column.name, "text that a path can hold", actual)
    return text


def _decode_bytes(octets: bytes, column: Field) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        actual = f"byte {error.start} of {_escaped_bytes(octets)}"
        raise PartitionValueError(column.name, "bytes that are UTF-8", actual) from None


def _escaped_bytes(octets: bytes) -> str:
    return "X'" + octets[:40].hex().upper() + ("…" if len(octets) > 40 else "") + "'"
