"""`partita ui`: the page to look at the lake."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import TYPE_CHECKING

from partita.cli.lake_option import add_lake, open_lake
from partita.cli.spark_option import add_spark, chosen, start_spark

if TYPE_CHECKING:
    from threading import Event

    from partita.assets.plan import Plan
    from partita.assets.progress import Listener, RunResult
    from partita.cli.loaded import Loaded
    from partita.spark.rows import SparkSession
    from partita.web.runs import Doing

ABOUT = """
Serve a web page that shows the lake: every asset and what needs attention, maps
of partitions by state, why each is as it is, its history and files, and the
specs of tables. The page opens in the browser; with --no-open its address is
printed alone. Stop with Ctrl-C.

Only this machine reaches it, and only with the token in the address. Another
--host needs a token of your own, by --token or $PARTITA_TOKEN, and so does a
proxy that speaks TLS: --public-url says at which address people reach that.
Programs ask /api/openapi.json; the token is a bearer.

Plans can be looked at. With --allow-run, in a project, pages run them too, one
at a time, on a Spark that is started for the first; stopping the server cancels
the run. The pipeline is loaded once, so start anew when its code has changed.
"""
EXAMPLES = (
    "partita ui",
    "partita ui --lake warehouse --port 0 --no-open",
    "partita ui --allow-run --conf spark.driver.memory=4g",
    "PARTITA_TOKEN=$(openssl rand -hex 16) partita ui --host 0.0.0.0",
    'partita ui --token "$TOKEN" --no-open --public-url https://lake.example.com',
)
PORT = 8765


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita ui`."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"0 for any free one (default: {PORT})")
    parser.add_argument("--token", metavar="TEXT", help="else $PARTITA_TOKEN, or a new one each time")
    parser.add_argument("--public-url", metavar="URL", help="where a proxy before this server is reached")
    parser.add_argument("--json", action="store_true", help="print the address as a JSON object")
    parser.add_argument("--no-open", action="store_true", help="don't open a browser")
    parser.add_argument("--allow-run", action="store_true", help="let pages run plans of this project")
    add_spark(parser)
    add_lake(parser)
    parser.set_defaults(run=_run)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it is a number up to 65535")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    # Before what takes a while to load: a project that isn't there is said at once.
    loaded = _runnable(arguments) if arguments.allow_run else None
    from partita.web.serve import Address, serve

    token = arguments.token if arguments.token is not None else os.environ.get("PARTITA_TOKEN") or None
    lake = open_lake(arguments) if loaded is None else loaded.lake
    print(f"partita: reading {lake.uri}", file=sys.stderr)  # noqa: T201 - what a command line does
    if lake.status_version < 0:
        print("partita: nothing is recorded there yet", file=sys.stderr)  # noqa: T201 - the same

    def opened(url: str) -> None:
        said = {"url": url, "lake": lake.uri, "tenant": lake.tenant, "workspace": lake.workspace}
        sys.stdout.write(f"{json.dumps(said, ensure_ascii=False) if arguments.json else url}\n")
        sys.stdout.flush()
        if not arguments.no_open:
            import webbrowser

            webbrowser.open(url)

    doing = None if loaded is None else _doing(loaded, arguments)
    address = Address(arguments.host, arguments.port, token, arguments.public_url)
    serve(lake, address, opened=opened, doing=doing)
    return 0


def _runnable(arguments: argparse.Namespace) -> Loaded:
    """The project with its pipeline; outside of one nothing can run, and that is an error."""
    from partita.cli.loaded import load

    loaded = load(arguments)
    loaded.check_runs()
    return loaded


def _doing(loaded: Loaded, arguments: argparse.Namespace) -> Doing:
    """How the server runs plans: as `partita run` does, on a Spark that the first run starts and all of them share."""
    from partita.web.runs import Doing

    said = {} if loaded.project is None else loaded.project.run
    options = {name: said[name] for name in ("parallel", "max_failures", "wait") if name in said}
    started: list[SparkSession] = []

    def run(plan: Plan, listener: Listener, stop: Event) -> RunResult:
        from partita.spark.shipping import ship

        if not started:
            started.append(start_spark(chosen(arguments, loaded.project), loaded.lake.time_zone))
        ship(started[0], *loaded.code_folders())
        # The plan was looked at as it is: what sources got since is for the next one.
        return loaded.lake.run(plan, spark=started[0], listener=listener, stop=stop, observe=False, **options)

    sizes = {name: said[name] for name in ("batch_partitions", "batch_bytes") if name in said}
    return Doing(run, sizes, None if loaded.pipeline is None else tuple(loaded.pipeline.assets))
