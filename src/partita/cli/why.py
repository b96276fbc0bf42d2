"""`partita why`: the chain of causes of a partition's status."""

from __future__ import annotations

import argparse
import json

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.partition import read_key, read_moment

ABOUT = """
Say why a partition is as it is: when it was materialized, what became of the
last attempt, and every reason why it is stale, back to the upstreams that
changed. A key is canonical, or dimensions with commas between; that of an asset
without partitions is left out.
"""
EXAMPLES = (
    "partita why daily_sales date=2025-01-15,region=us-east",
    "partita why report",
    "partita why daily_sales date=2025-01-15,region=us-east --json",
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita why`."""
    parser.add_argument("asset", metavar="ASSET", help="the asset")
    parser.add_argument("key", metavar="KEY", nargs="?", default="", help="the partition")
    parser.add_argument("--now", metavar="TIME", help="as of a moment, in the past or the future")
    parser.add_argument("--no-observe", action="store_true", help="don't look at the tables of sources first")
    parser.add_argument("--json", action="store_true", help="the chain as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    key = read_key(arguments.key, lake, arguments.asset)
    now = None if arguments.now is None else read_moment(arguments.now)
    why = lake.why(arguments.asset, key, now=now, observe=not arguments.no_observe)
    print(json.dumps(why.document(), ensure_ascii=False) if arguments.json else why)  # noqa: T201 - what it is for
    return 0
