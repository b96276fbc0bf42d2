"""Deletion vectors (specification, "Deletion vectors"; Puffin, `deletion-vector-v1`): read, never written."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap64

from partita.errors import TableError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_MAGIC = b"\xd1\xd3\x39\x64"


def vector_positions(io: FileIO, entry: Mapping[str, Any]) -> np.ndarray:
    """The rows that a vector deletes, in order; `entry` says where in its file it is."""
    offset, size = entry["content_offset"], entry["content_size_in_bytes"]
    if offset is None or size is None:
        raise TableError(f"the deletion vector in {entry['path']} doesn't say where it is")
    with io.new_input(entry["path"]).open() as file:
        file.seek(offset)
        blob = file.read(size)
    return decoded(blob, entry["path"])


def decoded(blob: bytes, path: str) -> np.ndarray:
    """The rows of a vector's bytes; what is damaged is refused."""
    length = int.from_bytes(blob[:4], "big")
    body, check = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(blob) != length + 8 or body[:4] != _MAGIC or zlib.crc32(body).to_bytes(4, "big") != check:
        raise TableError(f"the deletion vector in {path} is damaged")
    return np.array(BitMap64.deserialize(body[4:]).to_array(), np.int64)
