"""Check the arguments of table operations before any work is done.

A string is a sequence of its letters, so a single string in place of a list is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from partita.algebra.partition_functions import identity
from partita.algebra.transforms import PartitionFunction
from partita.errors import SchemaError, SpecError, TableError, value_repr


def partition_functions_of(value: Sequence[PartitionFunction | str], parameter: str) -> list[PartitionFunction]:
    """Return partition functions; a column name stands for its identity. Raises `SpecError` for anything else."""
    return [identity(field) if isinstance(field, str) else field for field in partition_fields_of(value, parameter)]


def partition_fields_of(value: Sequence[PartitionFunction | str], parameter: str) -> list[PartitionFunction | str]:
    """Return a list of partition functions and names; raise `SpecError` for anything else."""
    if isinstance(value, str | PartitionFunction) or not isinstance(value, Iterable):
        raise SpecError(
            f'{parameter} is a list of columns and partition functions, as in ["country"], not {_argument_repr(value)}'
        )
    fields = list(value)
    for field in fields:
        if not isinstance(field, str | PartitionFunction):
            raise SpecError(
                f'{parameter} has columns and partition functions, such as pt.day("ts"), not {_argument_repr(field)}'
            )
    return fields


def mapping_by_name(value: Mapping[str, str], parameter: str) -> Mapping[str, str]:
    """Return a mapping by column or field names; raise `SchemaError` for anything else."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise SchemaError(f"{parameter} takes a dictionary by names, not {_argument_repr(value)}")
    return value


def rename_mapping(value: Mapping[str, str] | None, parameter: str) -> Mapping[str, str]:
    """Return new names by old ones; None renames nothing. Raises `SchemaError` for anything else."""
    names = mapping_by_name({} if value is None else value, parameter)
    for name, new_name in names.items():
        if not isinstance(new_name, str):
            raise SchemaError(f"{parameter} takes a name for {name!r}, not {_argument_repr(new_name)}")
    return names


def transaction_of(value: tuple[str, int]) -> tuple[str, int]:
    """Return the id of an application and its transaction number; raise `TableError` for anything else."""
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
    """Return a duration in seconds; raise `TableError` naming the parameter if it is negative or no timedelta."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise TableError(f"{parameter}: older_than is a timedelta from zero on, not {_argument_repr(value)}")
    return min(value, _MAX_AGE).total_seconds()


_MAX_AGE = timedelta(days=36_500)
"""The longest duration: no file is older, and the time so long ago is still in the calendar of `datetime`."""


def _argument_repr(value: object) -> str:
    return f"{value} of type {type(value).__name__}" if isinstance(value, PartitionFunction) else value_repr(value)
