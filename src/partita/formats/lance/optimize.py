"""Compact and index the leaves of a Lance table. Rows don't change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from partita.algebra.predicate import UnboundPredicate
from partita.errors import SchemaError
from partita.formats.file_plan import plan_files
from partita.formats.lance.commit import WriteRequest
from partita.formats.lance.leaf_dataset import translate_lance_errors
from partita.formats.lance.leaf_operations import LeafOperationKind, leaf_operation
from partita.formats.lance.log import LanceLogOperation

if TYPE_CHECKING:
    from lance import LanceDataset

    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore


def compact_leaves(
    store: LanceTableStore, where: UnboundPredicate | None, options: Mapping[str, Any]
) -> dict[str, int]:
    """Merge small fragments and remove deleted rows, leaf by leaf; `options` are those of Lance's `compact_files`."""

    def compact_dataset(dataset: LanceDataset) -> int:
        metrics = dataset.optimize.compact_files(**options)
        return int(metrics.fragments_removed)

    removed_counts = _update_leaves(store, LanceLogOperation.COMPACT, where, compact_dataset)
    return {"leaves": len(removed_counts), "fragments_removed": sum(removed_counts)}


_MIN_VECTOR_INDEX_ROWS = 256
"""Rows that Lance needs to train product quantization; fewer are searched quickly without an index."""


def create_indices(
    store: LanceTableStore, column: str, where: UnboundPredicate | None, kind: Any, options: Mapping[str, Any]
) -> dict[str, int]:
    """Index a column in each leaf: vectors for search, other values for filters; raise `SchemaError` if it can't be."""
    table_version = store.current_version()
    name = table_version.schema.find_field(column).name
    if name in table_version.definition.omitted_columns:
        raise SchemaError(f"column {name!r} is in the names of the leaves, and needs no index")
    type_ = table_version.definition.arrow_schema.field(name).type
    is_vector = pa.types.is_fixed_size_list(type_)

    def index_dataset(dataset: LanceDataset) -> int:
        row_count = dataset.count_rows()
        if not row_count or (is_vector and row_count < _MIN_VECTOR_INDEX_ROWS):
            return 0
        if is_vector:
            index_options = _vector_index_options(row_count, type_) | dict(options)
            dataset.create_index(name, kind or "IVF_PQ", replace=True, **index_options)
        else:
            dataset.create_scalar_index(name, kind or "BTREE", replace=True, **options)
        return 1

    index_counts = _update_leaves(store, LanceLogOperation.INDEX, where, index_dataset)
    return {"leaves": len(index_counts), "indexed": sum(index_counts)}


def _vector_index_options(row_count: int, type_: Any) -> dict[str, Any]:
    size = type_.list_size
    sub_vectors = next(n for n in (size // 8, size // 4, size // 2, size) if n and size % n == 0)
    return {"num_partitions": max(1, round(row_count**0.5 / 4)), "num_sub_vectors": sub_vectors}


def _update_leaves(
    store: LanceTableStore,
    operation: LanceLogOperation,
    where: UnboundPredicate | None,
    update_dataset: Callable[[LanceDataset], int],
) -> list[int]:
    """Update leaves without changing rows, commit their new versions, and return the result for each leaf.

    Each leaf is opened at its committed version: what a running write commits to it meanwhile is left alone.
    """
    store.recover_unfinished_write()
    table_version = store.current_version()
    file_indices = plan_files(table_version, where).file_indices
    results = []
    for index, version in zip(file_indices.tolist(), table_version.read_versions(file_indices), strict=True):
        leaf = table_version.leaf(index)
        leaf.check_no_symlinks()
        with translate_lance_errors(leaf.location):
            # One leaf at a time: Lance itself uses all cores.
            results.append(update_dataset(leaf.open(version)))
    commit_leaf_versions(table_version, file_indices.tolist(), operation, {"predicate": str(where)})
    return results


def commit_leaf_versions(
    table_version: LanceTableVersion,
    file_indices: Sequence[int],
    operation: LanceLogOperation,
    parameters: Mapping[str, str],
) -> None:
    """Make the newest versions of leaves the committed ones; the write undoes what undone writes left in them."""
    if file_indices:
        operations = [leaf_operation(table_version, index, LeafOperationKind.PIN) for index in file_indices]
        request = WriteRequest(operation, operations, parameters=parameters)
        table_version.committer().commit(request, table_version.log_snapshot)
