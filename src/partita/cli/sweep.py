"""`partita sweep`: staleness computed for every partition, and stored."""

from __future__ import annotations

import argparse

from partita.cli.fold import report
from partita.cli.lake_option import add_lake

ABOUT = """
Fold, and store with every partition since when and why it is stale now, for
those who read the status table. Queries of Partita compute it afresh. The
project's pipeline is registered and sources are observed before. An asset that
can't be judged here keeps what the last sweep found.
"""
EXAMPLES = ("partita sweep", "partita sweep --no-observe --json")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita sweep`."""
    parser.add_argument("--no-observe", action="store_true", help="don't look at the tables of sources first")
    parser.add_argument("--json", action="store_true", help="what was done as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded import load

    done = load(arguments).lake.sweep(observe=not arguments.no_observe)
    return report(done, as_json=arguments.json)
