"""A Lance table at one version: what its manifest and its log say, as Arrow. A file of its plans is a leaf."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.spec import SpecHistory
from partita.errors import TableError
from partita.formats.capabilities import Operation
from partita.formats.containment import FolderLocation
from partita.formats.lance.columns import LanceTableDefinition, table_definition
from partita.formats.lance.commit import THREADS, LanceCommitter, WriteRequest
from partita.formats.lance.conflicts import conflict_reason
from partita.formats.lance.files import LanceTarget, leaf_identifier
from partita.formats.lance.leaf_dataset import LeafDataset, latest_committed_version
from partita.formats.lance.leaf_operations import leaf_operations
from partita.formats.lance.log import LanceLog, LogSnapshot, WriteIntent
from partita.formats.lance.namespace import (
    PARTITION_COLUMNS_PROPERTY,
    SCHEMA_PROPERTY,
    NamespaceTree,
    RootNamespace,
)
from partita.formats.lance.values import (
    ID_SEPARATOR,
    directory_segment,
    leaf_partitions,
    partition_texts,
    values_from_names,
)
from partita.formats.table_change import TableChange, spec_id_column, written_partition_texts
from partita.formats.table_version import TableVersion

if TYPE_CHECKING:
    import numpy as np

    from partita.formats.lance.spark.rows import LanceRows


@dataclass(frozen=True, slots=True, eq=False)
class LanceTableVersion(TableVersion):
    """A Lance table at one version; `leaf_ids`, `leaf_locations` and `committed_versions` have the rows of `files`.

    `committed_versions` are the leaf versions that finished writes of Partita made, null if only others have written.
    `resolved_versions` caches the leaf versions that rows are read at, by file index.
    """

    root: RootNamespace
    properties: Mapping[str, str]
    definition: LanceTableDefinition
    log: LanceLog
    log_snapshot: LogSnapshot
    leaf_ids: pa.Array
    leaf_locations: pa.Array
    committed_versions: pa.Array
    unfinished_write: WriteIntent | None = None
    resolved_versions: dict[int, int] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self.log.storage.uri

    def outside_paths(self, file_indices: np.ndarray) -> pa.Array:
        """Return the folders outside the namespace's folder that some leaves have files in, as clones do."""
        location = FolderLocation.from_uri(self.root.storage.uri)
        leaves = (self.leaf(index) for index in file_indices.tolist())
        bases = dict.fromkeys(base.path for leaf in leaves for base in leaf.open().base_paths().values())
        return pa.array(location.outside_paths(bases), pa.string())

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        """Return whether the log has that number of the application, or a later one."""
        application, number = transaction
        return self.log_snapshot.transactions.get(application, -1) >= number

    def commit(self, change: TableChange) -> int:
        """Write the change to all leaves that it touches, as one write of the log."""
        request = WriteRequest(
            change.operation,
            leaf_operations(self, change),
            partial(conflict_reason, self, change),
            change.parameters,
            change.metrics,
            change.transaction,
        )
        number = self.committer().commit(request, self.log_snapshot)
        return self.version if number is None else number

    def committer(self) -> LanceCommitter:
        """Return what commits writes to the table."""
        return LanceCommitter(self.root, self.log, self.definition.stored_schema)

    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        """Parse the partition texts of written fragments."""
        columns = {"spec_id": spec_id_column(self.spec.spec_id, written_files.num_rows)}
        texts_by_field = written_partition_texts(written_files, len(self.spec.fields))
        for partition_field, texts in zip(self.spec.fields, texts_by_field, strict=True):
            encoded_texts = pc.dictionary_encode(texts, null_encoding="encode")
            segments = [directory_segment(partition_field.name, text) for text in encoded_texts.dictionary.to_pylist()]
            values = values_from_names(pa.array(segments, pa.string()), partition_field)
            columns[partition_field.name] = values.take(encoded_texts.indices)
        return pa.table(columns)

    def discard_files(self, written_files: pa.Table) -> None:
        """Delete data files of written fragments; leaves stay, because others may be about to write to them."""
        for file in written_files.to_pylist():
            fragment = json.loads(file["details"]).get("fragment", {"files": ()})
            self.root.storage.delete([f"{file['path']}/data/{data_file['path']}" for data_file in fragment["files"]])

    def rows(self, operation: Operation = Operation.READ) -> LanceRows:
        """Return the rows of this version on Spark, for an operation."""
        from partita.formats.lance.spark.rows import LanceRows

        return LanceRows(self, operation)

    def write_target(self) -> LanceTarget:
        """Return where new fragments go: to the leaf of their partition."""
        foreign_locations = {
            canonical_id: location
            for canonical_id, leaf_id, location in zip(
                self._canonical_leaf_ids(), self.leaf_ids.to_pylist(), self.leaf_locations.to_pylist(), strict=True
            )
            if canonical_id != leaf_id or location != self.root.leaf_location(canonical_id.split(ID_SEPARATOR))
        }
        return LanceTarget(self.root, self.spec.names, self.definition.stored_schema, foreign_locations)

    def file_indices_by_id(self) -> dict[str, int]:
        """Return the file indices of leaves by the ids that Partita gives their partitions."""
        return {leaf_id: index for index, leaf_id in reversed(list(enumerate(self._canonical_leaf_ids())))}

    def _canonical_leaf_ids(self) -> list[str]:
        """Return the ids that Partita gives the partitions of the leaves."""
        if not self.spec.fields or not len(self.leaf_ids):
            return [str(leaf_id) for leaf_id in self.leaf_ids.to_pylist()]
        columns = [partition_texts(self.partitions[f.name].combine_chunks(), f).to_pylist() for f in self.spec.fields]
        return [ID_SEPARATOR.join(leaf_identifier(self.spec.names, texts)) for texts in zip(*columns, strict=True)]

    def omitted_column_values(self, file_indices: Sequence[int] | np.ndarray, column_names: Sequence[str]) -> pa.Table:
        """Return those of the columns that leaves don't store, with a row for each leaf."""
        columns = {}
        for name in column_names:
            if name in self.definition.omitted_columns:
                partition_field = next(f for f in self.spec.fields if f.source == name and f.transform.is_identity)
                columns[name] = self.partitions[partition_field.name].take(pa.array(file_indices))
        return pa.table(columns)

    def leaf(self, file_index: int) -> LeafDataset:
        """Return a leaf."""
        return LeafDataset(self.root.storage, self.leaf_locations[file_index].as_py())

    def committed_version(self, file_index: int) -> int:
        """Return the leaf version that the last finished write of Partita made; 0 if only others have written."""
        version: int | None = self.committed_versions[file_index].as_py()
        return (
            self.log_snapshot.dropped_versions.get(self.leaf_ids[file_index].as_py(), 0) if version is None else version
        )

    def read_versions(self, file_indices: np.ndarray) -> list[int]:
        """Return the leaf versions at which rows are read: with commits of others, without unfinished writes.

        Leaves that a write touched meanwhile are looked at again, so that no part of it is read. A table version keeps
        the versions that it returned first.
        """
        unresolved_indices = [index for index in file_indices.tolist() if index not in self.resolved_versions]
        if unresolved_indices:
            versions = self._latest_versions(unresolved_indices)
            touched_ids = self._ids_touched_meanwhile()
            touched_indices = [index for index in unresolved_indices if self.leaf_ids[index].as_py() in touched_ids]
            self.resolved_versions.update(versions | self._latest_versions(touched_indices, skip_uncommitted=True))
        return [self.resolved_versions[index] for index in file_indices.tolist()]

    def _ids_touched_meanwhile(self) -> set[str]:
        """Return the ids of the leaves that writes after this version touched."""
        latest, unfinished_write = self.log.read_latest(self.log_snapshot)
        touched_ids = {leaf["id"] for leaf in unfinished_write.leaves} if unfinished_write is not None else set()
        for number in range(self.version + 1, latest.version + 1):
            outcome = self.log.write_outcome(number)
            if outcome is not None:
                touched_ids |= {leaf[0] for leaf in outcome.leaves} | set(outcome.suspects)
        return touched_ids

    def _latest_versions(self, file_indices: Sequence[int], *, skip_uncommitted: bool = False) -> dict[int, int]:
        doubtful_ids = set(self.log_snapshot.suspects)
        if self.unfinished_write is not None:
            doubtful_ids |= {leaf["id"] for leaf in self.unfinished_write.leaves}

        def latest_version(file_index: int) -> int:
            dataset = self.leaf(file_index).open()
            is_foreign = self.committed_versions[file_index].as_py() is None
            if is_foreign and not skip_uncommitted and self.leaf_ids[file_index].as_py() not in doubtful_ids:
                return dataset.version
            return latest_committed_version(dataset, self.committed_version(file_index))

        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(file_indices, pool.map(latest_version, file_indices), strict=True))


def table_version_from(
    tree: NamespaceTree, log: LanceLog, log_snapshot: LogSnapshot, unfinished_write: WriteIntent | None
) -> LanceTableVersion:
    """Return the table version that a manifest and a log describe."""
    for name in (SCHEMA_PROPERTY, PARTITION_COLUMNS_PROPERTY):
        if name not in tree.properties:
            raise TableError(f"the root namespace {tree.root.id!r} has no property {name}")
    definition = table_definition(tree.properties[SCHEMA_PROPERTY], tree.properties[PARTITION_COLUMNS_PROPERTY])
    leaves = _without_uncommitted_leaves(tree.leaves, log_snapshot, unfinished_write)
    ids, locations = leaves["id"].combine_chunks(), leaves["location"].combine_chunks()
    leaf_versions = log_snapshot.leaf_versions_of(ids)
    rows = leaf_versions["rows"].combine_chunks()
    files = pa.table(
        {
            "path": _relative_paths(locations, tree.root),
            "spec_id": spec_id_column(0, len(ids)),
            "bytes": leaf_versions["bytes"],
        }
    )
    spec = definition.spec
    return LanceTableVersion(
        log_snapshot.version,
        definition.schema,
        SpecHistory.from_spec(spec, definition.schema),
        files,
        leaf_partitions(ids, locations, spec),
        lambda *_: {},
        lambda indices: rows.take(pa.array(indices)),
        tree.root,
        tree.properties,
        definition,
        log,
        log_snapshot,
        ids,
        locations,
        leaf_versions["version"].combine_chunks(),
        unfinished_write,
    )


def _without_uncommitted_leaves(
    leaves: pa.Table, log_snapshot: LogSnapshot, unfinished_write: WriteIntent | None
) -> pa.Table:
    """Leave out the leaves that an unfinished or undone write created."""
    new_ids = [leaf for leaf, is_new in log_snapshot.suspects.items() if is_new]
    new_ids += [leaf["id"] for leaf in unfinished_write.leaves if leaf["make"]] if unfinished_write is not None else []
    if not new_ids:
        return leaves
    committed_ids = set(log_snapshot.leaf_versions["id"].to_pylist())
    uncommitted_ids = pa.array([leaf for leaf in new_ids if leaf not in committed_ids], pa.string())
    return leaves.filter(pc.invert(pc.is_in(leaves["id"], value_set=uncommitted_ids)))


def _relative_paths(locations: pa.Array, root: RootNamespace) -> pa.Array:
    """Return the locations relative to the table's folder."""
    if not root.folder:
        return locations
    prefix = f"{root.folder}/"
    return pc.if_else(
        pc.starts_with(locations, prefix), pc.utf8_slice_codeunits(locations, len(prefix), None), locations
    )
