"""`partita observe`: what others committed to the tables of sources."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from partita.cli.lake_option import add_lake
from partita.status.shown import counted, one_line

ABOUT = """
Read the logs of the tables that others write, since the last look, and record
which partitions each commit touched. `partita status` and `partita plan` do the
same first. The sources of the project's pipeline are registered before. Exits
with 1 when a source can't be observed.
"""
EXAMPLES = ("partita observe", "partita observe --json")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita observe`."""
    parser.add_argument("--json", action="store_true", help="one JSON object for each source that changed or failed")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded import load

    found = [one for one in load(arguments).lake.observe() if one.commits or one.error]
    for one in found:
        if arguments.json:
            sys.stdout.write(f"{json.dumps(asdict(one), ensure_ascii=False)}\n")
        elif one.error is None:
            said = f"{counted(one.commits, 'commit')}, {counted(one.partitions, 'partition')}"
            sys.stdout.write(f"{one_line(one.asset)}: {said}\n")
        else:
            _tell(f"{one_line(one.asset)} can't be observed: {one_line(one.error)}")
    if not found:
        _tell("nothing new")
    return 1 if any(one.error for one in found) else 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - what a command line does
