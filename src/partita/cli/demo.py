"""`partita demo`: orders on an embedded Spark, keyed, pruned, kept in a Delta table, and checked by counting."""

from __future__ import annotations

import argparse
import json
import re
import sys

ABOUT = """
Start an embedded Spark, make orders, partition them by day(ts),
bucket(16, user_id), country, give each row its partition's key and id, and
prune the partitions by a predicate. Spark then counts the rows that match, in
all partitions and in those that were kept. Last, the orders go into a Delta
table, where some are deleted and some changed. Exit code 1 where a count is not
what it should be. The table is in a temporary folder, and gone at the end.
Needs Java 17 or newer.
"""
EXAMPLES = ("partita demo", "partita demo --rows 10000000", "partita demo --json 2>/dev/null")

DISAGREE = 1


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita demo`."""
    parser.add_argument("--rows", type=_rows, default=1_000_000, metavar="N", help="orders to make (default: 1000000)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.set_defaults(run=_run)


def _rows(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,11}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows from 1 to 999999999999")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.demo_orders import prune_orders
    from partita.cli.demo_report import Progress, show

    with Progress() as progress:
        found = prune_orders(arguments.rows, progress)
    if arguments.json:
        sys.stdout.write(json.dumps(found.summary(), ensure_ascii=False) + "\n")
    else:
        show(found)
    return 0 if found.agree else DISAGREE
