"""Committing a change: one snapshot, however many tries it takes, or nothing.

The snapshot's id stays the same in each try. A try that another commit got ahead of is planned anew on what is there
then; one whose answer was lost is looked for by that id before it is tried again: both require the same parent, so that
at most one of them can land.
"""

from __future__ import annotations

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

from partita.errors import Conflict, PartitaError, TableError
from partita.formats.iceberg.places import delete_all, delete_files, own_place
from partita.formats.iceberg.properties import number_in
from partita.formats.iceberg.transaction.conflicts import check_conflicts, check_schema
from partita.formats.iceberg.transaction.edge import name_of, refresh, translated
from partita.formats.iceberg.transaction.manifests import Output
from partita.formats.iceberg.transaction.planning import Entries, Plan, Planner
from partita.formats.iceberg.transaction.summary import TRANSACTION, summarised, transaction_property
from partita.formats.iceberg.transaction.validation import check_writable, validate
from partita.formats.transactions import outlived

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.transaction.changes import Changes

NO_SNAPSHOT = -1
"""The version of a table without one, as in Iceberg's metadata."""


def commit(table: Table, base: int | None, changes: Changes) -> int:
    """Commit what was made from snapshot `base`, or from none, and return the id of the new snapshot.

    Nothing to do commits nothing and gives `base` back, or `NO_SNAPSHOT`. A transaction that the table has seen is not
    made again: the id of its snapshot comes back, or of the current one where that is gone. `table` is left refreshed.
    """
    validate(table.metadata, changes)
    if changes.is_empty and changes.transaction is None:
        return NO_SNAPSHOT if base is None else base
    return _Commit(table, base, changes).run()


@dataclass(slots=True, eq=False)
class _Commit:
    table: Table
    base: int | None
    changes: Changes
    output: Output = field(init=False)
    is_sent: bool = False
    in_doubt: bool = False

    def __post_init__(self) -> None:
        self.output = Output(self.table, self.table.metadata.new_snapshot_id())

    def run(self) -> int:
        try:
            with translated(self.table):
                return self._tried()
        except Exception:
            self._discard()
            raise

    def _tried(self) -> int:
        if self.base is not None and self.table.metadata.snapshot_by_id(self.base) is None:
            refresh(self.table)
        written_for = self.table.metadata.schema()
        planner = self._planner()
        seen = self.table.metadata
        retries = Retries(seen)
        while True:
            metadata = self.table.metadata
            if self.changes.transaction is not None and _is_seen(metadata, self.changes.transaction):
                self._discard()
                return _made_by(metadata, self.changes.transaction)
            if _is_other(metadata, seen):
                check_writable(metadata)
                validate(metadata, self.changes)
                check_schema(written_for, metadata, self.changes)
                if metadata.format_version != seen.format_version:
                    planner = self._planner()
                seen = metadata
            head = metadata.current_snapshot()
            check_conflicts(planner.entries, self.base, head, self.changes)
            plan = planner.plan(head)
            snapshot = self._snapshot(metadata, head, plan, planner)
            if self._landed(metadata, snapshot):
                break
            goes_on = retries.wait()
            refresh(self.table)
            if self._is_there():
                break
            self.is_sent = False
            if not goes_on:
                raise self._exhausted(retries)
        self._clean(plan)
        return self.output.snapshot_id

    def _planner(self) -> Planner:
        return Planner(self.changes, Entries(self.table, self.base, self.changes.listed), self.output)

    def _snapshot(self, metadata: TableMetadata, head: Snapshot | None, plan: Plan, planner: Planner) -> Snapshot:
        parent = None if head is None else head.snapshot_id
        number = metadata.next_sequence_number()
        return Snapshot.model_validate(
            {
                "snapshot-id": self.output.snapshot_id,
                "parent-snapshot-id": parent,
                "sequence-number": number,
                "timestamp-ms": _timestamp(metadata, head),
                "manifest-list": self.output.write_list(plan.manifests, parent, number),
                "summary": summarised(self.changes, plan.removed, head, lambda: planner.entries.totals(head)),
                "schema-id": metadata.current_schema_id,
            }
        )

    def _landed(self, metadata: TableMetadata, snapshot: Snapshot) -> bool:
        """Hand the snapshot to the catalog; False where another was first, or may have been."""
        updates, requirements = _update(metadata, snapshot, self.changes)
        self.is_sent = True
        try:
            response = self.table.catalog.commit_table(self.table, requirements, updates)
        except CommitFailedException:
            return False
        except Exception as error:
            # The catalog may have taken it before the error, or still be at it.
            self.in_doubt = True
            if self._is_there_now():
                return True
            if _is_passing(error):
                return False
            # Such as a table that another has brought to a version that this snapshot isn't of.
            check_writable(self.table.metadata)
            raise self._unknown() from error
        self.table.metadata = response.metadata
        self.table.metadata_location = response.metadata_location
        _drop_old_metadata(self.table, metadata)
        return True

    def _is_there(self) -> bool:
        found = self.table.metadata.snapshot_by_id(self.output.snapshot_id)
        return found is not None and found.manifest_list in self.output.written

    def _is_there_now(self) -> bool:
        try:
            refresh(self.table)
        except Exception as error:
            raise self._unknown() from error
        return self._is_there()

    def _discard(self) -> None:
        """Delete what was written, unless it was sent and is, or may be, a part of the table."""
        if not (self.is_sent or self.in_doubt):
            delete_all(self.table.io, self.output.written)

    def _clean(self, plan: Plan) -> None:
        """Delete what earlier tries wrote and the one that landed didn't need."""
        made = self.table.metadata.snapshot_by_id(self.output.snapshot_id)
        # After a try in doubt there is no telling which plan it was that landed.
        if made is None or self.in_doubt:
            return
        used = {made.manifest_list, *(manifest.manifest_path for manifest in plan.manifests)}
        delete_all(self.table.io, [path for path in self.output.written if path not in used])

    def _exhausted(self, retries: Retries) -> PartitaError:
        if self.in_doubt:
            return self._unknown()
        head = self.table.metadata.current_snapshot_id
        return Conflict(self.changes.operation, f"was first in all of {retries.tries} tries", head)

    def _unknown(self) -> TableError:
        return TableError(
            f"the catalog did not say whether it took snapshot {self.output.snapshot_id} of {name_of(self.table)}; "
            "look for it in the table's history before trying again"
        )


@dataclass(slots=True, eq=False)
class Retries:
    """How often and for how long a lost race is run again, as the table's `commit.retry.*` properties say."""

    metadata: TableMetadata
    tries: int = 1
    _started: float = field(default_factory=time.monotonic)

    def wait(self) -> bool:
        """Wait, longer each time; False when it was enough."""
        if self.tries > self._setting(TableProperties.COMMIT_NUM_RETRIES, DEFAULT_RETRIES):
            return False
        total = self._setting(TableProperties.COMMIT_TOTAL_RETRY_TIME_MS, 1_800_000)
        if (time.monotonic() - self._started) * 1000 > total:
            return False
        shortest = self._setting(TableProperties.COMMIT_MIN_RETRY_WAIT_MS, 100)
        longest = self._setting(TableProperties.COMMIT_MAX_RETRY_WAIT_MS, 60_000)
        # Two that lost at once must not come back at once.
        share = random.uniform(0.1, 1)  # noqa: S311 - no secret
        time.sleep(min(shortest * 2 ** min(self.tries - 1, 16), longest) * share / 1000)
        self.tries += 1
        return True

    def _setting(self, name: str, default: int) -> int:
        return number_in(self.metadata.properties, name, default)


DEFAULT_RETRIES = 20
"""More than Iceberg's 4: a try is cheap, and files that took hours to write should not be lost to a busy minute."""


def _update(
    metadata: TableMetadata, snapshot: Snapshot, changes: Changes
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    main = metadata.refs.get(MAIN_BRANCH)
    updates: tuple[TableUpdate, ...] = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate.model_validate(
            {
                "ref-name": MAIN_BRANCH,
                "type": SnapshotRefType.BRANCH,
                "snapshot-id": snapshot.snapshot_id,
                # What the branch keeps is set anew with it.
                "max-ref-age-ms": None if main is None else main.max_ref_age_ms,
                "max-snapshot-age-ms": None if main is None else main.max_snapshot_age_ms,
                "min-snapshots-to-keep": None if main is None else main.min_snapshots_to_keep,
            }
        ),
    )
    if changes.transaction is not None:
        application, number = changes.transaction
        updates += (SetPropertiesUpdate(updates={transaction_property(application): str(number)}),)
        known = [name.removeprefix(TRANSACTION) for name in metadata.properties if name.startswith(TRANSACTION)]
        old = [transaction_property(one) for one in outlived(known) if one != application]
        updates += (RemovePropertiesUpdate(removals=old),) if old else ()
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": snapshot.parent_snapshot_id}),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    return updates, requirements


def _is_other(metadata: TableMetadata, seen: TableMetadata) -> bool:
    """Whether what files are held to has changed: version, schema or specs."""
    return (metadata.format_version, metadata.current_schema_id, metadata.specs()) != (
        seen.format_version, seen.current_schema_id, seen.specs(),
    )  # fmt: skip


def _timestamp(metadata: TableMetadata, head: Snapshot | None) -> int:
    """Now, and later than the snapshot before, whatever the clocks of others said."""
    now = time.time_ns() // 1_000_000
    return max(now, metadata.last_updated_ms, 0 if head is None else head.timestamp_ms + 1)


def _is_passing(error: Exception) -> bool:
    """Whether the same commit may work when tried again: it was the way to the catalog that failed."""
    if isinstance(error, CommitStateUnknownException | OSError):
        return True
    # Of a database that is locked or went away, whatever its driver, and of Thrift, which may not be installed.
    passing = {"OperationalError", "InterfaceError", "TTransportException"}
    return any(kind.__name__ in passing for kind in type(error).__mro__)


def _is_seen(metadata: TableMetadata, transaction: tuple[str, int]) -> bool:
    application, number = transaction
    seen = metadata.properties.get(transaction_property(application))
    return seen is not None and int(seen) >= number


def _made_by(metadata: TableMetadata, transaction: tuple[str, int]) -> int:
    application, number = transaction
    for snapshot in reversed(metadata.snapshots):
        if snapshot.summary is not None and snapshot.summary.get(transaction_property(application)) == str(number):
            return snapshot.snapshot_id
    return NO_SNAPSHOT if metadata.current_snapshot_id is None else metadata.current_snapshot_id


def _drop_old_metadata(table: Table, before: TableMetadata) -> None:
    """Where the table asks for it, delete the metadata files that its log has just let go of.

    Only those in the folder where the table's own metadata files are: a log can name any file.
    """
    after = table.metadata
    if after.properties.get(TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED, "false").casefold() != "true":
        return
    place = own_place(table)
    if place is None:
        return
    kept = {entry.metadata_file for entry in after.metadata_log} | {table.metadata_location}
    gone = (place.relative(e.metadata_file) for e in before.metadata_log if e.metadata_file not in kept)
    delete_files(table.io, place, [path for path in gone if path is not None and _METADATA_FILE.fullmatch(path)])


_METADATA_FILE = re.compile(r"metadata/[^/]+\.metadata\.json(\.gz)?")
