"""Murmur3 over the bytes that each type stands for: `partita.algebra.hashing` over arrays."""

from __future__ import annotations

from typing import cast

import numpy as np

from partita.algebra.types import FLOATS, NESTED, DecimalType, LogicalType
from partita.arrow.buffers import Array, Floats, Ints, Runs, UInts, float64_values, limbs, offsets_of
from partita.arrow.canonical_json import json_texts
from partita.arrow.murmur3 import Hashes, murmur3_longs, murmur3_runs
from partita.arrow.plain import exact, ranks


def hashes(array: Array, type_: LogicalType) -> Hashes:
    """Murmur3 x86 32-bit with seed 0 of every value, as unsigned integers; those of nulls mean nothing."""
    if type_.kind in NESTED:
        return murmur3_runs(Runs.of(json_texts(array, type_)))
    if type_.kind in FLOATS:
        return murmur3_longs(_double_bits(float64_values(exact(array, type_))))
    if isinstance(type_, DecimalType):
        return murmur3_runs(shortest_runs(*limbs(exact(array, type_))))
    values = ranks(array, type_).values
    return murmur3_longs(values) if isinstance(values, np.ndarray) else murmur3_runs(Runs.of(values))


def shortest_runs(low: UInts, high: Ints) -> Runs:
    """Big-endian two's complement in as few bytes as hold each number of 128 bits."""
    octets = np.stack((high.view(np.uint64), low), axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)
    sign = (high >> 63).astype(np.uint8)
    magnitude = octets ^ sign[:, None]
    first = np.where(magnitude.any(axis=1), (magnitude != 0).argmax(axis=1), 15)
    top = np.take_along_axis(magnitude, first[:, None], axis=1)[:, 0]
    lengths = 16 - first + (top >= 128)
    return Runs(octets[np.arange(16) >= 16 - lengths[:, None]], offsets_of(lengths))


def _double_bits(doubles: Floats) -> Ints:
    return cast("Ints", np.where(np.isnan(doubles), np.nan, doubles + 0.0).view(np.int64))
