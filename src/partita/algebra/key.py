"""PartitionKey: the typed identity of a partition, and the id that is derived from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import total_ordering
from hashlib import sha256
from numbers import Integral
from operator import index
from types import MappingProxyType

from partita.algebra.key_text import INT64_RANGE, NAME_PATTERN, KeyValue, canonical_value_text, parse_dimensions
from partita.algebra.physical_values import has_nanoseconds
from partita.errors import KeyFormatError, KeyValueError, value_repr


@total_ordering
class PartitionKey(Mapping[str, KeyValue]):
    """The identity of a partition: the typed values of its dimensions, by name.

    A key is an immutable, hashable mapping from dimension to value: `key["date"]`, `dict(key)`. `str(key)` is its
    canonical text, which is the same in every language.

    Values are strings, 64-bit integers, booleans, dates, aware datetimes and None. Keys are equal if their names, types
    and values are: `42` is not `"42"`, and `True` is not `1`. Keys sort by their values, name by name, nulls first.
    """

    __slots__ = ("_text", "_values")

    _values: Mapping[str, KeyValue]
    _text: str

    def __init__(self, values: Mapping[str, object]) -> None:
        if not isinstance(values, Mapping):
            raise KeyValueError(values, "give dimensions by name or as a mapping; PartitionKey.parse reads a text")
        key_values = {check_dimension_name(name): _normalize_value(name, value) for name, value in values.items()}
        sorted_values = {name: key_values[name] for name in sorted(key_values)}
        self._set_slots(
            sorted_values, ",".join(f"{name}={canonical_value_text(value)}" for name, value in sorted_values.items())
        )

    def _set_slots(self, values: dict[str, KeyValue], text: str) -> None:
        object.__setattr__(self, "_values", MappingProxyType(values))
        object.__setattr__(self, "_text", text)

    @classmethod
    def of(cls, values: Mapping[str, object] | None = None, /, **dimensions: object) -> PartitionKey:
        """Return the key with the given dimensions, by name or as a mapping.

        Examples:
            >>> str(PartitionKey.of(date=date(2025, 1, 15), region="us-east"))
            'date=d:2025-01-15,region=s:dXMtZWFzdA'

        Raises:
            KeyValueError: a key can't hold a name or a value.
        """
        mapping = {} if values is None else values
        duplicates = sorted(name for name in dimensions if isinstance(mapping, Mapping) and name in mapping)
        if duplicates:
            raise KeyValueError(duplicates[0], "given twice")
        return cls({**mapping, **dimensions} if isinstance(mapping, Mapping) else mapping)

    @classmethod
    def parse(cls, text: str) -> PartitionKey:
        """Parse the canonical text of a key.

        Raises:
            KeyFormatError: the text is not canonical. `position` and `reason` say where and why.
        """
        if not isinstance(text, str):
            raise KeyFormatError(value_repr(text), 0, f"a key is text, not {type(text).__name__}")
        key = cls.__new__(cls)
        cls._set_slots(key, dict(parse_dimensions(text)), text)
        return key

    def id(self, asset_id: str) -> str:
        """Return the id of this partition of an asset: `part_` and 32 hexadecimal digits."""
        return partition_id(asset_id, self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"PartitionKey.parse({self._text!r})"

    def __getitem__(self, name: str) -> KeyValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, PartitionKey) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._sort_key() < other._sort_key() if isinstance(other, PartitionKey) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a PartitionKey is immutable; make another: PartitionKey.of({{**key, {name!r}: ...}})")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[Callable[[str], PartitionKey], tuple[str]]:
        return PartitionKey.parse, (self._text,)

    def _sort_key(self) -> tuple[tuple[str, int, object], ...]:
        return tuple((name, _TYPE_ORDER[type(value)], value) for name, value in self._values.items())


def partition_id(asset_id: str, key_text: str) -> str:
    """Return the id of the partition of an asset whose key has the given canonical text."""
    return f"part_{sha256(id_prefix(asset_id) + key_text.encode()).hexdigest()[:32]}"


def id_prefix(asset_id: str) -> bytes:
    """Return the bytes that are hashed before the text of the key."""
    if not isinstance(asset_id, str) or not asset_id:
        raise KeyValueError("asset_id", f"an asset's id must be a non-empty string, not {value_repr(asset_id)}")
    try:
        return f"{asset_id}:".encode()
    except UnicodeEncodeError:
        raise KeyValueError("asset_id", "it holds a lone surrogate, which is not Unicode text") from None


_TYPE_ORDER = {type(None): 0, bool: 1, int: 2, str: 3, date: 4, datetime: 5}


def check_dimension_name(name: object) -> str:
    """Return the name of a dimension; raise `KeyValueError` if a key can't have it."""
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise KeyValueError(name, "a name is a lower-case letter, then lower-case letters, digits and underscores")
    return str.__str__(name)


def _normalize_value(name: str, value: object) -> KeyValue:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _check_unicode(name, str.__str__(value))
    if isinstance(value, datetime):
        return _normalize_timestamp(name, value)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if _is_numpy_bool(value):
        return bool(value)
    if isinstance(value, Integral):  # numpy integers are Integral, numpy arrays are not
        number = index(value)
        if number not in INT64_RANGE:
            raise KeyValueError(name, f"{value_repr(number)} is over 64 bits")
        return number
    raise KeyValueError(name, f"{type(value).__name__} can't be in a key; use a string, an int, a bool, a date, "
                              f"an aware datetime or None")  # fmt: skip


def _is_numpy_bool(value: object) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _check_unicode(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise KeyValueError(name, f"a lone surrogate at {error.start} is not Unicode text") from None
    return text


def _normalize_timestamp(name: str, value: datetime) -> datetime:
    if value != value:  # noqa: PLR0124 - pandas' NaT
        raise KeyValueError(name, "NaT is not a timestamp; use None for null")
    if value.utcoffset() is None:
        raise KeyValueError(name, f"{value} has no time zone; attach one, as in replace(tzinfo=UTC)")
    if has_nanoseconds(value):
        raise KeyValueError(name, f"{value} has digits below the microsecond; round it first")
    try:
        utc = value.astimezone(UTC)
    except (OverflowError, ValueError):
        raise KeyValueError(name, f"{value} in UTC is outside the years 0001 to 9999") from None
    if utc.year not in range(1, 10_000):
        raise KeyValueError(name, f"{value} in UTC is outside the years 0001 to 9999")
    return datetime(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC)
