"""What callers give to a table, checked before anything is looked at.

A text is a list too, of its letters, so one that stands alone would be taken for as many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from partita.algebra.partition_functions import identity
from partita.algebra.transforms import PartitionFunction
from partita.errors import SchemaError, SpecError, TableError, value_repr


def partition_functions_of(value: Sequence[PartitionFunction | str], parameter: str) -> list[PartitionFunction]:
    """Partition functions, where the name of a column stands for its identity."""
    return [identity(one) if isinstance(one, str) else one for one in partition_fields_of(value, parameter)]


def partition_fields_of(value: Sequence[PartitionFunction | str], parameter: str) -> list[PartitionFunction | str]:
    """Partition functions and names."""
    if isinstance(value, str | PartitionFunction) or not isinstance(value, Iterable):
        raise SpecError(
            f'{parameter} is a list of columns and partition functions, as in ["country"], not {_argument_repr(value)}'
        )
    fields = list(value)
    for one in fields:
        if not isinstance(one, str | PartitionFunction):
            raise SpecError(
                f'{parameter} has columns and partition functions, such as pt.day("ts"), not {_argument_repr(one)}'
            )
    return fields


def mapping_by_name(value: Mapping[str, str], parameter: str) -> Mapping[str, str]:
    """What is given by the names of columns or fields."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise SchemaError(f"{parameter} takes a dictionary by names, not {_argument_repr(value)}")
    return value


def rename_mapping(value: Mapping[str, str] | None, parameter: str) -> Mapping[str, str]:
    """New names by the old ones; None is none."""
    names = mapping_by_name({} if value is None else value, parameter)
    for name, other in names.items():
        if not isinstance(other, str):
            raise SchemaError(f"{parameter} takes a name for {name!r}, not {_argument_repr(other)}")
    return names


def transaction_of(value: tuple[str, int]) -> tuple[str, int]:
    """An application's name and its own number."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise TableError(
            f'a transaction is an application and its number, as in ("nightly", 7), not {_argument_repr(value)}'
        )
    application, number = value
    is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
    if not isinstance(application, str) or not application or not is_number:
        raise TableError(
            f'a transaction is an application and its number, as in ("nightly", 7), not {_argument_repr(value)}'
        )
    return application, number


def seconds_of(value: timedelta, parameter: str) -> float:
    """How long a time is, in seconds; what is yet to come is never old enough."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise TableError(f"{parameter}: older_than is a timedelta from zero on, not {_argument_repr(value)}")
    return min(value, _MAX_AGE).total_seconds()


_MAX_AGE = timedelta(days=36_500)
"""No file is older, and no moment so long ago is outside of the calendar."""


def _argument_repr(value: object) -> str:
    return f"{value} of type {type(value).__name__}" if isinstance(value, PartitionFunction) else value_repr(value)
