"""`partita ui`: serve a web page that shows the lake."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from partita.cli.argument_types import port_argument
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_json, print_line, print_stderr
from partita.cli.spark_option import add_spark_options, spark_settings, start_spark
from partita.web import DEFAULT_PORT

if TYPE_CHECKING:
    from threading import Event

    from partita.assets.progress import RunListener, RunResult
    from partita.assets.run_plan import RunPlan
    from partita.cli.loaded_project import LoadedProject
    from partita.spark.rows import SparkSession
    from partita.web.server_runs import ServerRunner

DESCRIPTION = """
Serve a web page that shows the lake: the assets and which of them need
attention, heat maps of partitions by state, and for each partition its status
with the reasons, its history and its files. Tables have pages with their specs
and versions. The page opens in the browser; with --no-open only its address is
printed. Stop with Ctrl-C.

By default only this machine can reach the server, and only with the token in
the address. Another --host needs your own token, by --token or $PARTITA_TOKEN.
So does a proxy that adds TLS; give its address with --public-url. Programs read
/api/openapi.json and send the token as a bearer token.

The page previews plans. With --allow-run, in a project, it also runs them, one
at a time, on a Spark that starts with the first run. Stopping the server
cancels the run. The pipeline is loaded once: restart the server when its code
changes.
"""
EXAMPLES = (
    "partita ui",
    "partita ui --lake warehouse --port 0 --no-open",
    "partita ui --allow-run --conf spark.driver.memory=4g",
    "PARTITA_TOKEN=$(openssl rand -hex 16) partita ui --host 0.0.0.0",
    'partita ui --token "$TOKEN" --no-open --public-url https://lake.example.com',
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita ui`."""
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=port_argument,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"port to listen on; 0 for any free port (default: {DEFAULT_PORT})",
    )
    parser.add_argument("--token", metavar="TEXT", help="access token (default: $PARTITA_TOKEN, or a random one)")
    parser.add_argument("--public-url", metavar="URL", help="address of a proxy in front of this server")
    parser.add_argument("--json", action="store_true", help="print the address as a JSON object")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    parser.add_argument("--allow-run", action="store_true", help="let the page run plans of this project")
    add_spark_options(parser)
    add_lake_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    # First, so that a missing project is reported before the slow imports.
    project = _load_runnable_project(arguments) if arguments.allow_run else None
    from partita.web.server import ServerAddress, serve_lake

    token = arguments.token if arguments.token is not None else os.environ.get("PARTITA_TOKEN") or None
    lake = open_lake(arguments) if project is None else project.lake
    print_stderr(f"partita: reading {lake.uri}")
    if lake.status_version < 0:
        print_stderr("partita: no event is recorded there yet")

    def announce_url(url: str) -> None:
        if arguments.json:
            print_json({"url": url, "lake": lake.uri, "tenant": lake.tenant, "workspace": lake.workspace})
        else:
            print_line(url)
        sys.stdout.flush()
        if not arguments.no_open:
            import webbrowser

            webbrowser.open(url)

    runner = None if project is None else _server_runner(project, arguments)
    address = ServerAddress(arguments.host, arguments.port, token, arguments.public_url)
    serve_lake(lake, address, on_ready=announce_url, runner=runner)
    return 0


def _load_runnable_project(arguments: argparse.Namespace) -> LoadedProject:
    """Load the project. Raises `ProjectError` if there is no project or it has no pipeline."""
    from partita.cli.loaded_project import load_project

    project = load_project(arguments)
    project.require_pipeline()
    return project


def _server_runner(project: LoadedProject, arguments: argparse.Namespace) -> ServerRunner:
    """Return a runner that runs plans as `partita run` does. The first run starts Spark, later ones use the same."""
    from partita.web.server_runs import ServerRunner

    project_options = {} if project.project is None else project.project.run_options

    def options_named(*names: str) -> dict[str, Any]:
        return {name: project_options[name] for name in names if name in project_options}

    run_options = options_named("parallel", "max_failures", "wait")
    batch_limits = options_named("batch_partitions", "batch_bytes")
    sessions: list[SparkSession] = []

    def run_plan(plan: RunPlan, listener: RunListener, stop: Event) -> RunResult:
        from partita.spark.artifacts import add_code_artifacts

        if not sessions:
            sessions.append(start_spark(spark_settings(arguments, project.project), project.lake.time_zone))
        add_code_artifacts(sessions[0], *project.code_folders())
        # The run is of the plan that the user saw; newer commits to sources are for the next plan.
        return project.lake.run(plan, spark=sessions[0], listener=listener, stop=stop, observe=False, **run_options)

    return ServerRunner(run_plan, batch_limits, None if project.pipeline is None else tuple(project.pipeline.assets))
