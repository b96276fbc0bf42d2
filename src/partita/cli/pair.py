"""Settings as people type them: `name=value`."""

from __future__ import annotations

import argparse


def pair(text: str) -> tuple[str, str]:
    """Reads a name and its value, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting; write name=value")
    return name, value
