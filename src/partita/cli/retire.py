"""`partita retire`: an asset that is no longer made."""

from __future__ import annotations

import argparse
import json
import sys

from partita.cli.lake_option import add_lake
from partita.errors import DefinitionError
from partita.status.shown import one_line

ABOUT = """
Record that assets are no longer made, such as one that the pipeline has no more
or has under another name: nothing of them is expected from then on. Their
tables and their history stay. An asset that is registered again is made again,
so one that the project's pipeline still has is refused.
"""
EXAMPLES = ("partita retire daily_sales", "partita retire daily_sales weekly_sales --json")


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita retire`."""
    parser.add_argument("assets", metavar="ASSET", nargs="+", help="the asset")
    parser.add_argument("--json", action="store_true", help="one JSON object for each asset")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from partita.cli.loaded import load

    loaded = load(arguments)
    names = tuple(dict.fromkeys(arguments.assets))
    for name in names:
        if loaded.pipeline is not None and name in loaded.pipeline.assets:
            raise DefinitionError(
                f"the pipeline has {name!r}, and would register it again; take it out first: "
                f"{loaded.pipeline.assets[name].place}"
            )
    for name in names:
        loaded.lake.retire(name)
        said = json.dumps({"asset": name, "retired": True}, ensure_ascii=False)
        sys.stdout.write(f"{said if arguments.json else f'{one_line(name)} is no longer made'}\n")
    return 0
