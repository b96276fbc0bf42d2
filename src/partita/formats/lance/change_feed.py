"""Read which partitions of a Lance table changed: by finished writes of its log, and by other writers of its leaves.

A cursor holds the fingerprint of the table, the number of the last write that was read, and the versions of the leaves
that other writers had committed to since. A later leaf version that no write of Partita made is a commit of another
writer, with the time of the version; it counts unless its transaction changes no rows (an index, a compaction, added
columns). If a version that may be another writer's was cleaned up, the oldest remaining one after it counts instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.distinct_rows import distinct_rows
from partita.errors import StorageError
from partita.formats.capabilities import Operation
from partita.formats.change_feed import ChangeFeed, TableCommit, datetime_from_millis, decode_cursor, encode_cursor
from partita.formats.lance.commit import ROW_PRESERVING_OPERATIONS, THREADS
from partita.formats.lance.leaf_dataset import fragment_json, fragments_of, partita_versions, translate_lance_errors
from partita.formats.lance.log import LanceLogOperation, LogSnapshot, WriteOutcome
from partita.formats.lance.values import leaf_partitions

if TYPE_CHECKING:
    from lance import LanceDataset

    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore

_FORMAT_NAME = "Lance"
_NO_DATA_OPERATIONS = ROW_PRESERVING_OPERATIONS | {
    LanceLogOperation.ADD_PARTITION,
    LanceLogOperation.CLEANUP,
    Operation.REWRITE,
}
"""Operations of the log that neither add nor delete rows."""
_NO_DATA_TRANSACTIONS = frozenset({"CreateIndex", "Project", "Rewrite", "UpdateConfig", "UpdateMap"})
"""Lance transactions that change no rows."""


def change_feed(store: LanceTableStore, after: str | None) -> ChangeFeed:
    """Return the writes after a cursor that changed rows, and the leaf versions of other writers; all for None."""
    table_version = store.current_version()
    table = _table_fingerprint(store)
    cursor = decode_cursor(_FORMAT_NAME, after) or {}
    is_same_table = cursor.get("table") in (None, table) and cursor.get("number", -1) <= table_version.version
    number, versions_ahead = (cursor.get("number", -1), cursor.get("ahead", {})) if is_same_table else (-1, {})
    leaf_ids = table_version.leaf_ids.to_pylist()
    newest_versions = dict(zip(leaf_ids, table_version.read_versions(np.arange(len(leaf_ids))), strict=True))
    outcomes = map(store.log.write_outcome, range(number + 1, table_version.version + 1))
    new_outcomes = [outcome for outcome in outcomes if outcome is not None]
    seen_versions = _committed_versions_at(store, table_version, number, is_new=bool(new_outcomes)) | versions_ahead
    writes = _row_changing_writes(new_outcomes)
    commits = [
        *_partita_commits(table_version, table or "", writes),
        *_external_commits(table_version, _LeafVersionRange(seen_versions, newest_versions, _written_versions(writes))),
    ]
    versions_ahead = _versions_ahead(table_version, newest_versions)
    new_cursor = encode_cursor(_FORMAT_NAME, table=table, number=table_version.version, ahead=versions_ahead)
    return ChangeFeed(new_cursor, tuple(sorted(commits, key=lambda commit: commit.committed_at)))


def _table_fingerprint(store: LanceTableStore) -> str | None:
    """Return the digest of the table's first outcome, which differs from that of another table in the same place."""
    outcome_bytes = store.log.first_outcome_bytes()
    return None if outcome_bytes is None else sha256(outcome_bytes).hexdigest()[:16]


def _versions_ahead(table_version: LanceTableVersion, newest_versions: Mapping[str, int]) -> dict[str, int]:
    """Return the newest versions of the leaves whose newest version no finished write made."""
    committed_versions = dict(
        zip(table_version.leaf_ids.to_pylist(), table_version.committed_versions.to_pylist(), strict=True)
    )
    return {leaf_id: version for leaf_id, version in newest_versions.items() if committed_versions[leaf_id] != version}


def _committed_versions_at(
    store: LanceTableStore, table_version: LanceTableVersion, number: int, *, is_new: bool
) -> dict[str, int]:
    """Return the committed versions of leaves after a write."""
    snapshot: LogSnapshot = store.log.snapshot_at(number) if is_new else table_version.log_snapshot
    leaf_versions = snapshot.leaf_versions
    return dict(zip(leaf_versions["id"].to_pylist(), leaf_versions["version"].to_pylist(), strict=True))


def _row_changing_writes(outcomes: Sequence[WriteOutcome]) -> list[WriteOutcome]:
    """Return the finished writes that changed rows."""
    return [o for o in outcomes if o.is_finished and o.leaves and o.operation not in _NO_DATA_OPERATIONS]


def _written_versions(outcomes: Sequence[WriteOutcome]) -> dict[str, set[int]]:
    """Return the versions of leaves that writes made, by leaf id."""
    versions: dict[str, set[int]] = {}
    for outcome in outcomes:
        for leaf_id, version, _, _ in outcome.leaves:
            versions.setdefault(leaf_id, set()).add(version)
    return versions


def _partita_commits(
    table_version: LanceTableVersion, table: str, outcomes: Sequence[WriteOutcome]
) -> Iterator[TableCommit]:
    for outcome in outcomes:
        partitions = _leaf_partitions_of(table_version, [leaf[0] for leaf in outcome.leaves])
        committed_at = datetime_from_millis(outcome.at)
        yield TableCommit(f"{table}:{outcome.number}", outcome.number, committed_at, outcome.operation, partitions)


def _leaf_partitions_of(table_version: LanceTableVersion, leaf_ids: Sequence[str]) -> pa.Table:
    """Return the partitions of leaves, including dropped ones."""
    ids = pa.array(leaf_ids, pa.string())
    locations = table_version.leaf_locations.take(pc.index_in(ids, value_set=table_version.leaf_ids))
    return distinct_rows(leaf_partitions(ids, pc.coalesce(locations, ids), table_version.spec))


@dataclass(frozen=True, slots=True)
class _LeafVersionRange:
    """By leaf id: the last version that was read, the newest one, and the versions that writes of Partita made."""

    seen_versions: Mapping[str, int]
    newest_versions: Mapping[str, int]
    written_versions: Mapping[str, set[int]]

    def unknown_versions(self, leaf_id: str) -> list[int]:
        """Return the versions of a leaf that another writer may have made; all if the leaf was created again since."""
        newest_version, seen_version = self.newest_versions[leaf_id], self.seen_versions.get(leaf_id, 0)
        written_versions = self.written_versions.get(leaf_id, ())
        return [
            number
            for number in range((seen_version if seen_version <= newest_version else 0) + 1, newest_version + 1)
            if number not in written_versions
        ]


def _external_commits(table_version: LanceTableVersion, version_range: _LeafVersionRange) -> Iterator[TableCommit]:
    changed_leaves = [
        (file_index, leaf_id)
        for file_index, leaf_id in enumerate(table_version.leaf_ids.to_pylist())
        if version_range.unknown_versions(leaf_id)
    ]

    def external_versions(changed_leaf: tuple[int, str]) -> list[_ExternalVersion]:
        file_index, leaf_id = changed_leaf
        leaf = table_version.leaf(file_index)
        with translate_lance_errors(leaf.location):
            dataset = leaf.open(version_range.newest_versions[leaf_id])
            return list(_external_versions(dataset, version_range.unknown_versions(leaf_id)))

    with ThreadPoolExecutor(THREADS) as pool:
        for (_, leaf_id), versions in zip(changed_leaves, pool.map(external_versions, changed_leaves), strict=True):
            partitions = _leaf_partitions_of(table_version, [leaf_id]) if versions else None
            for v in versions:
                yield TableCommit(f"{leaf_id}@{v.number}", v.number, v.committed_at, v.operation, partitions)


_FIRST_WRITE_VERSION = 2
"""The version of the first write to a leaf that the write creates; version 1 is the empty leaf."""


@dataclass(frozen=True, slots=True)
class _ExternalVersion:
    """A leaf version in which another writer changed rows."""

    number: int
    committed_at: datetime
    operation: str


def _external_versions(dataset: LanceDataset, unknown_versions: Sequence[int]) -> Iterator[_ExternalVersion]:
    """Return the versions of other writers among those that they may have made."""
    seen_version = unknown_versions[0] - 1
    own_versions = partita_versions(dataset, seen_version)
    times = {version["version"]: _utc_timestamp(version["timestamp"]) for version in dataset.versions()}
    is_missing = False
    for number in unknown_versions:
        if number in own_versions:
            continue
        if number not in times:
            # Cleaned up; the first version of a leaf that Partita created is empty.
            is_missing = is_missing or number > 1 or _FIRST_WRITE_VERSION in set(unknown_versions) - own_versions
            continue
        operation = _transaction_type(dataset, number)
        if is_missing or _has_row_changes(dataset, number, operation, times):
            yield _ExternalVersion(number, times[number], operation.lower())
        is_missing = False
    if is_missing:
        # No other version of another writer follows the missing one.
        number = min(version for version in times if version > seen_version)
        yield _ExternalVersion(number, times[number], "unknown")


def _utc_timestamp(timestamp: Any) -> datetime:
    """Convert the time of a version, which Lance returns in the local time zone."""
    return cast("datetime", timestamp.astimezone(UTC))


def _transaction_type(dataset: LanceDataset, number: int) -> str:
    try:
        transaction = dataset.read_transaction(number)
    except TypeError as error:
        # pylance can't represent a compaction that moved an index.
        return "Rewrite" if "RewrittenIndex" in str(error) else "unknown"
    except (OSError, ValueError) as error:
        if "was not found" in str(error):
            return "unknown"
        raise StorageError(f"Lance, of {dataset.uri}: {error}") from error
    return "unknown" if transaction is None else type(transaction.operation).__name__


def _has_row_changes(dataset: LanceDataset, number: int, operation: str, times: Mapping[int, Any]) -> bool:
    if operation in _NO_DATA_TRANSACTIONS:
        return False
    if number > 1 and number - 1 not in times:
        return True
    after = _fragments_at(dataset, number)
    before = _fragments_at(dataset, number - 1) if number > 1 else []
    if operation == "Merge":
        # Columns were added, unless fragments changed otherwise.
        return [_fragment_without_files(f) for f in before] != [_fragment_without_files(f) for f in after]
    return bool(before or after) if operation == "Overwrite" else before != after


def _fragments_at(dataset: LanceDataset, number: int) -> list[dict[str, Any]]:
    return [fragment_json(fragment) for fragment in fragments_of(dataset.checkout_version(number))]


def _fragment_without_files(fragment: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fragment[name] for name in ("id", "physical_rows", "deletion_file")}
