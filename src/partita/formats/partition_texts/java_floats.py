"""Format floats as Java's `toString` does, with the fewest digits that parse to the same number."""

from __future__ import annotations

import math

from partita.algebra.physical_values import round_to_float32
from partita.algebra.types import TypeKind


def java_float_text(number: float, kind: TypeKind) -> str:
    """Format a float as in `0.5`, `1.0E10`, `-0.0`, `NaN`, `Infinity`.

    Numbers from a thousandth up to ten million have no exponent.
    """
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    if number == 0:
        return f"{sign}0.0"
    digits, exponent = _shortest_digits(abs(number), kind)
    if -3 <= exponent < 7:
        return sign + _plain_notation(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _plain_notation(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"


def _shortest_digits(number: float, kind: TypeKind) -> tuple[str, int]:
    """Return the significant digits, and the power of ten of the first one."""
    text = repr(number) if kind is TypeKind.DOUBLE else _shortest_single_text(number)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    return digits.rstrip("0") or "0", power


def _shortest_single_text(number: float) -> str:
    for precision in range(1, 10):
        text = f"{number:.{precision - 1}e}"
        if round_to_float32(float(text)) == number:
            return text
    return repr(number)
