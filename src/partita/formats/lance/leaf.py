"""A leaf: one Lance data set, and the few things that a write does to it.

A commit of ours says in its properties which write it belongs to. What others commit says nothing, and counts from
the moment that it is there; what a write of ours committed counts once that write has ended well. `clean_version` is
the newest version of a leaf in which all of it counts.
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

from partita.errors import Conflict, PartitaError, StorageError, TableError
from partita.formats.containment import check_inside
from partita.storage import Storage
from partita.untrusted import first_line, is_panic

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

WRITE = "partita.write"
"""The property of a commit that names the write it belongs to."""
UNDOES = "partita.undoes"
"""The property of a commit that takes back the versions that it names, with commas between."""
TRIES = 50


@dataclass(frozen=True, slots=True)
class Leaf:
    """The leaf at a location under the folder that the directory namespace is in."""

    storage: Storage
    location: str

    @property
    def uri(self) -> str:
        """Where Lance finds it; a location that leads out of the namespace's folder is refused."""
        self.check_inside()
        if self.storage.is_local:
            return f"{self.storage.uri}/{self.location}"
        return f"{self.storage.uri}/{quote(self.location, safe='/=')}"

    def check_inside(self) -> None:
        """Refuse a location outside of the namespace's folder, and a leaf whose own folders are symbolic links."""
        check_inside(self.storage.uri, self.location, "the leaf")
        if self.storage.is_local:
            self._check_links(
                entry.name for entry in _entries(f"{self.storage.uri}/{self.location}") if entry.is_symlink()
            )

    def check_changeable(self) -> None:
        """Refuse a leaf with symbolic links anywhere in it: Lance follows them where it deletes files."""
        self.check_inside()
        self._check_links(self.links())

    def links(self) -> list[str]:
        """The symbolic links in the leaf, by their paths in it."""
        return [path[len(self.location) + 1 :] for path in self.storage.links(self.location)]

    def _check_links(self, links: Iterable[str]) -> None:
        for link in links:
            raise TableError(
                f"the leaf {self.location} has a symbolic link in it, {link}; Lance would follow it: remove it"
            )

    def open(self, version: int | None = None) -> LanceDataset:
        """The data set, at a version or at its newest."""
        import lance

        with translated(self.location):
            try:
                return lance.dataset(self.uri, version=version, storage_options=self._options)
            except ValueError as error:
                if not _is_missing(error):
                    raise
                raise TableError(self._gone(version)) from error

    def _gone(self, version: int | None) -> str:
        if version is not None and self.find() is not None:
            return f"version {version} of the leaf {self.location} was cleaned up meanwhile; try again"
        return (
            f"the table has a leaf {self.location}, and nothing is there in {self.storage.uri}; bring the folder back, "
            "or take the partition out of the table with drop_partition"
        )

    def find(self) -> LanceDataset | None:
        """The data set at its newest version; None where there is none."""
        import lance

        with translated(self.location):
            try:
                return lance.dataset(self.uri, storage_options=self._options)
            except ValueError as error:
                if _is_missing(error):
                    return None
                raise

    def create(self, schema: pa.Schema) -> None:
        """Make an empty data set; where there is one already, it stays as it is."""
        from lance import LanceDataset, LanceOperation
        from lance.dataset import Transaction

        if self.find() is not None:
            return
        # No more than one creates: a commit that may not be tried again must be the first version.
        first = Transaction(0, LanceOperation.Overwrite(schema, []))
        with translated(self.location):
            try:
                LanceDataset.commit(self.uri, first, max_retries=0, storage_options=self._options)
            except OSError:
                if self.find() is None:
                    raise

    def commit(self, dataset: LanceDataset, operation: Any, properties: Mapping[str, str]) -> LanceDataset | None:
        """One commit on top of what was seen; None where another was first, and it doesn't go with that."""
        from lance import LanceDataset
        from lance.commit import CommitConflictError
        from lance.dataset import Transaction

        self.check_changeable()
        change = Transaction(dataset.version, operation, transaction_properties=dict(properties))
        with translated(self.location):
            try:
                return LanceDataset.commit(dataset, change, max_retries=0, storage_options=self._options)
            except CommitConflictError:
                return None

    @property
    def _options(self) -> dict[str, str] | None:
        return dict(self.storage.options) or None


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_missing(error: ValueError) -> bool:
    return "was not found" in str(error) or "Not found" in str(error)


@dataclass(frozen=True, slots=True)
class Commits:
    """What our own commits on top of a version of a leaf say: versions by the write, and what was taken back."""

    writes: Mapping[int, str] = field(default_factory=dict)
    undone: frozenset[int] = frozenset()

    @property
    def pending(self) -> list[int]:
        """The versions whose commits don't count, oldest first."""
        return sorted(set(self.writes) - self.undone)


def commits_after(dataset: LanceDataset, version: int) -> Commits:
    """Our commits on top of a version, up to that of the data set; all of them where it was made anew since."""
    writes: dict[int, str] = {}
    undone: set[int] = set()
    for number, properties in _ours_after(dataset, version):
        if WRITE in properties:
            writes[number] = properties[WRITE]
        undone |= _undone_by(properties)
    return Commits(writes, frozenset(undone))


def our_versions(dataset: LanceDataset, version: int) -> set[int]:
    """Which versions on top of one are commits of ours, whether or not they count."""
    return {number for number, _ in _ours_after(dataset, version)}


def clean_version(dataset: LanceDataset, version: int) -> int:
    """The newest version, from `version` on, that holds no commit of ours that doesn't count."""
    clean, pending = version if version <= dataset.version else 0, set[int]()
    ours = dict(_ours_after(dataset, version))
    for number in range(clean + 1, dataset.version + 1):
        properties = ours.get(number, {})
        if WRITE in properties:
            pending.add(number)
        pending -= _undone_by(properties)
        if not pending:
            clean = number
    return clean


def _ours_after(dataset: LanceDataset, version: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Our commits on top of a version; those that were looked at before are not read again."""
    first = version if version <= dataset.version else 0
    walk = _WALKS.get(dataset.uri)
    if walk is None or not walk.first <= first <= walk.last or not _is_on(dataset, walk):
        walk = _Walk(first, first, b"", {})
    read = ((number, _properties(dataset, number)) for number in range(walk.last + 1, dataset.version + 1))
    ours = {**walk.ours} | {number: found for number, found in read if WRITE in found or UNDOES in found}
    if dataset.version > walk.last:
        if len(_WALKS) >= _MOST_WALKS:
            _WALKS.clear()
        _WALKS[dataset.uri] = _Walk(walk.first, dataset.version, _identity(dataset), ours)
    return ((number, found) for number, found in ours.items() if number > first)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Our commits among those on top of one version, up to another, whose manifest has that digest."""

    first: int
    last: int
    identity: bytes
    ours: Mapping[int, Mapping[str, str]]


_WALKS: dict[str, _Walk] = {}
_MOST_WALKS = 10_000


def _is_on(dataset: LanceDataset, walk: _Walk) -> bool:
    """Whether a data set goes on from where a walk ended: a leaf may have been made anew since."""
    if walk.last > dataset.version:
        return False
    try:
        last = dataset if walk.last == dataset.version else dataset.checkout_version(walk.last)
    except (OSError, ValueError):  # cleaned up since
        return False
    return _identity(last) == walk.identity


def _identity(dataset: LanceDataset) -> bytes:
    return sha256(dataset._ds.serialized_manifest()).digest()  # noqa: SLF001 - Lance has no name for a version


def _undone_by(properties: Mapping[str, str]) -> set[int]:
    return {int(number) for number in properties.get(UNDOES, "").split(",") if number}


def _properties(dataset: LanceDataset, version: int) -> Mapping[str, str]:
    try:
        with translated(dataset.uri):
            transaction = dataset.read_transaction(version)
    except StorageError as error:
        if "was not found" in str(error):  # cleaned up since: ours are read long before
            return {}
        raise
    except TypeError:  # Lance can't put a compaction that moved an index into Python's classes; we commit none
        return {}
    return (transaction.transaction_properties or {}) if transaction is not None else {}


def fragments_of(dataset: LanceDataset) -> list[FragmentMetadata]:
    """The fragments of a version."""
    return [fragment.metadata for fragment in dataset.get_fragments()]


def fragment_json(fragment: FragmentMetadata) -> dict[str, Any]:
    """A fragment as JSON."""
    return dict(fragment.to_json())


def fragments_from(documents: Sequence[Mapping[str, Any]]) -> list[FragmentMetadata]:
    """Fragments from JSON."""
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(document)) for document in documents]


def files_in(fragments: Sequence[FragmentMetadata]) -> set[str]:
    """The names of the data files, which no two commits share."""
    return {file.path for fragment in fragments for file in fragment.files}


def size_of(fragments: Sequence[FragmentMetadata]) -> tuple[int, int]:
    """Rows and bytes."""
    rows = sum(f.physical_rows - (f.deletion_file.num_deleted_rows if f.deletion_file else 0) for f in fragments)
    return rows, sum(file.file_size_bytes or 0 for f in fragments for file in f.files)


def field_ids(dataset: LanceDataset) -> dict[str, int]:
    """The number under which files hold each column."""
    return {f.name(): f.id() for f in dataset.lance_schema.fields()}


def next_fragment_id(dataset: LanceDataset) -> int:
    """The first number that no fragment has ever had: indices know fragments by it, also those that are gone."""
    greatest = -1
    for number, value in _numbers(dataset._ds.serialized_manifest()):  # noqa: SLF001 - Lance says it nowhere else
        if number == _MAX_FRAGMENT_ID:
            greatest = value
    return max([greatest, *(f.id for f in fragments_of(dataset))]) + 1


_MAX_FRAGMENT_ID = 11
"""The field of a manifest (table.proto of the Lance format) that has it."""


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """The whole numbers of a protobuf message, by field."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        elif wire == 2:
            size, at = _varint(message, at)
            at += size
        else:
            at += 8 if wire == 1 else 4


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        octet = message[at]
        number |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if octet < 0x80:
            return number, at


def undo(leaf: Leaf, version: int, undoes: Callable[[str], bool] = lambda _: True) -> LanceDataset:
    """Take back our commits on top of a version that don't count, of the writes that `undoes` says.

    What others committed since stays. Each step is one that Lance refuses beside a change of the same fragments.
    """
    for _ in range(TRIES):
        dataset = leaf.open()
        commits = commits_after(dataset, version)
        pending = [v for v in commits.pending if undoes(commits.writes[v])]
        if not pending:
            return dataset
        _take_back(leaf, dataset, pending[-1], commits.writes[pending[-1]])
    raise Conflict("undo", f"kept changing {leaf.location}")


def _take_back(leaf: Leaf, dataset: LanceDataset, version: int, write: str) -> None:
    from lance import LanceOperation

    before = {f.id: f for f in fragments_of(leaf.open(version - 1))}
    after = {f.id: f for f in fragments_of(leaf.open(version))}
    now = {f.id: f for f in fragments_of(dataset)}
    changed = [n for n, f in after.items() if before.get(n) != f]
    if any(now.get(n) != after[n] for n in changed):
        raise TableError(
            f"{leaf.location}: version {version} is of a write that was undone, and others have changed its rows "
            f"since; restore the leaf to version {version - 1} with Lance, and write theirs again"
        )
    new = [n for n in changed if n not in before]
    old = [before[n] for n in changed if n in before]
    removed = [f for n, f in before.items() if n not in after]
    undone = str(version)
    if removed:
        marks = {WRITE: write} if changed else {UNDOES: undone}
        merged = leaf.commit(dataset, LanceOperation.Merge([*now.values(), *removed], dataset.lance_schema), marks)
        if merged is None:
            return
        dataset, undone = merged, f"{version},{merged.version}"
    if changed:
        leaf.commit(dataset, LanceOperation.Delete(old, new, "undone by Partita"), {UNDOES: undone})


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Lance's errors as ours."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, PartitaError):
            raise
        raise StorageError(f"Lance, of {location}: {str(error).partition(', /home/')[0]}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"Lance, of {location}: {first_line(error)}") from error
