"""`partita sweep`: compute the staleness of every partition and store it in the status table."""

from __future__ import annotations

import argparse

from partita.cli.fold import print_fold_result
from partita.cli.lake_option import add_lake_options

DESCRIPTION = """
Fold new events into the status table, and store for every partition since when
and why it is stale. Tools that read the status table directly need this;
Partita's own queries compute staleness afresh. The project's pipeline is
registered and sources are observed first. An asset whose staleness can't be
computed keeps the result of the last sweep.
"""
EXAMPLES = ("partita sweep", "partita sweep --no-observe --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita sweep`."""
    parser.add_argument("--no-observe", action="store_true", help="do not read the logs of source tables first")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded_project import load_project

    result = load_project(arguments).lake.sweep(observe=not arguments.no_observe)
    print_fold_result(result, as_json=arguments.json)
    return 0
