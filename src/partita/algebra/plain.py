"""Plain values.

A *plain value* is the `bool`, `int`, `str` or `bytes` that stands for a typed value and sorts as Spark sorts the typed
one, so that everything above needs one notion of order:

| type | typed value in Python | plain value |
|---|---|---|
| boolean | `bool` | the same |
| byte, short, int, long | `int` | the same |
| float, double | `float` | its rank in Spark's order: -0.0 is 0.0, NaN is one value above infinity |
| decimal(p,s) | `Decimal` | the unscaled `int` |
| date | `date` | days from 1970-01-01 |
| time | `time` | microseconds from midnight |
| timestamp | aware `datetime` | microseconds from 1970-01-01T00:00:00Z |
| timestamp_ntz | naive `datetime` | microseconds from 1970-01-01T00:00:00 |
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
    BITS,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOATS,
    INSTANTS,
    INTEGERS,
    LONG,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    UUID_TYPE,
    DecimalType,
    Field,
    FixedType,
    Kind,
    LogicalType,
    decimal,
    list_of,
    struct_of,
)
from partita.errors import SchemaError, value_repr
from partita.untrusted import MAX_DIGITS

Plain: TypeAlias = bool | int | str | bytes


def to_plain(value: object, type_: LogicalType) -> Plain:
    """The plain value of a typed one; a value of another type is a `SchemaError`."""
    rule = _PLAIN.get(type_.kind)
    plain = rule(native(value), type_) if rule is not None else None
    if plain is None:
        raise SchemaError(f"{value_repr(value)} ({type(value).__name__}) is not a value of type {type_}")
    return plain


def native(value: object) -> object:
    """Python's own value where numpy or an enum of strings holds one; any other is itself."""
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)
    if type(value).__module__ == "numpy" and type(value).__name__ not in _NUMPY_TIMES and hasattr(value, "item"):
        return value.item() if getattr(value, "ndim", 0) == 0 else value
    return value


_NUMPY_TIMES = ("datetime64", "timedelta64")
"""numpy's times have units that `item` drops."""


def in_range(plain: int, type_: LogicalType) -> bool:
    """Whether an integer type, or a decimal's unscaled value, can hold that number."""
    if isinstance(type_, DecimalType):
        limit: int = 10**type_.precision
        return abs(plain) < limit
    half = 1 << (BITS[type_.kind] - 1)
    return -half <= plain < half


def type_of(value: object) -> LogicalType:
    """The type that a Python value has when nothing else is known of it."""
    value = native(value)
    for python, rule in _INFERRED:
        if isinstance(value, python):
            return rule(value)
    raise SchemaError(f"a value of Python type {type(value).__name__} has no logical type: {value_repr(value)}")


EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the origin of timestamps that have no zone
_MICRO = timedelta(microseconds=1)


def days_of(value: date) -> int:
    """Days from 1970-01-01."""
    return value.toordinal() - EPOCH_DAY


def micros_of(value: datetime) -> int:
    """Microseconds from 1970-01-01; an aware value counts in UTC."""
    offset = value.utcoffset() or timedelta(0)
    return (value.replace(tzinfo=None) - _EPOCH) // _MICRO - offset // _MICRO


def is_finer(value: datetime) -> bool:
    """Whether a timestamp of pandas' has digits below the microsecond."""
    return bool(getattr(value, "nanosecond", None))


def micros_of_time(value: time) -> int:
    """Microseconds from midnight."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def float_rank(value: float) -> int:
    """The place of a double in Spark's order, as an int64."""
    if value != value:  # noqa: PLR0124 - NaN, whichever bits it has
        return NAN_RANK
    bits = cast("int", struct.unpack(">q", struct.pack(">d", value + 0.0))[0])
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


NAN_RANK = 0x7FF8_0000_0000_0000


def single(number: float) -> float | None:
    """The nearest float of 32 bits, or None where the number is too large for one."""
    try:
        return cast("float", struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        return None


def unscaled(value: Decimal, scale: int) -> int | None:
    """The unscaled integer of a decimal at that scale, or None where digits would be lost."""
    if not value.is_finite():
        return None
    if not value:
        return 0
    # Before any arithmetic: 1e999999999 has one digit, and the integer of it a billion.
    if value.adjusted() > _MAX_EXPONENT or not is_computable(value):
        return None
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    shift = cast("int", exponent) + scale
    whole, lost = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    return None if lost else (-whole if sign else whole)


_MAX_EXPONENT = 76
"""No type holds 10**77: a decimal has 38 digits at most, and its scale is 38 at most."""


def is_computable(value: Decimal) -> bool:
    """Whether a finite decimal has few enough digits, before and after the point, to compute with it."""
    _, digits, exponent = value.as_tuple()
    return value.adjusted() <= MAX_DIGITS and len(digits) <= MAX_DIGITS and cast("int", exponent) >= -MAX_DIGITS


def is_unicode(text: str) -> bool:
    """Whether a text has an encoding: a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_integer(value: object, type_: LogicalType) -> Plain | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and in_range(value, type_) else None


def _plain_float(value: object, _: LogicalType) -> Plain | None:
    if not isinstance(value, float | int) or isinstance(value, bool):
        return None
    try:
        return float_rank(float(value))
    except OverflowError:  # an integer beyond the greatest double
        return None


def _plain_decimal(value: object, type_: LogicalType) -> Plain | None:
    number = unscaled(value, cast("DecimalType", type_).scale) if isinstance(value, Decimal) else None
    return number if number is not None and in_range(number, type_) else None


def _plain_date(value: object, _: LogicalType) -> Plain | None:
    return days_of(value) if isinstance(value, date) and not isinstance(value, datetime) else None


def _plain_instant(value: object, type_: LogicalType) -> Plain | None:
    if not isinstance(value, datetime) or value != value or is_finer(value):  # noqa: PLR0124 - NaT
        return None
    wants_zone = type_.kind is Kind.TIMESTAMP
    return micros_of(value) if (value.utcoffset() is not None) == wants_zone else None


def _plain_bytes(value: object, type_: LogicalType) -> Plain | None:
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    octets = bytes(value)
    return octets if not isinstance(type_, FixedType) or len(octets) == type_.length else None


_PLAIN: dict[Kind, Callable[[object, LogicalType], Plain | None]] = {
    Kind.BOOLEAN: lambda v, _: v if isinstance(v, bool) else None,
    **dict.fromkeys(INTEGERS, _plain_integer),
    **dict.fromkeys(FLOATS, _plain_float),
    Kind.DECIMAL: _plain_decimal,
    Kind.DATE: _plain_date,
    Kind.TIME: lambda v, _: micros_of_time(v) if isinstance(v, time) and v.tzinfo is None else None,
    **dict.fromkeys(INSTANTS, _plain_instant),
    Kind.STRING: lambda v, _: v if isinstance(v, str) and is_unicode(v) else None,
    **dict.fromkeys(BYTES, _plain_bytes),
    Kind.UUID: lambda v, _: v.bytes if isinstance(v, UUID) else None,
}


def _decimal_type(value: object) -> LogicalType:
    digits = cast("Decimal", value).as_tuple()
    if not isinstance(digits.exponent, int):
        raise SchemaError(f"{value} is not a finite decimal")
    scale = max(0, -digits.exponent)
    return decimal(max(len(digits.digits) + max(0, digits.exponent), scale, 1), scale)


def _element_type(values: list[object]) -> LogicalType:
    known = [type_of(v) for v in values if v is not None]
    return known[0] if known else NULL


def _map_type(value: object) -> LogicalType:
    entries = cast("Mapping[str, object]", value)
    return struct_of(*(Field(str(name), NULL if v is None else type_of(v)) for name, v in entries.items()))


def _tuple_type(value: tuple[object, ...]) -> LogicalType:
    if type(value) is not tuple:
        raise SchemaError(f"a {type(value).__name__} is a struct or a list; give a dict or a list")
    return list_of(_element_type(list(value)))


_INFERRED: tuple[tuple[type, Callable[[object], LogicalType]], ...] = (
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
    (Mapping, _map_type),
    (list, lambda v: list_of(_element_type(cast("list[object]", v)))),
    (tuple, lambda v: _tuple_type(cast("tuple[object, ...]", v))),
)
