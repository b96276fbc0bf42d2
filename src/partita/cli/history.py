"""`partita history`: what happened to a partition."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.partition import read_key
from partita.status.shown import error_line, one_line

ABOUT = """
Show the events of a partition in their order: attempts that started and how
they ended, and when it was wiped.
"""
EXAMPLES = (
    "partita history daily_sales date=2025-01-15,region=us-east",
    "partita history daily_sales date=2025-01-15,region=us-east --json",
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita history`."""
    parser.add_argument("asset", metavar="ASSET", help="the asset")
    parser.add_argument("key", metavar="KEY", nargs="?", default="", help="the partition")
    parser.add_argument("--json", action="store_true", help="one JSON object for each event")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    key = read_key(arguments.key, lake, arguments.asset)
    events = lake.history(arguments.asset, key).to_pylist()
    if not events:
        print("nothing was recorded of this partition", file=sys.stderr)  # noqa: T201 - what a command line does
    for event in events:
        sys.stdout.write((_json(event) if arguments.json else _line(event)) + "\n")
    return 0


def _line(event: dict[str, Any]) -> str:
    run = "" if event["run_id"] is None else f"  run {one_line(event['run_id'])}, attempt {event['attempt']}"
    version = "" if event["code_version"] is None else f"  code version {one_line(event['code_version'])}"
    counts = "".join(f"  {event[name]:,} {name}" for name in ("rows", "files", "bytes") if event[name] is not None)
    error = "" if event["error"] is None else f"  {error_line(event['error'])}"
    return f"{_moment(event['occurred_at'])}  {event['kind']}{run}{version}{counts}{error}".rstrip()


def _json(event: dict[str, Any]) -> str:
    shown = {name: value for name, value in event.items() if value is not None}
    return json.dumps(
        {name: _moment(value) if name.endswith("_at") else value for name, value in shown.items()}, ensure_ascii=False
    )


def _moment(at: Any) -> str:
    return f"{at.replace(tzinfo=None).isoformat()}Z"
