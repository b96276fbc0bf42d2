r"""Murmur3 hashes of typed values, and the canonical JSON of nested values.

The hashed bytes are those of the Iceberg specification, appendix B: integers of all widths, dates and times as
little-endian longs, decimals as their shortest big-endian two's complement, strings as UTF-8, UUIDs big-endian.
Booleans hash as longs and floats by the bits of the double, as the specification reserves for them.

Structs, lists and maps hash as canonical JSON, which is compact and keeps nulls:
- the names of a struct and the keys of a map are sorted by code point; a key that is not a string is written as below;
- integers and booleans are written as such, all other values as strings: `2025-01-15`, `10:30:00.000000`,
  `2025-01-15T10:30:00.000000Z` (without `Z` if there is no zone), decimals with their full scale, bytes as base64url
  without padding, UUIDs with hyphens, floats as hexadecimal (`0x1.8p1`, `NaN`, `-Infinity`), which is exact in every
  language, unlike shortest decimal digits;
- strings escape only `"`, `\` and the characters below U+0020, as `\b \f \n \r \t` or `\u001f`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, cast

from partita.algebra.physical_values import (
    EPOCH_ORDINAL,
    PhysicalValue,
    datetime_to_micros,
    time_to_micros,
    to_physical_value,
)
from partita.algebra.types import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    DecimalType,
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
)  # fmt: skip
from partita.errors import SchemaError, value_repr


def murmur3_hash(value: object, type_: LogicalType) -> int:
    """Return Murmur3 x86 32-bit with seed 0 of a value, as a signed integer."""
    return _murmur3_bytes(hash_bytes(value, type_))


def physical_hash(value: PhysicalValue, type_: LogicalType) -> int:
    """Return the Murmur3 hash of a physical value."""
    return _murmur3_bytes(physical_bytes(value, type_))


def hash_bytes(value: object, type_: LogicalType) -> bytes:
    """Return the bytes that are hashed for a value."""
    if type_.kind in NESTED_KINDS:
        return canonical_json(value, type_).encode()
    return physical_bytes(to_physical_value(value, type_), type_)


def physical_bytes(value: PhysicalValue, type_: LogicalType) -> bytes:
    """Return the bytes that are hashed for a physical value."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(type_, DecimalType):
        return twos_complement_bytes(value)
    if type_.kind in FLOAT_KINDS and value < 0:
        return (-value | _SIGN_BIT).to_bytes(8, "little")
    return value.to_bytes(8, "little", signed=True)


_SIGN_BIT = 1 << 63


def twos_complement_bytes(number: int) -> bytes:
    """Return the shortest big-endian two's complement of a number."""
    magnitude = number if number >= 0 else -number - 1
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def canonical_json(value: object, type_: LogicalType) -> str:
    """Return the canonical JSON of a nested value (see the module docstring)."""
    if value is None:
        return "null"
    if isinstance(type_, StructType):
        return _struct_json(value, type_)
    if isinstance(type_, ListType):
        return "[" + ",".join(canonical_json(v, type_.element) for v in _list_items(value, type_)) + "]"
    if isinstance(type_, MapType):
        return _map_json(value, type_)
    text = scalar_text(value, type_)
    return text if type_.kind in INTEGER_KINDS or type_.kind is TypeKind.BOOLEAN else _json_string(text)


def has_canonical_json(type_: LogicalType) -> bool:
    """Return whether values of the type have canonical JSON; the keys of a map must not be nested."""
    if isinstance(type_, StructType):
        return all(has_canonical_json(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return has_canonical_json(type_.element)
    if isinstance(type_, MapType):
        return type_.key.kind not in NESTED_KINDS and has_canonical_json(type_.key) and has_canonical_json(type_.value)
    return type_.kind is not TypeKind.OTHER


def scalar_text(value: object, type_: LogicalType) -> str:
    """Return the text of a primitive value in canonical JSON, without quotes."""
    physical = to_physical_value(value, type_)
    if type_.kind in BINARY_KINDS:
        return urlsafe_b64encode(cast("bytes", physical)).decode().rstrip("=")
    if isinstance(type_, DecimalType):
        return decimal_text(cast("int", physical), type_.scale)
    if isinstance(physical, bool):
        return "true" if physical else "false"
    return _TEXTS_BY_KIND.get(type_.kind, str)(value)


def decimal_text(number: int, scale: int) -> str:
    """Return all digits of a decimal, given its unscaled value: `-0.50` for -50 and scale 2."""
    digits = str(abs(number)).rjust(scale + 1, "0")
    point = len(digits) - scale
    return ("-" if number < 0 else "") + digits[:point] + ("." + digits[point:] if scale else "")


def timestamp_text(value: datetime) -> str:
    """Return `2025-01-15T10:30:00.000000`, in UTC if the value has a zone."""
    days, micros = divmod(datetime_to_micros(value), 86_400_000_000)
    return f"{date.fromordinal(days + EPOCH_ORDINAL).isoformat()}T{time_text(micros)}"


def time_text(micros: int) -> str:
    """Return `10:30:00.000000` for the microseconds since midnight."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _murmur3_bytes(octets: bytes) -> int:
    import mmh3

    return mmh3.hash(octets, 0, signed=True)


def _struct_json(value: object, type_: StructType) -> str:
    if not isinstance(value, Mapping):
        raise _type_mismatch(value, type_)
    get = cast("Mapping[str, object]", value)
    members = sorted(type_.fields, key=lambda f: f.name)
    return "{" + ",".join(f"{_json_string(f.name)}:{canonical_json(get.get(f.name), f.type)}" for f in members) + "}"


def _map_json(value: object, type_: MapType) -> str:
    entries = value.items() if isinstance(value, Mapping) else _list_items(value, type_)
    if not all(isinstance(entry, tuple) and len(entry) == 2 for entry in entries):
        raise _type_mismatch(value, type_)
    texts = sorted((scalar_text(k, type_.key), canonical_json(v, type_.value)) for k, v in entries)
    if len({k for k, _ in texts}) < len(texts):
        raise SchemaError("a map with a duplicate key has no canonical text")
    return "{" + ",".join(f"{_json_string(k)}:{v}" for k, v in texts) + "}"


def _list_items(value: object, type_: LogicalType) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _type_mismatch(value, type_)
    return value


def _type_mismatch(value: object, type_: LogicalType) -> SchemaError:
    return SchemaError(f"{value_repr(value)} ({type(value).__name__}) is not a value of type {type_}")


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _float_text(value: object) -> str:
    number = float(cast("float", value)) + 0.0
    if number != number:  # noqa: PLR0124 - NaN
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    mantissa, exponent = number.hex().split("p")
    mantissa = mantissa.rstrip("0") if "." in mantissa else mantissa + "."
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}p{int(exponent)}"


_TEXTS_BY_KIND: dict[TypeKind, Callable[[object], str]] = {
    TypeKind.DATE: lambda v: cast("date", v).isoformat(),
    TypeKind.TIME: lambda v: time_text(time_to_micros(cast("time", v))),
    TypeKind.TIMESTAMP: lambda v: timestamp_text(cast("datetime", v)) + "Z",
    TypeKind.TIMESTAMP_NTZ: lambda v: timestamp_text(cast("datetime", v)),
    **dict.fromkeys(FLOAT_KINDS, _float_text),
}
