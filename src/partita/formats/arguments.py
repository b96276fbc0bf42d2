"""What callers give to a table, checked before anything is looked at.

A text is a list too, of its letters, so one that stands alone would be taken for as many columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from partita.algebra.functions import identity
from partita.algebra.transforms import PartitionFunction
from partita.errors import SpecError, TableError


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


def texts_of(given: Mapping[str, str], what: str) -> dict[str, str]:
    """Texts by names, as `rename` and `update` take them."""
    if not isinstance(given, Mapping):
        raise TableError(f"{what} takes a dictionary of texts, not {_shown(given)}")
    texts = dict(given)
    for pair in texts.items():
        for one in pair:
            if not isinstance(one, str):
                raise TableError(f"{what} takes a dictionary of texts, and in it is {_shown(one)}")
    return texts


def seconds_of(given: timedelta, what: str) -> float:
    """How long a time is, in seconds; what is yet to come is never old enough."""
    if not isinstance(given, timedelta) or given < timedelta(0):
        raise TableError(f"{what}: older_than is a timedelta from zero on, not {_shown(given)}")
    return given.total_seconds()


def _shown(given: object) -> str:
    return f"{given} of type {type(given).__name__}" if isinstance(given, PartitionFunction) else repr(given)
