"""Which delete files can apply to which data files (specification, "Scan Planning").

| delete file | applies to data files |
|---|---|
| deletion vector | the referenced one if no newer; it supersedes other position deletes of that file |
| position deletes that reference one data file | that one if no newer |
| position deletes that may reference several | of the same spec and partition, no newer, with a path in its bounds |
| equality deletes | of the same spec and partition, older |
| equality deletes of a spec without fields | all that are older |

A delete file that references one data file and is of another spec or partition is refused: some readers go by the path
and apply it, others go by the partition and don't.
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
from partita.arrow.buffers import Array, Bools, Ints, dense_array
from partita.arrow.distinct_rows import bits_of_floats, distinct_row_ids
from partita.errors import TableError
from partita.formats.iceberg.files import FILE_PATH_FIELD_ID
from partita.formats.iceberg.manifests import EQUALITY_DELETES, PARTITION_PREFIX, POSITION_DELETES
from partita.formats.iceberg.statistics import column_metric, decode_bounds

DELETE_MATCH_COLUMNS = ["path", "spec_id", "sequence_number"]

FilePairs: TypeAlias = tuple[Ints, Ints]
"""Row indices of data files, and of the delete files that can apply to them."""

SequenceCheck: TypeAlias = Callable[[Ints, Ints], Bools]
"""Given sequence numbers of data files and of delete files: whether the delete file applies."""

_NO_PAIRS: FilePairs = (np.zeros(0, np.int64), np.zeros(0, np.int64))
_MAX_CANDIDATES = 4_000_000
"""Candidate pairs that are checked in one step."""


def applicable_deletes(data_entries: pa.Table, delete_entries: pa.Table, history: SpecHistory) -> FilePairs:
    """Return the pairs of a data file and a delete file that can apply to it, ordered by data file.

    Both tables have columns of `MANIFEST_ENTRY_SCHEMA`; data files need only `DELETE_MATCH_COLUMNS` and the partition
    columns.
    """
    if not data_entries.num_rows or not delete_entries.num_rows:
        return _NO_PAIRS
    matcher = _DeleteMatcher.from_entries(data_entries, delete_entries)
    pairs = [matcher.match_by_path(), matcher.match_by_path_bounds(), matcher.match_equality_deletes(history)]
    data_indices, delete_indices = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    data_indices, delete_indices = _drop_superseded_deletes(data_indices, delete_indices, matcher)
    # One number per pair: numpy sorts numbers faster than pairs.
    keys = np.sort(data_indices * delete_entries.num_rows + delete_indices)
    return keys // delete_entries.num_rows, keys % delete_entries.num_rows


def is_deletion_vector(delete_entries: pa.Table) -> Bools:
    """Return which delete files are deletion vectors."""
    return _numpy_bools(pc.equal(pc.utf8_lower(delete_entries["format"]), "puffin"))


def is_global_delete(delete_entries: pa.Table, history: SpecHistory) -> Bools:
    """Return which delete files are equality deletes of a spec without fields: they apply to all partitions."""
    unpartitioned_ids = {
        spec.spec_id for spec in history.specs if all(field.transform.is_void for field in spec.fields)
    }
    is_unpartitioned = np.isin(delete_entries["spec_id"].to_numpy(), np.array(sorted(unpartitioned_ids), np.int64))
    return cast("Bools", is_unpartitioned & (delete_entries["content"].to_numpy() == EQUALITY_DELETES))


def referenced_data_files(delete_entries: pa.Table) -> Array:
    """Return the one data file that each position-delete file references; null if it may reference several."""
    lower, upper = _path_bounds(delete_entries)
    path_in_bounds = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.string()))
    paths = pc.coalesce(dense_array(delete_entries["referenced_data_file"]).cast(pa.string()), path_in_bounds)
    return pc.if_else(
        pc.equal(dense_array(delete_entries["content"]), POSITION_DELETES), paths, pa.scalar(None, pa.string())
    )


def _path_bounds(delete_entries: pa.Table) -> tuple[Array, Array]:
    lower, upper = (
        decode_bounds(column_metric(delete_entries[name], FILE_PATH_FIELD_ID), STRING)
        for name in ("lower_bounds", "upper_bounds")
    )
    return lower, upper


def _numpy_bools(mask: Array) -> Bools:
    return cast("Bools", dense_array(pc.fill_null(mask, False)).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True, eq=False)
class _DeleteMatcher:
    """Matches data files with delete files; groups number the spec and partition of both sides."""

    data_entries: pa.Table
    delete_entries: pa.Table
    data_paths: Array
    data_groups: Ints
    delete_groups: Ints
    data_sequence_numbers: Ints
    delete_sequence_numbers: Ints
    delete_content: Ints
    referenced_paths: Array

    @classmethod
    def from_entries(cls, data_entries: pa.Table, delete_entries: pa.Table) -> _DeleteMatcher:
        groups = shared_partition_groups(data_entries, delete_entries)
        return cls(
            data_entries,
            delete_entries,
            dense_array(data_entries["path"]).cast(pa.string()),
            groups[: data_entries.num_rows],
            groups[data_entries.num_rows :],
            data_entries["sequence_number"].to_numpy(),
            delete_entries["sequence_number"].to_numpy(),
            delete_entries["content"].to_numpy(),
            referenced_data_files(delete_entries),
        )

    def match_by_path(self) -> FilePairs:
        """Match delete files that reference one data file."""
        data_index_of_delete = pc.index_in(self.referenced_paths, value_set=self.data_paths)
        delete_indices = np.flatnonzero(_numpy_bools(data_index_of_delete.is_valid()))
        data_indices = data_index_of_delete.take(pa.array(delete_indices)).to_numpy().astype(np.int64)
        applies = self.data_sequence_numbers[data_indices] <= self.delete_sequence_numbers[delete_indices]
        data_indices, delete_indices = data_indices[applies], delete_indices[applies]
        mismatched_pairs = np.flatnonzero(self.data_groups[data_indices] != self.delete_groups[delete_indices])
        if len(mismatched_pairs):
            path = self.delete_entries["path"][int(delete_indices[mismatched_pairs[0]])].as_py()
            raise TableError(
                f"the delete file {path} is of another spec or partition than the data file that it references; "
                "readers of Iceberg disagree on whether it applies, so rewrite the table with the engine that wrote it"
            )
        return data_indices, delete_indices

    def match_by_path_bounds(self) -> FilePairs:
        """Match position-delete files that may reference several data files."""
        delete_indices = np.flatnonzero(
            (self.delete_content == POSITION_DELETES) & _numpy_bools(self.referenced_paths.is_null())
        )
        if not len(delete_indices):
            return _NO_PAIRS
        lower, upper = (bound.take(pa.array(delete_indices)) for bound in _path_bounds(self.delete_entries))
        sort_columns = pa.table({"group": self.data_groups, "path": self.data_paths})
        sort_keys = [("group", "ascending"), ("path", "ascending")]
        order = np.asarray(pc.sort_indices(sort_columns, sort_keys=sort_keys)).astype(np.int64)
        ranks, low, high = _path_ranks(self.data_paths, lower, upper)
        # Group and path rank in one number: there are fewer of each than 32 bits hold.
        data_keys = self.data_groups[order] << 32 | ranks[order]
        group_keys = self.delete_groups[delete_indices] << 32
        starts = np.searchsorted(data_keys, group_keys | low, "left")
        stops = np.searchsorted(data_keys, group_keys | high, "right")
        return self._collect_pairs(order, delete_indices, starts, stops, lambda data, delete: data <= delete)

    def match_equality_deletes(self, history: SpecHistory) -> FilePairs:
        """Match equality-delete files, by partition or with all data files."""
        delete_indices = np.flatnonzero(self.delete_content == EQUALITY_DELETES)
        if not len(delete_indices):
            return _NO_PAIRS
        is_global = is_global_delete(self.delete_entries, history)[delete_indices]
        pairs = [self._match_older_data(delete_indices[~is_global], self.data_groups, self.delete_groups)]
        one_group = np.zeros(len(self.data_groups), np.int64), np.zeros(len(self.delete_groups), np.int64)
        pairs.append(self._match_older_data(delete_indices[is_global], *one_group))
        data_indices, delete_indices = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        return data_indices, delete_indices

    def _match_older_data(self, delete_indices: Ints, data_groups: Ints, delete_groups: Ints) -> FilePairs:
        order = np.lexsort((self.data_sequence_numbers, data_groups))
        sorted_groups = data_groups[order]
        starts = np.searchsorted(sorted_groups, delete_groups[delete_indices], "left")
        stops = np.searchsorted(sorted_groups, delete_groups[delete_indices], "right")
        return self._collect_pairs(order, delete_indices, starts, stops, lambda data, delete: data < delete)

    def _collect_pairs(
        self, order: Ints, delete_indices: Ints, starts: Ints, stops: Ints, sequence_check: SequenceCheck
    ) -> FilePairs:
        """Pair each delete file with the data files at `order[start:stop]` that pass the sequence check."""
        pairs = [
            _filter_pairs(
                data_indices, delete, self.data_sequence_numbers, self.delete_sequence_numbers, sequence_check
            )
            for data_indices, delete in _candidate_pairs(order, delete_indices, starts, np.maximum(starts, stops))
        ]
        if not pairs:
            return _NO_PAIRS
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _filter_pairs(
    data_indices: Ints,
    delete_indices: Ints,
    data_sequence_numbers: Ints,
    delete_sequence_numbers: Ints,
    sequence_check: SequenceCheck,
) -> FilePairs:
    keep = sequence_check(data_sequence_numbers[data_indices], delete_sequence_numbers[delete_indices])
    return data_indices[keep], delete_indices[keep]


def _candidate_pairs(order: Ints, delete_indices: Ints, starts: Ints, stops: Ints) -> Iterator[FilePairs]:
    """Yield each delete file with every data file of its range, at most `_MAX_CANDIDATES` pairs at a time."""
    sizes = stops - starts
    first = 0
    while first < len(delete_indices):
        after = first + max(1, int(np.searchsorted(np.cumsum(sizes[first:]), _MAX_CANDIDATES, "right")))
        range_sizes = sizes[first:after]
        range_ends = np.cumsum(range_sizes)
        offsets = np.arange(int(range_ends[-1])) - np.repeat(range_ends - range_sizes, range_sizes)
        yield (
            order[np.repeat(starts[first:after], range_sizes) + offsets],
            np.repeat(delete_indices[first:after], range_sizes),
        )
        first = after


def _path_ranks(paths: Array, lower: Array, upper: Array) -> tuple[Ints, Ints, Ints]:
    """Return the ranks of paths and bounds in one order; an unknown bound is the lowest or the highest."""
    texts = pa.chunked_array([paths, lower, upper]).combine_chunks()
    ranks = np.asarray(pc.rank(texts, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    path_count, bound_count = len(paths), len(lower)
    low = np.where(_numpy_bools(lower.is_null()), 0, ranks[path_count : path_count + bound_count])
    high = np.where(_numpy_bools(upper.is_null()), 2**32 - 1, ranks[path_count + bound_count :])
    return ranks[:path_count], low, high


def _drop_superseded_deletes(data_indices: Ints, delete_indices: Ints, matcher: _DeleteMatcher) -> FilePairs:
    """Drop the position deletes of data files that have a deletion vector, which contains them."""
    is_vector = is_deletion_vector(matcher.delete_entries)
    if not is_vector.any():
        return data_indices, delete_indices
    has_vector = np.zeros(matcher.data_entries.num_rows, bool)
    has_vector[data_indices[is_vector[delete_indices]]] = True
    keep = (
        is_vector[delete_indices]
        | ~has_vector[data_indices]
        | (matcher.delete_content[delete_indices] == EQUALITY_DELETES)
    )
    return data_indices[keep], delete_indices[keep]


def shared_partition_groups(data_entries: pa.Table, delete_entries: pa.Table) -> Ints:
    """Number the spec and partition of data files, then of delete files, with the same numbers on both sides."""
    names = ["spec_id", *(name for name in data_entries.column_names if name.startswith(PARTITION_PREFIX))]
    return partition_groups(pa.concat_tables([data_entries.select(names), delete_entries.select(names)]))


def partition_groups(entries: pa.Table) -> Ints:
    """Number the spec and partition of files."""
    names = ["spec_id", *(name for name in entries.column_names if name.startswith(PARTITION_PREFIX))]
    return distinct_row_ids((bits_of_floats(entries[name]) for name in names), entries.num_rows)
