"""Murmur3 x86 32-bit with seed 0 over numpy arrays: all rows at once, four bytes at a time."""

from __future__ import annotations

from typing import Any, TypeAlias

import mmh3
import numpy as np

from partita.arrow.buffers import Ints, Octets, Runs

Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]

_FEW = 16
"""So few rows are faster one by one than by numpy."""


def murmur3_longs(values: Ints) -> Hashes:
    """The hashes of int64s as eight little-endian bytes."""
    words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    state = np.zeros(len(values), np.uint32)
    for block in range(2):
        state = _with_block(state, words[:, block])
    return _finished(state, np.full(len(values), 8, np.uint32))


def murmur3_runs(runs: Runs) -> Hashes:
    """The hashes of runs of bytes."""
    lengths = runs.lengths
    blocks = lengths // 4
    order = np.argsort(-blocks, kind="stable")
    starts, blocks = runs.offsets[:-1][order], blocks[order]
    words = _words(runs.octets)
    state = np.zeros(len(runs), np.uint32)
    done = 0
    while (alive := int(np.searchsorted(-blocks, -done))) >= _FEW:  # the rows that have a block of this number
        state[:alive] = _with_block(state[:alive], words[starts[:alive] + done * 4])
        done += 1
    tails = (lengths[order] % 4).astype(np.uint32)
    state ^= _mixed(words[starts + blocks * 4] & _low_bytes(tails))
    hashes = np.empty(len(runs), np.uint32)
    hashes[order] = _finished(state, lengths[order].astype(np.uint32))
    for row in order[:alive]:
        hashes[row] = mmh3.hash(runs.octets[runs.offsets[row] : runs.offsets[row + 1]].tobytes(), 0, signed=False)
    return hashes


def _words(octets: Octets) -> Hashes:
    """The four bytes from each place on, with zeros behind the last, as one little-endian number."""
    padded = np.concatenate((octets, np.zeros(4, np.uint8)))
    return np.ndarray((len(octets) + 1,), np.dtype("<u4"), padded, strides=(1,))


def _low_bytes(counts: Hashes) -> Hashes:
    return (np.uint32(1) << counts * np.uint32(8)) - np.uint32(1)


def _with_block(state: Hashes, block: Hashes) -> Hashes:
    return _rotated(state ^ _mixed(block), 13) * np.uint32(5) + np.uint32(0xE654_6B64)


def _mixed(block: Hashes) -> Hashes:
    return _rotated(block * np.uint32(0xCC9E_2D51), 15) * np.uint32(0x1B87_3593)


def _rotated(words: Hashes, bits: int) -> Hashes:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _finished(state: Hashes, lengths: Hashes) -> Hashes:
    state = state ^ lengths
    state = (state ^ state >> np.uint32(16)) * np.uint32(0x85EB_CA6B)
    state = (state ^ state >> np.uint32(13)) * np.uint32(0xC2B2_AE35)
    return state ^ state >> np.uint32(16)
