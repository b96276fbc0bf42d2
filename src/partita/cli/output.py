"""Writing of results to stdout and of messages to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_line(text: object) -> None:
    """Write a line to stdout."""
    sys.stdout.write(f"{text}\n")


def print_json(document: Any) -> None:
    """Write a document to stdout as one line of JSON."""
    print_line(json.dumps(document, ensure_ascii=False))


def print_stderr(text: str) -> None:
    """Write a message to stderr, where it doesn't mix with the results on stdout."""
    sys.stderr.write(f"{text}\n")
