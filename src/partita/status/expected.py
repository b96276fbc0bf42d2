"""The partitions that assets should have, as Arrow columns of canonical keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import prod
from typing import TYPE_CHECKING, Any

from partita.algebra.key_text import tagged
from partita.algebra.partition_sets import Dimension, Dynamic, PartitionSet, Static

if TYPE_CHECKING:
    import pyarrow as pa


def expected_keys(partitions: PartitionSet, now: datetime, members: Mapping[str, list[str]]) -> pa.Array:
    """The keys of the partitions that a definition expects at `now`, in order.

    `members` are the tagged values of dynamic dimensions.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [_texts(dimension, now, members) for dimension in partitions.dimensions]
    if not columns:
        return pa.array([""], pa.string())
    total = prod(map(len, columns))
    parts: list[Any] = []
    after = total
    for column in columns:
        # The last dimension turns fastest.
        after //= len(column) or 1
        places = np.arange(total) // max(after, 1) % max(len(column), 1)
        parts.append(column.take(pa.array(places)))
    return pc.binary_join_element_wise(*parts, ",")


def _texts(dimension: Dimension, now: datetime, members: Mapping[str, list[str]]) -> pa.Array:
    """`name=tag:value`, for each value of the dimension."""
    import pyarrow as pa

    name = dimension.dimension
    if isinstance(dimension, Static):
        return pa.array([f"{name}={tagged(value)}" for value in dimension.values], pa.string())
    if isinstance(dimension, Dynamic):
        return pa.array([f"{name}={text}" for text in sorted(members.get(name, ()))], pa.string())
    return pa.array([f"{name}={tagged(dimension.value(n))}" for n in dimension.expected(now)], pa.string())
