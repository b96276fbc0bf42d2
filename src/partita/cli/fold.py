"""`partita fold`: the status table brought up to the ledger."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from partita.cli.lake_option import add_lake, open_lake

if TYPE_CHECKING:
    from partita.status.folding import Folded

ABOUT = """
Fold the events that the status table doesn't hold yet into it. Nothing waits
for that: every query counts them besides. It makes queries quicker.
"""
EXAMPLES = ("partita fold", "partita fold --lake s3://bucket/warehouse")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita fold`."""
    parser.add_argument("--json", action="store_true", help="what was done as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    return report(open_lake(arguments).fold(), as_json=arguments.json)


def report(done: Folded, *, as_json: bool) -> int:
    """Say what was folded."""
    said = f"{done.rows:,} partitions, as of version {done.version} of the ledger"
    print(json.dumps({"rows": done.rows, "version": done.version}) if as_json else said)  # noqa: T201
    return 0
