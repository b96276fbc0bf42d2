"""`partita tables`: list the tables of a lake."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line, print_stderr

if TYPE_CHECKING:
    from partita.lake import Lake

DESCRIPTION = """
List the tables of a lake in all formats, including adopted ones: name, format,
partitioning and current version. The exit code is 1 if a table can't be opened.
Needs no Java.
"""
EXAMPLES = ("partita tables", "partita tables --lake s3://bucket/warehouse --names", "partita tables --json")
EXIT_TABLE_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita tables`."""
    parser.add_argument("--names", action="store_true", help="print only the names, without opening the tables")
    parser.add_argument("--json", action="store_true", help="print one JSON object per table")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    names = lake.tables()
    if not names:
        print_stderr(f"there are no tables in {lake.uri}")
    has_failed = False
    for name in names:
        document = {"table": name} if arguments.names else _table_document(lake, name)
        has_failed |= "error" in document
        if arguments.json:
            print_json(document)
        else:
            print_line(name if arguments.names else _table_line(document))
    return EXIT_TABLE_FAILED if has_failed else 0


def _table_document(lake: Lake, name: str) -> dict[str, Any]:
    from partita.errors import PartitaError

    try:
        table = lake.table(name)
        return {
            "table": name,
            "format": table.format,
            "partitioned_by": str(table.spec),
            "version": table.version,
            "uri": table.uri,
        }
    except PartitaError as error:
        return {"table": name, "error": str(error)}


def _table_line(table: dict[str, Any]) -> str:
    if "error" in table:
        return f"{table['table']}  can't be opened: {table['error'].partition(chr(10))[0]}"
    fields = table["partitioned_by"] or "nothing"
    return f"{table['table']}  {table['format']}  partitioned by {fields}  version {table['version']}"
