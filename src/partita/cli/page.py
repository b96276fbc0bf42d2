"""What `--help` shows of a command: a summary, a description and examples, each as written."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from textwrap import dedent
from typing import Any


def page(summary: str, about: str, *examples: str) -> dict[str, Any]:
    """The arguments by which argparse makes a parser with that page."""
    shown = "\n".join(f"  {example}" for example in examples)
    return {
        **({"help": summary} if summary else {}),
        "description": dedent(about).strip(),
        "epilog": f"examples:\n{shown}",
        "formatter_class": RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
