"""`partita sweep`: staleness computed for every partition, and stored."""

from __future__ import annotations

import argparse

from partita.cli.fold import report
from partita.cli.lake_option import add_lake, open_lake

ABOUT = """
Fold, and store with every partition since when and why it is stale now, for
those who read the status table. Queries of Partita compute it afresh.
"""
EXAMPLES = ("partita sweep",)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita sweep`."""
    parser.add_argument("--json", action="store_true", help="what was done as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return report(open_lake(arguments).sweep(), as_json=arguments.json)
