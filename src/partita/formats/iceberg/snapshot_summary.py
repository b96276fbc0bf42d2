"""The summary of a snapshot: what it added and removed, and the totals after it.

Specification, "Optional Snapshot Summary Fields". Totals are those of the parent plus the change. Where the parent
lacks them, or they are impossible, they are counted, except the size of many files, which would need every data
manifest.
"""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import version
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Snapshot, Summary, UpdateMetrics

from partita.formats.iceberg.manifests.data_files import partition_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from partita.formats.iceberg.snapshot_change import SnapshotChange


class SnapshotOperation(StrEnum):
    """The operation of a snapshot: those of the specification, and `row_delta` for changes by delete files."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DELETE = "delete"
    ROW_DELTA = "row_delta"
    REPLACE = "replace"


TRANSACTION_PREFIX = "partita.transaction."
"""The prefix of table properties that hold the last transaction version of each application."""

_TOTAL_FIELDS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
"""Each total, with the summary fields that increase and decrease it."""
_COUNTABLE_TOTALS = _TOTAL_FIELDS.keys() - {"total-files-size"}
"""The totals that can be counted without the data manifests."""


def snapshot_summary(
    change: SnapshotChange,
    removed_files: Iterable[DataFile],
    parent: Snapshot | None,
    count_totals: Callable[[], Mapping[str, int]],
) -> Summary:
    """Return the summary of a change that removes those files.

    `count_totals` counts the parent's totals, and is called only if the parent's summary lacks them.
    """
    removed_list = list(removed_files)
    counts = _update_metrics(change.added_files, removed_list)
    partitions = {partition_identity(file) for file in (*change.added_files, *removed_list)}
    previous_totals = _summary_totals(parent)
    totals = _updated_totals(previous_totals, counts) if previous_totals.keys() >= _COUNTABLE_TOTALS else None
    if totals is None:
        totals = _updated_totals(count_totals(), counts) or {}
    properties = {
        **change.summary_properties,
        "engine-name": "partita",
        "engine-version": version("partita"),
        **counts,
        "changed-partition-count": str(len(partitions)),
        **{name: str(value) for name, value in totals.items()},
    }
    if change.transaction is not None:
        properties[transaction_property(change.transaction[0])] = str(change.transaction[1])
    properties.pop("operation", None)
    return Summary(snapshot_operation(change, removed_list), **properties)


def snapshot_operation(change: SnapshotChange, removed_files: Iterable[DataFile]) -> Operation:
    """Return the snapshot operation, as the specification defines the four of them."""
    if change.operation == SnapshotOperation.REPLACE:
        return Operation.REPLACE
    removes = bool(list(removed_files) or change.added_delete_files)
    if not removes:
        return Operation.APPEND
    return Operation.OVERWRITE if change.added_data_files else Operation.DELETE


def transaction_property(application: str) -> str:
    """Return the table property that holds the last transaction version of an application."""
    return f"{TRANSACTION_PREFIX}{application}"


def has_transaction(metadata: TableMetadata, transaction: tuple[str, int]) -> bool:
    """Return whether the table has seen that version of the application, or a later one."""
    application, version = transaction
    last_version = metadata.properties.get(transaction_property(application))
    return last_version is not None and int(last_version) >= version


def _update_metrics(added_files: Iterable[DataFile], removed_files: Iterable[DataFile]) -> dict[str, str]:
    metrics = UpdateMetrics()
    for file in added_files:
        metrics.add_file(file)
    for file in removed_files:
        metrics.remove_file(file)
    return metrics.to_dict()


def file_totals(files: Iterable[DataFile]) -> dict[str, int]:
    """Return the totals of a snapshot that has exactly those files."""
    counts = _update_metrics(files, ())
    return {name: int(counts.get(added_field, 0)) for name, (added_field, _) in _TOTAL_FIELDS.items()}


def _summary_totals(parent: Snapshot | None) -> dict[str, int]:
    """Return the totals in a snapshot's summary; without a snapshot, all are 0."""
    if parent is None:
        return dict.fromkeys(_TOTAL_FIELDS, 0)
    properties = {} if parent.summary is None else parent.summary.additional_properties
    texts = {name: properties.get(name, "") for name in _TOTAL_FIELDS}
    return {name: int(text) for name, text in texts.items() if text.isdecimal()}


def _updated_totals(totals: Mapping[str, int], counts: Mapping[str, str]) -> dict[str, int] | None:
    """Return the totals after the change; None if one of them would be negative."""
    changed_totals = {
        name: totals[name] + int(counts.get(added_field, 0)) - int(counts.get(removed_field, 0))
        for name, (added_field, removed_field) in _TOTAL_FIELDS.items()
        if name in totals
    }
    return changed_totals if all(total >= 0 for total in changed_totals.values()) else None
