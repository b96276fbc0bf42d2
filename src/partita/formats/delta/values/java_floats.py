"""Floats as Java's `toString` lays them out, with the shortest digits that read back as the same number."""

from __future__ import annotations

import math

from partita.algebra.plain import single
from partita.algebra.types import Kind


def java_text(number: float, kind: Kind) -> str:
    """`0.5`, `1.0E10`, `-0.0`, `NaN`, `Infinity`; plain from a thousandth up to ten million, else with an exponent."""
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    if number == 0:
        return f"{sign}0.0"
    digits, exponent = _shortest(abs(number), kind)
    if -3 <= exponent < 7:
        return sign + _plain(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"


def _shortest(number: float, kind: Kind) -> tuple[str, int]:
    """The significant digits, and the power of ten of the first."""
    text = repr(number) if kind is Kind.DOUBLE else _shortest_single(number)
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    return digits.rstrip("0") or "0", power


def _shortest_single(number: float) -> str:
    for precision in range(1, 10):
        text = f"{number:.{precision - 1}e}"
        if single(float(text)) == number:
            return text
    return repr(number)
