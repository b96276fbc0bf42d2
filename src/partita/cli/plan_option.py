"""The arguments of `partita plan` and `partita run` that choose which partitions to plan."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from partita.cli.key_argument import parse_timestamp
from partita.cli.output import print_stderr
from partita.status.states import PLANNABLE_STATES
from partita.status.text import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from partita.assets.run_plan import RunPlan
    from partita.cli.loaded_project import LoadedProject


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose which partitions to plan."""
    group = parser.add_argument_group("selection", "default: every partition that is missing, stale or failed")
    group.add_argument(
        "--select", nargs="+", action="extend", default=[], metavar="WORD",
        help="assets: name, tag:WORD, +name with its upstreams, name+ with its downstreams",
    )  # fmt: skip
    for state in PLANNABLE_STATES:
        group.add_argument(f"--{state}", action="store_true", help=f"partitions that are {state}")
    group.add_argument("--where", metavar="SQL", help="predicate on the dimensions of the keys")
    group.add_argument("--since", metavar="TIME", help="leave out partitions that have been in this state for longer")
    group.add_argument(
        "--allow-missing", action="store_true", help="also partitions that read a missing partition of a source"
    )
    group.add_argument("--no-observe", action="store_true", help="do not read the logs of source tables first")


def has_plan_options(arguments: argparse.Namespace) -> bool:
    """Return whether an argument chooses which partitions to plan."""
    values = (arguments.select, arguments.where, arguments.since, arguments.allow_missing)
    return any(values) or any(getattr(arguments, state) for state in PLANNABLE_STATES)


def plan_from_arguments(project: LoadedProject, arguments: argparse.Namespace, now: datetime | None = None) -> RunPlan:
    """Make the plan that the arguments describe, with the batch sizes of the project.

    In a project only assets of its pipeline are planned; other registered assets are named on stderr.
    """
    run_options = {} if project.project is None else project.project.run_options
    plan = project.lake.plan(
        **{state: getattr(arguments, state) for state in PLANNABLE_STATES},
        select=arguments.select,
        where=arguments.where,
        since=None if arguments.since is None else parse_timestamp(arguments.since),
        now=now,
        allow_missing=arguments.allow_missing,
        available_assets=None if project.pipeline is None else tuple(project.pipeline),
        batch_partitions=run_options.get("batch_partitions"),
        batch_bytes=run_options.get("batch_bytes"),
        observe=not arguments.no_observe,
    )
    undefined_assets = plan.request["not_among"]
    if undefined_assets and not arguments.select:
        names = ", ".join(map(one_line, undefined_assets))
        print_stderr(
            f"the pipeline does not define {names}; if they are no longer made: "
            f"`partita retire {shlex.join(undefined_assets)}`"
        )
    return plan
