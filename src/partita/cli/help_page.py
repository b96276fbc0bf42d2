"""The help page of a command: a summary, a description and examples."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from textwrap import dedent
from typing import Any


def help_page(summary: str, description: str, *examples: str) -> dict[str, Any]:
    """Return the keyword arguments of `ArgumentParser` for a help page, with its line breaks as written."""
    example_lines = "\n".join(f"  {example}" for example in examples)
    return {
        **({"help": summary} if summary else {}),
        "description": dedent(description).strip(),
        "epilog": f"examples:\n{example_lines}",
        "formatter_class": RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
