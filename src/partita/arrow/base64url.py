"""base64url without padding, as keys and canonical JSON hold text and bytes (RFC 4648, section 5).

Three bytes and four characters are one *group*. The last group of a run can be short: it is filled with zeros on the
way in, and what stands for the filling is left out on the way back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from partita.arrow.buffers import Array, Bools, Ints, Octets, Runs, null_mask, offsets_of

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PAIRS = np.array([bytes([a, b]) for a in _ALPHABET for b in _ALPHABET]).view(np.uint16)
"""Two characters for each 12 bits."""
_STRAY = 255
_SEXTETS = np.full(256, _STRAY, np.uint8)
_SEXTETS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64, dtype=np.uint8)


def encode(array: Array) -> Array:
    """The base64url texts of an array of text or bytes, as `large_string`; null stays null."""
    runs = Runs.of(array)
    missing = _missing(runs.lengths, 3)
    groups = -(-runs.lengths // 3)
    threes = _filled(runs.octets, groups, missing, 3).astype(np.uint16)
    pairs = np.empty((len(threes), 2), np.uint16)
    pairs[:, 0] = _PAIRS[threes[:, 0] << 4 | threes[:, 1] >> 4]
    pairs[:, 1] = _PAIRS[(threes[:, 1] & 15) << 8 | threes[:, 2]]
    texts = pairs.view(np.uint8).reshape(-1)[_kept(groups, missing, 4)]
    return Runs(texts, offsets_of(groups * 4 - missing)).to_array(pa.large_string(), null_mask(array))


def decode(runs: Runs) -> tuple[Runs, Bools]:
    """The bytes of runs of base64url, and which of the runs are no canonical base64url.

    Canonical means: of the alphabet, of a length that bytes can have, and without bits that belong to no byte.
    """
    missing = _missing(runs.lengths, 4)
    groups = -(-runs.lengths // 4)
    sextets = _SEXTETS[runs.octets]
    bad = (missing == 3) | _any_in_run(sextets == _STRAY, runs)
    fours = _filled(sextets, groups, missing, 4)
    threes = np.empty((len(fours), 3), np.uint8)
    threes[:, 0] = fours[:, 0] << 2 | fours[:, 1] >> 4
    threes[:, 1] = fours[:, 1] << 4 | fours[:, 2] >> 2
    threes[:, 2] = fours[:, 2] << 6 | fours[:, 3]
    octets = threes.reshape(-1)
    decoded = Runs(octets[_kept(groups, missing, 3)], offsets_of(groups * 3 - missing))
    return decoded, bad | _leftover(octets, groups, missing)


def _missing(lengths: Ints, group: int) -> Ints:
    """How many places of its last group each run leaves empty."""
    return -lengths % group


def _kept(groups: Ints, missing: Ints, group: int) -> Bools:
    """Which places of all groups are taken, where each run leaves the last `missing` empty."""
    kept = np.ones(int(groups.sum()) * group, bool)
    ends = np.cumsum(groups) * group
    for place in range(1, group + 1):
        kept[ends[missing >= place] - place] = False
    return kept


def _filled(octets: Octets, groups: Ints, missing: Ints, group: int) -> Octets:
    """The runs' octets in rows of one group, with zeros in the places that are not taken."""
    filled = np.zeros(int(groups.sum()) * group, np.uint8)
    filled[_kept(groups, missing, group)] = octets
    return filled.reshape(-1, group)


def _leftover(octets: Octets, groups: Ints, missing: Ints) -> Bools:
    """Which runs say more than the bytes that are kept: the first byte that is left out of theirs isn't zero."""
    left = np.zeros(len(groups), bool)
    short = (missing == 1) | (missing == 2)
    left[short] = octets[np.cumsum(groups)[short] * 3 - missing[short]] != 0
    return left


def _any_in_run(flags: Bools, runs: Runs) -> Bools:
    counts = np.concatenate(([0], np.cumsum(flags))) if flags.any() else np.zeros(len(flags) + 1, np.int64)
    return counts[runs.offsets[1:]] > counts[runs.offsets[:-1]]
