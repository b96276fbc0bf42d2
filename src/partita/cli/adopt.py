"""`partita adopt`: a table that exists elsewhere, brought in as a source."""

from __future__ import annotations

import argparse
import json
import sys

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.pair import pair
from partita.formats import FORMATS

ABOUT = """
Bring a table that exists elsewhere in as a source, with its whole history; its
files stay where they are. A Delta or a Lance table is named by its folder, an
Iceberg table by its name in a catalog. Needs no Java.
"""
EXAMPLES = (
    "partita adopt s3://bucket/raw/orders --format delta --name raw.orders",
    "partita adopt db.t --format iceberg --catalog type=rest --catalog uri=URL",
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita adopt`."""
    parser.add_argument("uri", metavar="URI", help="where the table is; of Iceberg, its name")
    parser.add_argument("--format", required=True, choices=FORMATS, help="its format")
    parser.add_argument("--name", metavar="NAME", help="the source's name; else what URI ends with")
    parser.add_argument(
        "--catalog", action="append", type=pair, metavar="NAME=VALUE", help="a setting of Iceberg's catalog"
    )
    parser.add_argument("--json", action="store_true", help="what was adopted as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    lake = open_lake(arguments)
    catalog = None if arguments.catalog is None else dict(arguments.catalog)
    source = lake.adopt(arguments.uri, arguments.format, name=arguments.name, catalog=catalog)
    by = list(source.definition.partitions.names)
    if arguments.json:
        said = json.dumps({"asset": source.name, "uri": lake.table(source.name).uri, "dimensions": by})
    else:
        said = f"{source.name} is a source now, partitioned by {', '.join(by) or 'nothing'}"
    sys.stdout.write(f"{said}\n")
    return 0
