"""When two files are of the same partition: the same spec, and equal values in it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from partita.formats.iceberg.transaction.pointers import spec_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

Partition: TypeAlias = tuple[int, tuple[Hashable, ...]]


def partition_of(file: DataFile) -> Partition:
    """The partition of a file; equal values under different specs are different partitions."""
    return spec_of(file), tuple(
        _comparable(value) for value in (file.partition[at] for at in range(len(file.partition)))
    )


def place_of(file: DataFile) -> tuple[tuple[Any, ...], ...]:
    """Where a file's partition stands among others of its spec: values in order, then NaN, then null."""
    return tuple(_place(file.partition[at]) for at in range(len(file.partition)))


def _place(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return 0, getattr(value, "bytes", value)


def _comparable(value: object) -> Hashable:
    """NaN is one partition, and the two zeros are two."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    plain: Hashable = getattr(value, "bytes", value)
    return plain
