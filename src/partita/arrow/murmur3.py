"""Murmur3 x86 32-bit with seed 0 over numpy arrays: all rows at once, four bytes at a time."""

from __future__ import annotations

from typing import Any, TypeAlias

import mmh3
import numpy as np

from partita.arrow.buffers import BinaryBuffers, Ints, Octets

Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]

_MIN_VECTOR_ROWS = 16
"""Fewer rows are hashed one by one, which is faster than numpy."""


def murmur3_longs(values: Ints) -> Hashes:
    """Return the hashes of int64s as eight little-endian bytes."""
    words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    state = np.zeros(len(values), np.uint32)
    for block in range(2):
        state = _mix_block(state, words[:, block])
    return _finalize_hash(state, np.full(len(values), 8, np.uint32))


def murmur3_binary(values: BinaryBuffers) -> Hashes:
    """Return the hashes of binary values."""
    lengths = values.lengths
    blocks = lengths // 4
    order = np.argsort(-blocks, kind="stable")
    starts, blocks = values.offsets[:-1][order], blocks[order]
    words = _unaligned_words(values.octets)
    state = np.zeros(len(values), np.uint32)
    block_index = 0
    # Rows are sorted by their number of blocks, so that the rows with another block come first.
    while (row_count := int(np.searchsorted(-blocks, -block_index))) >= _MIN_VECTOR_ROWS:
        state[:row_count] = _mix_block(state[:row_count], words[starts[:row_count] + block_index * 4])
        block_index += 1
    tails = (lengths[order] % 4).astype(np.uint32)
    state ^= _scramble_block(words[starts + blocks * 4] & _low_bytes_mask(tails))
    hashes = np.empty(len(values), np.uint32)
    hashes[order] = _finalize_hash(state, lengths[order].astype(np.uint32))
    for row in order[:row_count]:
        hashes[row] = mmh3.hash(values.octets[values.offsets[row] : values.offsets[row + 1]].tobytes(), 0, signed=False)
    return hashes


def _unaligned_words(octets: Octets) -> Hashes:
    """Return the four bytes from each position on, padded with zeros, as a little-endian number."""
    padded_octets = np.concatenate((octets, np.zeros(4, np.uint8)))
    return np.ndarray((len(octets) + 1,), np.dtype("<u4"), padded_octets, strides=(1,))


def _low_bytes_mask(counts: Hashes) -> Hashes:
    return (np.uint32(1) << counts * np.uint32(8)) - np.uint32(1)


def _mix_block(state: Hashes, block: Hashes) -> Hashes:
    return _rotate_left(state ^ _scramble_block(block), 13) * np.uint32(5) + np.uint32(0xE654_6B64)


def _scramble_block(block: Hashes) -> Hashes:
    return _rotate_left(block * np.uint32(0xCC9E_2D51), 15) * np.uint32(0x1B87_3593)


def _rotate_left(words: Hashes, bits: int) -> Hashes:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _finalize_hash(state: Hashes, lengths: Hashes) -> Hashes:
    state = state ^ lengths
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EB_CA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2_AE35)
    return state ^ state >> np.uint32(16)
