"""Arrow arrays as one piece, and their buffers as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = Any
"""A `pa.Array` or a `pa.ChunkedArray`; pyarrow has no types of its own."""
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
UInts: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Octets: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def one_array(array: Array) -> Array:
    """The same values as a single `pa.Array`, out of their chunks, their dictionary and the wrapping of UUIDs."""
    if isinstance(array, pa.ChunkedArray):
        array = one_chunk(array if array.num_chunks == 1 else _wide(array))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.storage if array.type == pa.uuid() else array


def one_chunk(array: Array) -> Array:
    """The same values as a single `pa.Array` of the same type; one chunk is not copied."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def _wide(chunks: Array) -> Array:
    """Text and bytes with 64-bit offsets, so that all chunks go into one."""
    if pa.types.is_string(chunks.type):
        return pc.cast(chunks, pa.large_string())
    return pc.cast(chunks, pa.large_binary()) if pa.types.is_binary(chunks.type) else chunks


def null_mask(array: Array) -> Bools:
    """Where the array is null; it is of a type whose nulls are counted, which unions and runs are not."""
    if not array.null_count:
        return np.zeros(len(array), bool)
    return cast("Bools", array.is_null().to_numpy(zero_copy_only=False))


def int64_values(array: Array) -> Ints:
    """The integers that an array of integers, dates, times or timestamps holds, with 0 for null."""
    if not pa.types.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    filled = array.fill_null(0) if array.null_count else array
    return cast("Ints", filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))


def float64_values(array: Array) -> Floats:
    """The doubles of a `float64` array, with 0 for null."""
    return cast("Floats", array.fill_null(0.0).to_numpy(zero_copy_only=False))


def limbs(array: Array) -> tuple[UInts, Ints]:
    """The low and high 64 bits of the unscaled values of a `decimal128` array, with 0 for null."""
    words = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    if array.null_count:
        words = np.where(null_mask(array)[:, None], np.uint64(0), words)
    return words[:, 0].copy(), words[:, 1].copy().view(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs of bytes: run `i` is `octets[offsets[i]:offsets[i + 1]]`."""

    octets: Octets
    offsets: Ints

    @classmethod
    def of(cls, array: Array) -> Self:
        """The runs of an array of text or bytes; a null is a run of some length."""
        large = pa.large_string() if is_text(array.type) else pa.large_binary()
        array = pc.cast(array, large)
        _, offsets, octets = array.buffers()
        if not len(array):
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        bounds = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8)
        content = np.frombuffer(octets, np.uint8) if octets is not None else np.zeros(0, np.uint8)
        return cls(content[bounds[0] : bounds[-1]], bounds - bounds[0])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """How many bytes each run has."""
        return np.diff(self.offsets)

    def to_array(self, type_: pa.DataType, null: Bools | None = None) -> Array:
        """An Arrow array of that type (`large_string` or `large_binary`), null where `null` is true."""
        validity = None if null is None or not null.any() else pa.py_buffer(np.packbits(~null, bitorder="little"))
        buffers = [validity, pa.py_buffer(self.offsets), pa.py_buffer(np.ascontiguousarray(self.octets))]
        return pa.Array.from_buffers(type_, len(self), buffers)


def offsets_of(lengths: Ints) -> Ints:
    """The offsets of runs that have those lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def is_text(type_: pa.DataType) -> bool:
    """Whether an Arrow type is one of those of text."""
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def narrow_text(texts: Array) -> Array:
    """Texts as `string`, unless their bytes need the offsets of a `large_string`."""
    return texts if texts.nbytes - 8 * len(texts) >= 2**31 else pc.cast(texts, pa.string())
