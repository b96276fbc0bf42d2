r"""Murmur3 over the bytes that each type stands for.

The bytes are those of the Iceberg specification's appendix B: integers of all widths, dates and times as little-endian
longs, decimals as their shortest big-endian two's complement, text as UTF-8, UUIDs big-endian. Booleans and floats,
which that document reserves, hash as it says they would: as longs, and by the bits of the double.

Structs, lists and maps hash as canonical JSON, which is compact and keeps nulls, with
- the names of a struct and the keys of a map in order of their code points, a key that is not text as the text below;
- integers and booleans as themselves, and all else as text: `2025-01-15`, `10:30:00.000000`,
  `2025-01-15T10:30:00.000000Z` (without the `Z` where there is no zone), decimals with their full scale, bytes as
  base64url without padding, UUIDs with hyphens, floats as hexadecimal (`0x1.8p1`, `NaN`, `-Infinity`): exact
  everywhere, unlike the shortest decimal digits, on which languages differ;
- in text just `"`, `\` and the characters below U+0020 escaped, those as `\b \f \n \r \t` or `\u001f`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, cast

from partita.algebra.plain import EPOCH_DAY, Plain, micros_of, micros_of_time, to_plain
from partita.algebra.types import (
    BYTES,
    FLOATS,
    INTEGERS,
    NESTED,
    DecimalType,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
)  # fmt: skip
from partita.errors import SchemaError, value_repr


def murmur3(value: object, type_: LogicalType) -> int:
    """Murmur3 x86 32-bit with seed 0, as a signed integer."""
    return _murmur3(hash_bytes(value, type_))


def plain_hash(plain: Plain, type_: LogicalType) -> int:
    """The same, of a plain value."""
    return _murmur3(plain_bytes(plain, type_))


def hash_bytes(value: object, type_: LogicalType) -> bytes:
    """The bytes of a value that hashing works on."""
    if type_.kind in NESTED:
        return canonical_json(value, type_).encode()
    return plain_bytes(to_plain(value, type_), type_)


def plain_bytes(plain: Plain, type_: LogicalType) -> bytes:
    """The bytes of a plain value that hashing works on."""
    if isinstance(plain, str):
        return plain.encode()
    if isinstance(plain, bytes):
        return plain
    if isinstance(type_, DecimalType):
        return shortest_bytes(plain)
    if type_.kind in FLOATS and plain < 0:
        return (-plain | _SIGN).to_bytes(8, "little")
    return plain.to_bytes(8, "little", signed=True)


_SIGN = 1 << 63


def shortest_bytes(number: int) -> bytes:
    """Big-endian two's complement in as few bytes as hold the number."""
    magnitude = number if number >= 0 else -number - 1
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def canonical_json(value: object, type_: LogicalType) -> str:
    """The JSON text that stands for a nested value (see the module's head)."""
    if value is None:
        return "null"
    if isinstance(type_, StructType):
        return _json_struct(value, type_)
    if isinstance(type_, ListType):
        return "[" + ",".join(canonical_json(v, type_.element) for v in _members(value, type_)) + "]"
    if isinstance(type_, MapType):
        return _json_map(value, type_)
    text = scalar_text(value, type_)
    return text if type_.kind in INTEGERS or type_.kind is Kind.BOOLEAN else _quote(text)


def has_json(type_: LogicalType) -> bool:
    """Whether every value of the type has a canonical JSON; a map's keys must be text there, so they aren't nested."""
    if isinstance(type_, StructType):
        return all(has_json(f.type) for f in type_.fields)
    if isinstance(type_, ListType):
        return has_json(type_.element)
    if isinstance(type_, MapType):
        return type_.key.kind not in NESTED and has_json(type_.key) and has_json(type_.value)
    return type_.kind is not Kind.OTHER


def scalar_text(value: object, type_: LogicalType) -> str:
    """The text of a value that is not nested, as canonical JSON holds it."""
    plain = to_plain(value, type_)
    if type_.kind in BYTES:
        return urlsafe_b64encode(cast("bytes", plain)).decode().rstrip("=")
    if isinstance(type_, DecimalType):
        return decimal_text(cast("int", plain), type_.scale)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    return _TEXTS.get(type_.kind, str)(value)


def decimal_text(number: int, scale: int) -> str:
    """All digits of a decimal given by its unscaled value: `-0.50` for -50 and 2."""
    digits = str(abs(number)).rjust(scale + 1, "0")
    split = len(digits) - scale
    return ("-" if number < 0 else "") + digits[:split] + ("." + digits[split:] if scale else "")


def timestamp_text(value: datetime) -> str:
    """`2025-01-15T10:30:00.000000`, in UTC where the value has a zone."""
    day, rest = divmod(micros_of(value), 86_400_000_000)
    whole = date.fromordinal(day + EPOCH_DAY)
    return f"{whole.isoformat()}T{time_text(rest)}"


def time_text(micros: int) -> str:
    """`10:30:00.000000` from microseconds of the day."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _murmur3(octets: bytes) -> int:
    import mmh3

    return mmh3.hash(octets, 0, signed=True)


def _json_struct(value: object, type_: StructType) -> str:
    if not isinstance(value, Mapping):
        raise _misfit(value, type_)
    get = cast("Mapping[str, object]", value)
    members = sorted(type_.fields, key=lambda f: f.name)
    return "{" + ",".join(f"{_quote(f.name)}:{canonical_json(get.get(f.name), f.type)}" for f in members) + "}"


def _json_map(value: object, type_: MapType) -> str:
    entries = value.items() if isinstance(value, Mapping) else _members(value, type_)
    if not all(isinstance(entry, tuple) and len(entry) == 2 for entry in entries):
        raise _misfit(value, type_)
    texts = sorted((scalar_text(k, type_.key), canonical_json(v, type_.value)) for k, v in entries)
    if len({k for k, _ in texts}) < len(texts):
        raise SchemaError("a map with one key twice has no canonical text")
    return "{" + ",".join(f"{_quote(k)}:{v}" for k, v in texts) + "}"


def _members(value: object, type_: LogicalType) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _misfit(value, type_)
    return value


def _misfit(value: object, type_: LogicalType) -> SchemaError:
    return SchemaError(f"{value_repr(value)} ({type(value).__name__}) is not a value of type {type_}")


def _quote(text: str) -> str:
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


_TEXTS: dict[Kind, Callable[[object], str]] = {
    Kind.DATE: lambda v: cast("date", v).isoformat(),
    Kind.TIME: lambda v: time_text(micros_of_time(cast("time", v))),
    Kind.TIMESTAMP: lambda v: timestamp_text(cast("datetime", v)) + "Z",
    Kind.TIMESTAMP_NTZ: lambda v: timestamp_text(cast("datetime", v)),
    **dict.fromkeys(FLOATS, _float_text),
}
