"""`partita run`: run a plan on Spark and show its progress."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from partita.cli.argument_types import integer_argument, seconds_argument
from partita.cli.command import EXIT_INTERRUPTED
from partita.cli.lake_option import add_lake_options
from partita.cli.output import print_stderr
from partita.cli.plan_option import add_plan_options, has_plan_options, plan_from_arguments
from partita.cli.spark_option import add_spark_options, spark_settings, start_spark

if TYPE_CHECKING:
    from partita.assets.progress import RunListener, RunResult
    from partita.assets.run_plan import RunPlan
    from partita.cli.loaded_project import LoadedProject
    from partita.cli.run_display import RunDisplay
    from partita.spark.rows import SparkSession

DESCRIPTION = """
Bring partitions up to date: make a plan and run it, or run a file of `partita
plan --out`, which is refused if it is outdated. Upstream partitions run before
downstream ones. A batch is one Spark job and one commit; if it fails, it is
split in halves until each partition that fails is alone.

--resume continues the last run that was killed or stopped, or the run with this
id. With --wait the run waits for partitions that another run leases, and then
plans again without what that run materialized; a PLANFILE that contains such
partitions is refused.

Ctrl-C cancels the Spark jobs, and the exit code is 130. It is 1 if a partition
failed, was skipped or did not run. Needs Java 17 or newer.
"""
EXAMPLES = (
    "partita run",
    "partita run plan.jsonl --master spark://host:7077 --parallel 8",
    "partita run --select daily_sales+ --stale --max-failures 10",
    "partita run --resume",
    "partita run --json --conf spark.driver.memory=4g",
)
EXIT_INCOMPLETE = 1
_MAX_PLAN_ATTEMPTS = 3
"""The number of plans that are made if other runs keep outdating them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita run`."""
    parser.add_argument("plan", nargs="?", metavar="PLANFILE", help="a file of `partita plan --out`")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN", help="continue a run that was stopped")
    parser.add_argument(
        "--parallel", type=integer_argument("batches at once", 1), metavar="N", help="number of batches at once"
    )
    parser.add_argument(
        "--max-failures", type=integer_argument("failed partitions"), metavar="N",
        help="stop after more than N failed partitions",
    )  # fmt: skip
    parser.add_argument(
        "--wait",
        type=seconds_argument,
        metavar="SECONDS",
        help="how long to wait for partitions that another run leases",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per event, and the result")
    add_plan_options(parser)
    add_spark_options(parser)
    add_lake_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    from partita.cli.loaded_project import load_project
    from partita.cli.run_display import open_display
    from partita.cli.signals import interrupt_on_signals

    with interrupt_on_signals():
        project = load_project(arguments)
        project.require_pipeline()
        plan = None if arguments.resume is not None else _load_or_make_plan(project, arguments)
        if plan is not None and not len(plan):
            blocked_text = f", {plan.blocked.num_rows:,} held back" if plan.blocked.num_rows else ""
            print_stderr(f"nothing to run{blocked_text}")
            return 0
        spark = start_spark(spark_settings(arguments, project.project), project.lake.time_zone)
        # Spark's own handler would cancel jobs before the run is told that it was interrupted.
        with interrupt_on_signals(), open_display(sys.stdout, as_json=arguments.json) as display:
            end_event: dict[str, Any] = {}
            try:
                with redirect_stdout(sys.stderr):
                    result = _run_plan(project, arguments, plan, spark, _display_listener(display, end_event))
            except KeyboardInterrupt:
                _print_interrupted(end_event)
                _exit_if_threads_remain()
                raise
            display.on_result(result)
    return 0 if result.ok else EXIT_INCOMPLETE


def _check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.resume is not None and arguments.plan is not None:
        arguments.parser.error("give either a PLANFILE or --resume")
    if (arguments.plan is not None or arguments.resume is not None) and has_plan_options(arguments):
        arguments.parser.error("a PLANFILE or --resume determines what runs; leave out --select, --where and the like")


def _load_or_make_plan(project: LoadedProject, arguments: argparse.Namespace) -> RunPlan:
    if arguments.plan is None:
        return plan_from_arguments(project, arguments)
    from partita.assets.plan_file import load_plan

    return load_plan(arguments.plan)


def _run_plan(
    project: LoadedProject,
    arguments: argparse.Namespace,
    plan: RunPlan | None,
    spark: SparkSession,
    listener: RunListener,
) -> RunResult:
    from partita.errors import PlanOutdated
    from partita.spark.artifacts import add_code_artifacts

    add_code_artifacts(spark, *project.code_folders())
    options: dict[str, Any] = {"spark": spark, "listener": listener, **_run_options(project, arguments)}
    if plan is None:
        return project.lake.resume(arguments.resume or None, **options)
    if arguments.plan is not None:
        return project.lake.run(plan, observe=not arguments.no_observe, **options)
    for _ in range(_MAX_PLAN_ATTEMPTS - 1):
        try:
            return project.lake.run(plan, observe=False, **options)
        except PlanOutdated:
            plan = plan_from_arguments(project, arguments)
    return project.lake.run(plan, observe=False, **options)


def _display_listener(display: RunDisplay, end_event: dict[str, Any]) -> RunListener:
    """Return a listener that forwards events to the display and copies the event `ended` into `end_event`."""

    def forward_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "ended":
            end_event.update(event)
        display.on_event(event)

    return forward_event


def _print_interrupted(end_event: Mapping[str, Any]) -> None:
    """Print the counts of an interrupted run and how to resume it; nothing if the run had not begun."""
    if end_event:
        counts = ", ".join(f"{end_event[name]:,} {name}" for name in ("succeeded", "failed", "cancelled", "left"))
        run_id = end_event["run_id"]
        print_stderr(f"run {run_id} was interrupted: {counts}; resume it with `partita run --resume {run_id}`")


def _exit_if_threads_remain() -> None:
    """End this process if an asset's function still runs after a second interrupt: Python would wait for it."""
    if any(thread.name.startswith("partita-") for thread in threading.enumerate() if not thread.daemon):
        sys.stdout.flush()
        os._exit(EXIT_INTERRUPTED)


def _run_options(project: LoadedProject, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the run; arguments take precedence over the project."""
    names = ("parallel", "max_failures", "wait")
    project_options = {} if project.project is None else project.project.run_options
    options = {name: getattr(arguments, name) for name in names}
    options = {name: project_options.get(name) if value is None else value for name, value in options.items()}
    return {name: value for name, value in options.items() if value is not None}
