"""Murmur3 as Spark Columns: `partita.algebra.hashing` without a Python worker.

Spark's `hash` is Murmur3 x86 32-bit too, except for its seed, 42, and for the last bytes of a string whose length is
not a multiple of four. Both are corrected here with integer arithmetic, so that `hash` does most of the work.

- **The seed.** `hash` seeds its second argument by the hash of the first; `_ZERO_HASH_INT` is the int whose hash is 0.
- **The tail.** Murmur3 mixes whole blocks of four bytes into its state `h` by `step(h ^ k)`, the last, partial one by
  `h ^ k`, and ends with `finish(h ^ length)`. A string that is padded with 1 to 4 zeros has no partial block, so
  `hash` of it is `finish(step(h ^ k) ^ padded_length)`, where `k` is the partial block, or 0. Both `finish` and `step`
  can be inverted; the result is `finish(undo_step(undo_finish(hash) ^ padded_length) ^ length)`.

States are longs of 0 to 2^32 - 1. Expressions are trees, so an operand that is used twice doubles the plan; each is
used as few times as possible.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F

from partita.algebra.types import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    DecimalType,
    LogicalType,
    TypeKind,
)
from partita.spark.canonical_json import canonical_json
from partita.spark.datetimes import long_literal, time_micros
from partita.spark.decimals import shortest_bytes


def murmur3(column: Column, type_: LogicalType) -> Column:
    """Return Murmur3 x86 32-bit with seed 0 of a column of that type, as an int; null for null."""
    if type_.kind in NESTED_KINDS:
        return _evaluate_once(canonical_json(column, type_), _hash_bytes)
    if isinstance(type_, DecimalType):
        return _evaluate_stage(shortest_bytes(column, type_.precision), _hash_bytes)
    if type_.kind is TypeKind.STRING or type_.kind in BINARY_KINDS:
        return _hash_bytes(column)
    return F.when(column.isNotNull(), _zero_seed_hash(_EIGHT_BYTE_VALUES[type_.kind](column)))


_EIGHT_BYTE_VALUES: dict[TypeKind, Callable[[Column], Column]] = {
    **dict.fromkeys({TypeKind.BOOLEAN, *INTEGER_KINDS}, lambda c: c.cast("long")),
    # `hash` reads the bits of a double, with -0.0 as 0.0 and all NaNs as one.
    **dict.fromkeys(FLOAT_KINDS, lambda c: c.cast("double")),
    TypeKind.DATE: lambda c: F.unix_date(c).cast("long"),
    TypeKind.TIME: time_micros,
    # `hash` reads the microseconds of both kinds of timestamp.
    TypeKind.TIMESTAMP: lambda c: c,
    TypeKind.TIMESTAMP_NTZ: lambda c: c,
}

_ZERO_HASH_INT = -1_693_959_553
_SPARK_SEED = 42
_MASK_32 = 0xFFFF_FFFF
_BLOCK_FACTOR_1, _BLOCK_FACTOR_2 = 0xCC9E_2D51, 0x1B87_3593
_STEP_FACTOR, _STEP_SHIFT = 5, 0xE654_6B64
_FINISH_FACTOR_1, _FINISH_FACTOR_2 = 0x85EB_CA6B, 0xC2B2_AE35


def _zero_seed_hash(column: Column) -> Column:
    return F.hash(F.lit(_ZERO_HASH_INT), column)


def _hash_bytes(column: Column) -> Column:
    """Return the hash of the bytes of a string or a binary."""
    length = F.octet_length(column)
    padded_length = length.bitwiseOR(F.lit(3)) + F.lit(1)
    padded_bytes = F.rpad(column.cast("binary"), padded_length, F.lit(b"\0"))
    state = _evaluate_stage(
        _zero_seed_hash(padded_bytes), lambda h: _undo_finish(h).bitwiseXOR(padded_length.cast("long"))
    )
    hash_state = _evaluate_stage(state, lambda h: _finish_hash(_undo_step(h).bitwiseXOR(length.cast("long"))))
    # `hash` of null is its seed, and the length of null is null. With a branch, Spark would not share subexpressions.
    return hash_state.bitwiseOR(length.bitwiseAND(F.lit(0)))


def _evaluate_once(column: Column, function: Callable[[Column], Column]) -> Column:
    """Return `function(column)`, where the column is evaluated once even if the function uses it many times."""
    return F.transform(F.array(column), function)[0]


def _evaluate_stage(column: Column, function: Callable[[Column], Column]) -> Column:
    """Return `function(column)`, in a lambda on Spark Connect, whose messages limit the depth of an expression.

    Classic Spark has no such limit, and doesn't compile lambdas, so it gets the plain expression.
    """
    return _evaluate_once(column, function) if is_remote() else function(column)


def _finish_hash(state: Column) -> Column:
    """Return Murmur3's finalizer of a state, as a signed int.

    `hash` of an int ends with the finalizer too, so this is `hash` of the int that leads to the state: it uses the
    state once, where the finalizer itself would use it eight times.
    """
    block = _undo_step(state.bitwiseXOR(long_literal(4))).bitwiseXOR(long_literal(_SPARK_SEED))
    number = _multiply_mod_32(
        _rotate_left(_multiply_mod_32(block, _modular_inverse(_BLOCK_FACTOR_2)), 32 - 15),
        _modular_inverse(_BLOCK_FACTOR_1),
    )
    return F.hash(_signed_int(number))


def _undo_finish(hash_value: Column) -> Column:
    state = _xor_shift(hash_value.cast("long").bitwiseAND(long_literal(_MASK_32)), 16)
    state = _xor_shift(_multiply_mod_32(state, _modular_inverse(_FINISH_FACTOR_2)), 13, 26)
    return _xor_shift(_multiply_mod_32(state, _modular_inverse(_FINISH_FACTOR_1)), 16)


def _undo_step(state: Column) -> Column:
    """Return `h ^ k` from `rotate_left(h ^ k, 13) * 5 + 0xe6546b64`."""
    # (state - shift) * inverse, multiplied out: the inverse of 5 is small enough for the sum to stay within 64 bits.
    inverse = _modular_inverse(_STEP_FACTOR)
    product = state * long_literal(_signed_factor(inverse)) + long_literal(-_STEP_SHIFT * inverse % (1 << 32))
    return _rotate_left(product.bitwiseAND(long_literal(_MASK_32)), 32 - 13)


def _multiply_mod_32(state: Column, factor: int) -> Column:
    # With the signed factor the product stays within 64 bits; ANSI mode fails on overflow.
    return (state * long_literal(_signed_factor(factor))).bitwiseAND(long_literal(_MASK_32))


def _rotate_left(state: Column, bits: int) -> Column:
    # 2^32 is 1 modulo 2^32 - 1, so the remainder adds the bits that were shifted out at the low end. Subtracting 1
    # before and adding it after keeps 2^32 - 1 itself.
    return (F.shiftleft(state, bits) - long_literal(1)) % long_literal(_MASK_32) + long_literal(1)


def _xor_shift(state: Column, *shifts: int) -> Column:
    mixed_state = state
    for shift in shifts:
        mixed_state = mixed_state.bitwiseXOR(F.shiftright(state, shift))
    return mixed_state


def _signed_int(state: Column) -> Column:
    return F.shiftright(F.shiftleft(state, 32), 32).cast("int")


def _modular_inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _signed_factor(factor: int) -> int:
    return factor - (1 << 32) if factor >> 31 else factor
