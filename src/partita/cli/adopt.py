"""`partita adopt`: register a table that exists elsewhere as a source."""

from __future__ import annotations

import argparse

from partita.cli.argument_types import name_value_argument
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line
from partita.formats.registry import FORMATS

DESCRIPTION = """
Register a table that exists elsewhere as a source, with its whole history. Its
files stay where they are. Give the folder of the table, or the name of an
Iceberg table in its catalog. Needs no Java.
"""
EXAMPLES = (
    "partita adopt s3://bucket/raw/orders --format delta --name raw.orders",
    "partita adopt db.t --format iceberg --catalog type=rest --catalog uri=URL",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita adopt`."""
    parser.add_argument("uri", metavar="URI", help="location of the table; for Iceberg, its name in the catalog")
    parser.add_argument("--format", required=True, choices=FORMATS, help="format of the table")
    parser.add_argument("--name", metavar="NAME", help="name of the source (default: the last part of URI)")
    parser.add_argument(
        "--catalog", action="append", type=name_value_argument, metavar="NAME=VALUE",
        help="a property of the Iceberg catalog; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the source as JSON")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    catalog = None if arguments.catalog is None else dict(arguments.catalog)
    source = lake.adopt(arguments.uri, arguments.format, name=arguments.name, catalog=catalog)
    dimensions = list(source.definition.partitions.names)
    if arguments.json:
        print_json({"asset": source.name, "uri": lake.table(source.name).uri, "dimensions": dimensions})
    else:
        print_line(f"{source.name} is now a source, partitioned by {', '.join(dimensions) or 'nothing'}")
    return 0
