"""Numbers as people type them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable


def whole_number(what: str, least: int = 0) -> Callable[[str], int]:
    """Reads a number of those things, for argparse."""

    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,12}", text) or int(text) < least:
            since = f" from {least} on" if least else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what}{since}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Reads a number of seconds, for argparse."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)
