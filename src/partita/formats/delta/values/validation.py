"""Stage 1: names and types against the schema, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo

from partita.algebra.plain import single, to_plain
from partita.algebra.schema import Schema
from partita.algebra.time_zones import rules_of
from partita.algebra.types import FLOATS, INSTANTS, NESTED, CharType, Field, Kind, VarcharType
from partita.errors import PartitionValueError, SchemaError, TimeZoneError, value_repr

PARTITIONABLE = frozenset(Kind) - NESTED - {Kind.OTHER, Kind.NULL, Kind.TIME, Kind.UUID, Kind.FIXED}
"""The types that Delta has and partitions by."""

_ORDINALS = INSTANTS | {Kind.DATE}


def zone_of(name: str) -> tzinfo:
    """The rules of the time zone of that name."""
    try:
        return rules_of(name)
    except TimeZoneError as error:
        raise PartitionValueError("time_zone", "the name of a time zone", value_repr(name)) from error


def validated(values: Mapping[str, object], schema: Schema, zone: tzinfo) -> list[tuple[Field, object]]:
    """Each partition column with its plain value, in the schema's order; what doesn't fit is refused by name.

    Floats stay floats, for their text needs the sign of zero, which the plain value drops.
    """
    named = _by_column(values, schema)
    return [(column, _checked(named[column.name], column, zone)) for column in schema]


def _by_column(values: Mapping[str, object], schema: Schema) -> dict[str, object]:
    if not isinstance(values, Mapping):
        raise PartitionValueError("values", "values by the names of columns", type(values).__name__)
    found: dict[str, object] = {}
    spelled: dict[str, str] = {}
    columns = {name.casefold(): name for name in schema.names}
    for given, value in values.items():
        name = columns.get(given.casefold()) if isinstance(given, str) else None
        if name is None:
            raise PartitionValueError(str(given), f"one of the columns {', '.join(schema.names)}", "no such column")
        if name in found:
            raise PartitionValueError(name, "one value", f"two, as {spelled[name]!r} and {given!r}")
        found[name], spelled[name] = value, given
    for name in schema.names:
        if name not in found:
            raise PartitionValueError(name, "a value", "none; for null give None")
    return found


def _checked(value: object, column: Field, zone: tzinfo) -> object:
    if column.type.kind not in PARTITIONABLE:
        raise PartitionValueError(column.name, "a type that Delta partitions by", str(column.type))
    if value is None:
        if not column.nullable:
            raise PartitionValueError(column.name, f"{column.type}, not null", "null")
        return None
    if column.type.kind in _ORDINALS and isinstance(value, int) and not isinstance(value, bool):
        bits = 31 if column.type.kind is Kind.DATE else 63
        if not -(2**bits) <= value < 2**bits:
            raise PartitionValueError(column.name, str(column.type), f"the number {value_repr(value)}")
        return value
    if column.type.kind is Kind.TIMESTAMP and isinstance(value, datetime) and value.utcoffset() is None:
        value = value.replace(tzinfo=zone)
    try:
        plain = to_plain(value, column.type)
    except SchemaError:
        raise PartitionValueError(
            column.name, str(column.type), f"{type(value).__name__} {value_repr(value)}"
        ) from None
    if column.type.kind in FLOATS:
        return _float(value, column)
    return _text(plain, column) if isinstance(plain, str | bytes) else plain


def _float(value: object, column: Field) -> float:
    """The number that the column holds: the nearest of 32 bits for a FLOAT, of which Python has no values.

    A number beyond the greatest float is refused; the nearest would be infinity.
    """
    number = float(value)  # type: ignore[arg-type] # to_plain took it for a number
    nearest = single(number) if column.type.kind is Kind.FLOAT else number
    if nearest is None:
        raise PartitionValueError(column.name, "a float of 32 bits", f"the double {number!r}")
    return nearest


def _text(plain: str | bytes, column: Field) -> str:
    """The text of a string or of bytes; what no path and no JSON can hold is refused with its place."""
    text = plain if isinstance(plain, str) else _decoded(plain, column)
    if isinstance(column.type, CharType | VarcharType) and len(text) > column.type.length:
        raise PartitionValueError(column.name, str(column.type), f"{len(text)} characters")
    for at, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            shown = text.encode("unicode_escape", "backslashreplace").decode()
            place = f"U+{ord(character):04X} at {at} of '{shown}'"
            raise PartitionValueError(column.name, "text that a path can hold", place)
    return text


def _decoded(octets: bytes, column: Field) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as error:
        place = f"byte {error.start} of {_escaped_bytes(octets)}"
        raise PartitionValueError(column.name, "bytes that are UTF-8", place) from None


def _escaped_bytes(octets: bytes) -> str:
    return "X'" + octets[:40].hex().upper() + ("…" if len(octets) > 40 else "") + "'"
