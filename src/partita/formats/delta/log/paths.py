"""The canonical form of a data file's path, by which `add` and `remove` actions name the same file.

A path in the log is a URI, relative to the table or absolute, and writers spell the same one in several ways:

| in the log | canonical |
|---|---|
| `p=a%20b/x.parquet` | `p=a b/x.parquet` |
| `./x.parquet`, `p=1/../x.parquet` | `x.parquet` |
| `/data/x.parquet`, `file:/data/x.parquet`, `file:///data/x.parquet` | `/data/x.parquet` |
| `file:/table/x.parquet`, in the table at `/table` | `x.parquet` |
| `s3a://bucket/x.parquet`, `s3n://bucket/x.parquet` | `s3://bucket/x.parquet` |

The canonical form is plain text, as `Storage` takes it: relative for a file of the table's folder, absolute for all
others. delta-spark adds a scheme to absolute paths and compares the rest as it is written; every pair that it takes for
one file is one here too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.arrow.buffers import Array, Octets, one_array
from partita.errors import StorageError
from partita.formats.delta.values.uri import uri_decoded
from partita.storage import Storage


@dataclass(frozen=True, slots=True)
class TableRoot:
    """The folder of a table, under every name that absolute paths may begin with; each ends with a slash."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """The root of the table in a folder."""
        names = [storage.uri]
        if storage.is_local:
            names.append(os.path.realpath(storage.uri))
        else:
            with suppress(StorageError):  # where Hadoop's name of the folder can't be told
                names.append(storage.location())
        canonical = (_normalised_root(name) for name in names)
        return cls(tuple(dict.fromkeys(f"{name.rstrip('/')}/" for name in canonical)))

    def canonical_path(self, path: str) -> str:
        """The canonical form of one path."""
        plain = _decoded(path) if "%" in path else path
        if _UNUSUAL.search(plain) is None:
            return plain
        found = _absolute(path, self.names[0])
        for name in self.names:
            if found.startswith(name):
                return found.removeprefix(name)
        return found

    def canonical_paths(self, paths: Array) -> pa.Array | None:
        """The canonical form of many paths; None where each of them has it already."""
        if not any(map(_may_be_unusual, paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths])):
            return None
        texts = one_array(paths)
        decoded = _decoded_array(texts)
        unusual = pc.match_substring_regex(decoded, _UNUSUAL.pattern)
        if not pc.any(unusual).as_py():
            return None if decoded is texts else decoded
        canonical = self._each_canonical(texts.filter(unusual).to_pylist())
        return pc.replace_with_mask(decoded, unusual, pa.array(canonical, decoded.type))

    def _each_canonical(self, paths: Iterable[str]) -> list[str]:
        """The same one by one; what a folder is called is found out once."""
        folders: dict[str, str] = {}
        found = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder.endswith(("/", ":")) or not folder or "%" in name or name in _DOTS:
                found.append(self.canonical_path(path))
                continue
            if folder not in folders:
                folders[folder] = self.canonical_path(f"{folder}/x").removesuffix("x")
            found.append(folders[folder] + name)
        return found


def is_absolute(path: str) -> bool:
    """Whether a path of the log is absolute: with a scheme, or from the root of the file system."""
    return path.startswith("/") or _SCHEME.match(path) is not None


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_UNUSUAL = re.compile(r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|//|(^|/)\.\.?/")
"""What a relative path in canonical form doesn't have; `%` it may have, as it is decoded."""
_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_SLASH, _PERCENT = b"/%"
_BEFORE = b":/."
"""What a slash has before it in a path that may not be canonical."""
_DOTS = (".", "..", "")
_ESCAPED_PERCENT = b"%25"
_NOT_ASCII = 0x80
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3"}


def _may_be_unusual(paths: pa.Array) -> bool:
    """Whether a path of an array may not be canonical; a look at the bytes of all of them, which takes little time."""
    octets, starts = _octets(paths)
    slashes = np.flatnonzero(octets == _SLASH)
    before = octets[slashes[1:] - 1] if len(slashes) and slashes[0] == 0 else octets[slashes - 1]
    return bool(
        (octets == _PERCENT).any()
        or any((before == mark).any() for mark in _BEFORE)
        or (octets[starts] == _SLASH).any()
    )


def _octets(texts: pa.Array) -> tuple[Octets, np.ndarray]:
    """The bytes of all texts, and where those begin that are not empty."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    _, offsets, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return octets, (ends[:-1] - ends[0])[np.diff(ends) > 0]


def _decoded_array(texts: pa.Array) -> pa.Array:
    """Paths with their percent escapes decoded, which mostly are few different ones, each in one pass over all."""
    escapes = set(_ESCAPE.findall(_octets(texts)[0].tobytes()))
    if any(int(escape[1:], 16) >= _NOT_ASCII for escape in escapes):
        # Bytes of a character of several; alone they say nothing.
        return pa.array([None if text is None else _decoded(text) for text in texts.to_pylist()], texts.type)
    # `%` comes last, or what it makes could be taken for another escape.
    for escape in sorted(escapes, key=lambda escape: escape == _ESCAPED_PERCENT):
        character = chr(int(escape[1:], 16))
        texts = pc.replace_substring(texts, pattern=escape.decode(), replacement=character)
    return texts


def _absolute(path: str, root: str) -> str:
    """The path as an absolute one: no scheme for local files, nothing encoded, no dots."""
    match = _SCHEME.match(path)
    if match is None:
        store = "" if root.startswith("/") else _store(root)
        plain = _decoded(path)
        return _without_dots(store, plain if path.startswith("/") else f"{root.removeprefix(store)}{plain}")
    scheme = match[1].lower()
    scheme, rest = _SAME_SCHEME.get(scheme, scheme), path[match.end() - 1 :]
    if scheme == "file":
        return _without_dots("", _decoded(re.sub("^//(localhost)?(?=/)", "", rest)))
    store, _, key = rest.removeprefix("//").partition("/")
    return _without_dots(f"{scheme}://{store}", f"/{_decoded(key)}")


def _normalised_root(uri: str) -> str:
    scheme, colon, rest = uri.partition("://")
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{rest}" if colon else uri


def _store(root: str) -> str:
    """The scheme and the bucket of a URI."""
    scheme, _, rest = root.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _decoded(path: str) -> str:
    try:
        return uri_decoded(path)
    except UnicodeDecodeError:
        return path


def _without_dots(prefix: str, path: str) -> str:
    """An absolute path without `.` and `..`; on a local disk without empty segments either."""
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != "." and (segment or prefix):
            kept.append(segment)
    return f"{prefix}/{'/'.join(kept)}"
