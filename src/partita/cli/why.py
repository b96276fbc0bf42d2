"""`partita why`: explain the status of a partition."""

from __future__ import annotations

import argparse

from partita.cli.key_argument import parse_key, parse_timestamp
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line

DESCRIPTION = """
Explain the status of a partition: when it was last materialized, how the last
attempt ended, and every reason why it is stale, back to the upstream partitions
that changed. Write the key in canonical form, or as NAME=VALUE pairs with
commas between them. An asset without partitions needs no key.
"""
EXAMPLES = (
    "partita why daily_sales date=2025-01-15,region=us-east",
    "partita why report",
    "partita why daily_sales date=2025-01-15,region=us-east --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita why`."""
    parser.add_argument("asset", metavar="ASSET", help="name of the asset")
    parser.add_argument("key", metavar="KEY", nargs="?", default="", help="key of the partition")
    parser.add_argument("--now", metavar="TIME", help="show the status at this time instead of now")
    parser.add_argument("--no-observe", action="store_true", help="do not read the logs of source tables first")
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    key = parse_key(arguments.key, lake, arguments.asset)
    now = None if arguments.now is None else parse_timestamp(arguments.now)
    explanation = lake.why(arguments.asset, key, now=now, observe=not arguments.no_observe)
    if arguments.json:
        print_json(explanation.document())
    else:
        print_line(explanation)
    return 0
