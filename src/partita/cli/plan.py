"""`partita plan`: what would run, and why."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from partita.cli.lake_option import add_lake
from partita.cli.partition import read_key, read_moment
from partita.cli.plan_option import add_plan, make_plan

if TYPE_CHECKING:
    from datetime import datetime

    from partita.assets.plan import Plan
    from partita.cli.loaded import Loaded

ABOUT = """
Show what would run to bring partitions up to date, in order and in batches, and
why each is there. Of --missing, --stale and --failed, none means all three.
The pipeline of the project is loaded, its definitions are registered, and what
it has is planned; other assets that were registered are named on stderr. With
--out, the plan is a file that can be reviewed, cut short and run later, unless
the world has moved. Needs no Java.
"""
EXAMPLES = (
    "partita plan",
    "partita plan --select daily_sales+ --out plan.jsonl",
    "partita plan --missing --where \"date >= '2025-01-01'\"",
    "partita plan --stale --since 2025-01-15",
    "partita plan --explain daily_sales date=2025-01-15,region=us-east",
)


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita plan`."""
    add_plan(parser)
    parser.add_argument("--now", metavar="TIME", help="as of a moment")
    parser.add_argument("--out", metavar="FILE", help="write the plan to a file, which `partita run` takes")
    parser.add_argument(
        "--explain", nargs="+", metavar=("ASSET", "KEY"), help="only whether and why one partition would run"
    )
    parser.add_argument("--json", action="store_true", help="the lines of the plan's file")
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.explain is not None and len(arguments.explain) > 2:
        arguments.parser.error("--explain takes an asset and a key")
    from partita.cli.loaded import load

    loaded = load(arguments)
    now = None if arguments.now is None else read_moment(arguments.now)
    plan = make_plan(loaded, arguments, now)
    if arguments.out is not None:
        plan.save(arguments.out)
        print(f"{arguments.out}: run it by `partita run {arguments.out}`", file=sys.stderr)  # noqa: T201
    if arguments.explain is not None:
        _explain(loaded, plan, arguments, now)
    elif arguments.json:
        sys.stdout.writelines(f"{line}\n" for line in plan.lines())
    else:
        sys.stdout.write(f"{plan}\n")
    return 0


def _explain(loaded: Loaded, plan: Plan, arguments: argparse.Namespace, now: datetime | None) -> None:
    asset, text = (*arguments.explain, "")[:2]
    key = read_key("" if text == "-" else text, loaded.lake, asset)
    # The plan has looked at the sources, where it was to.
    why = loaded.lake.why(asset, key, now=now, observe=False)
    said = plan.explain(asset, str(key))
    if arguments.json:
        document = {"asset": asset, "key": str(key), "explained": said, "why": why.document()}
        sys.stdout.write(f"{json.dumps(document, ensure_ascii=False)}\n")
    else:
        sys.stdout.write(f"{said}\n{why}\n")
