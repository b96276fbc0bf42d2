"""A leaf: the Lance dataset of one partition, and how Partita commits to it.

A commit of Partita has the id of its write in its transaction properties. Such a commit is committed once its write has
finished, and pending before; a commit of another writer, which has no such property, is committed at once.
`latest_committed_version` is the newest version of a leaf without pending commits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from partita.errors import CommitConflict, PartitaError, StorageError, TableError
from partita.formats.containment import check_inside
from partita.storage import Storage
from partita.untrusted_input import error_summary, is_panic

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

WRITE_PROPERTY = "partita.write"
"""The transaction property with the id of the write that a commit belongs to."""
UNDO_PROPERTY = "partita.undoes"
"""The transaction property with the versions that a commit undoes, separated by commas."""
MAX_COMMIT_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class LeafDataset:
    """The leaf at a location in the folder of the directory namespace."""

    storage: Storage
    location: str

    @property
    def uri(self) -> str:
        """The URI for Lance; raises `TableError` for a location outside of the namespace's folder."""
        self.check_inside()
        if self.storage.is_local:
            return f"{self.storage.uri}/{self.location}"
        return f"{self.storage.uri}/{quote(self.location, safe='/=')}"

    def check_inside(self) -> None:
        """Raise `TableError` if the leaf is outside of the namespace's folder, or has symbolic links as folders."""
        check_inside(self.storage.uri, self.location, "the leaf")
        if self.storage.is_local:
            self._refuse_symlinks(
                entry.name for entry in _directory_entries(f"{self.storage.uri}/{self.location}") if entry.is_symlink()
            )

    def check_no_symlinks(self) -> None:
        """Raise `TableError` if the leaf contains a symbolic link: Lance follows those when it deletes files."""
        self.check_inside()
        self._refuse_symlinks(self.symlinks())

    def symlinks(self) -> list[str]:
        """Return the paths of the symbolic links in the leaf, relative to it."""
        return [path[len(self.location) + 1 :] for path in self.storage.list_links(self.location)]

    def _refuse_symlinks(self, symlinks: Iterable[str]) -> None:
        for link in symlinks:
            raise TableError(
                f"the leaf {self.location} has a symbolic link in it, {link}, which Lance would follow; remove the link"
            )

    def open(self, version: int | None = None) -> LanceDataset:
        """Open the dataset at a version, or at its newest one; raise `TableError` if there is none."""
        import lance

        with translate_lance_errors(self.location):
            try:
                return lance.dataset(self.uri, version=version, storage_options=self._storage_options)
            except ValueError as error:
                if not _is_not_found(error):
                    raise
                raise TableError(self._missing_message(version)) from error

    def _missing_message(self, version: int | None) -> str:
        if version is not None and self.open_if_exists() is not None:
            return f"version {version} of the leaf {self.location} was cleaned up meanwhile; try again"
        return (
            f"the table has a leaf {self.location}, which is missing in {self.storage.uri}; restore the folder, or "
            "remove the partition from the table with drop_partition"
        )

    def open_if_exists(self) -> LanceDataset | None:
        """Open the dataset at its newest version; return None if there is none."""
        import lance

        with translate_lance_errors(self.location):
            try:
                return lance.dataset(self.uri, storage_options=self._storage_options)
            except ValueError as error:
                if _is_not_found(error):
                    return None
                raise

    def create(self, schema: pa.Schema) -> None:
        """Create an empty dataset; one that exists stays as it is."""
        from lance import LanceDataset, LanceOperation
        from lance.dataset import Transaction

        if self.open_if_exists() is not None:
            return
        # A commit without retries must be the first version, so only one writer creates the dataset.
        transaction = Transaction(0, LanceOperation.Overwrite(schema, []))
        with translate_lance_errors(self.location):
            try:
                LanceDataset.commit(self.uri, transaction, max_retries=0, storage_options=self._storage_options)
            except OSError:
                if self.open_if_exists() is None:
                    raise

    def commit(self, dataset: LanceDataset, operation: Any, properties: Mapping[str, str]) -> LanceDataset | None:
        """Commit an operation on top of a version; return None if a commit of another writer conflicts."""
        from lance import LanceDataset
        from lance.commit import CommitConflictError
        from lance.dataset import Transaction

        self.check_no_symlinks()
        transaction = Transaction(dataset.version, operation, transaction_properties=dict(properties))
        with translate_lance_errors(self.location):
            try:
                return LanceDataset.commit(dataset, transaction, max_retries=0, storage_options=self._storage_options)
            except CommitConflictError:
                return None

    @property
    def _storage_options(self) -> dict[str, str] | None:
        return dict(self.storage.options) or None


def _directory_entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_not_found(error: ValueError) -> bool:
    return "was not found" in str(error) or "Not found" in str(error)


@dataclass(frozen=True, slots=True)
class LeafCommits:
    """Partita's commits on top of a version of a leaf: the id of the write of each version, and the undone versions."""

    write_ids: Mapping[int, str] = field(default_factory=dict)
    undone_versions: frozenset[int] = frozenset()

    @property
    def pending_versions(self) -> list[int]:
        """The versions whose commits are not undone, oldest first."""
        return sorted(set(self.write_ids) - self.undone_versions)


def commits_after(dataset: LanceDataset, version: int) -> LeafCommits:
    """Return Partita's commits on top of a version; all of them if the dataset was created again since."""
    write_ids: dict[int, str] = {}
    undone_versions: set[int] = set()
    for number, properties in _partita_commits_after(dataset, version):
        if WRITE_PROPERTY in properties:
            write_ids[number] = properties[WRITE_PROPERTY]
        undone_versions |= _undone_versions(properties)
    return LeafCommits(write_ids, frozenset(undone_versions))


def partita_versions(dataset: LanceDataset, version: int) -> set[int]:
    """Return the versions on top of a version that are commits of Partita, pending or not."""
    return {number for number, _ in _partita_commits_after(dataset, version)}


def latest_committed_version(dataset: LanceDataset, version: int) -> int:
    """Return the newest version, from `version` on, that contains no pending commit of Partita."""
    committed_version, pending_versions = version if version <= dataset.version else 0, set[int]()
    commits = dict(_partita_commits_after(dataset, version))
    for number in range(committed_version + 1, dataset.version + 1):
        properties = commits.get(number, {})
        if WRITE_PROPERTY in properties:
            pending_versions.add(number)
        pending_versions -= _undone_versions(properties)
        if not pending_versions:
            committed_version = number
    return committed_version


def _partita_commits_after(dataset: LanceDataset, version: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Return the transaction properties of Partita's commits on top of a version, from a cache as far as it goes."""
    start = version if version <= dataset.version else 0
    scan = _COMMIT_SCAN_CACHE.get(dataset.uri)
    if scan is None or not scan.first_version <= start <= scan.last_version or not _is_continuation_of(dataset, scan):
        scan = _CommitScan(start, start, b"", {})
    unread_properties = (
        (number, _transaction_properties(dataset, number))
        for number in range(scan.last_version + 1, dataset.version + 1)
    )
    commits = {**scan.commit_properties} | {
        number: properties
        for number, properties in unread_properties
        if WRITE_PROPERTY in properties or UNDO_PROPERTY in properties
    }
    if dataset.version > scan.last_version:
        if len(_COMMIT_SCAN_CACHE) >= _COMMIT_SCAN_CACHE_SIZE:
            _COMMIT_SCAN_CACHE.clear()
        _COMMIT_SCAN_CACHE[dataset.uri] = _CommitScan(
            scan.first_version, dataset.version, _manifest_digest(dataset), commits
        )
    return ((number, properties) for number, properties in commits.items() if number > start)


@dataclass(frozen=True, slots=True)
class _CommitScan:
    """Partita's commits from one version up to another; the manifest of the last version has the digest."""

    first_version: int
    last_version: int
    manifest_digest: bytes
    commit_properties: Mapping[int, Mapping[str, str]]


_COMMIT_SCAN_CACHE: dict[str, _CommitScan] = {}
_COMMIT_SCAN_CACHE_SIZE = 10_000


def _is_continuation_of(dataset: LanceDataset, scan: _CommitScan) -> bool:
    """Whether the last version of a scan is still a version of the dataset, which may have been created again since."""
    if scan.last_version > dataset.version:
        return False
    try:
        last_dataset = dataset if scan.last_version == dataset.version else dataset.checkout_version(scan.last_version)
    except (OSError, ValueError):  # cleaned up since
        return False
    return _manifest_digest(last_dataset) == scan.manifest_digest


def _manifest_digest(dataset: LanceDataset) -> bytes:
    return sha256(dataset._ds.serialized_manifest()).digest()  # noqa: SLF001 - Lance has no public id of a version


def _undone_versions(properties: Mapping[str, str]) -> set[int]:
    return {int(number) for number in properties.get(UNDO_PROPERTY, "").split(",") if number}


def _transaction_properties(dataset: LanceDataset, version: int) -> Mapping[str, str]:
    try:
        with translate_lance_errors(dataset.uri):
            transaction = dataset.read_transaction(version)
    except StorageError as error:
        if "was not found" in str(error):  # cleaned up; pending commits never are
            return {}
        raise
    except TypeError:  # pylance can't represent a compaction that moved an index, which Partita never commits
        return {}
    return (transaction.transaction_properties or {}) if transaction is not None else {}


def fragments_of(dataset: LanceDataset) -> list[FragmentMetadata]:
    """Return the fragments of the dataset's version."""
    return [fragment.metadata for fragment in dataset.get_fragments()]


def fragment_json(fragment: FragmentMetadata) -> dict[str, Any]:
    """Return a fragment as JSON."""
    return dict(fragment.to_json())


def fragments_from_json(documents: Sequence[Mapping[str, Any]]) -> list[FragmentMetadata]:
    """Parse fragments from JSON."""
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(document)) for document in documents]


def data_file_names(fragments: Sequence[FragmentMetadata]) -> set[str]:
    """Return the names of the data files of fragments; they are unique among all commits."""
    return {file.path for fragment in fragments for file in fragment.files}


def row_count_and_bytes(fragments: Sequence[FragmentMetadata]) -> tuple[int, int]:
    """Return the number of rows and of bytes of fragments."""
    rows = sum(f.physical_rows - (f.deletion_file.num_deleted_rows if f.deletion_file else 0) for f in fragments)
    return rows, sum(file.file_size_bytes or 0 for f in fragments for file in f.files)


def field_ids(dataset: LanceDataset) -> dict[str, int]:
    """Return the field id of each column."""
    return {f.name(): f.id() for f in dataset.lance_schema.fields()}


def next_fragment_id(dataset: LanceDataset) -> int:
    """Return the first id that no fragment has ever had; indices refer to fragments by id, even to deleted ones."""
    greatest = -1
    for number, value in _varint_fields(dataset._ds.serialized_manifest()):  # noqa: SLF001 - not in the public API of Lance
        if number == _MAX_FRAGMENT_ID:
            greatest = value
    return max([greatest, *(f.id for f in fragments_of(dataset))]) + 1


_MAX_FRAGMENT_ID = 11
"""The number of the manifest field `max_fragment_id` (table.proto of the Lance format)."""


def _varint_fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Return the numbers and values of the varint fields of a protobuf message."""
    offset = 0
    while offset < len(message):
        key, offset = _read_varint(message, offset)
        wire_type = key & 7
        if wire_type == 0:
            value, offset = _read_varint(message, offset)
            yield key >> 3, value
        elif wire_type == 2:
            size, offset = _read_varint(message, offset)
            offset += size
        else:
            offset += 8 if wire_type == 1 else 4


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        octet = message[offset]
        number |= (octet & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if octet < 0x80:
            return number, offset


def undo_commits(leaf: LeafDataset, version: int, should_undo: Callable[[str], bool] = lambda _: True) -> LanceDataset:
    """Undo the pending commits on top of a version, of the write ids for which `should_undo` is true.

    Later commits of other writers stay. Lance rejects each step if another commit changes the same fragments.
    """
    for _ in range(MAX_COMMIT_ATTEMPTS):
        dataset = leaf.open()
        commits = commits_after(dataset, version)
        pending_versions = [v for v in commits.pending_versions if should_undo(commits.write_ids[v])]
        if not pending_versions:
            return dataset
        _undo_commit(leaf, dataset, pending_versions[-1], commits.write_ids[pending_versions[-1]])
    raise CommitConflict("undo", f"kept changing {leaf.location}")


def _undo_commit(leaf: LeafDataset, dataset: LanceDataset, version: int, write_id: str) -> None:
    from lance import LanceOperation

    before = {f.id: f for f in fragments_of(leaf.open(version - 1))}
    after = {f.id: f for f in fragments_of(leaf.open(version))}
    current = {f.id: f for f in fragments_of(dataset)}
    changed_ids = [n for n, f in after.items() if before.get(n) != f]
    if any(current.get(n) != after[n] for n in changed_ids):
        raise TableError(
            f"{leaf.location}: version {version} belongs to a write that was undone, and other writers have changed "
            f"its rows since; restore the leaf to version {version - 1} with Lance, and repeat their writes"
        )
    new_ids = [n for n in changed_ids if n not in before]
    old_fragments = [before[n] for n in changed_ids if n in before]
    removed_fragments = [f for n, f in before.items() if n not in after]
    undone_versions = str(version)
    if removed_fragments:
        properties = {WRITE_PROPERTY: write_id} if changed_ids else {UNDO_PROPERTY: undone_versions}
        merge = LanceOperation.Merge([*current.values(), *removed_fragments], dataset.lance_schema)
        merge_result = leaf.commit(dataset, merge, properties)
        if merge_result is None:
            return
        dataset, undone_versions = merge_result, f"{version},{merge_result.version}"
    if changed_ids:
        delete = LanceOperation.Delete(old_fragments, new_ids, "undone by Partita")
        leaf.commit(dataset, delete, {UNDO_PROPERTY: undone_versions})


@contextmanager
def translate_lance_errors(location: str) -> Iterator[None]:
    """Raise errors and panics of Lance as `StorageError`."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, PartitaError):
            raise
        raise StorageError(f"Lance, of {location}: {str(error).partition(', /home/')[0]}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"Lance, of {location}: {error_summary(error)}") from error
