"""`partita sql`: one SQL statement on the tables of a lake."""

from __future__ import annotations

import argparse
import sys

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.number import whole_number

ABOUT = """
Run one SQL statement on the tables of a lake: SELECT, INSERT INTO, INSERT
OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, and ALTER TABLE ...
ADD, DROP or REPLACE PARTITION FIELD. Names are those of the lake's tables, and
then of what Spark knows. A SELECT prints its rows, a change what it did.
All but CREATE and ALTER need Java 17 or newer.

Without a statement, or with '-', it is read from standard input.
"""
EXAMPLES = (
    'partita sql "SELECT country, count(*) FROM sales.orders GROUP BY 1"',
    "partita sql --lake warehouse --json < merge.sql",
    'partita sql "ALTER TABLE sales.orders ADD PARTITION FIELD days(ts)"',
)

SHOWN = 100


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita sql`."""
    parser.add_argument("statement", nargs="?", metavar="STATEMENT", help="the statement; '-' for standard input")
    parser.add_argument(
        "--limit", type=whole_number("rows"), metavar="N", help=f"rows to print (default: {SHOWN}, with --json all)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each row")
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    statement = arguments.statement
    if statement in (None, "-"):
        if statement is None and (sys.stdin is None or sys.stdin.isatty()):
            arguments.parser.error("give a statement as an argument, or on standard input")
        statement = sys.stdin.read()

    from partita.cli.sql_report import show, show_json

    answer = open_lake(arguments).sql(statement)
    if arguments.json:
        show_json(answer, arguments.limit)
    else:
        show(answer, SHOWN if arguments.limit is None else arguments.limit)
    return 0
