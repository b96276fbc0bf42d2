"""Distinct rows of Arrow columns: the one place that numbers, deduplicates and groups rows by their values.

Two rows are the same if their values are: null equals null, NaN equals NaN, -0.0 equals 0.0, and a timestamp is an
instant. A caller that tells -0.0 from 0.0, as partitions do, passes the `bits_of_floats`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Array, Bools, Ints, dense_array


def distinct_row_ids(columns: Iterable[Array], row_count: int) -> Ints:
    """Return a number for each row, from 0 on without gaps; the number is the same where the rows are the same."""
    row_ids = np.zeros(row_count, np.int64)
    for column in columns if row_count else ():
        dictionary_array = pc.dictionary_encode(_comparable_array(column), null_encoding="encode")
        codes = np.asarray(dictionary_array.indices).astype(np.int64)
        _, row_ids = np.unique(row_ids * len(dictionary_array.dictionary) + codes, return_inverse=True)
        row_ids = row_ids.ravel().astype(np.int64)
    return row_ids


def first_row_indices(row_ids: Ints) -> Ints:
    """Return the index of the first row with each number, in the order of the numbers."""
    return np.unique(row_ids, return_index=True)[1]


def sort_into_groups(row_ids: Ints) -> tuple[Ints, list[int]]:
    """Return the row indices sorted by number, and the bounds of each group of the same number in them.

    Group `i` is `indices[bounds[i]:bounds[i + 1]]`; its rows keep their order.
    """
    # numpy sorts 16-bit integers by radix, which is several times faster.
    sort_keys = row_ids.astype(np.uint16) if row_ids.size and row_ids.max() < 2**16 else row_ids
    indices = np.argsort(sort_keys, kind="stable")
    changes = np.flatnonzero(np.diff(row_ids[indices])) + 1
    return indices, [0, *changes.tolist(), len(row_ids)]


def distinct_rows(table: pa.Table) -> pa.Table:
    """Return each distinct row of a table once, in the order of their first occurrence."""
    indices = first_row_indices(distinct_row_ids(table.columns, table.num_rows))
    return table.take(pa.array(np.sort(indices)))


def membership_mask(rows: pa.Table, members: pa.Table) -> Bools:
    """Return which rows are among the members; both tables have the same columns, at least one, of the same types."""
    columns = [_concat_columns(rows[name], members[name]) for name in members.column_names]
    row_ids = distinct_row_ids(columns, rows.num_rows + members.num_rows)
    return cast("Bools", np.isin(row_ids[: rows.num_rows], row_ids[rows.num_rows :]))


def bits_of_floats(column: Array) -> Array:
    """Return the values of a column, floats as their bits: 0.0 and -0.0 are two values, and every NaN is one."""
    array = dense_array(column)
    if not pa.types.is_floating(array.type):
        return array
    canonical_floats = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return canonical_floats.view(pa.int32() if array.type.bit_width == 32 else pa.int64())


def _concat_columns(first: Array, second: Array) -> Array:
    return pa.chunked_array([_comparable_array(first), _comparable_array(second)])


def _comparable_array(column: Array) -> Array:
    """Convert values so that Arrow's dictionary encoding finds the same ones equal."""
    array = dense_array(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        # Arrow compares bits: adding 0.0 turns -0.0 into 0.0.
        return bits_of_floats(pc.add(array, pa.scalar(0.0, array.type)))
    return array
