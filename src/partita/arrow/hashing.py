"""Murmur3 hashes of typed values over arrays (see `partita.algebra.hashing`)."""

from __future__ import annotations

from typing import cast

import numpy as np

from partita.algebra.types import FLOAT_KINDS, NESTED_KINDS, DecimalType, LogicalType
from partita.arrow.buffers import (
    Array,
    BinaryBuffers,
    Floats,
    Ints,
    UInts,
    decimal_words,
    float64_values,
    offsets_from_lengths,
)
from partita.arrow.canonical_json import json_texts
from partita.arrow.murmur3 import Hashes, murmur3_binary, murmur3_longs
from partita.arrow.physical_values import cast_to_logical, to_physical_array


def murmur3_hashes(array: Array, type_: LogicalType) -> Hashes:
    """Return Murmur3 x86 32-bit with seed 0 of every value, as unsigned integers; the hash of a null is undefined."""
    if type_.kind in NESTED_KINDS:
        return murmur3_binary(BinaryBuffers.from_array(json_texts(array, type_)))
    if type_.kind in FLOAT_KINDS:
        return murmur3_longs(_double_bits(float64_values(cast_to_logical(array, type_))))
    if isinstance(type_, DecimalType):
        return murmur3_binary(twos_complement_buffers(*decimal_words(cast_to_logical(array, type_))))
    values = to_physical_array(array, type_).values
    return murmur3_longs(values) if isinstance(values, np.ndarray) else murmur3_binary(BinaryBuffers.from_array(values))


def twos_complement_buffers(low: UInts, high: Ints) -> BinaryBuffers:
    """Return the shortest big-endian two's complement of 128-bit numbers, given as low and high words."""
    octets = np.stack((high.view(np.uint64), low), axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)
    sign = (high >> 63).astype(np.uint8)
    magnitude = octets ^ sign[:, None]
    first = np.where(magnitude.any(axis=1), (magnitude != 0).argmax(axis=1), 15)
    top = np.take_along_axis(magnitude, first[:, None], axis=1)[:, 0]
    lengths = 16 - first + (top >= 128)
    return BinaryBuffers(octets[np.arange(16) >= 16 - lengths[:, None]], offsets_from_lengths(lengths))


def _double_bits(doubles: Floats) -> Ints:
    return cast("Ints", np.where(np.isnan(doubles), np.nan, doubles + 0.0).view(np.int64))
