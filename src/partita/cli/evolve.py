"""`partita evolve`: change the partition spec of a table."""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import TYPE_CHECKING

from partita.cli.argument_types import name_value_argument
from partita.cli.lake_option import add_lake_options, open_lake

if TYPE_CHECKING:
    from partita.algebra.transforms import PartitionFunction
    from partita.formats.table import Table


def DESCRIPTION() -> str:  # noqa: N802 - the name of the text in other commands
    """Return the description with the formats that can evolve."""
    from partita.formats.capabilities import Operation
    from partita.formats.registry import table_formats

    titles = [format_.title for format_ in table_formats() if format_.supports(Operation.EVOLVE)]
    return fill(
        "Add, drop or rename partition fields of a table. The new partition spec applies to data that is written from "
        f"now on; existing files stay as they are. Only {' and '.join(titles)} tables support this. Needs no Java.",
        79,
    )


EXAMPLES = (
    'partita evolve sales.orders --add "bucket(16, user_id)" --drop ts_day',
    "partita evolve sales.orders --rename user_id_bucket=shard",
    'partita evolve sales.orders --add "day(ts), region" --json',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita evolve`."""
    parser.add_argument("table", metavar="TABLE", help="name of the table")
    parser.add_argument(
        "--add", action="append", default=[], metavar="FIELDS", help="add partition fields, as in 'day(ts), region'"
    )
    parser.add_argument("--drop", action="append", default=[], metavar="NAME", help="drop the field with this name")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        type=name_value_argument,
        metavar="OLD=NEW",
        help="rename a field",
    )
    parser.add_argument("--json", action="store_true", help="print the new partitioning as JSON")
    add_lake_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    if not (arguments.add or arguments.drop or arguments.rename):
        arguments.parser.error("give at least one of --add, --drop and --rename")
    from partita.cli.sql_report import print_result, print_result_json

    table = open_lake(arguments).table(arguments.table)
    new_fields = [function for text in arguments.add for function in _parse_functions(text, table)]
    table.evolve(add=new_fields, drop=arguments.drop, rename=dict(arguments.rename))
    if arguments.json:
        print_result_json(table, None)
    else:
        print_result(table, 0)
    return 0


def _parse_functions(text: str, table: Table) -> list[PartitionFunction]:
    from partita.algebra.spec_text import parse_spec

    return [field.function for field in parse_spec(text, table.schema, table.spec.family).fields]
