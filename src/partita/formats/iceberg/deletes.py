"""Which delete files can apply to which data files (specification, "Scan Planning").

| delete file | applies to a data file |
|---|---|
| deletion vector | that it refers to, no newer than it; other position deletes of the file count no more |
| position deletes of one data file | that one, no newer |
| position deletes of several | of the same spec and partition, no newer, with a path within its bounds |
| equality deletes | of the same spec and partition, older |
| equality deletes of a spec without fields | all that are older |

A delete that points into one data file and is of another spec or partition is refused: some readers go by the path and
apply it, others go by the partition and don't.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import SpecHistory
from partita.algebra.types import STRING
from partita.arrow.buffers import Array, Bools, Ints, one_array
from partita.errors import TableError
from partita.formats.iceberg.manifests import EQUALITY_DELETES, PARTITION, POSITION_DELETES
from partita.formats.iceberg.statistics import decoded, of_column

PATH_COLUMN = 2147483546
"""The id of `file_path` in position-delete files; the specification reserves it."""

LOCATED = ["path", "spec_id", "sequence_number"]

Pairs: TypeAlias = tuple[Ints, Ints]
"""Rows of data files, and of the delete files that can apply to them."""

Counts: TypeAlias = Callable[[Ints, Ints], Bools]
"""Whether a delete of a sequence number counts for data of one."""

_NONE: Pairs = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_MOST = 4_000_000
"""So many candidates are looked at together."""


def applicable(data: pa.Table, deletes: pa.Table, history: SpecHistory) -> Pairs:
    """The pairs of a data file and a delete file that can apply to it, in the order of the data files.

    Both are rows of `partita.formats.iceberg.manifests.ENTRIES`; of data files `LOCATED` and the partition are enough.
    """
    if not data.num_rows or not deletes.num_rows:
        return _NONE
    sides = _Sides.of(data, deletes)
    pairs = [sides.by_path(), sides.by_bounds(), sides.by_equality(history)]
    left, right = (np.concatenate([p[at] for p in pairs]) for at in (0, 1))
    left, right = _without_superseded(left, right, sides)
    # Both in one number, for numpy sorts numbers faster than pairs.
    keys = np.sort(left * deletes.num_rows + right)
    return keys // deletes.num_rows, keys % deletes.num_rows


def is_vector(deletes: pa.Table) -> Bools:
    """Which delete files are deletion vectors."""
    return _bools(pc.equal(pc.utf8_lower(deletes["format"]), "puffin"))


def are_global(deletes: pa.Table, history: SpecHistory) -> Bools:
    """Which delete files are equality deletes of a spec without fields: they are of all partitions."""
    everywhere = {s.spec_id for s in history.specs if all(f.transform.name == "void" for f in s.fields)}
    in_one = np.isin(deletes["spec_id"].to_numpy(), np.array(sorted(everywhere), np.int64))
    return cast("Bools", in_one & (deletes["content"].to_numpy() == EQUALITY_DELETES))


def referenced(deletes: pa.Table) -> Array:
    """The one data file that each position-delete file points into, null where there may be several."""
    lower, upper = _path_bounds(deletes)
    same = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.string()))
    named = pc.coalesce(one_array(deletes["referenced_data_file"]).cast(pa.string()), same)
    return pc.if_else(pc.equal(one_array(deletes["content"]), POSITION_DELETES), named, pa.scalar(None, pa.string()))


def _path_bounds(deletes: pa.Table) -> tuple[Array, Array]:
    lower, upper = (decoded(of_column(deletes[name], PATH_COLUMN), STRING) for name in ("lower_bounds", "upper_bounds"))
    return lower, upper


def _bools(answers: Array) -> Bools:
    return cast("Bools", one_array(pc.fill_null(answers, False)).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """Data and delete files, with a number for each spec and partition that both share."""

    data: pa.Table
    deletes: pa.Table
    paths: Array
    data_groups: Ints
    delete_groups: Ints
    data_sequence: Ints
    delete_sequence: Ints
    content: Ints
    referenced: Array

    @classmethod
    def of(cls, data: pa.Table, deletes: pa.Table) -> _Sides:
        groups = shared_groups(data, deletes)
        return cls(
            data,
            deletes,
            one_array(data["path"]).cast(pa.string()),
            groups[: data.num_rows],
            groups[data.num_rows :],
            data["sequence_number"].to_numpy(),
            deletes["sequence_number"].to_numpy(),
            deletes["content"].to_numpy(),
            referenced(deletes),
        )

    def by_path(self) -> Pairs:
        """Deletes that point into one data file."""
        found = pc.index_in(self.referenced, value_set=self.paths)
        right = np.flatnonzero(_bools(found.is_valid()))
        left = found.take(pa.array(right)).to_numpy().astype(np.int64)
        counts = self.data_sequence[left] <= self.delete_sequence[right]
        left, right = left[counts], right[counts]
        elsewhere = np.flatnonzero(self.data_groups[left] != self.delete_groups[right])
        if len(elsewhere):
            path = self.deletes["path"][int(right[elsewhere[0]])].as_py()
            raise TableError(
                f"the delete file {path} is of another spec or partition than the data file that it points into; "
                "readers of Iceberg disagree on whether it counts, so rewrite the table with the engine that wrote it"
            )
        return left, right

    def by_bounds(self) -> Pairs:
        """Position deletes that may point into several data files."""
        right = np.flatnonzero((self.content == POSITION_DELETES) & _bools(self.referenced.is_null()))
        if not len(right):
            return _NONE
        lower, upper = (bound.take(pa.array(right)) for bound in _path_bounds(self.deletes))
        keyed = pa.table({"group": self.data_groups, "path": self.paths})
        keys = [("group", "ascending"), ("path", "ascending")]
        order = np.asarray(pc.sort_indices(keyed, sort_keys=keys)).astype(np.int64)
        ranks, low, high = _ranked(self.paths, lower, upper)
        # Group and path in one number: there are fewer of both than an int32 holds.
        places = self.data_groups[order] << 32 | ranks[order]
        groups = self.delete_groups[right] << 32
        first = np.searchsorted(places, groups | low, "left")
        after = np.searchsorted(places, groups | high, "right")
        return self._gathered(order, right, first, after, lambda data, delete: data <= delete)

    def by_equality(self, history: SpecHistory) -> Pairs:
        """Equality deletes, by partition or for all."""
        right = np.flatnonzero(self.content == EQUALITY_DELETES)
        if not len(right):
            return _NONE
        is_global = are_global(self.deletes, history)[right]
        pairs = [self._older(right[~is_global], self.data_groups, self.delete_groups)]
        nothing = np.zeros(len(self.data_groups), np.int64), np.zeros(len(self.delete_groups), np.int64)
        pairs.append(self._older(right[is_global], *nothing))
        left, right = (np.concatenate([p[at] for p in pairs]) for at in (0, 1))
        return left, right

    def _older(self, right: Ints, data_groups: Ints, delete_groups: Ints) -> Pairs:
        order = np.lexsort((self.data_sequence, data_groups))
        groups = data_groups[order]
        first = np.searchsorted(groups, delete_groups[right], "left")
        after = np.searchsorted(groups, delete_groups[right], "right")
        return self._gathered(order, right, first, after, lambda data, delete: data < delete)

    def _gathered(self, order: Ints, right: Ints, first: Ints, after: Ints, counts: Counts) -> Pairs:
        """The data files at the places from `first` to `after` in an order, for each delete, whose number counts."""
        found = [
            _kept(left, delete, self.data_sequence, self.delete_sequence, counts)
            for left, delete in _spread(order, right, first, np.maximum(first, after))
        ]
        if not found:
            return _NONE
        return np.concatenate([p[0] for p in found]), np.concatenate([p[1] for p in found])


def _kept(left: Ints, right: Ints, data: Ints, delete: Ints, counts: Counts) -> Pairs:
    keep = counts(data[left], delete[right])
    return left[keep], right[keep]


def _spread(order: Ints, right: Ints, first: Ints, after: Ints) -> Iterator[Pairs]:
    """Each delete with every place of its own, so many at a time."""
    sizes = after - first
    start = 0
    while start < len(right):
        stop = start + max(1, int(np.searchsorted(np.cumsum(sizes[start:]), _MOST, "right")))
        size = sizes[start:stop]
        ends = np.cumsum(size)
        within = np.arange(int(ends[-1])) - np.repeat(ends - size, size)
        yield order[np.repeat(first[start:stop], size) + within], np.repeat(right[start:stop], size)
        start = stop


def _ranked(paths: Array, lower: Array, upper: Array) -> tuple[Ints, Ints, Ints]:
    """The places of paths and of bounds in one order; a bound that isn't known is the first, or the last."""
    every = pa.chunked_array([paths, lower, upper]).combine_chunks()
    ranks = np.asarray(pc.rank(every, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    size, bounds = len(paths), len(lower)
    low = np.where(_bools(lower.is_null()), 0, ranks[size : size + bounds])
    high = np.where(_bools(upper.is_null()), 2**32 - 1, ranks[size + bounds :])
    return ranks[:size], low, high


def _without_superseded(left: Ints, right: Ints, sides: _Sides) -> Pairs:
    """Where a data file has a deletion vector, its older position deletes are in it."""
    vectors = is_vector(sides.deletes)
    if not vectors.any():
        return left, right
    has = np.zeros(sides.data.num_rows, bool)
    has[left[vectors[right]]] = True
    keep = vectors[right] | ~has[left] | (sides.content[right] == EQUALITY_DELETES)
    return left[keep], right[keep]


def shared_groups(data: pa.Table, deletes: pa.Table) -> Ints:
    """A number for each spec and partition, the same for data and deletes; those of deletes come after the others."""
    names = ["spec_id", *(name for name in data.column_names if name.startswith(PARTITION))]
    return partition_groups(pa.concat_tables([data.select(names), deletes.select(names)]))


def partition_groups(both: pa.Table) -> Ints:
    """A number for each spec and partition of files."""
    names = ["spec_id", *(name for name in both.column_names if name.startswith(PARTITION))]
    groups = np.zeros(both.num_rows, np.int64)
    for name in names if both.num_rows else ():
        codes = _codes(both[name])
        _, groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)
        groups = groups.ravel().astype(np.int64)
    return groups


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number for each distinct value, null among them; floats by their bits, so that NaN is itself."""
    array = one_array(column)
    if pa.types.is_floating(array.type):
        array = _as_bits(array)
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return cast("Ints", np.asarray(encoded.indices).astype(np.int64))


def _as_bits(array: Array) -> Array:
    whole = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return whole.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
