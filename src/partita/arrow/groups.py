"""Rows of columns that are the same: null is null, NaN is NaN, -0.0 is 0.0, an instant is itself in every zone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Array, Bools, Ints, one_array


def groups(columns: Iterable[Array], size: int) -> Ints:
    """A number for each of `size` rows, equal where the rows are the same."""
    found = np.zeros(size, np.int64)
    for column in columns if size else ():
        encoded = pc.dictionary_encode(_comparable(column), null_encoding="encode")
        codes = np.asarray(encoded.indices).astype(np.int64)
        _, found = np.unique(found * len(encoded.dictionary) + codes, return_inverse=True)
        found = found.ravel().astype(np.int64)
    return found


def distinct(table: pa.Table) -> pa.Table:
    """Each row once, where it comes first."""
    _, first = np.unique(groups(table.columns, table.num_rows), return_index=True)
    return table.take(pa.array(np.sort(first)))


def are_among(rows: pa.Table, wanted: pa.Table) -> Bools:
    """Which rows are the same as one of those wanted; both have the same columns, one at least, of the same types."""
    both = [_joined(rows[name], wanted[name]) for name in wanted.column_names]
    found = groups(both, rows.num_rows + wanted.num_rows)
    return cast("Bools", np.isin(found[: rows.num_rows], found[rows.num_rows :]))


def _joined(one: Array, other: Array) -> Array:
    return pa.chunked_array([_comparable(one), _comparable(other)])


def _comparable(column: Array) -> Array:
    """The values as what Arrow finds equal where they are."""
    array = one_array(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if pa.types.is_floating(array.type):
        # Arrow's keys are bits: of -0.0 and 0.0 the sum is 0.0, and NaN is written in one way.
        plain = pc.if_else(
            pc.is_nan(array), pa.scalar(float("nan"), array.type), pc.add(array, pa.scalar(0.0, array.type))
        )
        return plain.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array
