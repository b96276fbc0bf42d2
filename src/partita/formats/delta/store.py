"""A Delta table as a `Store`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import Predicate
from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.algebra.spec import PartitionField, SpecHistory
from partita.errors import PartitionValueError, TableError
from partita.formats.chosen import Chosen
from partita.formats.commits import Commits
from partita.formats.containment import Listing, Removed
from partita.formats.delta.columns import column_spec, generated_columns, known_generated, stored_arrow
from partita.formats.delta.commit import Attempt, commit, now
from partita.formats.delta.files import (
    DeltaCopier,
    DeltaTarget,
    Described,
    add_action,
    located_files,
    outside_paths,
    remove_action,
)
from partita.formats.delta.log import (
    DeltaLog,
    Metadata,
    Snapshot,
    check_readable,
    check_writable,
    column_mapping_mode,
    file_statistics,
    is_append_only,
    physical_names,
    row_counts,
    structs,
    typed_partitions,
)
from partita.formats.delta.orphans import is_writers_name, reason_to_stay
from partita.formats.delta.source_bounds import all_known, source_bounds
from partita.formats.delta.touched import commits
from partita.formats.delta.values.validation import PARTITIONABLE
from partita.formats.plan import State, pruned_files
from partita.formats.store import NOWHERE, Change, Edits, Store, spec_ids, told_texts
from partita.storage import Storage
from partita.untrusted import reading

if TYPE_CHECKING:
    from partita.formats.delta.on_spark import DeltaRows
    from partita.spark.rows import Column, DataFrame, SparkSession, StructType

_MEASURED = 32
"""How many columns have statistics unless the table says otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class DeltaState(State):
    """A Delta table at one version, with what its log says."""

    snapshot: Snapshot
    storage: Storage

    def outside(self, places: np.ndarray) -> pa.Array:
        """The paths of those files at some places that lie outside of the table's folder."""
        return pa.array(outside_paths(self.storage, self.files["path"].take(pa.array(places)).to_pylist()), pa.string())

    @property
    def metadata(self) -> Metadata:
        """Schema, partition columns and settings."""
        return self.snapshot.metadata


class DeltaStore(Store):
    """The Delta table in a folder."""

    form = "Delta"

    def __init__(self, storage: Storage) -> None:
        self.uri = storage.uri
        self.storage = storage
        self.log = DeltaLog(storage)
        self._seen: DeltaState | None = None

    def state(self) -> DeltaState:
        """The newest version; deletion vectors and unknown features are refused."""
        snapshot = self.log.snapshot(after=None if self._seen is None else self._seen.snapshot)
        if self._seen is None or snapshot is not self._seen.snapshot:
            self._seen = self._state_of(snapshot)
        return self._seen

    def _state_of(self, snapshot: Snapshot) -> DeltaState:
        """The state of a snapshot; unknown features are refused."""
        check_readable(snapshot.protocol, snapshot.metadata, snapshot.files)
        return state_of(self.storage, snapshot, snapshot.files)

    def check_writable(self, state: State, *, removes: bool) -> None:
        """Refuse unknown features, and to take rows from a table that is append-only."""
        snapshot = _delta(state).snapshot
        check_writable(snapshot.protocol, snapshot.metadata)
        if removes and is_append_only(snapshot.metadata):
            raise TableError(f"the table at {self.uri} is append-only (delta.appendOnly)")

    def seen(self, state: State, transaction: tuple[str, int]) -> bool:
        """Whether the log has that number of the application, or a later one."""
        application, number = transaction
        return _delta(state).snapshot.transactions.get(application, -1) >= number

    def commit(self, state: State, change: Change) -> int:
        """One file of actions in the log."""
        delta = _delta(state)
        partition = _partition_columns(delta)
        physical = physical_names(delta.metadata)
        removed = delta.snapshot.files.take(pa.array(change.removed)).to_pylist()
        at = now()
        changes = change.operation != "rewrite"
        actions = [remove_action(file, at, changes=changes) for file in removed]
        actions += [add_action(told, partition, physical, changes=changes) for told in change.added.to_pylist()]
        touches = None if change.read is None else _Touches(delta, change.read)
        looked_at = frozenset(delta.snapshot.files["path"].take(pa.array(change.looked_at)).to_pylist())
        attempt = Attempt(
            change.operation, actions, change.parameters, change.metrics, touches, change.transaction, looked_at
        )  # fmt: skip
        return commit(self.log, delta.snapshot, attempt)

    def history(self) -> pa.Table:
        """What the commits say of themselves, newest first."""
        return self.log.history()

    def clean(self, older_than: float) -> Removed:
        """Delete files of the table that no commit names, and that writers of Delta tables give their names."""
        listing = Listing.of(self.storage.files(), "delta")
        # A log that lacks commits, or has parts that can't be read, doesn't tell what it names.
        snapshot = self.log.snapshot()
        check_readable(snapshot.protocol, snapshot.metadata, snapshot.files.slice(0, 0))
        # Named after listed: what was committed in between counts as named.
        # By their names alone: a path may be said in many ways, and no two files share a name with a UUID.
        named = {path.rpartition("/")[2] for path in self.log.named_paths()}
        removed = listing.orphans(
            lambda path: path.rpartition("/")[2] in named or path.startswith("_delta_log/"),
            is_writers_name,
            time.time() - older_than,
            reason_to_stay(snapshot, _prefix(snapshot.metadata)),
        )
        self.storage.delete(removed)
        return removed

    def commits(self, after: str | None) -> Commits:
        """What the commits of the log say."""
        with reading(f"the Delta log of {self.uri}"):
            return commits(self.log, self._state_of, self.state, after)

    def told_partitions(self, state: State, told: pa.Table) -> pa.Table:
        """The partitions by their texts."""
        metadata = _delta(state).metadata
        physical = physical_names(metadata)
        names = [physical[name] for name in metadata.partition_columns]
        values = structs(told_texts(told, len(names)), names, told.num_rows)
        files = pa.table({"partition_values": values})
        typed = typed_partitions(files, state.schema, metadata.partition_columns, physical)
        return typed.append_column("spec_id", spec_ids(state.spec.spec_id, told.num_rows))

    def field_values(self, state: State, rows: DataFrame, fields: Sequence[PartitionField]) -> list[Column]:  # noqa: ARG002
        """Columns of their own."""
        from partita.spark.rows import column

        return [column(field.source) for field in fields]

    def check_chosen(self, chosen: Chosen) -> None:
        """Refuse empty texts, which Delta keeps as null (seed 003)."""
        for name in chosen.values.column_names:
            column = chosen.values[name]
            is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
            if is_text and pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
                raise PartitionValueError(name, "text that is not empty, which Delta can't tell from null", "''")

    def target(self, state: State, time_zone: str) -> DeltaTarget:
        """Folders by partition value, or random ones where columns are mapped or the table asks for it."""
        metadata = _delta(state).metadata
        stored = stored_arrow(metadata)
        partition = _partition_columns(_delta(state))
        return DeltaTarget(
            self.storage, stored, partition, Described(_measured(metadata, stored)), time_zone, _prefix(metadata)
        )

    def _copier(self, state: State, places: np.ndarray) -> Callable[[str], DeltaCopier]:
        """How the files at those places are copied, given a time zone."""
        delta = _delta(state)
        files = delta.snapshot.files.take(pa.array(places))
        names = [physical_names(delta.metadata)[name] for name in delta.metadata.partition_columns]
        texts = [tuple((row or {}).get(name) for name in names) for row in files["partition_values"].to_pylist()]
        paths = tuple(located_files(self.storage, files))
        by_id = column_mapping_mode(delta.metadata) == "id"
        return lambda zone: DeltaCopier(self.target(state, zone), paths, tuple(texts), by_id)

    @cached_property
    def _rows(self) -> DeltaRows:
        from partita.formats.delta.on_spark import DeltaRows

        return DeltaRows(self.storage)

    def frame_schema(self, state: State) -> StructType:
        """The columns as Spark has them."""
        return self._rows.schema(_delta(state).metadata)

    def conform(self, state: State, rows: DataFrame) -> DataFrame:
        """Rows of others as the table's."""
        return self._rows.conform(_delta(state).metadata, rows)

    def regenerate(self, state: State, rows: DataFrame) -> DataFrame:
        """Changed rows with their generated columns made anew."""
        return self._rows.regenerate(_delta(state).metadata, rows)

    def has_rules(self, state: State) -> bool:
        """Whether there are constraints or invariants."""
        return self._rows.has_rules(_delta(state).metadata)

    def derived(self, state: State, changed: set[str]) -> set[str]:
        """What changes with these columns: they, and what is generated from any of them."""
        made = generated_columns(_delta(state).metadata)
        return changed | {name for name, sql in made.items() if any(c.casefold() in sql.casefold() for c in changed)}

    def generated(self, state: State) -> frozenset[str]:
        """The columns made from others."""
        return frozenset(generated_columns(_delta(state).metadata))

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
        """Rows of the files at those places, partition columns by what the log says."""
        delta = _delta(state)
        files, partitions = delta.snapshot.files.take(pa.array(places)), state.partitions.take(pa.array(places))
        return self._rows.scan(spark, delta.metadata, files, partitions, names, positions=positions)

    def write(self, state: State, rows: DataFrame, operation: str) -> pa.Table:
        """Write new files in the folders of their partitions.

        The rows of a partition are gathered in one task, so that the number of files doesn't grow with the tasks. An
        append or an overwrite of a table with `delta.autoOptimize.optimizeWrite` = `false` saves the shuffle.
        """
        metadata = _delta(state).metadata
        is_refused = metadata.configuration.get("delta.autoOptimize.optimizeWrite", "true").casefold() == "false"
        gathers = not is_refused or operation in ("update", "merge", "rewrite")
        return self._rows.write(metadata, rows, lambda zone: self.target(state, zone), gathers=gathers)

    def discard(self, state: State, told: pa.Table) -> None:  # noqa: ARG002
        """They are below the table's folder."""
        self.storage.delete(told["path"].to_pylist())

    def stays(self, state: State, places: np.ndarray, changed: set[str], operation: str) -> bool:  # noqa: ARG002
        """Unless a partition column is among them."""
        return not changed & set(_delta(state).metadata.partition_columns)

    def replace(self, state: State, places: np.ndarray, changed: DataFrame, columns: set[str]) -> Edits:
        """The files copied."""
        return self._rows.replace(_delta(state).metadata, changed, columns, self._copier(state, places), places)

    def take_away(
        self,
        state: State,
        places: np.ndarray,
        positions: DataFrame,
        operation: str,  # noqa: ARG002
        *,
        removed: np.ndarray = NOWHERE,  # noqa: ARG002
    ) -> Edits:
        """The files copied."""
        return self._rows.take_away(positions, self._copier(state, places), places)


def state_of(storage: Storage, snapshot: Snapshot, files: pa.Table) -> DeltaState:
    """A table of some files, by a snapshot's schema."""
    with reading("the metadata of the Delta table"):
        return _state_of(storage, snapshot, files)


def _state_of(storage: Storage, snapshot: Snapshot, files: pa.Table) -> DeltaState:
    metadata = snapshot.metadata
    schema = schema_from_json(metadata.schema)
    physical = physical_names(metadata)
    for column in map(schema.find, metadata.partition_columns):
        if column.type.kind not in PARTITIONABLE:
            raise TableError(
                f"the table at {storage.uri} is partitioned by {column.name!r} of type {column.type}, by which Partita "
                "can't tell partitions apart; copy it with delta-spark to a table that another column partitions"
            )
    partitions = typed_partitions(files, schema, metadata.partition_columns, physical)
    bounds = source_bounds(partitions, known_generated(metadata), schema)
    numbers = pa.array(np.zeros(files.num_rows, np.int32))
    listed = pa.table({"path": files["path"], "spec_id": numbers, "bytes": files["size"]})
    return DeltaState(
        snapshot.version,
        schema,
        SpecHistory.start(column_spec(metadata.partition_columns, schema), schema),
        listed,
        partitions.append_column("spec_id", numbers),
        lambda columns, places: all_known(
            file_statistics(_at(files, places), schema, physical, columns),
            {n: b if places is None else b.take(pa.array(places)) for n, b in bounds.items() if n in columns},
        ),
        lambda places: row_counts(files.take(pa.array(places))),
        snapshot,
        storage,
    )


def _at(files: pa.Table, places: np.ndarray | None) -> pa.Table:
    return files if places is None else files.take(pa.array(places))


@dataclass(frozen=True, slots=True, eq=False)
class _Touches:
    """Whether files that another commit added are among what a change read."""

    state: DeltaState
    read: Predicate | Chosen

    def __call__(self, added: list[Mapping[str, Any]]) -> bool:
        snapshot = self.state.snapshot
        rows = [
            {
                "path": add["path"],
                "partition_values": add.get("partitionValues") or {},
                "size": add.get("size"),
                "modification_time": add.get("modificationTime"),
                "stats": add.get("stats"),
                "has_deletion_vector": False,
                "deletion_vector": None,
            }
            for add in added
        ]
        there = state_of(self.state.storage, snapshot, pa.Table.from_pylist(rows, snapshot.files.schema))
        if isinstance(self.read, Predicate):
            return any(pruned_files(there, self.read).may_match.to_pylist())
        return self.read.touches(there.specs, there.partitions)


def _partition_columns(state: DeltaState) -> Schema:
    return Schema(tuple(state.schema.find(name) for name in state.metadata.partition_columns))


def _delta(state: State) -> DeltaState:
    return cast("DeltaState", state)


def _prefix(metadata: Metadata) -> int:
    settings = metadata.configuration
    asked = settings.get("delta.randomizeFilePrefixes", "false").casefold() == "true"
    if not asked and column_mapping_mode(metadata) == "none":
        return 0
    return int(settings.get("delta.randomPrefixLength", "2"))


def _measured(metadata: Metadata, stored: pa.Schema) -> dict[str, Any]:
    """The columns that have statistics, by their names in files."""
    settings = metadata.configuration
    named = settings.get("delta.dataSkippingStatsColumns")
    physical = physical_names(metadata)
    types = {physical[f.name]: f.type for f in schema_from_json(metadata.schema)}
    if named is not None:
        wanted = {physical.get(name.strip().strip("`"), "") for name in named.split(",")}
        return {name: types[name] for name in stored.names if name in wanted}
    count = int(settings.get("delta.dataSkippingNumIndexedCols", _MEASURED))
    return {name: types[name] for name in (stored.names if count < 0 else stored.names[:count])}
