"""`partita run`: a plan run on Spark, with what it does as it does it."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from partita.cli.command import INTERRUPTED
from partita.cli.lake_option import add_lake
from partita.cli.number import seconds, whole_number
from partita.cli.plan_option import add_plan, is_asked, make_plan
from partita.cli.spark_option import add_spark, chosen, start_spark

if TYPE_CHECKING:
    from partita.assets.plan import Plan
    from partita.assets.progress import Listener, RunResult
    from partita.cli.loaded import Loaded
    from partita.cli.run_display import Display
    from partita.spark.rows import SparkSession

ABOUT = """
Bring partitions up to date: plan and run, or run a plan that `partita plan
--out` wrote and that the world has not moved away from. Upstreams come before
what is made from them; a batch is one Spark job and one commit. A batch that
fails is cut in two until what can't be made stands alone. With --resume, do
what a run left that was killed or stopped: the last such, or the one named.
With --wait, partitions that another run holds are waited for, and what it made
is planned anew; a PLANFILE of which it made something is refused then.

Ctrl-C stops the jobs and exits with 130. Exit code 1 where a partition failed,
was skipped or is left. Needs Java 17 or newer.
"""
EXAMPLES = (
    "partita run",
    "partita run plan.jsonl --master spark://host:7077 --parallel 8",
    "partita run --select daily_sales+ --stale --max-failures 10",
    "partita run --resume",
    "partita run --json --conf spark.driver.memory=4g",
)
NOT_ALL = 1
_TRIES = 3
"""How often is planned anew, where another was at work between the plan and the run."""


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita run`."""
    parser.add_argument("plan", nargs="?", metavar="PLANFILE", help="a plan; else it is planned first")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN", help="do what a run left")
    for name, what, least in (("parallel", "batches at once", 1), ("max-failures", "failed partitions to bear", 0)):
        parser.add_argument(f"--{name}", type=whole_number(what, least), metavar="N", help=what)
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="for partitions that another run holds")
    parser.add_argument("--json", action="store_true", help="one JSON object for each event, and the result")
    add_plan(parser)
    add_spark(parser)
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    from partita.cli.interrupting import interruptible
    from partita.cli.loaded import load
    from partita.cli.run_display import display_on

    with interruptible():
        loaded = load(arguments)
        loaded.check_runs()
        plan = None if arguments.resume is not None else _plan(loaded, arguments)
        if plan is not None and not len(plan):
            _tell(f"nothing to run, {plan.blocked.num_rows:,} held back" if plan.blocked.num_rows else "nothing to run")
            return 0
        spark = start_spark(chosen(arguments, loaded.project), loaded.lake.time_zone)
        # Spark's own handler would cancel jobs before the run knows why they end.
        with interruptible(), display_on(sys.stdout, as_json=arguments.json) as display:
            ended: dict[str, Any] = {}
            try:
                with redirect_stdout(sys.stderr):
                    result = _done(loaded, arguments, plan, spark, _hearing(display, ended))
            except KeyboardInterrupt:
                _tell_stopped(ended)
                _leave_functions()
                raise
            display.show(result)
    return 0 if result.ok else NOT_ALL


def _check(arguments: argparse.Namespace) -> None:
    if arguments.resume is not None and arguments.plan is not None:
        arguments.parser.error("give a plan, or --resume")
    if (arguments.plan is not None or arguments.resume is not None) and is_asked(arguments):
        arguments.parser.error("what runs is said by the plan; leave --select, --where and the like out")


def _plan(loaded: Loaded, arguments: argparse.Namespace) -> Plan:
    if arguments.plan is None:
        return make_plan(loaded, arguments)
    from partita.assets.plan import load_plan

    return load_plan(arguments.plan)


def _done(
    loaded: Loaded, arguments: argparse.Namespace, plan: Plan | None, spark: SparkSession, listener: Listener
) -> RunResult:
    from partita.errors import WorldMoved
    from partita.spark.shipping import ship

    ship(spark, *loaded.code_folders())
    how: dict[str, Any] = {"spark": spark, "listener": listener, **_options(loaded, arguments)}
    if plan is None:
        return loaded.lake.resume(arguments.resume or None, **how)
    if arguments.plan is not None:
        return loaded.lake.run(plan, observe=not arguments.no_observe, **how)
    for _ in range(_TRIES - 1):
        try:
            return loaded.lake.run(plan, observe=False, **how)
        except WorldMoved:
            plan = make_plan(loaded, arguments)
    return loaded.lake.run(plan, observe=False, **how)


def _hearing(display: Display, ended: dict[str, Any]) -> Listener:
    """What tells the display, and keeps what was said at the end."""

    def hear(event: Mapping[str, Any]) -> None:
        if event["event"] == "ended":
            ended.update(event)
        display.hear(event)

    return hear


def _tell_stopped(ended: Mapping[str, Any]) -> None:
    """Where a run was interrupted that had begun: how far it came, and how it goes on."""
    if ended:
        counts = ", ".join(f"{ended[name]:,} {name}" for name in ("succeeded", "failed", "cancelled", "left"))
        _tell(f"run {ended['run_id']} was interrupted: {counts}; `partita run --resume {ended['run_id']}` goes on")


def _leave_functions() -> None:
    """End this process where a function goes on after a second interrupt: Python would wait for it."""
    if any(thread.name.startswith("partita-") for thread in threading.enumerate() if not thread.daemon):
        sys.stdout.flush()
        os._exit(INTERRUPTED)


def _options(loaded: Loaded, arguments: argparse.Namespace) -> dict[str, Any]:
    """How the run works: as the arguments say, or else the project."""
    names = ("parallel", "max_failures", "wait")
    said = {} if loaded.project is None else {name: loaded.project.run.get(name) for name in names}
    given = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in (*said.items(), *given.items()) if value is not None}


def _tell(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - what a command line does
