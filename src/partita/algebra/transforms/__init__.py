"""Partition functions: one class per function, with everything that other modules need to know about it.

There are two families, and a table uses one of them:

| function | `lance` | `iceberg` |
|---|---|---|
| identity | the value | the value |
| year month day hour | the calendar field in UTC: 2025, 12, 10, 7 | the ordinal since 1970-01-01T00:00Z |
| bucket(n) | `(murmur3 & 0x7fffffff) % n` | the same |
| truncate(w) | first w code points or bytes; numbers floored to a multiple of w | the same |
| hash | eight hexadecimal digits of the Murmur3 hash | not available |
| void | not available | null |

Every function maps null to null.

To add a function, write a subclass of `Transform` in this package and list it in `TRANSFORMS`; then register its Arrow
rendering in `partita.arrow.transforms` and its Spark rendering in `partita.spark.transforms`.
"""

from __future__ import annotations

import re

from partita.algebra.transforms.base import PartitionFunction, Transform, TransformFamily
from partita.algebra.transforms.calendar import (
    CalendarTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    YearTransform,
)
from partita.algebra.transforms.hashed import BucketTransform, HashedTransform, HashTransform
from partita.algebra.transforms.values import IdentityTransform, TruncateTransform, UnknownTransform, VoidTransform

__all__ = [
    "TRANSFORMS",
    "BucketTransform",
    "CalendarTransform",
    "DayTransform",
    "HashTransform",
    "HashedTransform",
    "HourTransform",
    "IdentityTransform",
    "MonthTransform",
    "PartitionFunction",
    "Transform",
    "TransformFamily",
    "TruncateTransform",
    "UnknownTransform",
    "VoidTransform",
    "YearTransform",
    "find_transform",
    "parse_transform",
]

TRANSFORMS: tuple[type[Transform], ...] = (
    IdentityTransform,
    YearTransform,
    MonthTransform,
    DayTransform,
    HourTransform,
    BucketTransform,
    TruncateTransform,
    HashTransform,
    VoidTransform,
)
"""Every partition function."""

_TRANSFORMS_BY_NAME = {name: transform for transform in TRANSFORMS for name in (transform.name, *transform.aliases)}


def find_transform(name: str) -> type[Transform] | None:
    """Return the partition function with the given name or alias, or None."""
    return _TRANSFORMS_BY_NAME.get(name)


def parse_transform(text: str) -> Transform:
    """Parse a transform as Iceberg writes it (`bucket[16]`); text of any other kind is an `UnknownTransform`."""
    match = re.fullmatch(r"([a-z]+)(?:\[([0-9]+)\])?", text)
    transform = None if match is None else next((t for t in TRANSFORMS if t.name == match[1]), None)
    if match is None or transform is None or (transform.parameter_name is None) != (match[2] is None):
        return UnknownTransform(text)
    return transform() if match[2] is None else transform(int(match[2]))  # type: ignore[call-arg] # its parameter
