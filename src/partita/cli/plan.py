"""`partita plan`: show which partitions would run, and why."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from partita.cli.key_argument import parse_key, parse_timestamp
from partita.cli.lake_option import add_lake_options
from partita.cli.output import print_json, print_line, print_stderr
from partita.cli.plan_option import add_plan_options, plan_from_arguments

if TYPE_CHECKING:
    from datetime import datetime

    from partita.assets.run_plan import RunPlan
    from partita.cli.loaded_project import LoadedProject

DESCRIPTION = """
Show which partitions would run to bring assets up to date, in order, in
batches, and with the reason for each. Without --missing, --stale and --failed
all three apply. The project's pipeline is loaded and registered, and its assets
are planned; other registered assets are named on stderr. With --out the plan is
written to a file that you can review, shorten and run later, as long as it is
not outdated. Needs no Java.
"""
EXAMPLES = (
    "partita plan",
    "partita plan --select daily_sales+ --out plan.jsonl",
    "partita plan --missing --where \"date >= '2025-01-01'\"",
    "partita plan --stale --since 2025-01-15",
    "partita plan --explain daily_sales date=2025-01-15,region=us-east",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita plan`."""
    add_plan_options(parser)
    parser.add_argument("--now", metavar="TIME", help="plan as of this time instead of now")
    parser.add_argument("--out", metavar="FILE", help="write the plan to a file for `partita run FILE`")
    parser.add_argument(
        "--explain", nargs="+", metavar=("ASSET", "KEY"), help="explain only whether and why one partition would run"
    )
    parser.add_argument("--json", action="store_true", help="print the plan in the format of its file, JSON lines")
    add_lake_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.explain is not None and len(arguments.explain) > 2:
        arguments.parser.error("--explain takes an asset and a key")
    from partita.cli.loaded_project import load_project

    project = load_project(arguments)
    now = None if arguments.now is None else parse_timestamp(arguments.now)
    plan = plan_from_arguments(project, arguments, now)
    if arguments.out is not None:
        plan.save(arguments.out)
        print_stderr(f"{arguments.out}: run the plan with `partita run {arguments.out}`")
    if arguments.explain is not None:
        _print_explanation(project, plan, arguments, now)
    elif arguments.json:
        for line in plan.json_lines():
            print_line(line)
    else:
        print_line(plan)
    return 0


def _print_explanation(
    project: LoadedProject, plan: RunPlan, arguments: argparse.Namespace, now: datetime | None
) -> None:
    asset, key_text = (*arguments.explain, "")[:2]
    key = parse_key("" if key_text == "-" else key_text, project.lake, asset)
    # Making the plan has observed the sources already, unless --no-observe was given.
    why = project.lake.why(asset, key, now=now, observe=False)
    explanation = plan.explain(asset, str(key))
    if arguments.json:
        print_json({"asset": asset, "key": str(key), "explained": explanation, "why": why.document()})
    else:
        print_line(f"{explanation}\n{why}")
