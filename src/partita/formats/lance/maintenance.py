"""Delete old versions and orphans of a Lance table: files that no version references, and dropped partitions."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from partita.errors import TableError
from partita.formats.containment import (
    REASON_OUTSIDE_FOLDER,
    REASON_SHARED_FOLDER,
    REASON_SYMBOLIC_LINK,
    REASON_TOO_YOUNG,
    REASON_UNKNOWN_NAME,
    DeletedFiles,
    FolderListing,
)
from partita.formats.lance.commit import THREADS, WRITE_TIMEOUT_SECONDS, WriteRequest
from partita.formats.lance.leaf_dataset import LeafDataset, data_file_names, fragments_of, translate_lance_errors
from partita.formats.lance.log import LanceLogOperation
from partita.formats.lance.namespace import MANIFEST_NAME, RootNamespace
from partita.formats.lance.values import ID_SEPARATOR, LEAF_SUFFIX, leaf_partition_values

if TYPE_CHECKING:
    from lance import LanceDataset

    from partita.algebra.spec import PartitionSpec
    from partita.formats.lance.state import LanceTableVersion
    from partita.formats.lance.store import LanceTableStore

_CLEANUP_TAG = "partita"
"""The tag of the version that was committed when the table was last cleaned up."""


def remove_orphan_files(store: LanceTableStore, older_than: float) -> DeletedFiles:
    """Delete what only versions older than `older_than` seconds need, and return the paths of the deleted files.

    That is old versions of leaves and of the manifest, files that no version references, the files of partitions that
    were dropped before, and those that killed writers left for partitions that were never created. A leaf with symbolic
    links is left alone, since Lance would follow them.
    """
    store.recover_unfinished_write()
    table_version = store.current_version()
    root = table_version.root
    before = time.time() - older_than
    paths_before = {path for path, _ in root.storage.list_paths(root.folder)}
    left_files: dict[str, str] = {}
    leaves = [table_version.leaf(index) for index in range(len(table_version.leaf_ids))]
    file_indices = [index for index, leaf in enumerate(leaves) if _is_cleanable(root, leaf, left_files)]
    versions = dict(zip(file_indices, table_version.read_versions(np.array(file_indices, np.int64)), strict=True))

    def clean_up_leaf(file_index: int) -> None:
        leaf = leaves[file_index]
        with translate_lance_errors(leaf.location):
            dataset = leaf.open()
            # Lance keeps tagged versions, so the committed version stays even if a running write is ahead of it.
            set_tag = dataset.tags.update if _CLEANUP_TAG in dataset.tags.list() else dataset.tags.create
            set_tag(_CLEANUP_TAG, versions[file_index])
            dataset.cleanup_old_versions(older_than=timedelta(seconds=older_than), error_if_tagged_old_versions=False)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(clean_up_leaf, file_indices))
    _remove_dropped_leaves(store, table_version, before, left_files)
    _remove_files_of_missing_leaves(store, before, left_files)
    store.log.remove_old_entries(before)
    if _is_cleanable(root, LeafDataset(root.storage, MANIFEST_NAME), left_files):
        with translate_lance_errors(MANIFEST_NAME):
            root.open_manifest().cleanup_old_versions(older_than=timedelta(seconds=older_than))
    paths_after = {path for path, _ in root.storage.list_paths(root.folder)}
    return DeletedFiles(sorted(paths_before - paths_after), left_files)


def _is_cleanable(root: RootNamespace, leaf: LeafDataset, left_files: dict[str, str]) -> bool:
    """Whether Lance may delete files of a dataset; if not, the reason is added to `left_files`.

    If the manifest is in a folder above the table's, the manifest and some leaves may be outside of the table's folder.
    """
    if root.folder and not leaf.location.startswith(f"{root.folder}/"):
        left_files[leaf.location] = REASON_OUTSIDE_FOLDER
        return False
    try:
        leaf.check_inside()
    except TableError as error:
        left_files[leaf.location] = str(error)
        return False
    links = leaf.symlinks()
    left_files |= {f"{leaf.location}/{link}": REASON_SYMBOLIC_LINK for link in links}
    return not links


def _remove_dropped_leaves(
    store: LanceTableStore, table_version: LanceTableVersion, before: float, left_files: dict[str, str]
) -> None:
    """Delete the files of leaves that were dropped before a time and have not been created again.

    That happens while no other write runs, since a leaf may be created again at any time. Files that are not Lance's,
    and what a running write may need, are added to `left_files`.
    """
    dropped_ids = _leaves_dropped_before(store, table_version, before)
    if not dropped_ids:
        return
    deadline = time.monotonic() + WRITE_TIMEOUT_SECONDS / 2  # other writes wait; the next run deletes the rest

    def remove_files() -> None:
        current = store.current_version()
        locations = set(current.leaf_locations.to_pylist())
        for leaf_id in dropped_ids:
            if time.monotonic() > deadline:
                return
            location = current.root.leaf_location(leaf_id.split(ID_SEPARATOR))
            if leaf_id in current.log_snapshot.dropped_versions and location not in locations:
                _remove_leaf_files(current.root, LeafDataset(current.root.storage, location), left_files)

    request = WriteRequest(LanceLogOperation.CLEANUP, (), exclusive_action=remove_files)
    table_version.committer().commit(request, table_version.log_snapshot)


def _remove_leaf_files(root: RootNamespace, leaf: LeafDataset, left_files: dict[str, str]) -> None:
    """Delete the files of a dropped leaf, unless it has rows or files that a running write may commit."""
    if not _is_cleanable(root, leaf, left_files):
        return
    dataset = leaf.open_if_exists()
    if dataset is None or dataset.count_rows() > 0:
        return
    uncommitted_files = _uncommitted_data_files(leaf, dataset)
    if uncommitted_files:
        left_files.update(dict.fromkeys(uncommitted_files, REASON_TOO_YOUNG))
        return
    paths = [file.path for file in root.storage.list_files(leaf.location)]
    lance_paths = [path for path in paths if _is_lance_file(leaf, path)]
    left_files.update(dict.fromkeys(set(paths) - set(lance_paths), REASON_UNKNOWN_NAME))
    root.storage.delete(lance_paths)


_LANCE_FILE_PATTERN = re.compile(
    r"data/.+\.(?:lance|blob|pack|raw)|_versions/.+\.(?:manifest|json)|_transactions/.+\.txn|_deletions/.+\.(?:arrow|bin)"
    r"|_indices/.+|_refs/.+\.json|_latest\.manifest"
)
"""The files of a Lance dataset, by their paths in it."""


def _is_lance_file(leaf: LeafDataset, path: str) -> bool:
    return _LANCE_FILE_PATTERN.fullmatch(path.removeprefix(f"{leaf.location}/")) is not None


def _leaves_dropped_before(store: LanceTableStore, table_version: LanceTableVersion, before: float) -> list[str]:
    """Return the ids of the leaves whose last drop is older than a time."""
    remaining_ids = set(table_version.log_snapshot.dropped_versions)
    dropped_before: list[str] = []
    for outcome in store.log.write_outcomes() if remaining_ids else ():
        dropped_ids = {leaf_id for leaf_id, _, rows, _ in outcome.leaves if rows is None} & remaining_ids
        dropped_before += sorted(dropped_ids) if outcome.at / 1000 < before else []
        remaining_ids -= dropped_ids
        if not remaining_ids:
            break
    return dropped_before


def _remove_files_of_missing_leaves(store: LanceTableStore, before: float, left_files: dict[str, str]) -> None:
    """Delete what killed writers left for leaves that were never created.

    That happens while no other write runs, since a write may create such a leaf at any time.
    """
    modified_before = min(before, time.time() - _UNVERIFIED_FILE_SECONDS)
    table_version = store.current_version()
    orphans = _files_of_missing_leaves(table_version, modified_before)
    left_files.update(orphans.remaining)
    if not orphans:
        return

    def remove_files() -> None:
        current = store.current_version()
        current.root.storage.delete(_files_of_missing_leaves(current, modified_before))

    request = WriteRequest(LanceLogOperation.CLEANUP, (), exclusive_action=remove_files)
    table_version.committer().commit(request, table_version.log_snapshot)


_WRITTEN_FILE_PATTERN = re.compile(r"(?P<leaf>.+\.lance)/data/[0-9a-f]{32}-[0-9-]+\.lance")
"""The data files that Partita writes, by their paths in the table's folder; other writers give other names."""


def _files_of_missing_leaves(table_version: LanceTableVersion, modified_before: float) -> DeletedFiles:
    """Return the data files that Partita wrote for partitions where there is no leaf, and that may be deleted.

    A folder with versions is a dataset, whoever made it; its files are left out. So are those of a registered leaf,
    whose versions may be lost, and those in folders that are not named like partitions of the table.
    """
    root = table_version.root
    prefix = f"{root.folder}/" if root.folder else ""
    listing = FolderListing.from_files(
        (replace(file, path=file.path.removeprefix(prefix)) for file in root.storage.list_files(root.folder)), "lance"
    )
    registered_locations = set(table_version.leaf_locations.to_pylist())
    files = DeletedFiles()
    for path, file in listing.files.items():
        match = _WRITTEN_FILE_PATTERN.fullmatch(path)
        if match is None or prefix + match["leaf"] in registered_locations:
            continue
        if not _is_partition_folder(match["leaf"], table_version.spec):
            continue
        if listing.is_shared:
            files.remaining[prefix + path] = REASON_SHARED_FOLDER
        elif file.modified_time >= modified_before:
            files.remaining[prefix + path] = REASON_TOO_YOUNG
        else:
            files.append(prefix + path)
    return files


def _is_partition_folder(folder: str, spec: PartitionSpec) -> bool:
    """Whether a folder, relative to the table's, is named like the leaf of a partition."""
    leaf_id = folder.removesuffix(LEAF_SUFFIX).replace("/", ID_SEPARATOR)
    try:
        leaf_partition_values(pa.array([leaf_id]), pa.array([folder]), spec)
    except TableError:
        return False
    return bool(spec.fields)


_UNVERIFIED_FILE_SECONDS = 7 * 24 * 3600.0
"""Seconds for which an unreferenced file may belong to a running write, as in Lance."""


def _uncommitted_data_files(leaf: LeafDataset, dataset: LanceDataset) -> list[str]:
    """Return the young data files that no version of the leaf references; a running write may commit them."""
    since = time.time() - _UNVERIFIED_FILE_SECONDS
    paths = [path for path, _ in leaf.storage.list_paths(f"{leaf.location}/data") if _is_lance_file(leaf, path)]
    young = {path.rpartition("/")[2]: path for path in paths if leaf.storage.modified_time(path) >= since}
    for version in sorted((v["version"] for v in dataset.versions()), reverse=True):
        if not young:
            break
        for name in data_file_names(fragments_of(leaf.open(version))):
            young.pop(name, None)
    return sorted(young.values())
