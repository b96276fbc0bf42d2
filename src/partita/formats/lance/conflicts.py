"""Whether a concurrent write of a Lance table conflicts with what a change read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from partita.algebra.predicate import Predicate
from partita.formats.file_plan import prune_files
from partita.formats.lance.commit import ROW_PRESERVING_OPERATIONS
from partita.formats.lance.log import WriteOutcome
from partita.formats.lance.values import leaf_partitions
from partita.formats.partition_selection import PartitionSelection
from partita.formats.table_change import TableChange

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion


def conflict_reason(table_version: LanceTableVersion, change: TableChange, outcome: WriteOutcome) -> str | None:
    """Return why a finished write conflicts with a change of an earlier table version; None if it doesn't."""
    read_scope = change.read_scope
    if read_scope is None or outcome.operation in ROW_PRESERVING_OPERATIONS or not outcome.leaves:
        return None
    written_ids = pa.array([leaf[0] for leaf in outcome.leaves], pa.string())
    read_ids = set(table_version.leaf_ids.take(pa.array(change.read_file_indices)).to_pylist())
    read_ids |= set(table_version.leaf_ids.take(pa.array(change.removed_file_indices)).to_pylist())
    if not read_ids.isdisjoint(written_ids.to_pylist()):
        return "changed partitions that this one looked at"
    if _may_match(table_version, read_scope, written_ids):
        return "wrote what this one would have looked at"
    return None


def _may_match(
    table_version: LanceTableVersion, read_scope: Predicate | PartitionSelection, leaf_ids: pa.Array
) -> bool:
    partitions = leaf_partitions(leaf_ids, leaf_ids, table_version.spec)
    if isinstance(read_scope, PartitionSelection):
        return read_scope.may_match(table_version.spec_history, partitions)
    sizes = pa.nulls(len(leaf_ids), pa.int64())
    files = pa.table({"path": leaf_ids, "spec_id": partitions["spec_id"], "bytes": sizes})
    result = prune_files(replace(table_version, files=files, partitions=partitions), read_scope)
    return any(result.may_match.to_pylist())
