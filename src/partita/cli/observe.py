"""`partita observe`: record the commits that other writers made to the tables of sources."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from partita.cli.lake_option import add_lake_options
from partita.cli.output import print_json, print_line, print_stderr
from partita.status.text import count_text, one_line

DESCRIPTION = """
Read the commits that other writers added to the tables of sources since the
last time, and record which partitions each commit changed. `partita status` and
`partita plan` do this first by default. The sources of the project's pipeline
are registered before. The exit code is 1 if a source can't be observed.
"""
EXAMPLES = ("partita observe", "partita observe --json")
EXIT_SOURCE_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita observe`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object per source that changed or failed")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded_project import load_project

    observations = [source for source in load_project(arguments).lake.observe() if source.commits or source.error]
    for source in observations:
        if arguments.json:
            print_json(asdict(source))
        elif source.error is None:
            counts = f"{count_text(source.commits, 'commit')}, {count_text(source.partitions, 'partition')}"
            print_line(f"{one_line(source.asset)}: {counts}")
        else:
            print_stderr(f"{one_line(source.asset)} can't be observed: {one_line(source.error)}")
    if not observations:
        print_stderr("no new commits")
    return EXIT_SOURCE_FAILED if any(source.error for source in observations) else 0
