"""Whether a manifest may speak of some paths, told from its bytes: far cheaper than decoding every entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.formats.iceberg.manifests.avro import read_octets

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_SHORTEST = 8


def may_mention(io: FileIO, path: str, wanted: frozenset[str]) -> bool:
    """Whether any of the texts may be in a manifest, as a path or within another; False is certain."""
    texts = frozenset(text.encode() for text in wanted)
    start = common_start(min(texts), max(texts))
    # Texts that have little in common would have to be looked for everywhere.
    if len(start) < _SHORTEST:
        return True
    lengths = sorted({len(text) for text in texts})
    return _is_in(read_octets(io, path), start, lengths, texts)


def common_start(one: bytes, other: bytes) -> bytes:
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
