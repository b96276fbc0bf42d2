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
    digits = unscaled(column).cast("long") if precision <= _LONG_DIGITS else unscaled(column)
    whole = _padded_hex(digits, 16) if precision <= _LONG_DIGITS else _wide_hex(digits)
    # Bytes in front that only repeat the sign of the byte after them.
    return F.unhex(F.regexp_replace(whole, "^(?:(?:00)+(?=[0-7][0-9A-F])|(?:FF)+(?=[89A-F][0-9A-F]))", ""))


def _wide_hex(number: Column) -> Column:
    """The 32 hexadecimal digits of 128 bits."""
    half, quarter = F.lit(str(1 << 64)).cast("decimal(20,0)"), F.lit(str(1 << 32)).cast("decimal(10,0)")
    borrowed = F.when(number % half < F.lit(0), F.lit(1)).otherwise(F.lit(0))
    low = F.pmod(number, half)
    return F.concat(
        _padded_hex(F.call_function("div", number, half) - borrowed, 16),
        _padded_hex(F.call_function("div", low, quarter), 8),
        _padded_hex((low % quarter).cast("long"), 8),
    )


def _padded_hex(number: Column, digits: int) -> Column:
    return F.lpad(F.hex(number), digits, "0")
