"""What is asked of a plan, as `partita plan` and `partita run` take it."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from partita.assets.selection import NEEDS
from partita.cli.partition import read_moment
from partita.status.shown import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from partita.assets.plan import Plan
    from partita.cli.loaded import Loaded


def add_plan(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what would run."""
    what = parser.add_argument_group("what", "else all that is missing, stale or failed")
    what.add_argument(
        "--select", nargs="+", action="extend", default=[], metavar="WORD",
        help="assets: a name, tag:WORD, +name with its upstreams, name+ with what is made from it",
    )  # fmt: skip
    for need in NEEDS:
        what.add_argument(f"--{need}", action="store_true", help=f"what is {need}")
    what.add_argument("--where", metavar="SQL", help="a predicate on the dimensions of keys")
    what.add_argument("--since", metavar="TIME", help="not what has been so for longer")
    what.add_argument("--allow-missing", action="store_true", help="also where a source's partition is missing")
    what.add_argument("--no-observe", action="store_true", help="don't look at the tables of sources first")


def is_asked(arguments: argparse.Namespace) -> bool:
    """Whether anything was said of what would run."""
    asked = (arguments.select, arguments.where, arguments.since, arguments.allow_missing)
    return any(asked) or any(getattr(arguments, need) for need in NEEDS)


def make_plan(loaded: Loaded, arguments: argparse.Namespace, now: datetime | None = None) -> Plan:
    """The plan that the arguments ask for, in batches as the project says.

    Of a project, that is a plan of what its pipeline has; what else was registered is named on stderr.
    """
    run = {} if loaded.project is None else loaded.project.run
    plan = loaded.lake.plan(
        **{need: getattr(arguments, need) for need in NEEDS},
        select=arguments.select,
        where=arguments.where,
        since=None if arguments.since is None else read_moment(arguments.since),
        now=now,
        allow_missing=arguments.allow_missing,
        among=None if loaded.pipeline is None else tuple(loaded.pipeline),
        batch_partitions=run.get("batch_partitions"),
        batch_bytes=run.get("batch_bytes"),
        observe=not arguments.no_observe,
    )
    dropped = plan.asked["not_among"]
    if dropped and not arguments.select:
        names = ", ".join(map(one_line, dropped))
        text = f"the pipeline doesn't have {names}; `partita retire {shlex.join(dropped)}` where that is no longer made"
        print(text, file=sys.stderr)  # noqa: T201 - what a command line does
    return plan
