"""`partita partitions`: list the partitions of a table."""

from __future__ import annotations

import argparse

from partita.cli.argument_types import integer_argument
from partita.cli.lake_option import add_lake_options, open_lake

DESCRIPTION = """
List the partitions of a table that may contain matching rows: key, id, spec,
number of files, rows, bytes, and the values of the partition fields. Needs no
Java.
"""
EXAMPLES = (
    "partita partitions sales.orders",
    "partita partitions sales.orders --where \"ts >= '2025-01-01'\"",
    "partita partitions sales.orders --json",
)
DEFAULT_LIMIT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita partitions`."""
    parser.add_argument("table", metavar="TABLE", help="name of the table")
    parser.add_argument("--where", metavar="SQL", help="predicate on the columns of the table")
    parser.add_argument(
        "--limit", type=integer_argument("partitions"), metavar="N",
        help=f"print at most N partitions (default: {DEFAULT_LIMIT}; with --json all)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object per partition")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.sql_report import print_rows, print_rows_json

    partitions = open_lake(arguments).table(arguments.table).partitions(arguments.where)
    if arguments.json:
        print_rows_json(partitions if arguments.limit is None else partitions.slice(0, arguments.limit))
    else:
        print_rows(partitions, DEFAULT_LIMIT if arguments.limit is None else arguments.limit, "partition")
    return 0
