"""The summary of a snapshot: what came, what went, and what there is after that.

Specification, "Optional Snapshot Summary Fields". Totals are the parent's with what changed; where the parent doesn't
say them, or says what can't be, they are counted, but for the size of many files, which only their manifests tell.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Snapshot, Summary, UpdateMetrics

from partita.formats.iceberg.transaction.partitions import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.manifest import DataFile

    from partita.formats.iceberg.transaction.changes import Changes

TRANSACTION = "partita.transaction."
"""How the properties begin that keep the numbers of applications."""

_TOTALS = {
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
"""Each total, with what adds to it and what takes from it."""
_COUNTED = _TOTALS.keys() - {"total-files-size"}
"""The totals that can be counted without the data manifests."""


def summarised(
    changes: Changes,
    removed: Iterable[DataFile],
    parent: Snapshot | None,
    count: Callable[[], Mapping[str, int]],
) -> Summary:
    """The summary of a change that takes away those files; `count` counts the parent's, and is asked only if needed."""
    gone = list(removed)
    counts = _counted(changes.added, gone)
    partitions = {partition_of(file) for file in (*changes.added, *gone)}
    before = _totals_of(parent)
    after = _moved(before, counts) if before.keys() >= _COUNTED else None
    if after is None:
        after = _moved(count(), counts) or {}
    told = {
        **changes.properties,
        "engine-name": "partita",
        "engine-version": version("partita"),
        **counts,
        "changed-partition-count": str(len(partitions)),
        **{name: str(total) for name, total in after.items()},
    }
    if changes.transaction is not None:
        told[transaction_property(changes.transaction[0])] = str(changes.transaction[1])
    told.pop("operation", None)
    return Summary(operation_of(changes, gone), **told)


def operation_of(changes: Changes, removed: Iterable[DataFile]) -> Operation:
    """What the snapshot calls itself, by what it does: as the specification defines the four operations."""
    if changes.operation == "replace":
        return Operation.REPLACE
    takes = bool(list(removed) or changes.added_deletes)
    if not takes:
        return Operation.APPEND
    return Operation.OVERWRITE if changes.added_data else Operation.DELETE


def transaction_property(application: str) -> str:
    """The table's property that keeps the last number of an application."""
    return f"{TRANSACTION}{application}"


def _counted(added: Iterable[DataFile], removed: Iterable[DataFile]) -> dict[str, str]:
    metrics = UpdateMetrics()
    for file in added:
        metrics.add_file(file)
    for file in removed:
        metrics.remove_file(file)
    return metrics.to_dict()


def totals_of_files(files: Iterable[DataFile]) -> dict[str, int]:
    """The totals of a snapshot that has those files."""
    counts = _counted(files, ())
    return {name: int(counts.get(adds, 0)) for name, (adds, _) in _TOTALS.items()}


def _totals_of(parent: Snapshot | None) -> dict[str, int]:
    """The totals that a snapshot says; all of no snapshot are 0."""
    if parent is None:
        return dict.fromkeys(_TOTALS, 0)
    said = {} if parent.summary is None else parent.summary.additional_properties
    found = {name: said.get(name, "") for name in _TOTALS}
    return {name: int(text) for name, text in found.items() if text.isdecimal()}


def _moved(before: Mapping[str, int], counts: Mapping[str, str]) -> dict[str, int] | None:
    """The totals after the change; None where one would be less than nothing."""
    after = {
        name: before[name] + int(counts.get(adds, 0)) - int(counts.get(takes, 0))
        for name, (adds, takes) in _TOTALS.items()
        if name in before
    }
    return after if all(total >= 0 for total in after.values()) else None
