"""`partita history`: list the events of a partition."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from partita.cli.key_argument import parse_key
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line, print_stderr
from partita.status.text import error_line, one_line

DESCRIPTION = """
List the events of a partition in order of time: attempts that started, how they
ended, and when the partition was wiped.
"""
EXAMPLES = (
    "partita history daily_sales date=2025-01-15,region=us-east",
    "partita history daily_sales date=2025-01-15,region=us-east --json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita history`."""
    parser.add_argument("asset", metavar="ASSET", help="name of the asset")
    parser.add_argument("key", metavar="KEY", nargs="?", default="", help="key of the partition")
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    key = parse_key(arguments.key, lake, arguments.asset)
    events = lake.history(arguments.asset, key).to_pylist()
    if not events:
        print_stderr("no events are recorded for this partition")
    for event in events:
        if arguments.json:
            print_json(_event_document(event))
        else:
            print_line(_event_line(event))
    return 0


def _event_line(event: dict[str, Any]) -> str:
    run = "" if event["run_id"] is None else f"  run {one_line(event['run_id'])}, attempt {event['attempt']}"
    version = "" if event["code_version"] is None else f"  code version {one_line(event['code_version'])}"
    counts = "".join(f"  {event[name]:,} {name}" for name in ("rows", "files", "bytes") if event[name] is not None)
    error = "" if event["error"] is None else f"  {error_line(event['error'])}"
    return f"{_timestamp_text(event['occurred_at'])}  {event['kind']}{run}{version}{counts}{error}".rstrip()


def _event_document(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _timestamp_text(value) if name.endswith("_at") else value
        for name, value in event.items()
        if value is not None
    }


def _timestamp_text(timestamp: datetime) -> str:
    return f"{timestamp.replace(tzinfo=None).isoformat()}Z"
