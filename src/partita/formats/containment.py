"""Which files a table may delete, and which lie outside of it (ADR 25).

A file is deleted only if it meets all of these conditions; any other file remains, and the reason is returned:

1. It is in a listing of the table's folder, the one that the user opened or created. A listing follows no symbolic
   link, so its files are inside the folder, whatever the metadata says.
2. It is not in the folder of another table inside the table's folder.
3. Its name has the form that the format or Partita gives such files.

Paths are compared in their plain form: `file:/x`, `file:///x` and `/x` are the same file, and so are `s3a://b/x` and
`s3://b/x`. On a local disk the folder of a file is resolved as the operating system does it. An object store has no
links, and a key with a segment `.` or `..` is never inside a folder, since clients interpret it differently.
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
    """Return the plain form of a path or URI, in which locations are compared; percent escapes stay."""
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
    """A folder that contains files.

    `root` is the folder with links resolved on a local disk, and the plain URI in an object store; `given_uri` is the
    plain form of the path or URI as it was given.
    """

    root: str
    given_uri: str = field(default="", compare=False)
    _resolved_folders: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """Return the location of a folder, given by a path or a URI."""
        plain = plain_location(uri)
        return cls(os.path.realpath(plain) if plain.startswith("/") else plain.rstrip("/"), plain)

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""
        return self.root.startswith("/")

    def relative_path(self, path: str) -> str | None:
        """Return the path of a file relative to the folder; None if the file is outside.

        The folders above the file are resolved; the file itself may be a link.
        """
        plain = plain_location(path)
        if not self.is_local:
            is_inside = plain.startswith(f"{self.root}/") and not has_dot_segments(plain)
            return plain[len(self.root) + 1 :] if is_inside else None
        if not plain.startswith("/"):
            return None
        folder, _, name = plain.rpartition("/")
        if name in ("", ".", ".."):
            return None
        resolved_path = f"{self._resolve_folder(folder)}/{name}"
        prefix = f"{self.root.rstrip('/')}/"
        return resolved_path[len(prefix) :] if resolved_path.startswith(prefix) else None

    def outside_paths(self, paths: Iterable[str]) -> list[str]:
        """Return those of the paths that are outside of the folder."""
        return [path for path in paths if self.relative_path(path) is None]

    def canonical_path(self, path: str) -> str:
        """Return the form of a file's path that is compared with others, inside or outside of the folder."""
        plain = plain_location(path)
        folder, _, name = plain.rpartition("/")
        return f"{self._resolve_folder(folder)}/{name}" if plain.startswith("/") else plain

    def has_link_outside(self, path: str) -> bool:
        """Whether a path is inside the folder, but a symbolic link in it leads out.

        On a local disk each folder is resolved once, and each file takes one call; an object store has no links.
        """
        if not self.is_local:
            return False
        plain = plain_location(path)
        if not plain.startswith((f"{self.given_uri.rstrip('/')}/", f"{self.root.rstrip('/')}/")):
            return False
        return self.relative_path(os.path.realpath(plain) if os.path.islink(plain) else plain) is None  # noqa: PTH114

    def _resolve_folder(self, folder: str) -> str:
        resolved_folder = self._resolved_folders.get(folder)
        if resolved_folder is None:
            resolved_folder = self._resolved_folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return resolved_folder


def check_no_parent_segments(paths: pa.Array | pa.ChunkedArray, source_name: str) -> None:
    """Raise `TableError` if a path has a segment `..`, whose meaning depends on links and on the client."""
    if not pc.any(pc.match_substring(paths, "..")).as_py():  # much quicker than the expression
        return
    dotted_paths = paths.filter(pc.match_substring_regex(paths, r"(^|/)\.\.(/|$)"))
    if len(dotted_paths):
        raise TableError(f"{source_name} names the file {dotted_paths[0].as_py()!r}; a path with .. in it is not read")


def check_inside(root: str, path: str, path_kind: str) -> None:
    """Raise `TableError` for a path that leaves a folder: absolute, with `..`, or through a symbolic link."""
    if not path or path.startswith("/") or has_dot_segments(path) or "//" in path or "\0" in path or path.endswith("/"):
        raise TableError(f"{path_kind} {path!r} is not a path inside of {root}, and nothing outside is read or changed")
    location = FolderLocation.from_uri(root)
    if location.is_local and not f"{os.path.realpath(f'{root}/{path}')}/".startswith(f"{location.root.rstrip('/')}/"):
        raise TableError(
            f"{path_kind} {path!r} is behind a symbolic link out of {root}, and nothing outside is read or changed"
        )


def check_no_links_outside(location: FolderLocation, paths: Iterable[str]) -> None:
    """Raise `TableError` if a symbolic link in a file's path leads out of the table's folder."""
    for path in paths:
        if location.has_link_outside(path):
            raise TableError(
                f"the file {path} of the table at {location.given_uri} is not read: a symbolic link in its path leads "
                "out of the table's folder; copy the file into the folder"
            )


def absolute_paths(paths: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return those of the paths that are absolute: they begin with `/` or a scheme."""
    return pa.array(
        [path for path in paths.to_pylist() if path.startswith(("/", "file:/")) or _URI_PATTERN.fullmatch(path)],
        pa.string(),
    )


# --- deletable files

REASON_OUTSIDE_FOLDER = "it lies outside of the table's folder"
REASON_SYMBOLIC_LINK = "it is a symbolic link, which is not followed"
REASON_OTHER_TABLE = "another table lies in this folder"
REASON_SHARED_FOLDER = "a table of another format lies in the same folder, and may need it"
REASON_UNKNOWN_NAME = "no writer of this format that Partita knows gives such names"
REASON_UNKNOWN_FOLDER = "no writer of this table puts files into this folder, and other programs use such names too"
REASON_TOO_YOUNG = "it is younger than older_than, and a running write may need it"


class DeletedFiles(list[str]):
    """The paths of the files that were deleted; `remaining` maps the files that were not deleted to the reason."""

    def __init__(self, paths: Iterable[str] = (), remaining: Mapping[str, str] | None = None) -> None:
        super().__init__(paths)
        self.remaining: dict[str, str] = dict(remaining or {})


@dataclass(frozen=True, slots=True, eq=False)
class FolderListing:
    """The files in a table's folder, by their paths relative to it.

    `links` are symbolic links, `nested_tables` the folders of other tables; the files inside of either are left out.
    `is_shared` says that the folder is also that of a table of another format, as with Delta's UniForm.
    """

    files: Mapping[str, StoredFile]
    links: frozenset[str]
    nested_tables: frozenset[str]
    is_shared: bool = False

    @classmethod
    def from_files(cls, stored_files: Iterable[StoredFile], format_name: str) -> Self:
        """Build the listing of the folder of a table of a format from all stored files inside."""
        files = list(stored_files)
        links = frozenset(file.path for file in files if file.is_link)
        tables = nested_table_folders(file.path for file in files)
        table_prefixes = tuple(f"{folder}/" for folder in tables)
        is_shared = not table_formats_in(file.path for file in files) <= {format_name}
        own_files = {file.path: file for file in files if not file.is_link and not file.path.startswith(table_prefixes)}
        return cls(
            own_files, frozenset(link for link in links if not link.startswith(table_prefixes)), tables, is_shared
        )

    def deletable_files(self, paths: Iterable[str], is_known_name: Callable[[str], bool]) -> DeletedFiles:
        """Return which of these files, which the table references, may be deleted; missing files are skipped."""
        table_prefixes = tuple(f"{folder}/" for folder in self.nested_tables)
        link_prefixes = tuple(f"{link}/" for link in self.links)
        deletable = DeletedFiles()
        for path in paths:
            if self.is_shared:
                deletable.remaining[path] = REASON_SHARED_FOLDER
            elif path in self.links or path.startswith(link_prefixes):
                deletable.remaining[path] = REASON_SYMBOLIC_LINK
            elif path.startswith(table_prefixes):
                deletable.remaining[path] = REASON_OTHER_TABLE
            elif path in self.files:
                if is_known_name(path):
                    deletable += [path, *self._checksum_paths(path)]
                else:
                    deletable.remaining[path] = REASON_UNKNOWN_NAME
        return deletable

    def _checksum_paths(self, path: str) -> Iterator[str]:
        """Yield the file with Hadoop's checksums of a file, if it exists."""
        folder, slash, name = path.rpartition("/")
        checksum = f"{folder}{slash}.{name}.crc"
        if checksum in self.files:
            yield checksum

    def orphan_files(
        self,
        is_referenced: Callable[[str], bool],
        is_known_name: Callable[[str], bool],
        modified_before: float,
        claim_reason: Callable[[str], str | None] = lambda _: None,
    ) -> DeletedFiles:
        """Return the unreferenced files that may be deleted: those last modified before a time, in seconds since 1970.

        `claim_reason` returns why a file may belong to another table, or None. A file with Hadoop's checksums is
        deleted together with its data file.
        """
        orphans = DeletedFiles(
            remaining=dict.fromkeys(sorted(self.links), REASON_SYMBOLIC_LINK)
            | dict.fromkeys(sorted(self.nested_tables), REASON_OTHER_TABLE)
        )
        for path, file in self.files.items():
            data_path = _CHECKSUM_PATTERN.sub(r"\1\2", path)
            if is_referenced(data_path) or (data_path != path and data_path in self.files):
                continue
            reason = claim_reason(data_path)
            if not is_known_name(data_path):
                orphans.remaining[path] = REASON_UNKNOWN_NAME
            elif reason is not None:
                orphans.remaining[path] = reason
            elif self.is_shared:
                orphans.remaining[path] = REASON_SHARED_FOLDER
            elif file.modified_time >= modified_before:
                orphans.remaining[path] = REASON_TOO_YOUNG
            else:
                orphans += [path, *self._checksum_paths(path)]
        return orphans


_CHECKSUM_PATTERN = re.compile(r"(^|/)\.([^/]+)\.crc$")
"""Hadoop keeps the checksums of `x.parquet` in `.x.parquet.crc` on a local disk."""
