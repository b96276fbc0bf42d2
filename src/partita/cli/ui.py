"""`partita ui`: the page to look at the lake."""

from __future__ import annotations

import argparse
import os
import re
import sys

from partita.cli.lake_option import add_lake, open_lake

ABOUT = """
Serve a web page that shows the lake: every asset and what needs attention, maps
of partitions by state, why each is as it is, its history and files, and the
specs of tables. The page opens in the browser; with --no-open its address is
printed alone. Stop with Ctrl-C.

Only this machine reaches it, and only with the token in the address. Another
--host needs a token of your own, by --token or $PARTITA_TOKEN; put a proxy that
speaks TLS before it. Programs ask /api/openapi.json; the token is a bearer.
"""
EXAMPLES = (
    "partita ui",
    "partita ui --lake warehouse --port 0 --no-open",
    "PARTITA_TOKEN=$(openssl rand -hex 16) partita ui --host 0.0.0.0",
)
PORT = 8765


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita ui`."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"0 for any free one (default: {PORT})")
    parser.add_argument("--token", metavar="TEXT", help="else $PARTITA_TOKEN, or a new one each time")
    parser.add_argument("--no-open", action="store_true", help="don't open a browser")
    parser.add_argument("--allow-run", action="store_true", help="let pages start runs; none does yet")
    add_lake(parser)
    parser.set_defaults(run=_run)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; it is a number up to 65535")
    return int(text)


def _run(arguments: argparse.Namespace) -> int:
    from partita.web.serve import Address, serve

    token = arguments.token if arguments.token is not None else os.environ.get("PARTITA_TOKEN") or None
    lake = open_lake(arguments)
    print(f"partita: reading {lake.uri}", file=sys.stderr)  # noqa: T201 - what a command line does

    def opened(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        if not arguments.no_open:
            import webbrowser

            webbrowser.open(url)

    serve(lake, Address(arguments.host, arguments.port, token), allow_run=arguments.allow_run, opened=opened)
    return 0
