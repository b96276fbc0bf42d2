"""`partita demo`: a shop whose lake lives: it runs, breaks, is mended, changes, forgets, and is checked all along."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partita.cli.number import whole_number

ABOUT = """
Make a shop, and live through some days of it on an embedded Spark: events that
others write to an Iceberg table whose partitioning evolves, orders in Delta,
aggregates by day and month, embeddings in Lance. It runs everything, breaks a
partition and mends it, changes code, lets strangers write, runs what is stale,
and deletes a customer. Every command is shown as you would type it. Exit code 1
where a count is not what it should be. Needs Java 17 or newer.

The shop is a project in a temporary folder, gone at the end; with --folder it
stays where you say.
"""
EXAMPLES = (
    "partita demo",
    "partita demo --folder shop && cd shop && partita status",
    "partita demo --size 5000000",
    "partita demo --json 2>/dev/null",
)

DISAGREE = 1
SIZE, LEAST = 200_000, 1_000
"""Events unless it is said, as the shop's strangers.py has it, and the fewest that have some in every partition."""


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita demo`."""
    parser.add_argument("--folder", metavar="FOLDER", help="where the shop goes, and stays; one without a project")
    parser.add_argument("--keep", action="store_true", help="let the shop stay in its temporary folder")
    parser.add_argument(
        "--size", type=whole_number("events", LEAST), default=SIZE, metavar="N", help=f"events (default: {SIZE})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object of what was run and checked")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.demo_stage import Stage
    from partita.cli.demo_story import tell

    with _folder(arguments) as folder:
        stays = arguments.keep or arguments.folder is not None
        with Stage(folder, as_json=arguments.json) as stage:
            tell(stage, arguments.size, stays)
        if arguments.json:
            sys.stdout.write(json.dumps(stage.document(), ensure_ascii=False, default=str) + "\n")
    return 0 if stage.agrees else DISAGREE


@contextmanager
def _folder(arguments: argparse.Namespace) -> Iterator[Path]:
    if arguments.folder is not None:
        yield Path(arguments.folder)
    elif arguments.keep:
        yield Path(tempfile.mkdtemp(prefix="partita-demo-"))
    else:
        with tempfile.TemporaryDirectory(prefix="partita-demo-") as folder:
            yield Path(folder)
