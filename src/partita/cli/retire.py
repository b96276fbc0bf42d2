"""`partita retire`: record that assets are no longer made."""

from __future__ import annotations

import argparse

from partita.cli.lake_option import add_lake_options
from partita.cli.output import print_json, print_line
from partita.errors import DefinitionError
from partita.status.text import one_line

DESCRIPTION = """
Record that assets are no longer made, for example because they were removed
from the pipeline or renamed. From then on none of their partitions is expected.
Their tables and history stay. An asset that the project's pipeline still
defines is refused, because the next registration would bring it back.
"""
EXAMPLES = ("partita retire daily_sales", "partita retire daily_sales weekly_sales --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita retire`."""
    parser.add_argument("assets", metavar="ASSET", nargs="+", help="name of an asset")
    parser.add_argument("--json", action="store_true", help="print one JSON object per asset")
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded_project import load_project

    project = load_project(arguments)
    names = tuple(dict.fromkeys(arguments.assets))
    for name in names:
        if project.pipeline is not None and name in project.pipeline.assets:
            raise DefinitionError(
                f"the pipeline still defines {name!r} and would register it again; remove the definition first: "
                f"{project.pipeline.assets[name].definition_location}"
            )
    for name in names:
        project.lake.retire(name)
        if arguments.json:
            print_json({"asset": name, "retired": True})
        else:
            print_line(f"{one_line(name)} is retired")
    return 0
