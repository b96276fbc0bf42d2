"""Constructors of partition functions, as users write them: `bucket("user_id", 16)`.

This module has no classes: its `hash` would replace Python's in the methods that dataclasses generate.
"""

from __future__ import annotations

from partita.algebra.physical_values import to_python_value
from partita.algebra.transforms import (
    BucketTransform,
    DayTransform,
    HashTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    PartitionFunction,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from partita.errors import SpecError, value_repr


def identity(column: str) -> PartitionFunction:
    """Partition by the value of the column. Takes every atomic type; in Lance tables not float and double."""
    return partition_function(IdentityTransform, column)


def year(column: str) -> PartitionFunction:
    """Partition by the year of a date or a timestamp."""
    return partition_function(YearTransform, column)


def month(column: str) -> PartitionFunction:
    """Partition by the month of a date or a timestamp."""
    return partition_function(MonthTransform, column)


def day(column: str) -> PartitionFunction:
    """Partition by the day of a date or a timestamp."""
    return partition_function(DayTransform, column)


def hour(column: str) -> PartitionFunction:
    """Partition by the hour of a timestamp or, in Lance tables, of a time."""
    return partition_function(HourTransform, column)


def bucket(column: str, num_buckets: int) -> PartitionFunction:
    """Partition into `num_buckets` buckets by the Murmur3 hash of the value.

    Takes integers, decimals, dates, times, timestamps, strings, UUIDs, fixed and binary.
    """
    return partition_function(BucketTransform, column, num_buckets)


def truncate(column: str, width: int) -> PartitionFunction:
    """Partition by the first `width` characters or bytes, or by the number floored to a multiple of `width`.

    Takes integers, decimals, strings and binary.
    """
    return partition_function(TruncateTransform, column, width)


def hash(column: str) -> PartitionFunction:  # noqa: A001 - the Lance partition spec's name for it
    """Partition by the Murmur3 hash of the value, as eight hexadecimal digits; takes values of any type."""
    return partition_function(HashTransform, column)


def void(column: str) -> PartitionFunction:
    """Map every value to null; Iceberg keeps a dropped partition field in place with it."""
    return partition_function(VoidTransform, column)


_INT32_MAX = 2**31 - 1


def partition_function(transform: type[Transform], source: str, parameter: object = None) -> PartitionFunction:
    """Return the function of a column, with the default name of its partition field.

    Raises `SpecError` if `source` is not a name, or if the function's parameter is not a positive 32-bit integer.
    """
    arguments = []
    if transform.parameter_name is not None:
        parameter = to_python_value(parameter)
        if not isinstance(parameter, int) or isinstance(parameter, bool) or not 1 <= parameter <= _INT32_MAX:
            raise SpecError(
                f"{transform.name}: the {transform.parameter_label} must be a positive 32-bit integer, "
                f"not {value_repr(parameter)}"
            )
        arguments.append(parameter)
    if not isinstance(source, str) or not source:
        raise SpecError(f"{transform.name}: the column must be a name, not {value_repr(source)}")
    function = transform(*arguments)
    return PartitionFunction(source, function, function.default_field_name(source))
