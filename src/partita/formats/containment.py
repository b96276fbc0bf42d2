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
from partita.formats.nesting import formats_in, tables_below
from partita.storage import StoredFile

_SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss"}
_LOCAL_HOST = re.compile(r"^//localhost(?=/)")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def plain_location(uri: str) -> str:
    """A path or URI in the one form that locations are compared in; nothing in it is decoded."""
    if uri.startswith("file:/"):
        return f"/{_LOCAL_HOST.sub('', uri.removeprefix('file:')).lstrip('/')}"
    match = _SCHEME.fullmatch(uri)
    if match is None:
        return uri
    scheme = match["scheme"].lower()
    return f"{_SAME_SCHEMES.get(scheme, scheme)}://{match['rest']}"


def has_dots(path: str) -> bool:
    """Whether a segment of a path is `.` or `..`."""
    return any(segment in (".", "..") for segment in path.split("/"))


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that files are below; `Place.at` makes one.

    `root` is the folder with links resolved on a local disk, and the plain URI in an object store; `given` is the plain
    form of what the folder was called.
    """

    root: str
    given: str = field(default="", compare=False)
    _folders: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, uri: str) -> Self:
        """The folder of a path or a URI."""
        plain = plain_location(uri)
        return cls(os.path.realpath(plain) if plain.startswith("/") else plain.rstrip("/"), plain)

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local disk."""
        return self.root.startswith("/")

    def relative(self, path: str) -> str | None:
        """The path of a file relative to the folder; None where it lies outside.

        The file itself may be a link; the folders above it are resolved.
        """
        plain = plain_location(path)
        if not self.is_local:
            inside = plain.startswith(f"{self.root}/") and not has_dots(plain)
            return plain[len(self.root) + 1 :] if inside else None
        if not plain.startswith("/"):
            return None
        above, _, name = plain.rpartition("/")
        if name in ("", ".", ".."):
            return None
        resolved = f"{self._resolved(above)}/{name}"
        prefix = f"{self.root.rstrip('/')}/"
        return resolved[len(prefix) :] if resolved.startswith(prefix) else None

    def outside(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that lie outside of the folder."""
        return [path for path in paths if self.relative(path) is None]

    def canonical(self, path: str) -> str:
        """The form of a file's path in which it is compared with others, wherever the file lies."""
        plain = plain_location(path)
        above, _, name = plain.rpartition("/")
        return f"{self._resolved(above)}/{name}" if plain.startswith("/") else plain

    def leaves(self, path: str) -> bool:
        """Whether a file is named below the folder, and a symbolic link in its path leads out of it.

        On a local disk each folder is resolved once, and each file costs one look; an object store has no links.
        """
        if not self.is_local:
            return False
        plain = plain_location(path)
        if not plain.startswith((f"{self.given.rstrip('/')}/", f"{self.root.rstrip('/')}/")):
            return False
        return self.relative(os.path.realpath(plain) if os.path.islink(plain) else plain) is None  # noqa: PTH114

    def _resolved(self, folder: str) -> str:
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return found


def check_no_dots(paths: pa.Array | pa.ChunkedArray, what: str) -> None:
    """Refuse paths of files with `..` in them: what is the folder above depends on links, and on who asks."""
    if not pc.any(pc.match_substring(paths, "..")).as_py():  # much quicker than the expression
        return
    dotted = paths.filter(pc.match_substring_regex(paths, r"(^|/)\.\.(/|$)"))
    if len(dotted):
        raise TableError(f"{what} names the file {dotted[0].as_py()!r}; a path with .. in it is not read")


def check_inside(root: str, path: str, what: str) -> None:
    """Refuse a path that doesn't lead below a folder: absolute, with `..`, or through a symbolic link out of it."""
    if not path or path.startswith("/") or has_dots(path) or "//" in path or "\0" in path or path.endswith("/"):
        raise TableError(f"{what} {path!r} is not a path inside of {root}, and nothing outside is read or changed")
    place = Place.at(root)
    if place.is_local and not f"{os.path.realpath(f'{root}/{path}')}/".startswith(f"{place.root.rstrip('/')}/"):
        raise TableError(
            f"{what} {path!r} is behind a symbolic link out of {root}, and nothing outside is read or changed"
        )


def check_no_links(place: Place, paths: Iterable[str]) -> None:
    """Refuse to read files that a symbolic link takes out of the table's folder."""
    for path in paths:
        if place.leaves(path):
            raise TableError(
                f"the file {path} of the table at {place.given} is not read: a symbolic link in its path leads out of "
                "the table's folder; copy the file into the folder"
            )


def absolute_paths(paths: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Those of the paths that are not relative to a table's folder: they begin with `/` or a scheme."""
    return pa.array(
        [path for path in paths.to_pylist() if path.startswith(("/", "file:/")) or _SCHEME.fullmatch(path)],
        pa.string(),
    )


# --- what may be deleted

OUTSIDE = "it lies outside of the table's folder"
LINK = "it is a symbolic link, which is not followed"
OTHER_TABLE = "another table lies in this folder"
SHARED = "a table of another format lies in the same folder, and may need it"
OTHER_NAME = "its name is none of those that Partita knows writers of this format to give"
OTHER_FOLDER = "a writer of this table puts no files into this folder, and others give theirs such names, too"
YOUNG = "it is younger than older_than, and a running write may need it"


class Removed(list[str]):
    """The paths of the files that were deleted; `left` are those that were left alone, each with the reason."""

    def __init__(self, paths: Iterable[str] = (), left: Mapping[str, str] | None = None) -> None:
        super().__init__(paths)
        self.left: dict[str, str] = dict(left or {})


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The files below a table's place, by their paths relative to it.

    `links` are symbolic links, `tables` the folders of other tables there; neither is looked into. `is_shared` is true
    where the place itself is the folder of a table of another format too, as with Delta's UniForm.
    """

    files: Mapping[str, StoredFile]
    links: frozenset[str]
    tables: frozenset[str]
    is_shared: bool = False

    @classmethod
    def of(cls, found: Iterable[StoredFile], form: str) -> Self:
        """The listing of what a storage found below the place of a table of a format."""
        every = list(found)
        links = frozenset(file.path for file in every if file.is_link)
        tables = tables_below(file.path for file in every)
        within = tuple(f"{folder}/" for folder in tables)
        is_shared = not formats_in(file.path for file in every) <= {form}
        own = {file.path: file for file in every if not file.is_link and not file.path.startswith(within)}
        return cls(own, frozenset(link for link in links if not link.startswith(within)), tables, is_shared)

    def removable(self, paths: Iterable[str], is_own_name: Callable[[str], bool]) -> Removed:
        """Which of these files may be deleted, all of them named by the table; one that is gone is passed over."""
        within = tuple(f"{folder}/" for folder in self.tables)
        behind = tuple(f"{link}/" for link in self.links)
        removed = Removed()
        for path in paths:
            if self.is_shared:
                removed.left[path] = SHARED
            elif path in self.links or path.startswith(behind):
                removed.left[path] = LINK
            elif path.startswith(within):
                removed.left[path] = OTHER_TABLE
            elif path in self.files:
                if is_own_name(path):
                    removed += [path, *self._checksum_of(path)]
                else:
                    removed.left[path] = OTHER_NAME
        return removed

    def _checksum_of(self, path: str) -> Iterator[str]:
        """The file with Hadoop's checksums of a file, where there is one."""
        above, slash, name = path.rpartition("/")
        checksum = f"{above}{slash}.{name}.crc"
        if checksum in self.files:
            yield checksum

    def orphans(
        self,
        is_named: Callable[[str], bool],
        is_own_name: Callable[[str], bool],
        before: float,
        claim: Callable[[str], str | None] = lambda _: None,
    ) -> Removed:
        """Which files that nothing names may be deleted: those last written before a time.

        `claim` says of a file why it may be another table's. Hadoop's checksums go with the file that they are of.
        """
        removed = Removed(
            left=dict.fromkeys(sorted(self.links), LINK) | dict.fromkeys(sorted(self.tables), OTHER_TABLE)
        )
        for path, file in self.files.items():
            checked = _CHECKSUM.sub(r"\1\2", path)
            if is_named(checked) or (checked != path and checked in self.files):
                continue
            claimed = claim(checked)
            if not is_own_name(checked):
                removed.left[path] = OTHER_NAME
            elif claimed is not None:
                removed.left[path] = claimed
            elif self.is_shared:
                removed.left[path] = SHARED
            elif file.modified >= before:
                removed.left[path] = YOUNG
            else:
                removed += [path, *self._checksum_of(path)]
        return removed


_CHECKSUM = re.compile(r"(^|/)\.([^/]+)\.crc$")
"""Hadoop keeps the checksums of `x.parquet` in `.x.parquet.crc` on a local disk."""
