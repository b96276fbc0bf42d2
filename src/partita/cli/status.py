"""`partita status`: which partitions are missing, stale or failed, as a grid, a list or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from partita.cli.grid import LEGEND, Cell, grid
from partita.cli.lake_option import add_lake, open_lake
from partita.cli.partition import key_words, read_moment

if TYPE_CHECKING:
    from partita.lake import Lake

ABOUT = """
Show the status of every partition: a grid for each asset, or with --stale,
--missing or --failed a list of those partitions. With --check, exit with 1 when
some partition that is expected is missing, stale or failed.

`partita status export FILE` writes the status table as Parquet.
"""
EXAMPLES = (
    "partita status",
    "partita status daily_sales --stale --where \"date >= '2025-01-01'\"",
    "partita status --check --json",
    "partita status export partition_status.parquet",
)
NOT_CURRENT = 1
_STATES = ("missing", "stale", "failed", "running", "cancelled", "unexpected")
_SHOWN = (
    "asset_key", "partition_key", "display_status", "epoch_us(stale_since)", "stale_reasons", "expected", "running",
    "failed", "cancelled", "epoch_us(last_materialization_at)", "last_attempt_error",
)  # fmt: skip


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita status`."""
    parser.add_argument("asset", nargs="*", metavar="ASSET", help="only this asset; or 'export FILE'")
    for state in _STATES:
        said = f"list what is {state}"
        parser.add_argument(f"--{state}", action="append_const", dest="states", const=state, help=said)
    parser.add_argument("--where", metavar="SQL", help="a predicate on the dimensions of keys")
    parser.add_argument("--now", type=str, metavar="TIME", help="as of a moment, in the past or the future")
    parser.add_argument("--transitive", action="store_true", help="what is made from something stale is stale")
    parser.add_argument("--json", action="store_true", help="one JSON object for each partition")
    parser.add_argument("--check", action="store_true", help="exit with 1 when something is not current")
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    words = arguments.asset
    if len(words) == 2 and words[0] == "export":
        rows = open_lake(arguments).export_status(words[1], now=_now(arguments))
        print(f"{words[1]}: {rows:,} partitions", file=sys.stderr)  # noqa: T201 - what a command line does
        return 0
    if len(words) > 1:
        arguments.parser.error("give one asset, or 'export FILE'")
    return _show(open_lake(arguments), arguments, words[0] if words else None)


def _now(arguments: argparse.Namespace) -> Any:
    return None if arguments.now is None else read_moment(arguments.now)


def _show(lake: Lake, arguments: argparse.Namespace, asset: str | None) -> int:
    from partita.status.board import STATES

    listed = arguments.states or []
    with lake.ask_status(asset, where=arguments.where, now=_now(arguments), transitive=arguments.transitive) as answer:
        conditions = [" OR ".join(f"({STATES[state]})" for state in listed)] if listed else []
        rows = answer.values(_SHOWN, conditions)
        is_wrong = arguments.check and answer.count("expected IS NOT FALSE AND display_status <> 'MATERIALIZED'") > 0
    if arguments.json:
        lines: Iterator[str] = map(_json, rows)
    elif listed:
        lines = _list(rows)
    else:
        lines = _grids(rows)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return NOT_CURRENT if is_wrong else 0


def _json(row: Sequence[Any]) -> str:
    asset, key, display, since, reasons, expected, running, failed, cancelled, materialized, error = row
    return json.dumps(
        {
            "asset": asset,
            "key": key,
            "display_status": display,
            "stale_since": _moment(since),
            "stale_reasons": reasons,
            "expected": expected,
            "running": running,
            "failed": failed,
            "cancelled": cancelled,
            "last_materialization_at": _moment(materialized),
            "last_attempt_error": error,
        },
        ensure_ascii=False,
    )


def _moment(micros: int | None) -> str | None:
    from partita.status.engine import moment

    return None if micros is None else moment(micros).replace(tzinfo=None).isoformat() + "Z"


def _list(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    for asset, key, display, since, reasons, *_, error in rows:
        why = f"  {', '.join(reasons)} since {_moment(since)}" if reasons else ""
        yield f"{asset}  {key_words(key)}  {display}{why}{'' if error is None else '  ' + error.splitlines()[0]}"


def _grids(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    by_asset: dict[str, list[Cell]] = {}
    for asset, key, display, _, reasons, expected, running, failed, *_ in rows:
        state = "running" if running else "failed" if failed else "unexpected" if expected is False else display
        by_asset.setdefault(asset, []).append(Cell(key, state, is_stale=bool(reasons)))
    if not by_asset:
        yield "nothing is registered or recorded here"
        return
    for asset, cells in by_asset.items():
        yield from grid(asset, cells)
    yield LEGEND
