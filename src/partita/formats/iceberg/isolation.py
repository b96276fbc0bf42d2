"""Whether what others committed is among what a change read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import Predicate
from partita.arrow.buffers import one_array
from partita.arrow.spec import spec_columns
from partita.formats.iceberg.state import IcebergState, state_of
from partita.formats.iceberg.values import plain_array
from partita.formats.plan import identities, pruned_files

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

Read = Predicate | frozenset[tuple[object, ...]]


def touches(table: Table, entries: list[ManifestEntry], read: Read) -> bool:
    """Whether any of those files can hold what was read: rows of a predicate, or partitions of the current spec.

    A file that the table has is judged by its partition and its statistics, any other by its partition alone.
    """
    now = state_of(table)
    paths = one_array(now.files["path"]).to_pylist()
    wanted = {entry.data_file.file_path for entry in entries}
    here = np.array([path in wanted for path in paths], bool)
    if here.any() and _touched(now, here, read):
        return True
    known = set(paths)
    gone = [entry for entry in entries if entry.data_file.file_path not in known]
    return bool(gone) and _touched(_of_partitions(now, gone), np.ones(len(gone), bool), read)


def _touched(state: IcebergState, rows: np.ndarray, read: Read) -> bool:
    if isinstance(read, Predicate):
        return bool(pruned_files(state, read).may_match.to_numpy(zero_copy_only=False)[rows].any())
    current = rows & (state.files["spec_id"].to_numpy() == state.spec.spec_id)
    if current.sum() < rows.sum():
        # Rows of another spec can be in any partition of this one.
        return True
    partitions = spec_columns(state.specs, state.spec, state.partitions.filter(pa.array(current)))
    return any(partition in read for partition in identities(partitions))


def _of_partitions(state: IcebergState, entries: list[ManifestEntry]) -> IcebergState:
    """A state of those files, of which only the partitions are known."""
    ids = pa.array([entry.data_file.spec_id for entry in entries], pa.int32())
    columns = {name: [None] * len(entries) for name in state.partitions.column_names if name != "spec_id"}
    for at, entry in enumerate(entries):
        spec = state.specs.spec(entry.data_file.spec_id)
        for place, field in enumerate(spec.fields):
            columns[state.specs.column_name(spec, field)][at] = entry.data_file.partition[place]
    types = {f.name: f.type for f in state.partitions.schema}
    partitions = pa.table(
        {name: plain_array(values, types[name]) for name, values in columns.items()} | {"spec_id": ids}
    )
    paths = pa.array([entry.data_file.file_path for entry in entries])
    files = pa.table({"path": paths, "spec_id": ids, "bytes": pa.array([0] * len(entries))})
    return replace(state, files=files, partitions=partitions, statistics=lambda _: {})
