"""The partition functions: which types they take, forward on one value, and back to an interval.

There are two families, and they are never mixed (design, "What the seeds leave open"):

| function | `lance` (seed 001, section 4) | `iceberg` (seed 004) |
|---|---|---|
| identity | the value | the value |
| year month day hour | the part of the calendar, in UTC: 2025, 12, 10, 7 | how many since 1970-01-01T00:00Z |
| bucket(n) | `(murmur3 & 0x7fffffff) % n` | the same |
| truncate(w) | first w code points or bytes; numbers floored to a multiple of w | the same |
| hash | eight hexadecimal digits of the Murmur3 hash | none |
| void | none | null |

Null stays null in each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import cast

from partita.algebra.calendar import DAY, HOUR, Whole, civil_from_days, days_from_civil
from partita.algebra.hashing import decimal_text, has_json, murmur3
from partita.algebra.plain import Plain, in_range, native, to_plain, type_of
from partita.algebra.type_text import parse_type
from partita.algebra.types import (
    BYTES,
    DATE,
    FLOATS,
    INSTANTS,
    INT,
    INTEGERS,
    NESTED,
    STRING,
    DecimalType,
    Kind,
    LogicalType,
)  # fmt: skip
from partita.errors import SchemaError, SpecError, TransformError, value_repr


class Family(StrEnum):
    """Whose partition functions are meant."""

    ICEBERG = "iceberg"
    LANCE = "lance"

    @classmethod
    def of(cls, name: str) -> Family:
        """The family of that name."""
        for family in cls:
            if family == name:
                return family
        raise SpecError(f"no family of partition functions {value_repr(name)}; there are 'iceberg' and 'lance'")


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of plain values: None is unbounded, the upper end belongs to it unless it is open."""

    lower: Plain | None = None
    upper: Plain | None = None
    upper_open: bool = False


@dataclass(frozen=True, slots=True)
class Transform:
    """A partition function without its column: `bucket[16]`.

    A name that Partita doesn't know is kept: such a field of somebody's table is read past, never written or pruned by.
    """

    name: str
    width: int | None = None

    def __str__(self) -> str:
        return self.name if self.width is None else f"{self.name}[{self.width}]"

    @property
    def known(self) -> bool:
        """Whether Partita can compute it."""
        return self.name in _TYPES

    def check(self, type_: LogicalType, family: Family, column: str | None = None) -> None:
        """Refuse a type that the function does not take in that family, with a `TransformError`."""
        if not isinstance(type_, LogicalType):
            raise SchemaError(f"a type is one of Partita's or its name, not {value_repr(type_)}")
        if not self.known:
            raise TransformError(str(self), column, str(type_), "Partita doesn't know this function")
        accepted = _TYPES[self.name].get(family)
        if accepted is None:
            raise TransformError(str(self), column, str(type_), f"the {family} family has no such function")
        if type_.kind not in accepted:
            names = ", ".join(k.value for k in Kind if k in accepted)
            raise TransformError(str(self), column, str(type_), f"it takes {names}")
        if self.name == "hash" and not has_json(type_):
            raise TransformError(str(self), column, str(type_), "a part of it has no canonical JSON")

    def result_type(self, type_: LogicalType) -> LogicalType:
        """The type of the results; Iceberg's day is an `int` here, and a date in a key (`key_type`)."""
        if self.name in ("identity", "truncate", "void"):
            return type_
        return STRING if self.name == "hash" else INT

    def key_type(self, type_: LogicalType, family: Family) -> LogicalType:
        """The type that the result counts as in a partition key."""
        return DATE if self.name == "day" and family is Family.ICEBERG else self.result_type(type_)

    def apply(self, value: object, type_: LogicalType, family: Family, column: str | None = None) -> object:
        """The function of one value of that type; errors name the column where it is given."""
        self.check(type_, family, column)
        value = native(value)
        if value is None or self.name == "void":
            return None
        if self.name == "bucket":
            return (murmur3(value, type_) & 0x7FFF_FFFF) % cast("int", self.width)
        if self.name == "hash":
            return f"{murmur3(value, type_) & 0xFFFF_FFFF:08x}"
        plain = to_plain(value, type_)
        if self.name == "identity":
            return value
        if self.name == "truncate":
            cut = truncated(plain, cast("int", self.width))
            if isinstance(cut, int) and not in_range(cut, type_):
                raise SchemaError(f"{self} of {value} is {cut}, which is less than type {type_} holds")
            return Decimal(decimal_text(cast("int", cut), type_.scale)) if isinstance(type_, DecimalType) else cut
        return time_part(self.name, plain, type_, family)


@dataclass(frozen=True, slots=True)
class PartitionFunction:
    """A transform of one column; `name` is what the partition field will be called."""

    source: str
    transform: Transform
    name: str

    def alias(self, name: str) -> PartitionFunction:
        """The same function under another field name."""
        if not isinstance(name, str) or not name:
            raise SpecError(f"the name of a partition field is text, not {value_repr(name)}")
        return replace(self, name=name)

    def apply(self, value: object, *, family: str, type: LogicalType | str | None = None) -> object:  # noqa: A002
        """The function of one Python value; its type is told from the value unless `type` gives it.

        >>> PartitionFunction("user_id", Transform("bucket", 16), "shard").apply(34, family="iceberg")
        3
        """
        if value is None and type is None:
            Family.of(family)
            return None
        known = type_of(value) if type is None else parse_type(type) if isinstance(type, str) else type
        return self.transform.apply(value, known, Family.of(family), self.source)

    def __str__(self) -> str:
        width = "" if self.transform.width is None else f"{self.transform.width}, "
        bare = self.transform.name == "identity"
        source = _written(self.source)
        said = source if bare else f"{self.transform.name}({width}{source})"
        return said if self.name == default_name(self.source, self.transform) else f"{said} AS {_written(self.name)}"


_SUFFIXES = {"identity": "", "truncate": "_trunc", "void": "_null"}


def default_name(source: str, transform: Transform) -> str:
    """The name of a field that was given none: `ts_day`, `user_id_bucket`, `name_trunc`, `country`."""
    return source + _SUFFIXES.get(transform.name, f"_{transform.name}")


def _written(name: str) -> str:
    """A name as a spec's text has it, in backquotes where it would be read as something else."""
    return name if re.fullmatch(r"[^\W\d][\w.]*", name) and name.lower() != "as" else f"`{name.replace('`', '``')}`"


def truncated(plain: Plain, width: int) -> Plain:
    """Truncate on a plain value: the first code points or bytes, or the next lower multiple of the width."""
    if isinstance(plain, str | bytes):
        return plain[:width]
    return plain - plain % width


def time_part(name: str, plain: Whole, type_: LogicalType, family: Family) -> Whole:
    """year, month, day or hour of days (a date) or microseconds (a timestamp, or a time of the day)."""
    if name == "hour":
        return plain // HOUR if family is Family.ICEBERG else plain % DAY // HOUR
    days = plain if type_.kind is Kind.DATE else plain // DAY
    if name == "day" and family is Family.ICEBERG:
        return days
    year, month, day = civil_from_days(days)
    if family is Family.LANCE:
        return {"year": year, "month": month, "day": day}[name]
    return year - 1970 if name == "year" else (year - 1970) * 12 + month - 1


def preimage(transform: Transform, result: Plain, type_: LogicalType, family: Family) -> Range | None:
    """All values of the source that the function can take to `result`, as one interval; None where it isn't one.

    `result` is the plain value of the result. For Lance's month, day and hour, which are periodic, see
    `partita.algebra.facts`.
    """
    if transform.name == "identity":
        return Range(result, result)
    if transform.name == "truncate":
        return _truncate_preimage(result, cast("int", transform.width))
    if transform.name == "year" and family is Family.LANCE:
        return year_range(cast("int", result) - 1970, type_)
    if family is Family.ICEBERG and transform.name in _ORDINALS:
        return _ORDINALS[transform.name](cast("int", result), type_)
    return None


def year_range(years: int, type_: LogicalType) -> Range:
    """A whole year, given from 1970."""
    return days_range(days_from_civil(years + 1970, 1, 1), days_from_civil(years + 1971, 1, 1), type_)


def month_range(months: int, type_: LogicalType) -> Range:
    """A whole month, given from January 1970."""
    first, after = (days_from_civil(1970 + m // 12, m % 12 + 1, 1) for m in (months, months + 1))
    return days_range(first, after, type_)


def days_range(first: int, after: int, type_: LogicalType) -> Range:
    """The days from `first` up to and without `after`."""
    return Range(first, after - 1) if type_.kind is Kind.DATE else Range(first * DAY, after * DAY - 1)


_ORDINALS: dict[str, Callable[[int, LogicalType], Range]] = {
    "year": year_range,
    "month": month_range,
    "day": lambda n, type_: days_range(n, n + 1, type_),
    "hour": lambda n, _: Range(n * HOUR, (n + 1) * HOUR - 1),
}


def _truncate_preimage(result: Plain, width: int) -> Range:
    if not isinstance(result, str | bytes):
        return Range(result, result + width - 1)
    if len(result) < width:
        return Range(result, result)
    return prefix_range(result)


def prefix_range(prefix: str | bytes) -> Range:
    """All texts, or bytes, that start with the prefix."""
    after = _after_text(prefix) if isinstance(prefix, str) else _after_bytes(prefix)
    return Range(prefix, after, upper_open=after is not None)


_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def _after_text(prefix: str) -> str | None:
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= _LAST:
            return prefix[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)
        prefix = prefix[:-1]
    return None


def _after_bytes(prefix: bytes) -> bytes | None:
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


_TIMES = frozenset({Kind.DATE}) | INSTANTS
_HASHED = INTEGERS | _TIMES | BYTES | {Kind.DECIMAL, Kind.TIME, Kind.STRING, Kind.UUID}
_TRUNCATED = INTEGERS | {Kind.DECIMAL, Kind.STRING, Kind.BINARY}
_ATOMS = frozenset(Kind) - NESTED - {Kind.OTHER, Kind.NULL}
_TYPES: dict[str, dict[Family, frozenset[Kind]]] = {
    "identity": {Family.ICEBERG: _ATOMS, Family.LANCE: _ATOMS - FLOATS},
    **{name: dict.fromkeys(Family, _TIMES) for name in ("year", "month", "day")},
    "hour": {Family.ICEBERG: INSTANTS, Family.LANCE: INSTANTS | {Kind.TIME}},
    "bucket": dict.fromkeys(Family, _HASHED),
    "truncate": dict.fromkeys(Family, _TRUNCATED),
    "hash": {Family.LANCE: frozenset(Kind) - {Kind.OTHER, Kind.NULL}},
    "void": {Family.ICEBERG: frozenset(Kind)},
}
