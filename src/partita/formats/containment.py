"""Which files a table may delete, and which lie outside of it (ADR 0025).

A file is deleted only if all of this holds; what fails one of them is left alone, and the reason is said:

1. A listing of the table's place shows it. The place is the folder that the user opened or created; a listing follows
   no symbolic link, so that what it shows lies below the place, whatever metadata says.
2. It is not in the folder of another table below the place.
3. Its name is one that the format and Partita give such files.

A path is compared in its plain form: `file:/x`, `file:///x` and `/x` are the same file, and so are `s3a://` and
`s3://`. On a local disk the folder of a file is resolved as the operating system would; keys of an object store have no
links, and a key with `.` or `..` in it is never below a folder, for clients disagree on what it means.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from partita.errors import TableError
from partita.formats.nested_tables import nested_table_folders, table_formats_in
from partita.storage import StoredFile

_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_LOCALHOST_PREFIX = re.compile(r"^//localhost(?=/)")
_URI_PATTERN = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def plain_location(uri: str) -> str:
    """A path or URI in the one form that locations are compared in; nothing in it is decoded."""
    if uri.startswith("file:/"):
        return f"/{_LOCALHOST_PREFIX.sub('', uri.removeprefix('file:')).lstrip('/')}"
    match = _URI_PATTERN.fullmatch(uri)
    if match is None:
        return uri
    return f"{canonical_scheme(match['scheme'])}://{match['rest']}"


def canonical_scheme(scheme: str) -> str:
    """Return the one name of the URI schemes that mean the same object store, as `s3` for `s3a` and `s3n`."""
    return _SCHEME_ALIASES.get(scheme.lower(), scheme.lower())


def has_dot_segments(path: str) -> bool:
    """Whether a segment of a path is `.` or `..`."""
    return any(segment in (".", "..") for segment in path.split("/"))


@dataclass(frozen=True, slots=True)
class FolderLocation:
    """A folder that files are below; `Place.at` makes one.

    `root` is the folder with links resolved on a local disk, and the plain URI in an object store; `given` is the plain
    form of what the folder was called.
    """

    root: str
    given_uri: str = field(default="", compare=False)
    _resolved_folders: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """The folder of a path or a URI."""
        plain = plain_location(uri)
        return cls(os.path.realpath(plain) if plain.startswith("/") else plain.rstrip("/"), plain)

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""
        return self.root.startswith("/")

    def relative_path(self, path: str) -> str | None:
        """The path of a file relative to the folder; None where it lies outside.

        The file itself may be a link; the folders above it are resolved.
        """
        plain = plain_location(path)
        if not self.is_local:
            inside = plain.startswith(f"{self.root}/") and not has_dot_segments(plain)
            return plain[len(self.root) + 1 :] if inside else None
        if not plain.startswith("/"):
            return None
        above, _, name = plain.rpartition("/")
        if name in ("", ".", ".."):
            return None
        resolved = f"{self._resolve_folder(above)}/{name}"
        prefix = f"{self.root.rstrip('/')}/"
        return resolved[len(prefix) :] if resolved.startswith(prefix) else None

    def outside_paths(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that lie outside of the folder."""
        return [path for path in paths if self.relative_path(path) is None]

    def canonical_path(self, path: str) -> str:
        """The form of a file's path in which it is compared with others, wherever the file lies."""
        plain = plain_location(path)
        above, _, name = plain.rpartition("/")
        return f"{self._resolve_folder(above)}/{name}" if plain.startswith("/") else plain

    def has_link_outside(self, path: str) -> bool:
        """Whether a file is named below the folder, and a symbolic link in its path leads out of it.

        On a local disk each folder is resolved once, and each file costs one look; an object store has no links.
        """
        if not self.is_local:
            return False
        plain = plain_location(path)
        if not plain.startswith((f"{self.given_uri.rstrip('/')}/", f"{self.root.rstrip('/')}/")):
            return False
        return self.relative_path(os.path.realpath(plain) if os.path.islink(plain) else plain) is None  # noqa: PTH114

    def _resolve_folder(self, folder: str) -> str:
        found = self._resolved_folders.get(folder)
        if found is None:
            found = self._resolved_folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return found


def check_no_parent_segments(paths: pa.Array | pa.ChunkedArray, source_name: str) -> None:
    """Refuse paths of files with `..` in them: what is the folder above depends on links, and on who asks."""
    if not pc.any(pc.match_substring(paths, "..")).as_py():  # much quicker than the expression
        return
    dotted = paths.filter(pc.match_substring_regex(paths, r"(^|/)\.\.(/|$)"))
    if len(dotted):
        raise TableError(f"{source_name} names the file {dotted[0].as_py()!r}; a path with .. in it is not read")


def check_inside(root: str, path: str, path_kind: str) -> None:
    """Refuse a path that doesn't lead below a folder: absolute, with `..`, or through a symbolic link out of it."""
    if not path or path.startswith("/") or has_dot_segments(path) or "//" in path or "\0" in path or path.endswith("/"):
        raise TableError(f"{path_kind} {path!r} is not a path inside of {root}, and nothing outside is read or changed")
    place = FolderLocation.from_uri(root)
    if place.is_local and not f"{os.path.realpath(f'{root}/{path}')}/".startswith(f"{place.root.rstrip('/')}/"):
        raise TableError(
            f"{path_kind} {path!r} is behind a symbolic link out of {root}, and nothing outside is read or changed"
        )


def check_no_links_outside(location: FolderLocation, paths: Iterable[str]) -> None:
    """Refuse to read files that a symbolic link takes out of the table's folder."""
    for path in paths:
        if location.has_link_outside(path):
            raise TableError(
                f"the file {path} of the table at {location.given_uri} is not read: a symbolic link in its path leads "
                "out of the table's folder; copy the file into the folder"
            )


def absolute_paths(paths: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Those of the paths that are not relative to a table's folder: they begin with `/` or a scheme."""
    return pa.array(
        [path for path in paths.to_pylist() if path.startswith(("/", "file:/")) or _URI_PATTERN.fullmatch(path)],
        pa.string(),
    )


# --- what may be deleted

REASON_OUTSIDE_FOLDER = "it lies outside of the table's folder"
REASON_SYMBOLIC_LINK = "it is a symbolic link, which is not followed"
REASON_OTHER_TABLE = "another table lies in this folder"
REASON_SHARED_FOLDER = "a table of another format lies in the same folder, and may need it"
REASON_UNKNOWN_NAME = "its name is none of those that Partita knows writers of this format to give"
REASON_UNKNOWN_FOLDER = "a writer of this table puts no files into this folder, and others give theirs such names, too"
REASON_TOO_YOUNG = "it is younger than older_than, and a running write may need it"


class DeletedFiles(list[str]):
    """The paths of the files that were deleted; `left` maps the files that were left alone to the reason."""

    def __init__(self, paths: Iterable[str] = (), left: Mapping[str, str] | None = None) -> None:
        super().__init__(paths)
        self.left: dict[str, str] = dict(left or {})


@dataclass(frozen=True, slots=True, eq=False)
class FolderListing:
    """The files below a table's place, by their paths relative to it.

    `links` are symbolic links, `tables` the folders of other tables there; neither is looked into. `is_shared` is true
    where the place itself is the folder of a table of another format too, as with Delta's UniForm.
    """

    files: Mapping[str, StoredFile]
    links: frozenset[str]
    nested_tables: frozenset[str]
    is_shared: bool = False

    @classmethod
    def from_files(cls, stored_files: Iterable[StoredFile], format_name: str) -> Self:
        """The listing of what a storage found below the place of a table of a format."""
        every = list(stored_files)
        links = frozenset(file.path for file in every if file.is_link)
        tables = nested_table_folders(file.path for file in every)
        within = tuple(f"{folder}/" for folder in tables)
        is_shared = not table_formats_in(file.path for file in every) <= {format_name}
        own = {file.path: file for file in every if not file.is_link and not file.path.startswith(within)}
        return cls(own, frozenset(link for link in links if not link.startswith(within)), tables, is_shared)

    def deletable_files(self, paths: Iterable[str], is_known_name: Callable[[str], bool]) -> DeletedFiles:
        """Which of these files may be deleted, all of them named by the table; one that is gone is passed over."""
        within = tuple(f"{folder}/" for folder in self.nested_tables)
        behind = tuple(f"{link}/" for link in self.links)
        removed = DeletedFiles()
        for path in paths:
            if self.is_shared:
                removed.left[path] = REASON_SHARED_FOLDER
            elif path in self.links or path.startswith(behind):
                removed.left[path] = REASON_SYMBOLIC_LINK
            elif path.startswith(within):
                removed.left[path] = REASON_OTHER_TABLE
            elif path in self.files:
                if is_known_name(path):
                    removed += [path, *self._checksum_paths(path)]
                else:
                    removed.left[path] = REASON_UNKNOWN_NAME
        return removed

    def _checksum_paths(self, path: str) -> Iterator[str]:
        """The file with Hadoop's checksums of a file, where there is one."""
        above, slash, name = path.rpartition("/")
        checksum = f"{above}{slash}.{name}.crc"
        if checksum in self.files:
            yield checksum

    def orphan_files(
        self,
        is_referenced: Callable[[str], bool],
        is_known_name: Callable[[str], bool],
        modified_before: float,
        claim_reason: Callable[[str], str | None] = lambda _: None,
    ) -> DeletedFiles:
        """Which files that nothing names may be deleted: those last written before a time.

        `claim` says of a file why it may be another table's. Hadoop's checksums go with the file that they are of.
        """
        removed = DeletedFiles(
            left=dict.fromkeys(sorted(self.links), REASON_SYMBOLIC_LINK)
            | dict.fromkeys(sorted(self.nested_tables), REASON_OTHER_TABLE)
        )
        for path, file in self.files.items():
            checked = _CHECKSUM_PATTERN.sub(r"\1\2", path)
            if is_referenced(checked) or (checked != path and checked in self.files):
                continue
            claimed = claim_reason(checked)
            if not is_known_name(checked):
                removed.left[path] = REASON_UNKNOWN_NAME
            elif claimed is not None:
                removed.left[path] = claimed
            elif self.is_shared:
                removed.left[path] = REASON_SHARED_FOLDER
            elif file.modified_time >= modified_before:
                removed.left[path] = REASON_TOO_YOUNG
            else:
                removed += [path, *self._checksum_paths(path)]
        return removed


_CHECKSUM_PATTERN = re.compile(r"(^|/)\.([^/]+)\.crc$")
"""Hadoop keeps the checksums of `x.parquet` in `.x.parquet.crc` on a local disk."""
