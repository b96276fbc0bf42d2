"""How much a change minds what others commit, and whether that is among what it read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.algebra.predicate import Predicate
from partita.arrow.buffers import one_array
from partita.errors import TableError, value_repr
from partita.formats.chosen import Chosen
from partita.formats.iceberg.columns import field_ids
from partita.formats.iceberg.state import IcebergState, state_of
from partita.formats.iceberg.values import plain_array
from partita.formats.plan import named_in, pruned_files

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

Read = Predicate | Chosen

_LEVELS = {"delete": "write.delete", "update": "write.update", "merge": "write.merge"}


def level_of(state: IcebergState, operation: str) -> str:
    """The isolation level of an operation, as the table's properties say."""
    name = f"{_LEVELS[operation]}.isolation-level" if operation in _LEVELS else None
    level = "serializable" if name is None else state.table.metadata.properties.get(name, "serializable").casefold()
    if level not in ("serializable", "snapshot"):
        raise TableError(f"{name} is serializable or snapshot, not {value_repr(level)}")
    return level


def touches(base: IcebergState, table: Table, entries: list[ManifestEntry], read: Read) -> bool:
    """Whether any of those files can hold what was read: rows of a predicate, or partitions of the spec of `base`.

    A file of manifests that may list it is judged by its partition and its statistics, any other by its partition
    alone. The table
    may have other columns under the names of what was read by now, and then nothing can be told.
    """
    now = state_of(table, read)
    if not _means_the_same(read, base, now):
        return True
    paths = one_array(now.files["path"]).to_pylist()
    wanted = {entry.data_file.file_path for entry in entries}
    here = np.array([path in wanted for path in paths], bool)
    if here.any() and _touched(now, here, read):
        return True
    known = set(paths)
    gone = [entry for entry in entries if entry.data_file.file_path not in known]
    return bool(gone) and _touched(_of_partitions(now, gone), np.ones(len(gone), bool), read)


def _means_the_same(read: Read, base: IcebergState, now: IcebergState) -> bool:
    before, after = (field_ids(state.table.schema()) for state in (base, now))
    names = named_in(read, base.schema) if isinstance(read, Predicate) else [field.source for field in read.fields]
    return all(before.get(name) == after.get(name) for name in names)


def _touched(state: IcebergState, rows: np.ndarray, read: Read) -> bool:
    if isinstance(read, Predicate):
        return bool(pruned_files(state, read).may_match.to_numpy(zero_copy_only=False)[rows].any())
    return read.touches(state.specs, state.partitions.filter(pa.array(rows)))


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
    return replace(state, files=files, partitions=partitions, statistics=lambda *_: {})
