"""Decimals of up to 38 digits by their unscaled value, exact in every ANSI mode."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_UNSCALED_TYPE = "decimal(38,0)"
_LONG_DIGITS = 18


def unscaled_value(column: Column) -> Column:
    """Return the unscaled value, as a decimal without a fraction."""
    # The text of a decimal has all digits of its unscaled value; without ANSI mode an exponent may follow (`1E-18`).
    digits = F.replace(F.substring_index(column.cast("string"), "E", 1), F.lit("."), F.lit(""))
    return digits.cast(_UNSCALED_TYPE)


def decimal_from_unscaled(number: Column, precision: int, scale: int) -> Column:
    """Return the decimal of an unscaled value; null if it has too many digits."""
    # Arithmetic would lose digits: with 38 digits Spark reduces the scale of results.
    return F.concat(number.cast("string"), F.lit(f"E-{scale}")).try_cast(f"decimal({precision},{scale})")


def decimal_text(column: Column, scale: int) -> Column:
    """Return the text with all digits, such as `-0.50`."""
    number = unscaled_value(column)
    digits = F.lpad(F.replace(number.cast("string"), F.lit("-"), F.lit("")), 39, "0")
    integer_digits = F.regexp_replace(F.left(digits, F.lit(39 - scale)), "^0+(?!$)", "")
    sign = F.when(number < F.lit(0), F.lit("-")).otherwise(F.lit(""))
    return (
        F.concat(sign, integer_digits, F.lit("."), F.right(digits, F.lit(scale)))
        if scale
        else F.concat(sign, integer_digits)
    )


def shortest_bytes(column: Column, precision: int) -> Column:
    """Return the unscaled value as big-endian two's complement in the fewest bytes."""
    digits = unscaled_value(column).cast("long") if precision <= _LONG_DIGITS else unscaled_value(column)
    hexadecimal = _padded_hex(digits, 16) if precision <= _LONG_DIGITS else _hex_of_128_bits(digits)
    # The pattern matches leading bytes that only repeat the sign of the byte after them.
    return F.unhex(F.regexp_replace(hexadecimal, "^(?:(?:00)+(?=[0-7][0-9A-F])|(?:FF)+(?=[89A-F][0-9A-F]))", ""))


def _hex_of_128_bits(number: Column) -> Column:
    """Return a number as 128 bits in hexadecimal."""
    half, quarter = F.lit(str(1 << 64)).cast("decimal(20,0)"), F.lit(str(1 << 32)).cast("decimal(10,0)")
    borrow = F.when(number % half < F.lit(0), F.lit(1)).otherwise(F.lit(0))
    low = F.pmod(number, half)
    return F.concat(
        _padded_hex(F.call_function("div", number, half) - borrow, 16),
        _padded_hex(F.call_function("div", low, quarter), 8),
        _padded_hex((low % quarter).cast("long"), 8),
    )


def _padded_hex(number: Column, digits: int) -> Column:
    return F.lpad(F.hex(number), digits, "0")
