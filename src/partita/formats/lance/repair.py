"""Find leaves that other writers created or changed, and take them into a Lance table."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import UnboundPredicate
from partita.errors import SchemaError
from partita.formats.file_plan import plan_files
from partita.formats.lance.commit import THREADS
from partita.formats.lance.files import schema_difference
from partita.formats.lance.leaf_dataset import LeafDataset
from partita.formats.lance.leaf_operations import add_missing_columns
from partita.formats.lance.log import LanceLogOperation
from partita.formats.lance.namespace import register_leaves
from partita.formats.lance.optimize import commit_leaf_versions
from partita.formats.lance.values import ID_SEPARATOR, LEAF_SUFFIX, leaf_partition_values

if TYPE_CHECKING:
    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore


def unregistered_leaves(store: LanceTableStore) -> pa.Table:
    """Return the leaves in the table's folder that the manifest lacks: path, id, and partition values.

    Raises `TableError` for a folder whose names are not partition values of the table.
    """
    table_version = store.current_version()
    root = table_version.root
    registered_locations = set(table_version.leaf_locations.to_pylist())
    prefix = f"{root.folder}/" if root.folder else ""
    folders = dict.fromkeys(
        path.partition(f"{LEAF_SUFFIX}/_versions/")[0] + LEAF_SUFFIX
        for path, _ in root.storage.list_paths(root.folder)
        if f"{LEAF_SUFFIX}/_versions/" in path
    )
    leaves = [
        (path.removeprefix(prefix).removesuffix(LEAF_SUFFIX).replace("/", ID_SEPARATOR), path)
        for path in folders
        if path not in registered_locations
    ]
    dropped_ids = table_version.log_snapshot.dropped_versions
    leaves = [(i, path) for i, path in leaves if i not in dropped_ids or _has_rows(table_version, path)]
    ids = pa.array([i for i, _ in leaves], pa.string())
    paths = pa.array([path for _, path in leaves], pa.string())
    return pa.table({"path": paths, "id": ids, **leaf_partition_values(ids, paths, table_version.spec)})


def _has_rows(table_version: LanceTableVersion, location: str) -> bool:
    dataset = LeafDataset(table_version.root.storage, location).open_if_exists()
    return dataset is not None and dataset.count_rows() > 0


def externally_changed_leaves(store: LanceTableStore, where: UnboundPredicate | None) -> pa.Table:
    """Return the leaves that other writers changed since Partita's last write: path, version, newest version."""
    table_version = store.current_version()
    file_indices = plan_files(table_version, where).file_indices
    newest_versions = pa.array(table_version.read_versions(file_indices), pa.int64())
    committed_versions = table_version.committed_versions.take(pa.array(file_indices))
    paths = table_version.files["path"].take(pa.array(file_indices))
    leaves = pa.table({"path": paths, "version": committed_versions, "newest": newest_versions})
    return leaves.filter(pc.fill_null(pc.not_equal(committed_versions, newest_versions), fill_value=True))


def repair_table(store: LanceTableStore) -> dict[str, int]:
    """Register the leaves that other writers created, and commit the versions that other writers made.

    Raises `SchemaError` for a leaf with other columns than the table.
    """
    store.recover_unfinished_write()
    leaves = unregistered_leaves(store)
    table_version = store.current_version()
    stored_schema = table_version.definition.stored_schema
    for path in leaves["path"].to_pylist():
        leaf_schema = LeafDataset(table_version.root.storage, path).open().schema
        if {f.name: f.type for f in leaf_schema} != {f.name: f.type for f in stored_schema}:
            difference = schema_difference(leaf_schema, stored_schema)
            raise SchemaError(f"the leaf {path} has other columns than its table:\n{difference}")
    ids, paths = leaves["id"].to_pylist(), leaves["path"].to_pylist()
    register_leaves(table_version.root, [(i.split(ID_SEPARATOR), path) for i, path in zip(ids, paths, strict=True)])
    table_version = store.current_version()
    _add_missing_columns(table_version, [f for f in stored_schema if f.nullable])
    newest_versions = table_version.read_versions(np.arange(len(table_version.leaf_ids)))
    committed_versions = table_version.committed_versions.to_pylist()
    changed_indices = [index for index, version in enumerate(newest_versions) if committed_versions[index] != version]
    commit_leaf_versions(table_version, changed_indices, LanceLogOperation.REPAIR, {})
    return {"registered": len(ids), "taken over": len(changed_indices)}


def _add_missing_columns(table_version: LanceTableVersion, fields: Sequence[pa.Field]) -> None:
    """Add the columns that leaves lack; raise `SchemaError` if one has a column of another type."""
    leaves = [table_version.leaf(index) for index in range(len(table_version.leaf_ids))]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda leaf: add_missing_columns(leaf, fields), leaves))
