"""Decimals of up to 38 digits by their unscaled value, exactly, whatever the ANSI mode."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

_WHOLE = "decimal(38,0)"
_LONG_DIGITS = 18


def unscaled(column: Column) -> Column:
    """The unscaled value, as a decimal without a fraction."""
    # As text a decimal has all digits of its unscaled value; outside of ANSI mode an exponent may follow (`1E-18`).
    digits = F.replace(F.substring_index(column.cast("string"), "E", 1), F.lit("."), F.lit(""))
    return digits.cast(_WHOLE)


def rescaled(number: Column, precision: int, scale: int) -> Column:
    """The decimal of an unscaled value; null where it has too many digits."""
    # Arithmetic would lose digits: at 38 of them Spark shortens the scale of its results.
    return F.concat(number.cast("string"), F.lit(f"E-{scale}")).try_cast(f"decimal({precision},{scale})")


def decimal_text(column: Column, scale: int) -> Column:
    """All digits, as in `-0.50`."""
    number = unscaled(column)
    digits = F.lpad(F.replace(number.cast("string"), F.lit("-"), F.lit("")), 39, "0")
    whole = F.regexp_replace(F.left(digits, F.lit(39 - scale)), "^0+(?!$)", "")
    sign = F.when(number < F.lit(0), F.lit("-")).otherwise(F.lit(""))
    return F.concat(sign, whole, F.lit("."), F.right(digits, F.lit(scale))) if scale else F.concat(sign, whole)


def shortest_bytes(column: Column, precision: int) -> Column:
    """Big-endian two's complement of the unscaled value, in as few bytes as hold it."""
    number = unscaled(column)
    negative = number < F.lit(0)
    # A negative number's bytes are those of -n - 1, inverted, so that only numbers from 0 on are split into bytes.
    # Spark's unary minus rounds to 34 digits.
    magnitude = F.when(negative, F.lit(-1).cast("decimal(1,0)") - number).otherwise(number).cast(_WHOLE)
    digits = F.concat(F.lit("00"), _hex(magnitude, precision))
    short = F.regexp_replace(digits, "^(?:00)+(?=[0-7][0-9A-F])", "")
    inverted = F.translate(short, "0123456789ABCDEF", "FEDCBA9876543210")
    return F.unhex(F.when(negative, inverted).otherwise(short))


def _hex(magnitude: Column, precision: int) -> Column:
    """An even number of hexadecimal digits, as many as the precision may need."""
    if precision <= _LONG_DIGITS:
        return _padded_hex(magnitude.cast("long"), 16)
    half, quarter = F.lit(str(1 << 64)).cast("decimal(20,0)"), F.lit(str(1 << 32)).cast("decimal(10,0)")
    low = magnitude % half
    return F.concat(
        _padded_hex(F.call_function("div", magnitude, half), 16),
        _padded_hex(F.call_function("div", low, quarter), 8),
        _padded_hex((low % quarter).cast("long"), 8),
    )


def _padded_hex(number: Column, digits: int) -> Column:
    return F.lpad(F.hex(number), digits, "0")
