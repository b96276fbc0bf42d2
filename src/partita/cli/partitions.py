"""`partita partitions`: the partitions of a table."""

from __future__ import annotations

import argparse

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.number import whole_number

ABOUT = """
List the partitions of a table that may hold a match: key, id, spec, files,
rows, bytes, and the values of the partition fields. Needs no Java.
"""
EXAMPLES = (
    "partita partitions sales.orders",
    "partita partitions sales.orders --where \"ts >= '2025-01-01'\"",
    "partita partitions sales.orders --json",
)
SHOWN = 100


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita partitions`."""
    parser.add_argument("table", metavar="TABLE", help="the table")
    parser.add_argument("--where", metavar="SQL", help="a predicate on the columns of the table")
    parser.add_argument(
        "--limit", type=whole_number("partitions"), metavar="N",
        help=f"partitions to print (default: {SHOWN}, with --json all)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object for each partition")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.sql_report import show_rows, show_rows_json

    found = open_lake(arguments).table(arguments.table).partitions(arguments.where)
    if arguments.json:
        show_rows_json(found if arguments.limit is None else found.slice(0, arguments.limit))
    else:
        show_rows(found, SHOWN if arguments.limit is None else arguments.limit, "partition")
    return 0
