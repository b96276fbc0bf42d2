"""`partita observe`: what others committed to the tables of sources."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from partita.cli.lake_option import add_lake
from partita.status.shown import one_line

ABOUT = """
Read the logs of the tables that others write, since the last look, and record
which partitions each commit touched. `partita status` and `partita plan` do the
same first. The sources of the project's pipeline are registered before.
"""
EXAMPLES = ("partita observe", "partita observe --json")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita observe`."""
    parser.add_argument("--json", action="store_true", help="one JSON object for each source that changed")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.assets.plan import counted
    from partita.cli.loaded import load

    found = [one for one in load(arguments).lake.observe() if one.commits]
    for one in found:
        said = f"{one_line(one.asset)}: {counted(one.commits, 'commit')}, {counted(one.partitions, 'partition')}"
        sys.stdout.write(f"{json.dumps(asdict(one), ensure_ascii=False) if arguments.json else said}\n")
    if not found:
        print("nothing new", file=sys.stderr)  # noqa: T201 - what a command line does
    return 0
