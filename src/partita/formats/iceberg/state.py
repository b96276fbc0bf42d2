"""An Iceberg table at its current snapshot, for planning without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg

from partita.algebra.spec import SpecHistory
from partita.arrow.buffers import one_array
from partita.arrow.prune import Statistics
from partita.errors import StorageError, UnsupportedFeature
from partita.formats.iceberg.columns import field_ids
from partita.formats.iceberg.deletes import LOCATED, applicable, is_vector
from partita.formats.iceberg.manifests import (
    DATA,
    MANIFESTS,
    OPENED,
    PARTITION,
    live_entries,
    manifest_list,
)
from partita.formats.iceberg.manifests.summaries import needed
from partita.formats.iceberg.specs import spec_history
from partita.formats.iceberg.statistics import file_statistics
from partita.formats.plan import State, Where

if TYPE_CHECKING:
    from pyiceberg.table import Table

NO_SNAPSHOT = -1
"""The version of a table that nothing was written to."""


@dataclass(frozen=True, slots=True, eq=False)
class IcebergState(State):
    """An Iceberg table at one snapshot; the version is the snapshot's id.

    `entries` has a row for each data file, in the order of `files`, and `deletes` one for each delete file: columns of
    `partita.formats.iceberg.manifests.ENTRIES`. Where `is_part` is true, files that a predicate
    doesn't need are left out.
    """

    table: Table
    entries: pa.Table
    deletes: pa.Table
    is_part: bool = False

    def with_every_file(self) -> IcebergState:
        """The same snapshot, with all of its manifests, unless it was expired meanwhile."""
        if not self.is_part:
            return self
        try:
            return state_of(self.table)
        except StorageError as error:
            raise StorageError(f"snapshot {self.version} can't be read any more, so plan anew: {error}") from error

    def delete_index(self, places: np.ndarray) -> pa.Table:
        """Which delete files can apply to the data files at some places.

        `place` is a data file's place in `files`, and `delete` the row in `deletes`; ordered by the places' order.
        """
        left, right = applicable(_located(self.entries, places), self.deletes, self.specs)
        return pa.table({"place": np.asarray(places, np.int64)[left], "delete": right})


def state_of(table: Table, where: Where | None = None) -> IcebergState:
    """The table at its current snapshot; what can't be read right is refused.

    With a predicate, data files whose manifest says that none of it can match are left out, and their manifests
    unopened. All delete files are there: one that is of another partition than its data file has to be noticed.
    """
    check_readable(table)
    history = spec_history(table.metadata)
    snapshot = table.metadata.current_snapshot()
    manifests = MANIFESTS.empty_table() if snapshot is None else manifest_list(table.io, snapshot)
    wanted = manifests
    if where is not None:
        has_deletes = manifests["content"].to_numpy() != _DATA_MANIFEST
        wanted = manifests.select(OPENED).filter(pa.array(has_deletes | needed(manifests, history, where)))
    every = live_entries(table.io, wanted, history)
    is_data = every["content"].to_numpy() == DATA
    if is_data.all():
        entries, deletes = every, every.slice(0, 0)
    else:
        entries, deletes = every.filter(pa.array(is_data)), every.filter(pa.array(~is_data))
    return _state(table, history, entries, deletes, is_part=len(wanted) < len(manifests))


_DATA_MANIFEST = 0


def _state(table: Table, history: SpecHistory, entries: pa.Table, deletes: pa.Table, *, is_part: bool) -> IcebergState:
    snapshot = table.metadata.current_snapshot()
    fields = [name for name in entries.column_names if name.startswith(PARTITION)]
    partitions = entries.select([*fields, "spec_id"])
    return IcebergState(
        NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id,
        history.schema,
        history,
        pa.table({"path": entries["path"], "spec_id": entries["spec_id"], "bytes": entries["file_size"]}),
        partitions.rename_columns([*(name.removeprefix(PARTITION) for name in fields), "spec_id"]),
        partial(_statistics, table, entries, history),
        partial(_row_counts, entries, deletes, history),
        table,
        entries,
        deletes,
        is_part,
    )


def _statistics(
    table: Table, entries: pa.Table, history: SpecHistory, columns: Sequence[str], places: np.ndarray | None
) -> Mapping[str, Statistics]:
    return file_statistics(entries, history.schema, field_ids(table.schema()), columns, places)


def _row_counts(entries: pa.Table, deletes: pa.Table, history: SpecHistory, places: np.ndarray) -> pa.Array:
    """How many rows the files have; where deletes may apply, only a deletion vector says how many."""
    counts = one_array(entries["record_count"].take(pa.array(places)))
    if not deletes.num_rows:
        return counts
    left, right = applicable(_located(entries, places), deletes, history)
    if not len(left):
        return counts
    vectors = is_vector(deletes)
    gone, unknown = np.zeros(len(places), np.int64), np.zeros(len(places), bool)
    sizes = deletes["record_count"].to_numpy()
    np.add.at(gone, left, np.where(vectors[right], sizes[right], 0))
    unknown[left[~vectors[right]]] = True
    unknown |= np.bincount(left, minlength=len(places)) > 1
    return pa.array(counts.to_numpy() - gone, pa.int64(), mask=unknown)


def _located(entries: pa.Table, places: np.ndarray) -> pa.Table:
    """What tells which deletes apply to the files at some places."""
    fields = [name for name in entries.column_names if name.startswith(PARTITION)]
    return entries.select([*LOCATED, *fields]).take(pa.array(places))


# --- what can be read


def check_readable(table: Table) -> None:
    """Refuse a table that needs what Partita doesn't read right, by name."""
    needs = [f"format version {table.metadata.format_version}"] if table.metadata.format_version > _NEWEST else []
    for field in table.schema().fields:
        needs += _unreadable(field, field.name)
    if needs:
        raise UnsupportedFeature(tuple(dict.fromkeys(needs)), "reading")


_NEWEST = 3
_READABLE = (
    iceberg.BooleanType, iceberg.IntegerType, iceberg.LongType, iceberg.FloatType, iceberg.DoubleType,
    iceberg.DecimalType, iceberg.DateType, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestamptzType,
    iceberg.StringType, iceberg.UUIDType, iceberg.BinaryType, iceberg.FixedType,
)  # fmt: skip


def _unreadable(field: iceberg.NestedField, name: str) -> Iterator[str]:
    if field.initial_default is not None:
        yield f"the initial default of column {name!r}"
    type_ = field.field_type
    if isinstance(type_, _READABLE):
        return
    if isinstance(type_, iceberg.StructType):
        for inner in type_.fields:
            yield from _unreadable(inner, f"{name}.{inner.name}")
    elif isinstance(type_, iceberg.ListType):
        yield from _unreadable(type_.element_field, f"{name}.element")
    elif isinstance(type_, iceberg.MapType):
        yield from _unreadable(type_.key_field, f"{name}.key")
        yield from _unreadable(type_.value_field, f"{name}.value")
    else:
        yield f"the type {type_} of column {name!r}"
