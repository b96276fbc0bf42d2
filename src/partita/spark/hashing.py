"""Murmur3 as Spark Columns: `partita.algebra.hashing` without a Python worker.

Spark's `hash` is Murmur3 x86 32-bit too, but for its seed, 42, and for the last bytes of a text whose length is no
multiple of four. Both are put right here in whole numbers, so that the work stays in `hash`.

- **The seed.** A second argument of `hash` is seeded by the hash of the first; `_ZERO` is the int whose hash is 0.
- **The tail.** Murmur3 mixes whole blocks of four bytes into its state `h` by `step(h ^ k)`, the last, partial one by
  `h ^ k`, and ends with `finish(h ^ length)`. A text that is padded with 1 to 4 zeros has no partial block, so
  `hash` of it is `finish(step(h ^ k) ^ padded_length)`, where `k` is the partial block, or 0. All of `finish` and
  `step` can be undone; what is wanted is `finish(undo_step(undo_finish(hash) ^ padded_length) ^ length)`.

States are longs of 0 to 2^32 - 1. Each operand stands as few times as it can, for expressions are trees: a value that
stands twice doubles the plan.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F

from partita.algebra.types import BYTES, FLOATS, INTEGERS, NESTED, DecimalType, Kind, LogicalType
from partita.spark.canonical_json import canonical_json
from partita.spark.decimals import shortest_bytes
from partita.spark.instants import long, micros_of_time


def murmur3(column: Column, type_: LogicalType) -> Column:
    """Murmur3 x86 32-bit with seed 0 of a column of that type, as an int; null of null."""
    if type_.kind in NESTED:
        return _once(canonical_json(column, type_), _of_bytes)
    if isinstance(type_, DecimalType):
        return _stage(shortest_bytes(column, type_.precision), _of_bytes)
    if type_.kind is Kind.STRING or type_.kind in BYTES:
        return _of_bytes(column)
    return F.when(column.isNotNull(), _seeded(_EIGHT_BYTES[type_.kind](column)))


_EIGHT_BYTES: dict[Kind, Callable[[Column], Column]] = {
    **dict.fromkeys({Kind.BOOLEAN, *INTEGERS}, lambda c: c.cast("long")),
    # `hash` takes the bits of a double, with -0.0 as 0.0 and all NaNs as one.
    **dict.fromkeys(FLOATS, lambda c: c.cast("double")),
    Kind.DATE: lambda c: F.unix_date(c).cast("long"),
    Kind.TIME: micros_of_time,
    # `hash` takes the microseconds that both kinds of timestamp are made of.
    Kind.TIMESTAMP: lambda c: c,
    Kind.TIMESTAMP_NTZ: lambda c: c,
}

_ZERO = -1_693_959_553
_SEED = 42
_BITS = 0xFFFF_FFFF
_BLOCK_1, _BLOCK_2 = 0xCC9E_2D51, 0x1B87_3593
_STEP_FACTOR, _STEP_SHIFT = 5, 0xE654_6B64
_FINISH_1, _FINISH_2 = 0x85EB_CA6B, 0xC2B2_AE35


def _seeded(column: Column) -> Column:
    return F.hash(F.lit(_ZERO), column)


def _of_bytes(column: Column) -> Column:
    """The hash of a string's or a binary's bytes."""
    length = F.octet_length(column)
    padded_length = length.bitwiseOR(F.lit(3)) + F.lit(1)
    padded = F.rpad(column.cast("binary"), padded_length, F.lit(b"\0"))
    state = _stage(_seeded(padded), lambda h: _undo_finish(h).bitwiseXOR(padded_length.cast("long")))
    hashed = _stage(state, lambda h: _finish(_undo_step(h).bitwiseXOR(length.cast("long"))))
    # `hash` of null is its seed; the length of null is null. A branch would keep Spark from sharing what stands twice.
    return hashed.bitwiseOR(length.bitwiseAND(F.lit(0)))


def _once(column: Column, function: Callable[[Column], Column]) -> Column:
    """`function(column)` where the column is computed once, though the function's expression holds it many times."""
    return F.transform(F.array(column), function)[0]


def _stage(column: Column, function: Callable[[Column], Column]) -> Column:
    """`function(column)`, side by side on Spark Connect, whose messages can't be as deep as the whole expression.

    Spark doesn't compile lambdas, so that classic Spark, which has no such limit, does without.
    """
    return _once(column, function) if is_remote() else function(column)


def _finish(state: Column) -> Column:
    """Murmur3's finaliser, as a signed int.

    `hash` of an int ends with it too, so this is `hash` of the int that takes it to that state: the same work,
    with the state standing once instead of eight times.
    """
    block = _undo_step(state.bitwiseXOR(long(4))).bitwiseXOR(long(_SEED))
    number = _times(_rotated(_times(block, _inverse(_BLOCK_2)), 32 - 15), _inverse(_BLOCK_1))
    return F.hash(_signed(number))


def _undo_finish(hashed: Column) -> Column:
    state = _xor_shifted(hashed.cast("long").bitwiseAND(long(_BITS)), 16)
    state = _xor_shifted(_times(state, _inverse(_FINISH_2)), 13, 26)
    return _xor_shifted(_times(state, _inverse(_FINISH_1)), 16)


def _undo_step(state: Column) -> Column:
    """`h ^ k` of `rotated(h ^ k, 13) * 5 + 0xe6546b64`."""
    # (state - shift) * inverse, multiplied out: the inverse of 5 is small enough for the sum to stay within 64 bits.
    inverse = _inverse(_STEP_FACTOR)
    product = state * long(_as_signed(inverse)) + long(-_STEP_SHIFT * inverse % (1 << 32))
    return _rotated(product.bitwiseAND(long(_BITS)), 32 - 13)


def _times(state: Column, factor: int) -> Column:
    # By the signed factor the product stays within 64 bits, which ANSI mode insists on.
    return (state * long(_as_signed(factor))).bitwiseAND(long(_BITS))


def _rotated(state: Column, left: int) -> Column:
    # 2^32 is 1 modulo 2^32 - 1, so the remainder adds what was shifted out to the low end. With 1 taken off before
    # and given back after, 2^32 - 1 itself stays what it is.
    return (F.shiftleft(state, left) - long(1)) % long(_BITS) + long(1)


def _xor_shifted(state: Column, *shifts: int) -> Column:
    mixed = state
    for shift in shifts:
        mixed = mixed.bitwiseXOR(F.shiftright(state, shift))
    return mixed


def _signed(state: Column) -> Column:
    return F.shiftright(F.shiftleft(state, 32), 32).cast("int")


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _as_signed(factor: int) -> int:
    return factor - (1 << 32) if factor >> 31 else factor
