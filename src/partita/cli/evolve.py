"""`partita evolve`: another partitioning for what is written from now on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.pair import pair

if TYPE_CHECKING:
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.table import Table

ABOUT = """
Partition what is written to a table from now on another way: add fields, drop
some by their names, and rename others. What was written before stays as it is.
Iceberg tables can; those of other formats say why not. Needs no Java.
"""
EXAMPLES = (
    'partita evolve sales.orders --add "bucket(16, user_id)" --drop ts_day',
    "partita evolve sales.orders --rename user_id_bucket=shard",
    'partita evolve sales.orders --add "day(ts), region" --json',
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita evolve`."""
    parser.add_argument("table", metavar="TABLE", help="the table")
    parser.add_argument("--add", action="append", default=[], metavar="FIELDS", help="fields, as in 'day(ts), region'")
    parser.add_argument("--drop", action="append", default=[], metavar="NAME", help="a field by its name")
    parser.add_argument(
        "--rename", action="append", default=[], type=pair, metavar="OLD=NEW", help="a field and its new name"
    )
    parser.add_argument("--json", action="store_true", help="how the table is partitioned now, as JSON")
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    if not (arguments.add or arguments.drop or arguments.rename):
        arguments.parser.error("say what to change: --add, --drop or --rename")
    from partita.cli.sql_report import show, show_json

    table = open_lake(arguments).table(arguments.table)
    added = [function for text in arguments.add for function in _functions(text, table)]
    table.evolve(add=added, drop=arguments.drop, rename=dict(arguments.rename))
    if arguments.json:
        show_json(table, None)
    else:
        show(table, 0)
    return 0


def _functions(text: str, table: Table) -> list[PartitionFunction]:
    from partita.algebra.spec_text import parse_spec

    return [field.function for field in parse_spec(text, table.schema, table.spec.family).fields]
