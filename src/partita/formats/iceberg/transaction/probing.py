"""Whether a manifest may speak of some paths, told from its bytes: far cheaper than decoding every entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, ManifestEntry

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_SYNC = 16
"""The bytes between blocks (Avro specification, "Object Container Files")."""
_SHORTEST = 8


def may_mention(io: FileIO, path: str, wanted: frozenset[str]) -> bool:
    """Whether any of the texts may be in a manifest, as a path or within another; False is certain."""
    texts = frozenset(text.encode() for text in wanted)
    start = _start(min(texts), max(texts))
    # Texts that have little in common would have to be looked for everywhere.
    if len(start) < _SHORTEST:
        return True
    lengths = sorted({len(text) for text in texts})
    return any(_is_in(block, start, lengths, texts) for block in _blocks(io, path))


def _start(one: bytes, other: bytes) -> bytes:
    """What two texts start with, and with them all that lie between."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]


def _is_in(block: bytes, start: bytes, lengths: list[int], texts: frozenset[bytes]) -> bool:
    """Avro writes a text as its bytes, so each place where the common start stands may be one of them."""
    at = block.find(start)
    while at >= 0:
        if any(block[at : at + length] in texts for length in lengths):
            return True
        at = block.find(start, at + 1)
    return False


def _blocks(io: FileIO, path: str) -> Iterator[bytes]:
    with AvroFile[ManifestEntry](io.new_input(path), MANIFEST_ENTRY_SCHEMAS[3]) as reader:
        codec = reader.header.compression_codec()
        while True:
            try:
                reader.decoder.read_int()
            except EOFError:
                return
            block = reader.decoder.read_bytes()
            yield codec.decompress(block) if codec is not None else block
            reader.decoder.read(_SYNC)
