"""An Iceberg table at its current snapshot, for planning without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from partita.algebra.parse import Condition, Where
from partita.algebra.spec import SpecHistory
from partita.arrow.buffers import Bools, one_array
from partita.arrow.groups import distinct
from partita.arrow.prune import Statistics
from partita.arrow.spec import spec_columns
from partita.errors import StorageError, UnsupportedFeature
from partita.formats.chosen import Chosen
from partita.formats.containment import Place, check_no_links
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
from partita.formats.iceberg.manifests.summaries import needed, needed_by_partitions
from partita.formats.iceberg.specs import spec_history
from partita.formats.iceberg.statistics import file_statistics
from partita.formats.plan import State, make_plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

NO_SNAPSHOT = -1
"""The version of a table that nothing was written to."""


@dataclass(frozen=True, slots=True, eq=False)
class IcebergState(State):
    """An Iceberg table at one snapshot; the version is the snapshot's id.

    `entries` has a row for each data file, in the order of `files`, and `deletes` one for each delete file: columns of
    `partita.formats.iceberg.manifests.ENTRIES`. Where `is_part` is true, some data files are left out: those that a
    predicate doesn't need, with all others of their partitions, or all.
    """

    table: Table
    entries: pa.Table
    deletes: pa.Table
    is_part: bool = False

    def with_every_file(self) -> IcebergState:
        """The same snapshot, with all of its manifests, unless it was expired meanwhile."""
        if not self.is_part:
            return self
        with _not_expired(self.version):
            return state_of(self.table)

    def with_files_for(self, read: Where | Condition | Chosen) -> IcebergState:
        """The same snapshot, with every manifest that may list what is read, or others of the same partitions.

        All files of a partition are there, because a delete file may speak of any of them.
        """
        if not self.is_part:
            return self
        with _not_expired(self.version):
            listed = _listed(self.table)
            wanted = _needed(listed, self.specs, read)
            found = _opened(self.table, self.specs, listed, wanted)
            if isinstance(read, Chosen) or not found.deletes.num_rows:
                return found
            whole = wanted | _with_partitions(listed, found, make_plan(found, read).kept)
            return found if (whole == wanted).all() else _opened(self.table, self.specs, listed, whole)

    def outside(self, places: np.ndarray) -> pa.Array:
        """The paths of those data files that are not below the table's location, links resolved."""
        paths = self.files["path"].take(pa.array(places)).to_pylist()
        place = Place.at(self.table.location())
        return pa.array([path for path in paths if place.relative(path) is None or place.leaves(path)], pa.string())

    def check_links(self, paths: Iterable[str]) -> None:
        """Refuse files that a symbolic link takes out of the table's location, before they are read."""
        check_no_links(Place.at(self.table.location()), paths)

    def delete_index(self, places: np.ndarray) -> pa.Table:
        """Which delete files can apply to the data files at some places.

        `place` is a data file's place in `files`, and `delete` the row in `deletes`; ordered by the places' order.
        """
        left, right = applicable(_located(self.entries, places), self.deletes, self.specs)
        return pa.table({"place": np.asarray(places, np.int64)[left], "delete": right})


def state_without_files(table: Table) -> IcebergState:
    """The table at its current snapshot, without any file: no manifest is opened."""
    check_readable(table)
    history = spec_history(table.metadata)
    none = live_entries(table.io, MANIFESTS.empty_table(), history)
    return _state(table, history, none, none, is_part=table.metadata.current_snapshot() is not None)


def state_of(table: Table, read: Where | Condition | Chosen | None = None) -> IcebergState:
    """The table at its current snapshot; what can't be read right is refused.

    With a predicate or partitions to read, data files whose manifest says that it can list none of them are left out,
    and their manifests unopened. All delete files are there: one that is of another partition than its data file has
    to be noticed.
    """
    check_readable(table)
    history, manifests = spec_history(table.metadata), _listed(table)
    return _opened(table, history, manifests, None if read is None else _needed(manifests, history, read))


def _listed(table: Table) -> pa.Table:
    """The manifests of the current snapshot."""
    snapshot = table.metadata.current_snapshot()
    return MANIFESTS.empty_table() if snapshot is None else manifest_list(table.io, snapshot)


def _needed(manifests: pa.Table, history: SpecHistory, read: Where | Condition | Chosen) -> Bools:
    """The manifests that may list a data file of what is read, and all manifests of deletes."""
    has_deletes: Bools = manifests["content"].to_numpy() != _DATA_MANIFEST
    if isinstance(read, Chosen):
        return has_deletes | needed_by_partitions(manifests, history, read)
    return has_deletes | needed(manifests, history, read)


def _with_partitions(manifests: pa.Table, state: IcebergState, places: np.ndarray) -> Bools:
    """The manifests that may list a file of the same spec and partition as one of the files at some places."""
    found = np.zeros(manifests.num_rows, bool)
    ids, partitions = manifests["spec_id"].to_numpy(), state.partitions.take(pa.array(places))
    for spec in state.specs.specs:
        own = partitions.filter(pc.equal(partitions["spec_id"], spec.spec_id))
        if own.num_rows:
            values = distinct(spec_columns(state.specs, spec, own))
            may_hold = needed_by_partitions(manifests, state.specs, Chosen(spec.fields, values))
            found |= (ids == spec.spec_id) & may_hold
    return found


def _opened(table: Table, history: SpecHistory, manifests: pa.Table, wanted: Bools | None) -> IcebergState:
    """The files of those of a snapshot's manifests that are wanted; None stands for all."""
    every_manifest = wanted is None or bool(wanted.all())
    opened = manifests if every_manifest else manifests.select(OPENED).filter(pa.array(wanted))
    every = live_entries(table.io, opened, history)
    is_data = every["content"].to_numpy() == DATA
    if is_data.all():
        entries, deletes = every, every.slice(0, 0)
    else:
        entries, deletes = every.filter(pa.array(is_data)), every.filter(pa.array(~is_data))
    return _state(table, history, entries, deletes, is_part=not every_manifest)


_DATA_MANIFEST = 0


@contextmanager
def _not_expired(version: int) -> Iterator[None]:
    """Say of metadata that can't be read that its snapshot may be gone."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"snapshot {version} can't be read any more, so plan anew: {error}") from error


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
