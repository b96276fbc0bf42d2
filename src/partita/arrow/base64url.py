"""base64url without padding (RFC 4648, section 5) over Arrow arrays, for keys and canonical JSON.

Three bytes, or four characters, are a *group*. The last group of a value can be short: it is padded with zeros for the
computation, and the output of the padding is dropped.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from partita.arrow.buffers import Array, BinaryBuffers, Bools, Ints, Octets, null_mask, offsets_from_lengths

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PAIRS = np.array([bytes([a, b]) for a in _ALPHABET for b in _ALPHABET]).view(np.uint16)
"""The two characters of every 12-bit number."""
_INVALID = 255
_SEXTETS = np.full(256, _INVALID, np.uint8)
_SEXTETS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64, dtype=np.uint8)


def encode_base64url(array: Array) -> Array:
    """Encode an array of strings or bytes as a `large_string` array; null stays null."""
    values = BinaryBuffers.from_array(array)
    padding = _padding_lengths(values.lengths, 3)
    groups = -(-values.lengths // 3)
    byte_groups = _pad_groups(values.octets, groups, padding, 3).astype(np.uint16)
    pairs = np.empty((len(byte_groups), 2), np.uint16)
    pairs[:, 0] = _PAIRS[byte_groups[:, 0] << 4 | byte_groups[:, 1] >> 4]
    pairs[:, 1] = _PAIRS[(byte_groups[:, 1] & 15) << 8 | byte_groups[:, 2]]
    texts = pairs.view(np.uint8).reshape(-1)[_unpadded_mask(groups, padding, 4)]
    return BinaryBuffers(texts, offsets_from_lengths(groups * 4 - padding)).to_array(
        pa.large_string(), null_mask(array)
    )


def decode_base64url(texts: BinaryBuffers) -> tuple[BinaryBuffers, Bools]:
    """Return the decoded bytes, and a mask of the values that are not canonical base64url.

    Canonical means: characters of the alphabet, a possible length, and no bits beyond the last byte.
    """
    padding = _padding_lengths(texts.lengths, 4)
    groups = -(-texts.lengths // 4)
    sextets = _SEXTETS[texts.octets]
    is_invalid = (padding == 3) | _any_in_value(sextets == _INVALID, texts)
    sextet_groups = _pad_groups(sextets, groups, padding, 4)
    byte_groups = np.empty((len(sextet_groups), 3), np.uint8)
    byte_groups[:, 0] = sextet_groups[:, 0] << 2 | sextet_groups[:, 1] >> 4
    byte_groups[:, 1] = sextet_groups[:, 1] << 4 | sextet_groups[:, 2] >> 2
    byte_groups[:, 2] = sextet_groups[:, 2] << 6 | sextet_groups[:, 3]
    octets = byte_groups.reshape(-1)
    decoded_values = BinaryBuffers(
        octets[_unpadded_mask(groups, padding, 3)], offsets_from_lengths(groups * 3 - padding)
    )
    return decoded_values, is_invalid | _leftover_bits_mask(octets, groups, padding)


def _padding_lengths(lengths: Ints, group: int) -> Ints:
    """Return how many positions the last group of each value lacks."""
    return -lengths % group


def _unpadded_mask(groups: Ints, padding: Ints, group: int) -> Bools:
    """Return which positions of all groups are not padding; the last `padding` positions of each value are."""
    mask = np.ones(int(groups.sum()) * group, bool)
    ends = np.cumsum(groups) * group
    for distance in range(1, group + 1):
        mask[ends[padding >= distance] - distance] = False
    return mask


def _pad_groups(octets: Octets, groups: Ints, padding: Ints, group: int) -> Octets:
    """Return the octets as one row per group, padded with zeros."""
    padded_octets = np.zeros(int(groups.sum()) * group, np.uint8)
    padded_octets[_unpadded_mask(groups, padding, group)] = octets
    return padded_octets.reshape(-1, group)


def _leftover_bits_mask(octets: Octets, groups: Ints, padding: Ints) -> Bools:
    """Return which values have bits beyond their last byte: the first byte of the padding is not zero."""
    mask = np.zeros(len(groups), bool)
    is_short = (padding == 1) | (padding == 2)
    mask[is_short] = octets[np.cumsum(groups)[is_short] * 3 - padding[is_short]] != 0
    return mask


def _any_in_value(flags: Bools, values: BinaryBuffers) -> Bools:
    counts = np.concatenate(([0], np.cumsum(flags))) if flags.any() else np.zeros(len(flags) + 1, np.int64)
    return counts[values.offsets[1:]] > counts[values.offsets[:-1]]
