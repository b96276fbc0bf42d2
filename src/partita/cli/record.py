"""`partita record`: what became of an attempt, for jobs that a shell runs."""

from __future__ import annotations

import argparse
import json
import sys

from partita.algebra.key import PartitionKey
from partita.cli.lake_option import add_lake, open_lake
from partita.cli.partition import read_key, read_moment

ABOUT = """
Record what became of an attempt at partitions: it started, succeeded, failed or
was cancelled. Several keys go into one commit. Keys are canonical, or
dimensions with commas between; an asset without partitions has none.
"""
EXAMPLES = (
    "partita record sales date=2025-01-15,region=us --outcome succeeded --run r7",
    "partita record sales date=2025-01-15 --outcome failed --error 'disk full'",
    "partita record report --outcome started --run nightly-7",
)
_OUTCOMES = ("succeeded", "failed", "cancelled", "started")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita record`."""
    parser.add_argument("asset", metavar="ASSET", help="the asset")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="the partitions")
    parser.add_argument("--outcome", required=True, choices=_OUTCOMES, help="how it went")
    parser.add_argument("--run", metavar="ID", dest="run_id", help="the run; else a new id")
    parser.add_argument("--attempt", type=int, default=1, metavar="N", help="the number of the attempt; else 1")
    parser.add_argument("--at", metavar="TIME", help="when; else now")
    parser.add_argument("--code-version", metavar="TEXT", help="the code version that it ran with")
    parser.add_argument("--error", metavar="TEXT", help="why it failed")
    for name in ("rows", "files", "bytes", "table-version"):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"the {name.replace('-', ' ')} that it wrote")
    parser.add_argument("--json", action="store_true", help="what was recorded, as one JSON object for each key")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    details = {name: getattr(arguments, name) for name in ("rows", "files", "bytes", "table_version", "error")}
    keys = [read_key(key, lake, arguments.asset) for key in arguments.keys] or [PartitionKey.of()]
    lake.record(
        arguments.asset,
        keys,
        outcome=arguments.outcome,
        run_id=arguments.run_id,
        attempt=arguments.attempt,
        at=None if arguments.at is None else read_moment(arguments.at),
        code_version=arguments.code_version,
        **{name: value for name, value in details.items() if value is not None},
    )
    if arguments.json:
        for key in keys:
            said = {"asset": arguments.asset, "key": str(key), "outcome": arguments.outcome}
            sys.stdout.write(f"{json.dumps(said, ensure_ascii=False)}\n")
    return 0
