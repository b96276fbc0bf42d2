"""The partition functions as people write them: `bucket("user_id", 16)`.

No class lives here: the `hash` below would take the place of Python's in its generated methods.
"""

from __future__ import annotations

from partita.algebra.plain import native
from partita.algebra.transforms import PartitionFunction, Transform, default_name
from partita.errors import SpecError, value_repr


def function(name: str, source: str, width: int | None = None) -> PartitionFunction:
    """The function of that name on that column, with its usual field name."""
    if not isinstance(source, str) or not source:
        raise SpecError(f"{name}: the column is a name, not {value_repr(source)}")
    transform = Transform(name, width)
    return PartitionFunction(source, transform, default_name(source, transform))


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
    number = native(number)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _LARGEST:
        raise SpecError(f"{name}: the {what} is a positive 32-bit integer, not {value_repr(number)}")
    return number
