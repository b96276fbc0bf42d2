"""The canonical form of a data file's path, by which `add` and `remove` actions name the same file.

A path in the log is a URI, relative to the table or absolute, and writers spell the same path in several ways:

| in the log | canonical |
|---|---|
| `p=a%20b/x.parquet` | `p=a b/x.parquet` |
| `./x.parquet`, `p=1/../x.parquet` | `x.parquet` |
| `/data/x.parquet`, `file:/data/x.parquet`, `file:///data/x.parquet` | `/data/x.parquet` |
| `file:/table/x.parquet`, in the table at `/table` | `x.parquet` |
| `s3a://bucket/x.parquet`, `s3n://bucket/x.parquet` | `s3://bucket/x.parquet` |

The canonical form is not URI-encoded, as `Storage` expects it: relative for a file in the table's folder, absolute for
any other. delta-spark adds a scheme to absolute paths and compares the rest as written; every two paths that are the
same file to delta-spark have the same canonical form here.
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

from partita.arrow.buffers import Array, Octets, dense_array
from partita.errors import StorageError
from partita.formats.containment import canonical_scheme
from partita.formats.partition_texts.uri import decode_uri
from partita.storage import Storage


@dataclass(frozen=True, slots=True)
class TableRoot:
    """The folder of a table, with every prefix that absolute paths in it may have; each ends with a slash."""

    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, storage: Storage) -> Self:
        """Return the root of the table in a folder."""
        names = [storage.uri]
        if storage.is_local:
            names.append(os.path.realpath(storage.uri))
        else:
            with suppress(StorageError):  # the folder has no location that Hadoop knows
                names.append(storage.hadoop_location())
        canonical = (_normalise_scheme(name) for name in names)
        return cls(tuple(dict.fromkeys(f"{name.rstrip('/')}/" for name in canonical)))

    def canonical_path(self, path: str) -> str:
        """Return the canonical form of a path."""
        plain = _decode_path(path) if "%" in path else path
        if _NON_CANONICAL.search(plain) is None:
            return plain
        absolute_path = _absolute_path(path, self.prefixes[0])
        for prefix in self.prefixes:
            if absolute_path.startswith(prefix):
                return absolute_path.removeprefix(prefix)
        return absolute_path

    def canonical_paths(self, paths: Array) -> pa.Array | None:
        """Return the canonical form of many paths; None if all of them are canonical already."""
        if not any(map(_has_non_canonical_bytes, paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths])):
            return None
        texts = dense_array(paths)
        decoded_paths = _decode_paths(texts)
        is_unusual = pc.match_substring_regex(decoded_paths, _NON_CANONICAL.pattern)
        if not pc.any(is_unusual).as_py():
            return None if decoded_paths is texts else decoded_paths
        canonical = self._canonical_path_list(texts.filter(is_unusual).to_pylist())
        return pc.replace_with_mask(decoded_paths, is_unusual, pa.array(canonical, decoded_paths.type))

    def _canonical_path_list(self, paths: Iterable[str]) -> list[str]:
        """Return the canonical forms of paths; each folder is looked up once."""
        folders: dict[str, str] = {}
        canonical = []
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder.endswith(("/", ":")) or not folder or "%" in name or name in _DOT_SEGMENTS:
                canonical.append(self.canonical_path(path))
                continue
            if folder not in folders:
                folders[folder] = self.canonical_path(f"{folder}/x").removesuffix("x")
            canonical.append(folders[folder] + name)
        return canonical


def is_absolute(path: str) -> bool:
    """Whether a path of the log is absolute: it has a scheme or begins with a slash."""
    return path.startswith("/") or _SCHEME.match(path) is not None


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NON_CANONICAL = re.compile(r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|//|(^|/)\.\.?/")
"""What no canonical relative path contains; it may contain `%`, which is decoded already."""
_PERCENT_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}")
_SLASH, _PERCENT = b"/%"
_NON_CANONICAL_BEFORE_SLASH = b":/."
"""Characters before a slash that only a path has that may not be canonical."""
_DOT_SEGMENTS = (".", "..", "")
_ESCAPED_PERCENT = b"%25"
_FIRST_NON_ASCII = 0x80


def _has_non_canonical_bytes(paths: pa.Array) -> bool:
    """Whether some path may not be canonical; a fast check on the bytes of all paths at once."""
    octets, starts = _text_bytes(paths)
    slashes = np.flatnonzero(octets == _SLASH)
    before = octets[slashes[1:] - 1] if len(slashes) and slashes[0] == 0 else octets[slashes - 1]
    return bool(
        (octets == _PERCENT).any()
        or any((before == mark).any() for mark in _NON_CANONICAL_BEFORE_SLASH)
        or (octets[starts] == _SLASH).any()
    )


def _text_bytes(texts: pa.Array) -> tuple[Octets, np.ndarray]:
    """Return the bytes of all texts, and the offsets at which those that are not empty begin."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64)
    _, offsets, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type)
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return octets, (ends[:-1] - ends[0])[np.diff(ends) > 0]


def _decode_paths(texts: pa.Array) -> pa.Array:
    """Decode percent escapes: one pass over all paths for each distinct escape, of which there are usually few."""
    escapes = set(_PERCENT_ESCAPE.findall(_text_bytes(texts)[0].tobytes()))
    if any(int(escape[1:], 16) >= _FIRST_NON_ASCII for escape in escapes):
        # A byte of a multi-byte character has no meaning of its own.
        return pa.array([None if text is None else _decode_path(text) for text in texts.to_pylist()], texts.type)
    # `%25` comes last, since the `%` that it yields could begin another escape.
    for escape in sorted(escapes, key=lambda escape: escape == _ESCAPED_PERCENT):
        character = chr(int(escape[1:], 16))
        texts = pc.replace_substring(texts, pattern=escape.decode(), replacement=character)
    return texts


def _absolute_path(path: str, root: str) -> str:
    """Return the absolute form of a path: decoded, without dot segments, without a scheme if it is local."""
    match = _SCHEME.match(path)
    if match is None:
        bucket = "" if root.startswith("/") else _bucket_uri(root)
        plain = _decode_path(path)
        return _remove_dot_segments(bucket, plain if path.startswith("/") else f"{root.removeprefix(bucket)}{plain}")
    scheme, rest = canonical_scheme(match[1]), path[match.end() - 1 :]
    if scheme == "file":
        return _remove_dot_segments("", _decode_path(re.sub("^//(localhost)?(?=/)", "", rest)))
    bucket, _, key = rest.removeprefix("//").partition("/")
    return _remove_dot_segments(f"{scheme}://{bucket}", f"/{_decode_path(key)}")


def _normalise_scheme(uri: str) -> str:
    scheme, colon, rest = uri.partition("://")
    return f"{canonical_scheme(scheme)}://{rest}" if colon else uri


def _bucket_uri(root: str) -> str:
    """Return the scheme and the bucket of a URI."""
    scheme, _, rest = root.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _decode_path(path: str) -> str:
    try:
        return decode_uri(path)
    except UnicodeDecodeError:
        return path


def _remove_dot_segments(prefix: str, path: str) -> str:
    """Remove `.` and `..` from an absolute path, and empty segments if it is local (`prefix` is empty)."""
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del segments[-1:]
        elif segment != "." and (segment or prefix):
            segments.append(segment)
    return f"{prefix}/{'/'.join(segments)}"
