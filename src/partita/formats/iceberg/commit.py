"""Committing a change: one snapshot, however many attempts it takes, or nothing.

    snapshot_change -> validation -> conflicts -> manifests.plan -> snapshot_summary -> commit

A change may add files of any spec of the table; each is listed in a manifest of its own spec. pyiceberg provides
catalogs, metadata and Avro. Its snapshot producer is not used, because it lists every added file under the default
spec.

The snapshot id is the same in every attempt. An attempt that lost a race is planned again on the new current snapshot.
An attempt whose outcome is unknown is searched for by that id before it is repeated. Both require the same parent, so
at most one of them can succeed.
"""

from __future__ import annotations

import copy
import random
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from partita.errors import CommitConflict, PartitaError, TableError
from partita.formats.iceberg.catalogs import (
    refresh_table,
    table_name,
    translate_catalog_errors,
    translate_metadata_errors,
)
from partita.formats.iceberg.conflicts import check_conflicts, check_schema_conflict
from partita.formats.iceberg.history import NO_SNAPSHOT
from partita.formats.iceberg.locations import owned_folder, remove_files, remove_files_in_folder
from partita.formats.iceberg.manifests.lookup import ManifestLookup
from partita.formats.iceberg.manifests.plan import ManifestPlan, ManifestPlanner
from partita.formats.iceberg.manifests.write import ManifestWriter
from partita.formats.iceberg.properties import int_property
from partita.formats.iceberg.snapshot_change import SnapshotChange, snapshot_change
from partita.formats.iceberg.snapshot_summary import (
    TRANSACTION_PREFIX,
    has_transaction,
    snapshot_summary,
    transaction_property,
)
from partita.formats.iceberg.validation import check_writable, validate_change
from partita.formats.run_transactions import expired_applications

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.state import IcebergTableVersion
    from partita.formats.table_change import TableChange


def commit_change(table_version: IcebergTableVersion, change: TableChange) -> int:
    """Commit a change on top of a table version, and return the id of the new snapshot."""
    base_snapshot_id = None if table_version.version == NO_SNAPSHOT else table_version.version
    try:
        with translate_catalog_errors(table_version.uri):
            return commit_snapshot(
                copy.copy(table_version.table), base_snapshot_id, snapshot_change(table_version, change)
            )
    except CommitConflict as conflict:
        # The error names the operation that the caller asked for, not the kind of snapshot.
        raise CommitConflict(change.operation, conflict.reason, conflict.version) from conflict


def commit_snapshot(table: Table, base_snapshot_id: int | None, change: SnapshotChange) -> int:
    """Commit a change that was made from the base snapshot (None for an empty table) and return the new snapshot id.

    An empty change without a transaction commits nothing and returns the base, or `NO_SNAPSHOT`. A transaction that the
    table has seen is not repeated: the id of its snapshot is returned, or the current one if that has expired. `table`
    is refreshed.
    """
    validate_change(table.metadata, change)
    if change.is_empty and change.transaction is None:
        return NO_SNAPSHOT if base_snapshot_id is None else base_snapshot_id
    return _SnapshotCommit(table, base_snapshot_id, change).run()


@dataclass(slots=True, eq=False)
class _SnapshotCommit:
    table: Table
    base_snapshot_id: int | None
    change: SnapshotChange
    writer: ManifestWriter = field(init=False)
    is_sent: bool = False
    is_outcome_unknown: bool = False

    def __post_init__(self) -> None:
        self.writer = ManifestWriter(self.table, self.table.metadata.new_snapshot_id())

    def run(self) -> int:
        try:
            with translate_metadata_errors(self.table):
                return self._commit_with_retries()
        except Exception:
            self._discard_files()
            raise

    def _commit_with_retries(self) -> int:
        if self.base_snapshot_id is not None and self.table.metadata.snapshot_by_id(self.base_snapshot_id) is None:
            refresh_table(self.table)
        written_schema = self.table.metadata.schema()
        planner = self._new_planner()
        checked_metadata = self.table.metadata
        retries = CommitRetries(checked_metadata)
        while True:
            metadata = self.table.metadata
            if self.change.transaction is not None and has_transaction(metadata, self.change.transaction):
                self._discard_files()
                return _transaction_snapshot_id(metadata, self.change.transaction)
            if _has_definition_changed(metadata, checked_metadata):
                check_writable(metadata)
                validate_change(metadata, self.change)
                check_schema_conflict(written_schema, metadata, self.change)
                if metadata.format_version != checked_metadata.format_version:
                    planner = self._new_planner()
                checked_metadata = metadata
            current_snapshot = metadata.current_snapshot()
            check_conflicts(planner.lookup, self.base_snapshot_id, current_snapshot, self.change)
            plan = planner.plan(current_snapshot)
            snapshot = self._new_snapshot(metadata, current_snapshot, plan, planner)
            if self._try_commit(metadata, snapshot):
                break
            may_retry = retries.wait()
            refresh_table(self.table)
            if self._is_committed():
                break
            self.is_sent = False
            if not may_retry:
                raise self._retries_exhausted_error(retries)
        self._remove_unused_files(plan)
        return self.writer.snapshot_id

    def _new_planner(self) -> ManifestPlanner:
        return ManifestPlanner(
            self.change, ManifestLookup(self.table, self.base_snapshot_id, self.change.affected_manifests), self.writer
        )

    def _new_snapshot(
        self, metadata: TableMetadata, current_snapshot: Snapshot | None, plan: ManifestPlan, planner: ManifestPlanner
    ) -> Snapshot:
        parent_id = None if current_snapshot is None else current_snapshot.snapshot_id
        sequence_number = metadata.next_sequence_number()
        return Snapshot.model_validate(
            {
                "snapshot-id": self.writer.snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": sequence_number,
                "timestamp-ms": _snapshot_timestamp(metadata, current_snapshot),
                "manifest-list": self.writer.write_manifest_list(plan.manifests, parent_id, sequence_number),
                "summary": snapshot_summary(
                    self.change,
                    plan.removed_files,
                    current_snapshot,
                    lambda: planner.lookup.snapshot_totals(current_snapshot),
                ),
                "schema-id": metadata.current_schema_id,
            }
        )

    def _try_commit(self, metadata: TableMetadata, snapshot: Snapshot) -> bool:
        """Hand the snapshot to the catalog; return False if another commit was first, or may have been."""
        updates, requirements = _updates_and_requirements(metadata, snapshot, self.change)
        self.is_sent = True
        try:
            response = self.table.catalog.commit_table(self.table, requirements, updates)
        except CommitFailedException:
            return False
        except Exception as error:
            # The catalog may have committed before the error, or still be working on it.
            self.is_outcome_unknown = True
            if self._is_committed_after_refresh():
                return True
            if _is_transient_error(error):
                return False
            # For example, a concurrent upgrade may have brought the table to a version that can't be written.
            check_writable(self.table.metadata)
            raise self._unknown_outcome_error() from error
        self.table.metadata = response.metadata
        self.table.metadata_location = response.metadata_location
        _delete_old_metadata_files(self.table, metadata)
        return True

    def _is_committed(self) -> bool:
        snapshot = self.table.metadata.snapshot_by_id(self.writer.snapshot_id)
        return snapshot is not None and snapshot.manifest_list in self.writer.written_paths

    def _is_committed_after_refresh(self) -> bool:
        try:
            refresh_table(self.table)
        except Exception as error:
            raise self._unknown_outcome_error() from error
        return self._is_committed()

    def _discard_files(self) -> None:
        """Delete the written manifests, unless they were sent and are, or may be, part of the table."""
        if not (self.is_sent or self.is_outcome_unknown):
            remove_files(self.table.io, self.writer.written_paths)

    def _remove_unused_files(self, plan: ManifestPlan) -> None:
        """Delete the manifests of earlier attempts that the committed one doesn't use."""
        snapshot = self.table.metadata.snapshot_by_id(self.writer.snapshot_id)
        # If an outcome was unknown, there is no telling which plan was committed.
        if snapshot is None or self.is_outcome_unknown:
            return
        used_paths = {snapshot.manifest_list, *(manifest.manifest_path for manifest in plan.manifests)}
        remove_files(self.table.io, [path for path in self.writer.written_paths if path not in used_paths])

    def _retries_exhausted_error(self, retries: CommitRetries) -> PartitaError:
        if self.is_outcome_unknown:
            return self._unknown_outcome_error()
        current_id = self.table.metadata.current_snapshot_id
        return CommitConflict(self.change.operation, f"was first in all of {retries.attempts} attempts", current_id)

    def _unknown_outcome_error(self) -> TableError:
        return TableError(
            f"the catalog did not say whether it took snapshot {self.writer.snapshot_id} of {table_name(self.table)}; "
            "look for it in the table's history before trying again"
        )


def _updates_and_requirements(
    metadata: TableMetadata, snapshot: Snapshot, change: SnapshotChange
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    main = metadata.refs.get(MAIN_BRANCH)
    updates: tuple[TableUpdate, ...] = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate(
            {
                "ref-name": MAIN_BRANCH,
                "type": SnapshotRefType.BRANCH,
                "snapshot-id": snapshot.snapshot_id,
                # The update replaces the whole ref, so its retention settings are repeated.
                "max-ref-age-ms": None if main is None else main.max_ref_age_ms,
                "max-snapshot-age-ms": None if main is None else main.max_snapshot_age_ms,
                "min-snapshots-to-keep": None if main is None else main.min_snapshots_to_keep,
            }
        ),
    )
    if change.transaction is not None:
        application, version = change.transaction
        updates += (SetPropertiesUpdate(updates={transaction_property(application): str(version)}),)
        applications = [
            name.removeprefix(TRANSACTION_PREFIX) for name in metadata.properties if name.startswith(TRANSACTION_PREFIX)
        ]
        expired_properties = [
            transaction_property(old_application)
            for old_application in expired_applications(applications)
            if old_application != application
        ]
        updates += (RemovePropertiesUpdate(removals=expired_properties),) if expired_properties else ()
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": snapshot.parent_snapshot_id}),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    return updates, requirements


def _has_definition_changed(metadata: TableMetadata, previous: TableMetadata) -> bool:
    """Return whether the format version, the schema or the specs have changed since files were checked against them."""
    return (metadata.format_version, metadata.current_schema_id, metadata.specs()) != (
        previous.format_version, previous.current_schema_id, previous.specs(),
    )  # fmt: skip


def _snapshot_timestamp(metadata: TableMetadata, current_snapshot: Snapshot | None) -> int:
    """Return the current time in milliseconds, or a later one if the clock of the parent's writer was ahead."""
    now = time.time_ns() // 1_000_000
    return max(now, metadata.last_updated_ms, 0 if current_snapshot is None else current_snapshot.timestamp_ms + 1)


def _is_transient_error(error: Exception) -> bool:
    """Return whether the same commit may succeed when repeated, because the connection to the catalog failed."""
    if isinstance(error, CommitStateUnknownException | OSError):
        return True
    # By name, because the drivers of databases, and Thrift, may not be installed.
    transient_names = {"OperationalError", "InterfaceError", "TTransportException"}
    return any(class_.__name__ in transient_names for class_ in type(error).__mro__)


def _transaction_snapshot_id(metadata: TableMetadata, transaction: tuple[str, int]) -> int:
    application, version = transaction
    for snapshot in reversed(metadata.snapshots):
        if snapshot.summary is not None and snapshot.summary.get(transaction_property(application)) == str(version):
            return snapshot.snapshot_id
    return NO_SNAPSHOT if metadata.current_snapshot_id is None else metadata.current_snapshot_id


def _delete_old_metadata_files(table: Table, previous_metadata: TableMetadata) -> None:
    """Delete the metadata files that the metadata log has just dropped, if the table asks for it.

    Only files in the folder of the table's own metadata files are deleted: a log can name any file.
    """
    metadata = table.metadata
    if metadata.properties.get(TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED, "false").casefold() != "true":
        return
    folder = owned_folder(table)
    if folder is None:
        return
    retained_paths = {entry.metadata_file for entry in metadata.metadata_log} | {table.metadata_location}
    dropped_paths = (
        folder.relative_path(entry.metadata_file)
        for entry in previous_metadata.metadata_log
        if entry.metadata_file not in retained_paths
    )
    remove_files_in_folder(
        table.io, folder, [path for path in dropped_paths if path is not None and _METADATA_FILE_PATH.fullmatch(path)]
    )


_METADATA_FILE_PATH = re.compile(r"metadata/[^/]+\.metadata\.json(\.gz)?")


@dataclass(slots=True, eq=False)
class CommitRetries:
    """How often and for how long a lost race is repeated, from the table's `commit.retry.*` properties."""

    metadata: TableMetadata
    attempts: int = 1
    _started_at: float = field(default_factory=time.monotonic)

    def wait(self) -> bool:
        """Wait with exponential backoff; return False once the attempts or the time are used up."""
        if self.attempts > self._int_setting(TableProperties.COMMIT_NUM_RETRIES, DEFAULT_RETRIES):
            return False
        max_total_ms = self._int_setting(TableProperties.COMMIT_TOTAL_RETRY_TIME_MS, 1_800_000)
        if (time.monotonic() - self._started_at) * 1000 > max_total_ms:
            return False
        min_wait_ms = self._int_setting(TableProperties.COMMIT_MIN_RETRY_WAIT_MS, 100)
        max_wait_ms = self._int_setting(TableProperties.COMMIT_MAX_RETRY_WAIT_MS, 60_000)
        # Jitter keeps two commits that lost at the same moment from colliding again.
        jitter = random.uniform(0.1, 1)  # noqa: S311 - no secret
        time.sleep(min(min_wait_ms * 2 ** min(self.attempts - 1, 16), max_wait_ms) * jitter / 1000)
        self.attempts += 1
        return True

    def _int_setting(self, name: str, default: int) -> int:
        return int_property(self.metadata.properties, name, default)


DEFAULT_RETRIES = 20
"""More than Iceberg's 4: an attempt is cheap, and files that took hours to write must not be lost to a busy minute."""
