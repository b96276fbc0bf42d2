"""`partita`: finds the command, runs it, and turns what it raises into a message and an exit code.

A command is a module of this room with a function `define(parser)`, which adds the command's arguments and sets `run`.
Only the module of the command that was asked for is imported, and nothing heavy before it runs: a cold start counts.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from partita.cli.page import page
from partita.errors import KeyFormatError, PartitaError

COMMANDS = {
    "init": "write a new project, with an example that runs",
    "plan": "what would run to bring partitions up to date, and why",
    "run": "run a plan on Spark, and resume one that was stopped",
    "status": "which partitions are missing, stale or failed",
    "why": "the chain of causes of a partition's status",
    "history": "what happened to a partition",
    "record": "record what became of an attempt",
    "observe": "record what others committed to the tables of sources",
    "adopt": "bring a table that exists elsewhere in as a source",
    "retire": "record that an asset is no longer made",
    "tables": "the tables of a lake",
    "partitions": "the partitions of a table",
    "evolve": "partition what is written from now on another way",
    "sql": "run a SQL statement on the tables of a lake",
    "key": "write, read and name partition keys",
    "fold": "bring the status table up to the ledger",
    "sweep": "compute staleness for every partition and store it",
    "ui": "a web page to look at the lake",
    "demo": "live through some days of a lake on an embedded Spark",
}

OK, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, `sys.argv` unless given; returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _speak_utf8()
    try:
        return _run(words)
    except PartitaError as error:
        _tell(error)
        return WRONG_INPUT
    except BrokenPipeError:
        _drop_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:
    try:
        arguments = _parser(words).parse_args(words)
        status: int = arguments.run(arguments)
        return status
    finally:
        # Here and not as Python ends, where a closed pipe would be a message.
        sys.stdout.flush()


def _parser(words: list[str]) -> argparse.ArgumentParser:
    about = page(
        "",
        "One identity, one meaning and one status for every partition of a lakehouse.",
        "partita demo",
        "partita init shop && cd shop && partita run",
        "partita key encode date=2025-01-15 region=us-east",
    )
    parser = argparse.ArgumentParser("partita", **about)
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    asked = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name == asked:
            module = import_module(f"partita.cli.{name}")
            module.define(commands.add_parser(name, **page(summary, module.ABOUT, *module.EXAMPLES)))
        else:
            commands.add_parser(name, help=summary)
    return parser


class _Version(argparse.Action):
    """Prints the version; importing what knows it takes longer than most commands."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"partita {version('partita')}")  # noqa: T201 - what a command line does
        parser.exit()


def _tell(error: PartitaError) -> None:
    """The message on stderr; notes say where it happened, and stand in front."""
    where = ": ".join(("partita", *getattr(error, "__notes__", ())))
    print(f"{where}: {error}", file=sys.stderr)  # noqa: T201
    if isinstance(error, KeyFormatError):
        print("`partita key encode` writes canonical keys; see `partita key encode --help`", file=sys.stderr)  # noqa: T201


def _speak_utf8() -> None:
    """Text in and out is UTF-8 on every machine; each line leaves as soon as it is whole."""
    if isinstance(sys.stdin, TextIOWrapper):
        # As in arguments: what is not UTF-8 becomes surrogates, which the library refuses by name.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that is not UTF-8, such as a folder's, is shown with escapes, which JSON has too.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _drop_stdout() -> None:
    """Let Python's own flush at the end go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
