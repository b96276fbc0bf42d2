"""`partita record`: record the outcome of an attempt that ran outside of Partita."""

from __future__ import annotations

import argparse

from partita.algebra.key import PartitionKey
from partita.cli.key_argument import parse_key, parse_timestamp
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json

DESCRIPTION = """
Record that an attempt to materialize partitions started, succeeded, failed or
was cancelled. Several keys are recorded in one commit. Write keys in canonical
form, or as NAME=VALUE pairs with commas between them. An asset without
partitions needs no key.
"""
EXAMPLES = (
    "partita record sales date=2025-01-15,region=us --outcome succeeded --run r7",
    "partita record sales date=2025-01-15 --outcome failed --error 'disk full'",
    "partita record report --outcome started --run nightly-7",
)
_OUTCOMES = ("succeeded", "failed", "cancelled", "started")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita record`."""
    parser.add_argument("asset", metavar="ASSET", help="name of the asset")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="keys of the partitions")
    parser.add_argument("--outcome", required=True, choices=_OUTCOMES, help="outcome of the attempt")
    parser.add_argument("--run", metavar="ID", dest="run_id", help="id of the run (default: a new id)")
    parser.add_argument("--attempt", type=int, default=1, metavar="N", help="number of the attempt (default: 1)")
    parser.add_argument("--at", metavar="TIME", help="time of the event (default: now)")
    parser.add_argument("--code-version", metavar="TEXT", help="code version that the attempt used")
    parser.add_argument("--error", metavar="TEXT", help="error message of a failed attempt")
    parser.add_argument("--rows", type=int, metavar="N", help="number of rows that it wrote")
    parser.add_argument("--files", type=int, metavar="N", help="number of files that it wrote")
    parser.add_argument("--bytes", type=int, metavar="N", help="number of bytes that it wrote")
    parser.add_argument("--table-version", type=int, metavar="N", help="table version that it committed")
    parser.add_argument("--json", action="store_true", help="print one JSON object per recorded key")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    details = {name: getattr(arguments, name) for name in ("rows", "files", "bytes", "table_version", "error")}
    keys = [parse_key(key, lake, arguments.asset) for key in arguments.keys] or [PartitionKey.of()]
    lake.record(
        arguments.asset,
        keys,
        outcome=arguments.outcome,
        run_id=arguments.run_id,
        attempt=arguments.attempt,
        at=None if arguments.at is None else parse_timestamp(arguments.at),
        code_version=arguments.code_version,
        **{name: value for name, value in details.items() if value is not None},
    )
    if arguments.json:
        for key in keys:
            print_json({"asset": arguments.asset, "key": str(key), "outcome": arguments.outcome})
    return 0
