"""`partita demo`: run an example lake on an embedded Spark and check every step."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partita.cli.argument_types import integer_argument

DESCRIPTION = """
Create the project of a small shop and work with it on an embedded Spark. Other
systems write events to an Iceberg table whose partition spec evolves; orders
are a Delta table, aggregates by day and month are Iceberg and Delta tables, and
embeddings a Lance table. The demo runs the pipeline, lets a partition fail and
repairs it, changes code, appends rows with delta-rs, and deletes a customer.
Each command is printed as you would type it, and results are checked: the exit
code is 1 if a check fails. Needs Java 17 or newer.

The project is in a temporary folder that is removed at the end; use --folder to
keep it.
"""
EXAMPLES = (
    "partita demo",
    "partita demo --folder shop && cd shop && partita status",
    "partita demo --size 5000000",
    "partita demo --json 2>/dev/null",
)

EXIT_CHECK_FAILED = 1
DEFAULT_EVENTS, MIN_EVENTS = 200_000, 1_000
"""The default number of events, as in the shop's external_writers.py; the smallest one with rows in every partition."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita demo`."""
    parser.add_argument("--folder", metavar="FOLDER", help="create the project here and keep it")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    parser.add_argument(
        "--size",
        type=integer_argument("events", MIN_EVENTS),
        default=DEFAULT_EVENTS,
        metavar="N",
        help=f"number of events (default: {DEFAULT_EVENTS})",
    )
    parser.add_argument("--json", action="store_true", help="print the commands and checks as one JSON object")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.demo_session import DemoSession
    from partita.cli.demo_steps import run_demo

    with _project_folder(arguments) as folder:
        keep = arguments.keep or arguments.folder is not None
        with DemoSession(folder, as_json=arguments.json) as session:
            run_demo(session, arguments.size, keep)
        if arguments.json:
            sys.stdout.write(json.dumps(session.document(), ensure_ascii=False, default=str) + "\n")
    return 0 if session.is_correct else EXIT_CHECK_FAILED


@contextmanager
def _project_folder(arguments: argparse.Namespace) -> Iterator[Path]:
    if arguments.folder is not None:
        yield Path(arguments.folder)
    elif arguments.keep:
        yield Path(tempfile.mkdtemp(prefix="partita-demo-"))
    else:
        with tempfile.TemporaryDirectory(prefix="partita-demo-") as folder:
            yield Path(folder)
