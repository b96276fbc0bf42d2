"""`partita fold`: update the status table from the ledger."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line

if TYPE_CHECKING:
    from partita.status.table_refresh import FoldResult

DESCRIPTION = """
Fold new events of the ledger into the status table. Answers are correct without
this, because every query adds the events that are not folded yet; folding makes
queries faster.
"""
EXAMPLES = ("partita fold", "partita fold --lake s3://bucket/warehouse")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita fold`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    print_fold_result(open_lake(arguments).fold(), as_json=arguments.json)
    return 0


def print_fold_result(result: FoldResult, *, as_json: bool) -> None:
    """Print how many rows the status table has and which version of the ledger it includes."""
    if as_json:
        print_json({"rows": result.row_count, "version": result.ledger_version})
    else:
        print_line(f"{result.row_count:,} partitions, as of version {result.ledger_version} of the ledger")
