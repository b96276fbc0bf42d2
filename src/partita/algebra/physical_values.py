"""Physical values.

A *physical value* is the `bool`, `int`, `str` or `bytes` that represents a value of a logical type and sorts as Spark
sorts the value, so that all other modules need only one order:

| type | Python value | physical value |
|---|---|---|
| boolean | `bool` | the same |
| byte, short, int, long | `int` | the same |
| float, double | `float` | its rank in Spark's order: -0.0 equals 0.0, NaN is above infinity |
| decimal(p,s) | `Decimal` | the unscaled `int` |
| date | `date` | days since 1970-01-01 |
| time | `time` | microseconds since midnight |
| timestamp | aware `datetime` | microseconds since 1970-01-01T00:00:00Z |
| timestamp_ntz | naive `datetime` | microseconds since 1970-01-01T00:00:00 |
| string | `str` | the same: order by code point is order by UTF-8 byte |
| binary, fixed(n) | `bytes` | the same |
| uuid | `UUID` | its 16 bytes |
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TypeAlias, cast
from uuid import UUID

from partita.algebra.types import (
    BINARY,
    BINARY_KINDS,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    LONG,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_KINDS,
    TIMESTAMP_NTZ,
    UUID_TYPE,
    DecimalType,
    Field,
    FixedType,
    LogicalType,
    TypeKind,
    decimal_type,
    list_type,
    struct_type,
)
from partita.errors import SchemaError, value_repr
from partita.untrusted_input import MAX_DIGITS

PhysicalValue: TypeAlias = bool | int | str | bytes


def to_physical_value(value: object, type_: LogicalType) -> PhysicalValue:
    """Return the physical value of a Python value; raise `SchemaError` if it is not a value of the type."""
    convert = _CONVERTERS.get(type_.kind)
    physical = convert(to_python_value(value), type_) if convert is not None else None
    if physical is None:
        raise SchemaError(f"{value_repr(value)} ({type(value).__name__}) is not a value of type {type_}")
    return physical


def to_python_value(value: object) -> object:
    """Convert numpy scalars and members of string enums to Python values; return any other value unchanged."""
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)
    if type(value).__module__ == "numpy" and type(value).__name__ not in _NUMPY_TIME_TYPES and hasattr(value, "item"):
        return value.item() if getattr(value, "ndim", 0) == 0 else value
    return value


_NUMPY_TIME_TYPES = ("datetime64", "timedelta64")
"""`item` drops the unit of these types."""


def is_in_range(value: int, type_: LogicalType) -> bool:
    """Return whether an integer type, or the unscaled value of a decimal type, can hold the number."""
    if isinstance(type_, DecimalType):
        limit: int = 10**type_.precision
        return abs(value) < limit
    half = 1 << (INTEGER_BITS[type_.kind] - 1)
    return -half <= value < half


def infer_type(value: object) -> LogicalType:
    """Infer the logical type of a Python value."""
    value = to_python_value(value)
    for python, rule in _INFERENCE_RULES:
        if isinstance(value, python):
            return rule(value)
    raise SchemaError(f"Python type {type(value).__name__} has no logical type: {value_repr(value)}")


EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the origin of timestamps that have no zone
_MICROSECOND = timedelta(microseconds=1)


def date_to_days(value: date) -> int:
    """Return the days since 1970-01-01."""
    return value.toordinal() - EPOCH_ORDINAL


def datetime_to_micros(value: datetime) -> int:
    """Return the microseconds since 1970-01-01, in UTC for an aware value."""
    offset = value.utcoffset() or timedelta(0)
    return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND - offset // _MICROSECOND


def has_nanoseconds(value: datetime) -> bool:
    """Return whether a pandas timestamp has nanoseconds below the microsecond."""
    return bool(getattr(value, "nanosecond", None))


def time_to_micros(value: time) -> int:
    """Return the microseconds since midnight."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def float_rank(value: float) -> int:
    """Return an int64 that sorts as Spark sorts the double."""
    if value != value:  # noqa: PLR0124 - NaN, whichever bits it has
        return NAN_RANK
    bits = cast("int", struct.unpack(">q", struct.pack(">d", value + 0.0))[0])
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


NAN_RANK = 0x7FF8_0000_0000_0000


def round_to_float32(number: float) -> float | None:
    """Return the nearest float32, or None if the number is too large."""
    try:
        return cast("float", struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        return None


def decimal_to_unscaled(value: Decimal, scale: int) -> int | None:
    """Return the unscaled integer of a decimal at a scale, or None if digits would be lost."""
    if not value.is_finite():
        return None
    if not value:
        return 0
    # Checked before any arithmetic: 1e999999999 has one digit, but its integer a billion.
    if value.adjusted() > _MAX_EXPONENT or not is_computable(value):
        return None
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    shift = cast("int", exponent) + scale
    unscaled_value, remainder = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    return None if remainder else (-unscaled_value if sign else unscaled_value)


_MAX_EXPONENT = 76
"""No type holds 10**77: a decimal has at most 38 digits and a scale of at most 38."""


def is_computable(value: Decimal) -> bool:
    """Return whether a finite decimal has few enough digits, before and after the point, for arithmetic."""
    _, digits, exponent = value.as_tuple()
    return value.adjusted() <= MAX_DIGITS and len(digits) <= MAX_DIGITS and cast("int", exponent) >= -MAX_DIGITS


def is_unicode(text: str) -> bool:
    """Return whether a string can be encoded, which one with a lone surrogate can't."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _physical_integer(value: object, type_: LogicalType) -> PhysicalValue | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and is_in_range(value, type_) else None


def _physical_float(value: object, _: LogicalType) -> PhysicalValue | None:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return None
    try:
        return float_rank(float(value))
    except OverflowError:  # an integer beyond the greatest double
        return None


def _physical_decimal(value: object, type_: LogicalType) -> PhysicalValue | None:
    number = decimal_to_unscaled(value, cast("DecimalType", type_).scale) if isinstance(value, Decimal) else None
    return number if number is not None and is_in_range(number, type_) else None


def _physical_date(value: object, _: LogicalType) -> PhysicalValue | None:
    return date_to_days(value) if isinstance(value, date) and not isinstance(value, datetime) else None


def _physical_timestamp(value: object, type_: LogicalType) -> PhysicalValue | None:
    if not isinstance(value, datetime) or value != value or has_nanoseconds(value):  # noqa: PLR0124 - NaT
        return None
    wants_zone = type_.kind is TypeKind.TIMESTAMP
    return datetime_to_micros(value) if (value.utcoffset() is not None) == wants_zone else None


def _physical_bytes(value: object, type_: LogicalType) -> PhysicalValue | None:
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    octets = bytes(value)
    return octets if not isinstance(type_, FixedType) or len(octets) == type_.length else None


_CONVERTERS: dict[TypeKind, Callable[[object, LogicalType], PhysicalValue | None]] = {
    TypeKind.BOOLEAN: lambda v, _: v if isinstance(v, bool) else None,
    **dict.fromkeys(INTEGER_KINDS, _physical_integer),
    **dict.fromkeys(FLOAT_KINDS, _physical_float),
    TypeKind.DECIMAL: _physical_decimal,
    TypeKind.DATE: _physical_date,
    TypeKind.TIME: lambda v, _: time_to_micros(v) if isinstance(v, time) and v.tzinfo is None else None,
    **dict.fromkeys(TIMESTAMP_KINDS, _physical_timestamp),
    TypeKind.STRING: lambda v, _: v if isinstance(v, str) and is_unicode(v) else None,
    **dict.fromkeys(BINARY_KINDS, _physical_bytes),
    TypeKind.UUID: lambda v, _: v.bytes if isinstance(v, UUID) else None,
}


def _decimal_type(value: object) -> LogicalType:
    digits = cast("Decimal", value).as_tuple()
    if not isinstance(digits.exponent, int):
        raise SchemaError(f"{value} is not a finite decimal")
    scale = max(0, -digits.exponent)
    return decimal_type(max(len(digits.digits) + max(0, digits.exponent), scale, 1), scale)


def _element_type(values: list[object]) -> LogicalType:
    types = [infer_type(v) for v in values if v is not None]
    return types[0] if types else NULL


def _struct_type(value: object) -> LogicalType:
    entries = cast("Mapping[str, object]", value)
    return struct_type(*(Field(str(name), NULL if v is None else infer_type(v)) for name, v in entries.items()))


def _tuple_type(value: tuple[object, ...]) -> LogicalType:
    if type(value) is not tuple:
        raise SchemaError(f"a {type(value).__name__} may be a struct or a list; give a dict or a list")
    return list_type(_element_type(list(value)))


_INFERENCE_RULES: tuple[tuple[type, Callable[[object], LogicalType]], ...] = (
    (bool, lambda _: BOOLEAN),
    (int, lambda _: LONG),
    (float, lambda _: DOUBLE),
    (Decimal, _decimal_type),
    (datetime, lambda v: TIMESTAMP if cast("datetime", v).utcoffset() is not None else TIMESTAMP_NTZ),
    (date, lambda _: DATE),
    (time, lambda _: TIME),
    (str, lambda _: STRING),
    (bytes, lambda _: BINARY),
    (UUID, lambda _: UUID_TYPE),
    (Mapping, _struct_type),
    (list, lambda v: list_type(_element_type(cast("list[object]", v)))),
    (tuple, lambda v: _tuple_type(cast("tuple[object, ...]", v))),
)
