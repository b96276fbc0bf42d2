"""The help page of a command: a summary, a description and examples."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from textwrap import dedent
from typing import Any


class CommandParser(ArgumentParser):
    """A parser whose description may be a function: only a help page imports what that needs."""

    def __init__(self, *args: Any, description: str | Callable[[], str] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._description = description

    def format_help(self) -> str:
        """Return the help page."""
        text = self._description() if callable(self._description) else self._description
        self.description = None if text is None else dedent(text).strip()
        return super().format_help()


def help_page(summary: str, description: str | Callable[[], str], *examples: str) -> dict[str, Any]:
    """Return the keyword arguments of `CommandParser` for a help page, with its line breaks as written."""
    example_lines = "\n".join(f"  {example}" for example in examples)
    return {
        **({"help": summary} if summary else {}),
        "description": description,
        "epilog": f"examples:\n{example_lines}",
        "formatter_class": RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
