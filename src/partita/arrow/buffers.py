"""Arrow arrays as a single array, and their buffers as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = Any
"""A `pa.Array` or a `pa.ChunkedArray`; pyarrow has no type annotations."""
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
UInts: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Octets: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def dense_array(array: Array) -> Array:
    """Return the values as a single `pa.Array`, without chunks, dictionary encoding and the UUID extension type."""
    if isinstance(array, pa.ChunkedArray):
        array = combine_chunks(array if array.num_chunks == 1 else _widen_offsets(array))
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.storage if array.type == pa.uuid() else array


def combine_chunks(array: Array) -> Array:
    """Return the values as a single `pa.Array` of the same type; a single chunk is not copied."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def _widen_offsets(chunks: Array) -> Array:
    """Give strings and bytes 64-bit offsets, so that all chunks fit into one array."""
    if pa.types.is_string(chunks.type):
        return pc.cast(chunks, pa.large_string())
    return pc.cast(chunks, pa.large_binary()) if pa.types.is_binary(chunks.type) else chunks


def null_mask(array: Array) -> Bools:
    """Return where the array is null; not for unions and run-end-encoded arrays, whose null count is 0."""
    if not array.null_count:
        return np.zeros(len(array), bool)
    return cast("Bools", array.is_null().to_numpy(zero_copy_only=False))


def int64_values(array: Array) -> Ints:
    """Return the integers of an array of integers, dates, times or timestamps, with 0 for null."""
    if not pa.types.is_integer(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    filled_array = array.fill_null(0) if array.null_count else array
    return cast("Ints", filled_array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))


def float64_values(array: Array) -> Floats:
    """Return the doubles of a `float64` array, with 0 for null."""
    return cast("Floats", array.fill_null(0.0).to_numpy(zero_copy_only=False))


def decimal_words(array: Array) -> tuple[UInts, Ints]:
    """Return the low and high 64 bits of the unscaled values of a `decimal128` array, with 0 for null."""
    words = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    if array.null_count:
        words = np.where(null_mask(array)[:, None], np.uint64(0), words)
    return words[:, 0].copy(), words[:, 1].copy().view(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class BinaryBuffers:
    """The buffers of a binary array: value `i` is `octets[offsets[i]:offsets[i + 1]]`."""

    octets: Octets
    offsets: Ints

    @classmethod
    def from_array(cls, array: Array) -> Self:
        """Return the buffers of an array of strings or bytes; a null is a value of any length."""
        large = pa.large_string() if is_string_type(array.type) else pa.large_binary()
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
        """The number of bytes of each value."""
        return np.diff(self.offsets)

    def to_array(self, type_: pa.DataType, nulls: Bools | None = None) -> Array:
        """Return an Arrow array of the type (`large_string` or `large_binary`), null where `nulls` is true."""
        validity = None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        buffers = [validity, pa.py_buffer(self.offsets), pa.py_buffer(np.ascontiguousarray(self.octets))]
        return pa.Array.from_buffers(type_, len(self), buffers)


def offsets_from_lengths(lengths: Ints) -> Ints:
    """Return the offsets of values with the given lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def is_string_type(type_: pa.DataType) -> bool:
    """Return whether an Arrow type is a string type."""
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def narrow_string_array(texts: Array) -> Array:
    """Cast to `string`, unless the bytes need the 64-bit offsets of `large_string`."""
    return texts if texts.nbytes - 8 * len(texts) >= 2**31 else pc.cast(texts, pa.string())
