"""Parsers of argument values, for the parameter `type` of argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable


def integer_argument(unit: str, minimum: int = 0) -> Callable[[str], int]:
    """Return a parser of integers that are at least `minimum`; its error message names the unit."""

    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,12}", text) or int(text) < minimum:
            lower_limit = f" of at least {minimum}" if minimum else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit}{lower_limit}")
        return int(text)

    return parse


def seconds_argument(text: str) -> float:
    """Parse a non-negative number of seconds."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)


def name_value_argument(text: str) -> tuple[str, str]:
    """Parse a setting that is written as `name=value`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not a setting; write name=value")
    return name, value


def port_argument(text: str) -> int:
    """Parse a TCP port; 0 lets the system choose one."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; write a number from 0 to 65535")
    return int(text)
