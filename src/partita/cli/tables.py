"""`partita tables`: the tables of a lake."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from partita.cli.lake_option import add_lake, open_lake

ABOUT = """
List the tables of a lake, whatever their format, and those that were adopted:
each with how it is partitioned and at which version it is. Needs no Java.
"""
EXAMPLES = ("partita tables", "partita tables --lake s3://bucket/warehouse --names", "partita tables --json")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita tables`."""
    parser.add_argument("--names", action="store_true", help="only the names, without opening the tables")
    parser.add_argument("--json", action="store_true", help="one JSON object for each table")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.errors import PartitaError

    lake = open_lake(arguments)
    names = lake.tables()
    if not names:
        print(f"there are no tables in {lake.uri}", file=sys.stderr)  # noqa: T201 - what a command line does
    broken = 0
    for name in names:
        if arguments.names:
            _say({"table": name} if arguments.json else name)
            continue
        try:
            table = lake.table(name)
            found = {
                "table": name, "format": table.format, "partitioned_by": str(table.spec), "version": table.version,
                "uri": table.uri,
            }  # fmt: skip
        except PartitaError as error:
            broken += 1
            found = {"table": name, "error": str(error)}
        _say(found if arguments.json else _line(found))
    return 1 if broken else 0


def _line(found: dict[str, Any]) -> str:
    if "error" in found:
        return f"{found['table']}  can't be opened: {found['error'].partition(chr(10))[0]}"
    by = found["partitioned_by"] or "nothing"
    return f"{found['table']}  {found['format']}  partitioned by {by}  version {found['version']}"


def _say(said: Any) -> None:
    sys.stdout.write(f"{said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)}\n")
