"""A partition function with its column, as people write it: `bucket("user_id", 16)`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partita.algebra.plain import type_of
from partita.algebra.transforms import Family, Transform
from partita.algebra.type_text import parse_type
from partita.algebra.types import LogicalType
from partita.errors import SpecError

_SUFFIX = {"bucket": "_bucket", "truncate": "_trunc", "identity": "", "void": "_null"}


@dataclass(frozen=True, slots=True)
class PartitionFunction:
    """A transform of one column; `name` is what the partition field will be called."""

    source: str
    transform: Transform
    name: str

    def alias(self, name: str) -> PartitionFunction:
        """The same function under another field name."""
        return replace(self, name=name)

    def apply(self, value: object, *, family: str, type: LogicalType | str | None = None) -> object:  # noqa: A002
        """The function of one Python value; its type is told from the value unless `type` gives it.

        >>> bucket("user_id", 16).apply(34, family="iceberg")
        3
        """
        if value is None and type is None:
            Family.of(family)
            return None
        known = type_of(value) if type is None else parse_type(type) if isinstance(type, str) else type
        return self.transform.apply(value, known, Family.of(family))

    def __str__(self) -> str:
        if self.transform.name == "identity":
            return self.source
        width = "" if self.transform.width is None else f"{self.transform.width}, "
        return f"{self.transform.name}({width}{self.source})"


def function(name: str, source: str, width: int | None = None) -> PartitionFunction:
    """The function of that name on that column, with its usual field name."""
    if not isinstance(source, str) or not source:
        raise SpecError(f"{name}: the column is a name, not {source!r}")
    return PartitionFunction(source, Transform(name, width), source + _SUFFIX.get(name, f"_{name}"))


def identity(column: str) -> PartitionFunction:
    """The column's own value."""
    return function("identity", column)


def year(column: str) -> PartitionFunction:
    """The year of a date or timestamp."""
    return function("year", column)


def month(column: str) -> PartitionFunction:
    """The month of a date or timestamp."""
    return function("month", column)


def day(column: str) -> PartitionFunction:
    """The day of a date or timestamp."""
    return function("day", column)


def hour(column: str) -> PartitionFunction:
    """The hour of a timestamp, and in Lance's family of a time."""
    return function("hour", column)


def bucket(column: str, num_buckets: int) -> PartitionFunction:
    """One of `num_buckets` buckets by the Murmur3 hash of the value."""
    return function("bucket", column, _positive("bucket", "number of buckets", num_buckets))


def truncate(column: str, width: int) -> PartitionFunction:
    """The first `width` code points or bytes, or the number floored to a multiple of `width`."""
    return function("truncate", column, _positive("truncate", "width", width))


def hash(column: str) -> PartitionFunction:  # noqa: A001 - the seed's name for it
    """Eight hexadecimal digits of the Murmur3 hash of the value, of any type."""
    return function("hash", column)


def void(column: str) -> PartitionFunction:
    """Null for every value: how Iceberg keeps the place of a field that was dropped."""
    return function("void", column)


_LARGEST = 2**31 - 1


def _positive(name: str, what: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _LARGEST:
        raise SpecError(f"{name}: the {what} is a positive 32-bit integer, not {number!r}")
    return number
