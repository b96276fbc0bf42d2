"""An Iceberg table as a `Store`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition, Where
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.transforms import PartitionFunction
from partita.algebra.types import NESTED
from partita.arrow.buffers import one_array
from partita.arrow.spec import spec_columns
from partita.errors import Conflict, TableError, UnsupportedFeature, value_repr
from partita.formats.commits import Commits
from partita.formats.containment import Removed
from partita.formats.field_ids import columns_of
from partita.formats.iceberg.catalogs import reloaded, translated
from partita.formats.iceberg.columns import field_ids, stored_arrow, stored_schema
from partita.formats.iceberg.deletes import are_global, is_vector, partition_groups, shared_groups
from partita.formats.iceberg.field_ids import NAME_MAPPING
from partita.formats.iceberg.files import (
    Folder,
    IcebergCopier,
    IcebergMarker,
    IcebergTarget,
    new_data_file,
    new_delete_file,
)
from partita.formats.iceberg.isolation import level_of, touches
from partita.formats.iceberg.manifests import POSITION_DELETES
from partita.formats.iceberg.metrics import Described, measured_columns
from partita.formats.iceberg.object_store import storage_at, store_options
from partita.formats.iceberg.places import METADATA_PATH, check_own_place, data_owner, data_path
from partita.formats.iceberg.spec_times import spec_times
from partita.formats.iceberg.specs import arrow_type
from partita.formats.iceberg.state import NO_SNAPSHOT, IcebergState, check_readable, state_of, state_without_files
from partita.formats.iceberg.touched import commits
from partita.formats.iceberg.transaction import (
    Changes,
    check_writable,
    commit,
    evolve,
    expire_snapshots,
    history,
    remove_orphans,
)
from partita.formats.iceberg.values import directory, parse, plain_array, text_of
from partita.formats.plan import State
from partita.formats.store import NOWHERE, Change, Edits, Store, spec_ids, told_texts

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

    from partita.algebra.predicate import Predicate
    from partita.formats.iceberg.on_spark import IcebergRows
    from partita.spark.rows import Column, DataFrame, SparkSession, StructType

_KINDS = {
    "append": "append", "overwrite": "overwrite", "overwrite_partitions": "overwrite",
    "replace_partitions": "overwrite", "rewrite": "replace",
}  # fmt: skip
_TRANSACTION = "partita.transaction."
_FEW_FILES = 10_000
"""So many files of a state that is known are judged before the manifests that a predicate needs are put together."""


class IcebergStore(Store):
    """The Iceberg table that a catalog has under a name.

    `opened` is the folder that the user opened or created the table in, if there is one.
    """

    form = "Iceberg"

    def __init__(self, table: Table, opened: str | None = None) -> None:
        self.uri = table.location()
        self._table = table
        self._opened = opened
        self._seen: IcebergState | None = None

    def state(self) -> IcebergState:
        """The current snapshot, by metadata that is there: a change is not begun on what is only remembered."""
        with translated(self.uri):
            return self._at(self._loaded(), None)

    def state_for(self, where: Where | Condition | None) -> IcebergState:
        """The current snapshot without the manifests that the predicate doesn't need, or all where that is quicker."""
        with translated(self.uri):
            self._table = reloaded(self._table)
            return self._at(self._table, where)

    def state_without_files(self) -> IcebergState:
        """The current snapshot, by metadata that is there, without any manifest."""
        with translated(self.uri):
            return state_without_files(self._loaded())

    def _checked(self) -> Table:
        """The table as its catalog has it now, if it can be read right."""
        table = self._loaded()
        check_readable(table)
        return table

    def _loaded(self) -> Table:
        self._table = self._table.catalog.load_table(self._table.name())
        return self._table

    def _at(self, table: Table, where: Where | Condition | None) -> IcebergState:
        seen = self._seen if self._seen is not None and _is_at(self._seen, table) else None
        if seen is not None and (where is None or seen.files.num_rows <= _FEW_FILES):
            return seen
        found = state_of(table, where)
        if not found.is_part:
            self._seen = found
        return found

    def check_writable(self, state: State, *, removes: bool) -> None:  # noqa: ARG002
        """Refuse version 3, and to write with functions that aren't known."""
        table = _iceberg(state).table
        check_writable(table.metadata)
        self._check_place(table)
        for field in state.spec.fields:
            if not field.transform.known:
                raise UnsupportedFeature((f"the partition transform {field.transform}",), "writing")

    def seen(self, state: State, transaction: tuple[str, int]) -> bool:
        """Whether the table's properties have that number of the application, or a later one."""
        application, number = transaction
        return int(_iceberg(state).table.metadata.properties.get(f"{_TRANSACTION}{application}", -1)) >= number

    def commit(self, state: State, change: Change) -> int:
        """One snapshot."""
        iceberg = _iceberg(state)
        folder = _folder(iceberg)
        added = [new_data_file(told, folder, state.spec) for told in change.added.to_pylist()]
        marked = change.marked.to_pylist()
        added += [new_delete_file(told, folder, self._group_spec(iceberg, told)) for told in marked]
        pointed = {place for told in marked for place in json.loads(told["details"])["places"]}
        paths = one_array(iceberg.entries["path"])
        listing = pa.array([*change.removed.tolist(), *pointed], pa.int64())
        changes = Changes(
            _kind(change),
            added,
            frozenset(paths.take(pa.array(change.removed)).to_pylist()),
            frozenset(change.unmarked) | _without_files(iceberg, change.removed),
            frozenset(paths[place].as_py() for place in pointed),
            self._reads(iceberg, change),
            {key: str(value) for key, value in change.parameters.items()},
            change.transaction,
            frozenset(pc.unique(iceberg.entries["manifest"].take(listing)).to_pylist()),
        )
        base = None if state.version == NO_SNAPSHOT else state.version
        try:
            with translated(self.uri):
                return commit(copy.copy(iceberg.table), base, changes)
        except Conflict as lost:
            # What the caller asked for, and not the kind of snapshot that it would have been.
            raise Conflict(change.operation, lost.reason, lost.version) from lost

    def _group_spec(self, state: IcebergState, told: Mapping[str, Any]) -> PartitionSpec:
        place = json.loads(told["details"])["places"][0]
        return state.specs.spec(state.entries["spec_id"][place].as_py())

    def _reads(self, state: IcebergState, change: Change) -> Callable[[Table, list[ManifestEntry]], bool] | None:
        """Whether files that others added are among what a change read; None where it may not mind."""
        read = change.read
        if read is None or level_of(state, change.operation) == "snapshot":
            return None
        return lambda table, entries: touches(state, table, entries, read)

    def history(self) -> pa.Table:
        """The snapshots, newest first."""
        with translated(self.uri):
            return history(self._loaded())

    def spec_times(self) -> Mapping[int, datetime]:
        """As the metadata that is still there tells."""
        with translated(self.uri):
            return spec_times(self._loaded())

    def evolve(
        self,
        *,
        add: Sequence[PartitionFunction | str],
        drop: Sequence[PartitionFunction | str],
        rename: Mapping[str, str],
    ) -> None:
        """A new spec, or an earlier one again; files keep theirs."""
        with translated(self.uri):
            table = self._checked()
        self._check_place(table)
        with translated(self.uri):
            evolve(copy.copy(table), add, drop, rename)

    def _check_place(self, table: Table) -> None:
        """Refuse to commit where the new metadata file would lie in a folder that only metadata says is the table's.

        From then on, every reader would take that folder for the table's own.
        """
        if not table.metadata.properties.get(METADATA_PATH):
            check_own_place(table, self._opened)

    def clean(self, older_than: float) -> Removed:
        """Delete files in the table's folders that none of its snapshots reaches."""
        with translated(self.uri):
            return remove_orphans(copy.copy(self._checked()), older_than, self._opened)

    def expire(self, older_than: float | None, retain_last: int | None) -> Removed:
        """Snapshots, as the table's properties say where nothing else is said."""
        before = None if older_than is None else datetime.now(UTC) - timedelta(seconds=older_than)
        with translated(self.uri):
            return expire_snapshots(copy.copy(self._checked()), before, retain_last, self._opened)

    def commits(self, after: str | None) -> Commits:
        """What the snapshots on the way to the current one did."""
        with translated(self.uri):
            return commits(self._loaded(), after)

    def told_partitions(self, state: State, told: pa.Table) -> pa.Table:
        """The partitions by their texts."""
        spec = state.spec
        columns = {"spec_id": spec_ids(spec.spec_id, told.num_rows)}
        for field, texts in zip(spec.fields, told_texts(told, len(spec.fields)), strict=True):
            coded = texts.dictionary_encode()
            values = [parse(text, field) for text in coded.dictionary.to_pylist()]
            columns[state.specs.column_name(spec, field)] = plain_array(values, arrow_type(field)).take(coded.indices)
        return pa.table(columns)

    # --- on Spark

    def _rows(self, state: State) -> IcebergRows:
        from partita.formats.iceberg.on_spark import IcebergRows

        return IcebergRows(_iceberg(state))

    def frame_schema(self, state: State) -> StructType:
        """The columns as Spark has them."""
        return self._rows(state).schema("changing")

    def conform(self, state: State, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's."""
        return self._rows(state).conform(rows)

    def regenerate(self, state: State, rows: DataFrame) -> DataFrame:
        """Changed rows, without null where none may be."""
        return self._rows(state).required(rows)

    def scan(  # noqa: PLR0913 - of the interface
        self,
        spark: SparkSession,
        state: State,
        places: np.ndarray,
        names: Sequence[str],
        *,
        positions: bool = False,
        where: Predicate | None = None,  # noqa: ARG002 - Spark pushes filters down by itself
    ) -> DataFrame:
        """Rows of the files at those places, without those that delete files speak of."""
        return self._rows(state).scan(spark, places, names, positions=positions)

    def count(self, state: State, places: np.ndarray) -> int:
        """By manifests, and by the delete files alone where these say which rows."""
        return self._rows(state).count(places)

    def field_values(self, state: State, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:
        """What the fields' functions make of the rows."""
        return self._rows(state).partition(rows, fields)

    def is_outdated(self, state: State, places: np.ndarray) -> np.ndarray:
        """Those of another spec than the current one, and those with deletes."""
        deleted = np.isin(places, _iceberg(state).delete_index(places)["place"].to_numpy())
        return super().is_outdated(state, places) | deleted

    def write(self, state: State, rows: DataFrame, operation: str) -> pa.Table:  # noqa: ARG002
        """New files in the current spec."""
        return self._rows(state).write(rows, _target(_iceberg(state)))

    def discard(self, state: State, told: pa.Table) -> None:
        """They are below the table's data folder."""
        _folder(_iceberg(state)).storage.delete(told["path"].to_pylist())

    def stays(self, state: State, places: np.ndarray, changed: set[str], operation: str) -> bool:
        """Where the table copies on write, and the files can be copied as they are."""
        iceberg = _iceberg(state)
        if not _copies(iceberg, operation) or not _are_plain(iceberg, places):
            return False
        return not changed & {field.source.partition(".")[0] for field in state.spec.fields}

    def replace(self, state: State, places: np.ndarray, changed: DataFrame, columns: set[str]) -> Edits:
        """The files copied."""
        return self._rows(state).replace(changed, columns, _copier(_iceberg(state), places), places)

    def take_away(
        self, state: State, places: np.ndarray, positions: DataFrame, operation: str, *, removed: np.ndarray = NOWHERE
    ) -> Edits:
        """Write position deletes, or copy the files where the table says so."""
        iceberg = _iceberg(state)
        rows = self._rows(state)
        if not _copies(iceberg, operation):
            groups, firsts = _groups(iceberg, places, removed)
            index = _positional(iceberg, np.flatnonzero(groups >= 0))
            return rows.mark(positions, places, groups, _marker(iceberg, groups, firsts), index)
        if _are_plain(iceberg, places):
            return rows.copied_without(positions, _copier(iceberg, places), places)
        return rows.written_without(positions, places, _target(iceberg))


def _is_at(state: IcebergState, table: Table) -> bool:
    return state.table.metadata_location == table.metadata_location


def _iceberg(state: State) -> IcebergState:
    return cast("IcebergState", state)


def _kind(change: Change) -> str:
    kind = _KINDS.get(change.operation)
    if kind is None:
        return "row_delta" if change.marked.num_rows else "overwrite"
    return "overwrite" if kind == "append" and (len(change.removed) or change.marked.num_rows) else kind


def _copies(state: IcebergState, operation: str) -> bool:
    """Whether the table copies files on write; version 1 has nothing else."""
    if state.table.metadata.format_version == 1:
        return True
    mode = state.table.metadata.properties.get(f"write.{operation}.mode", "merge-on-read")
    if mode not in ("merge-on-read", "copy-on-write"):
        raise TableError(f"write.{operation}.mode is merge-on-read or copy-on-write, not {value_repr(mode)}")
    return mode == "copy-on-write"


def _are_plain(state: IcebergState, places: np.ndarray) -> bool:
    """Whether files can be copied in Arrow: of the current spec, with nothing deleted, and columns as they are now."""
    metadata = state.table.metadata
    if NAME_MAPPING in metadata.properties:
        return False
    if len(metadata.schemas) > 1 and any(f.type.kind in NESTED for f in state.schema):
        return False
    specs = state.entries["spec_id"].to_numpy()[places]
    return bool((specs == state.spec.spec_id).all()) and not state.delete_index(places).num_rows


def _folder(state: IcebergState) -> Folder:
    metadata, uri = state.table.metadata, data_path(state.table.metadata)
    return Folder(uri, storage_at(uri, store_options(uri, state.table.io.properties)), data_owner(metadata))


def _target(state: IcebergState) -> IcebergTarget:
    schema = state.table.schema()
    properties = state.table.metadata.properties
    columns = measured_columns(state.schema, field_ids(schema), properties)
    paths = {number: path for path, number in field_ids(stored_schema(schema)).items()}
    columns = {paths[column.field_id]: column for column in columns.values()}
    stored = stored_arrow(schema)
    return IcebergTarget(
        _folder(state), stored, columns_of(stored).fingerprint, state.spec.fields, Described(columns),
        _compression(properties),
    )  # fmt: skip


def _compression(properties: Mapping[str, str]) -> str:
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    return {"uncompressed": "none"}.get(codec, codec)


def _copier(state: IcebergState, places: np.ndarray) -> IcebergCopier:
    target = _target(state)
    paths = tuple(one_array(state.entries["path"]).take(pa.array(places)).to_pylist())
    state.check_links(paths)
    return IcebergCopier(target, target.folder.storage.options, paths, tuple(_texts(state, state.spec, places)))


def _texts(state: IcebergState, spec: PartitionSpec, places: np.ndarray) -> list[tuple[str | None, ...]]:
    """The texts of the partitions of files of one spec."""
    partitions = spec_columns(state.specs, spec, state.partitions.take(pa.array(places)))
    columns = [one_array(partitions[field.name]) for field in spec.fields]
    return [tuple(text_of(column[at]) for column in columns) for at in range(len(places))]


def _groups(state: IcebergState, places: np.ndarray, removed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every file of the table the number of its spec and partition where one of the places is in it, else -1.

    Files that are removed have none: no delete may point into a file that its own commit removes. And for each such
    number a place that has it.
    """
    every = partition_groups(state.entries)
    touched, firsts = np.unique(every[places], return_index=True)
    at = np.minimum(np.searchsorted(touched, every), len(touched) - 1)
    groups = np.where(touched[at] == every, at, -1)
    groups[removed] = -1
    return groups, places[firsts]


def _marker(state: IcebergState, groups: np.ndarray, firsts: np.ndarray) -> IcebergMarker:
    places = np.flatnonzero(groups >= 0)
    paths = one_array(state.entries["path"]).take(pa.array(places)).to_pylist()
    ids = state.entries["spec_id"].to_numpy()[firsts]
    partitions: list[tuple[str | None, ...]] = [()] * len(firsts)
    directories = [""] * len(firsts)
    for spec_id in np.unique(ids).tolist():
        spec = state.specs.spec(spec_id)
        numbers = np.flatnonzero(ids == spec_id)
        for number, texts in zip(numbers.tolist(), _texts(state, spec, firsts[numbers]), strict=True):
            partitions[number], directories[number] = texts, directory(spec.fields, texts)
    return IcebergMarker(
        _folder(state),
        dict(zip(places.tolist(), paths, strict=True)),
        tuple(partitions),
        tuple(directories),
        _compression(state.table.metadata.properties),
    )


def _without_files(state: IcebergState, removed: np.ndarray) -> frozenset[str]:
    """The delete files that are of no use once some files are gone.

    A state that is a part can tell of the partitions of these files alone, whose files are all there.
    """
    if not len(removed) or not state.deletes.num_rows:
        return frozenset()
    places, useless = np.arange(state.files.num_rows), np.ones(state.deletes.num_rows, bool)
    if state.is_part:
        groups = shared_groups(state.entries, state.deletes)
        touched = np.isin(groups, groups[removed])
        places = np.flatnonzero(touched[: len(places)])
        useless = touched[state.files.num_rows :] & ~are_global(state.deletes, state.specs)
    index = state.delete_index(places)
    stays = ~np.isin(index["place"].to_numpy(), removed)
    useless[index["delete"].to_numpy()[stays]] = False
    return frozenset(state.deletes["path"].filter(pa.array(useless)).to_pylist())


def _positional(state: IcebergState, places: np.ndarray) -> pa.Table:
    """Which position-delete files can apply to the files at some places."""
    index = state.delete_index(places)
    wanted = (state.deletes["content"].to_numpy() == POSITION_DELETES) & ~is_vector(state.deletes)
    return index.filter(pa.array(wanted[index["delete"].to_numpy()]))
