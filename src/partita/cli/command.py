"""The entry point of `partita`: run a command and translate errors into a message and an exit code.

A command is a module of this package with `DESCRIPTION` (a text, or a function that returns it), `EXAMPLES` and a
function `add_arguments(parser)`, which adds the arguments of the command and sets the default `run`. Only the module of
the requested command is imported, and heavy libraries are imported inside of its functions, so that `partita` starts
fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

from partita.cli.help_page import CommandParser, help_page
from partita.cli.output import print_line, print_stderr
from partita.errors import KeyFormatError, PartitaError

COMMANDS = {
    "init": "create a project with example assets",
    "plan": "show which partitions would run, and why",
    "run": "run a plan on Spark, or resume a run",
    "status": "show which partitions are missing, stale or failed",
    "why": "explain the status of a partition",
    "history": "list the events of a partition",
    "record": "record the outcome of an attempt that ran elsewhere",
    "observe": "record what other writers committed to source tables",
    "adopt": "register an existing table as a source",
    "retire": "record that an asset is no longer made",
    "tables": "list the tables of a lake",
    "partitions": "list the partitions of a table",
    "evolve": "change the partition spec of a table",
    "sql": "run a SQL statement on the tables of a lake",
    "key": "encode and decode partition keys, and print their ids",
    "fold": "update the status table from the ledger",
    "sweep": "compute and store the staleness of every partition",
    "ui": "serve a web page that shows the lake",
    "demo": "run an example lake on an embedded Spark",
}
"""The summary of each command; the name of a command is the name of its module."""

EXIT_OK, EXIT_INVALID_INPUT, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: that of this process) and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    _use_utf8_streams()
    try:
        return _run_command(words)
    except PartitaError as error:
        _print_error(error)
        return EXIT_INVALID_INPUT
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run_command(argv: list[str]) -> int:
    try:
        arguments = _build_parser(argv).parse_args(argv)
        exit_code: int = arguments.run(arguments)
        return exit_code
    finally:
        # Python's own flush at exit would print a message about a closed pipe.
        sys.stdout.flush()


def _build_parser(argv: list[str]) -> argparse.ArgumentParser:
    page = help_page(
        "",
        "One identity, one meaning and one status for every partition of a lakehouse.",
        "partita demo",
        "partita init shop && cd shop && partita run",
        "partita key encode date=2025-01-15 region=us-east",
    )
    parser = CommandParser("partita", **page)
    parser.add_argument("-V", "--version", action=_VersionAction, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    requested_name = next((word for word in argv if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name == requested_name:
            module = import_module(f"partita.cli.{name}")
            module.add_arguments(commands.add_parser(name, **help_page(summary, module.DESCRIPTION, *module.EXAMPLES)))
        else:
            commands.add_parser(name, help=summary)
    return parser


class _VersionAction(argparse.Action):
    """Print the version. `importlib.metadata` is imported here because that takes longer than most commands."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print_line(f"partita {version('partita')}")
        parser.exit()


def _print_error(error: PartitaError) -> None:
    """Print the error message to stderr, after the notes that say where the error happened."""
    location = ": ".join(("partita", *getattr(error, "__notes__", ())))
    print_stderr(f"{location}: {error}")
    if isinstance(error, KeyFormatError):
        print_stderr("`partita key encode` writes canonical keys; see `partita key encode --help`")


def _use_utf8_streams() -> None:
    """Use UTF-8 for stdin and stdout on every platform, and flush stdout after each line."""
    if isinstance(sys.stdin, TextIOWrapper):
        # As in arguments, invalid UTF-8 becomes surrogates; the library refuses those with a clear error.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that is not valid UTF-8, such as that of a folder, is printed with escapes.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit doesn't fail."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, sys.stdout.fileno())
    os.close(null_device)
