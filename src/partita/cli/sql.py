"""`partita sql`: run a SQL statement on the tables of a lake."""

from __future__ import annotations

import argparse
import sys

from partita.cli.argument_types import integer_argument
from partita.cli.lake_option import add_lake_options, open_lake

DESCRIPTION = """
Run one SQL statement on the tables of a lake: SELECT, INSERT INTO, INSERT
OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, and ALTER TABLE ...
ADD, DROP or REPLACE PARTITION FIELD. A name is first looked up among the tables
of the lake, then in Spark's catalog. A SELECT prints its rows, a change prints
the number of changed rows. All statements except CREATE and ALTER need Java 17
or newer.

Without STATEMENT, or with '-', the statement is read from standard input.
"""
EXAMPLES = (
    'partita sql "SELECT country, count(*) FROM sales.orders GROUP BY 1"',
    "partita sql --lake warehouse --json < merge.sql",
    'partita sql "ALTER TABLE sales.orders ADD PARTITION FIELD days(ts)"',
)

DEFAULT_LIMIT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita sql`."""
    parser.add_argument("statement", nargs="?", metavar="STATEMENT", help="the statement; '-' for standard input")
    parser.add_argument(
        "--limit",
        type=integer_argument("rows"),
        metavar="N",
        help=f"print at most N rows (default: {DEFAULT_LIMIT}; with --json all)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per row")
    add_lake_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    statement = arguments.statement
    if statement in (None, "-"):
        if statement is None and (sys.stdin is None or sys.stdin.isatty()):
            arguments.parser.error("give a statement as an argument, or on standard input")
        statement = sys.stdin.read()

    from partita.cli.sql_report import print_result, print_result_json

    result = open_lake(arguments).sql(statement)
    if arguments.json:
        print_result_json(result, arguments.limit)
    else:
        print_result(result, DEFAULT_LIMIT if arguments.limit is None else arguments.limit)
    return 0
