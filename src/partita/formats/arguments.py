"""What callers give to a table, checked before anything is looked at.

A text is a list too, of its letters, so one that stands alone would be taken for as many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from partita.algebra.functions import identity
from partita.algebra.transforms import PartitionFunction
from partita.errors import SchemaError, SpecError, TableError, value_repr


def functions_of(given: Sequence[PartitionFunction | str], what: str) -> list[PartitionFunction]:
    """Partition functions, where the name of a column stands for its identity."""
    return [identity(one) if isinstance(one, str) else one for one in fields_of(given, what)]


def fields_of(given: Sequence[PartitionFunction | str], what: str) -> list[PartitionFunction | str]:
    """Partition functions and names."""
    if isinstance(given, str | PartitionFunction) or not isinstance(given, Iterable):
        raise SpecError(f'{what} is a list of columns and partition functions, as in ["country"], not {_shown(given)}')
    fields = list(given)
    for one in fields:
        if not isinstance(one, str | PartitionFunction):
            raise SpecError(f'{what} has columns and partition functions, such as pt.day("ts"), not {_shown(one)}')
    return fields


def by_name(given: Mapping[str, str], what: str) -> Mapping[str, str]:
    """What is given by the names of columns or fields."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SchemaError(f"{what} takes a dictionary by names, not {_shown(given)}")
    return given


def names_by_name(given: Mapping[str, str] | None, what: str) -> Mapping[str, str]:
    """New names by the old ones; None is none."""
    names = by_name({} if given is None else given, what)
    for name, other in names.items():
        if not isinstance(other, str):
            raise SchemaError(f"{what} takes a name for {name!r}, not {_shown(other)}")
    return names


def transaction_of(given: tuple[str, int]) -> tuple[str, int]:
    """An application's name and its own number."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise TableError(f'a transaction is an application and its number, as in ("nightly", 7), not {_shown(given)}')
    application, number = given
    is_number = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
    if not isinstance(application, str) or not application or not is_number:
        raise TableError(f'a transaction is an application and its number, as in ("nightly", 7), not {_shown(given)}')
    return application, number


def seconds_of(given: timedelta, what: str) -> float:
    """How long a time is, in seconds; what is yet to come is never old enough."""
    if not isinstance(given, timedelta) or given < timedelta(0):
        raise TableError(f"{what}: older_than is a timedelta from zero on, not {_shown(given)}")
    return min(given, _LONGEST).total_seconds()


_LONGEST = timedelta(days=36_500)
"""No file is older, and no moment so long ago is outside of the calendar."""


def _shown(given: object) -> str:
    return f"{given} of type {type(given).__name__}" if isinstance(given, PartitionFunction) else value_repr(given)
