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
from partita.errors import StatusError, UnknownAsset
from partita.status.shown import error_line, one_line, stamp

if TYPE_CHECKING:
    from partita.lake import Lake

ABOUT = """
Show the status of every partition: a grid for each asset, or with --stale,
--missing or --failed a list of those partitions. With --check, exit with 1 when
some partition that is expected is missing, stale or failed, or that can't be
told, whatever is listed; and with 2 when there is nothing to check.

`partita status export FILE` writes the status table as Parquet.
"""
EXAMPLES = (
    "partita status",
    "partita status daily_sales --stale --where \"date >= '2025-01-01'\"",
    "partita status --check --json",
    "partita status export partition_status.parquet",
)
NOT_CURRENT = 1
_STATES = ("missing", "stale", "failed", "running", "cancelled", "unexpected", "unknown")
_LISTED = ("asset_key", "partition_key", "display_status", "epoch_us(stale_since)", "stale_reasons",
           "last_attempt_error")  # fmt: skip
_STATE = """CASE WHEN running THEN 'running' WHEN failed THEN 'failed' WHEN expected IS FALSE THEN 'unexpected'
    WHEN display_status = 'MATERIALIZED' AND staleness = 'unknown' THEN 'unknown' ELSE display_status END"""
_MARKED = ("asset_key", "partition_key", _STATE)
_JSON = {
    "asset": "asset_key", "key": "partition_key", "display_status": "display_status",
    "stale_since": "epoch_us(stale_since)", "stale_reasons": "stale_reasons", "expected": "expected",
    "running": "running", "failed": "failed", "cancelled": "cancelled",
    "last_materialization_at": "epoch_us(last_materialization_at)", "last_attempt_error": "last_attempt_error",
    "stale_reason_code": "stale_reason_code", "staleness": "staleness",
    "stale_upstream_asset": "stale_upstream_asset_key", "stale_upstream_key": "stale_upstream_partition_key",
    "stale_root_asset": "stale_root_asset_key", "stale_root_key": "stale_root_partition_key",
    "last_materialization_run_id": "last_materialization_run_id", "last_attempt_run_id": "last_attempt_run_id",
    "last_attempt_outcome": "last_attempt_outcome", "running_since": "epoch_us(running_since)",
    "running_run_id": "running_run_id",
}  # fmt: skip
"""The names of --json and what they stand for; later versions add to the end."""


def define(parser: argparse.ArgumentParser) -> None:
    """The arguments of `partita status`."""
    parser.add_argument("asset", nargs="*", metavar="ASSET", help="only this asset; or 'export FILE'")
    for state in _STATES:
        said = f"list what is {state}"
        parser.add_argument(f"--{state}", action="append_const", dest="states", const=state, help=said)
    parser.add_argument("--where", metavar="SQL", help="a predicate on the dimensions of keys")
    parser.add_argument("--now", type=str, metavar="TIME", help="as of a moment, in the past or the future")
    parser.add_argument("--transitive", action="store_true", help="what is made from something stale is stale")
    parser.add_argument("--no-observe", action="store_true", help="don't look at the tables of sources first")
    parser.add_argument("--json", action="store_true", help="one JSON object for each partition")
    parser.add_argument("--check", action="store_true", help="exit with 1 when something is not current")
    add_lake(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    words = arguments.asset
    if len(words) == 2 and words[0] == "export":
        _refuse_narrowing(arguments)
        lake = open_lake(arguments)
        rows = lake.export_status(words[1], now=_now(arguments), observe=not arguments.no_observe)
        print(f"{words[1]}: {rows:,} partitions", file=sys.stderr)  # noqa: T201 - what a command line does
        return 0
    if len(words) > 1:
        arguments.parser.error("give one asset, or 'export FILE'")
    try:
        return _show(open_lake(arguments), arguments, words[0] if words else None)
    except UnknownAsset:
        if words == ["export"]:
            arguments.parser.error("'export' needs the name of a file")
        raise


def _refuse_narrowing(arguments: argparse.Namespace) -> None:
    """An export is the whole table; what would narrow it or say more of it is refused."""
    given = [
        *(arguments.states or ()),
        *(name for name in _NOT_EXPORTED if getattr(arguments, name) not in {None, False}),
    ]
    if given:
        arguments.parser.error(f"'export FILE' writes every partition, and takes no --{given[0]}")


_NOT_EXPORTED = ("where", "transitive", "json", "check")


def _now(arguments: argparse.Namespace) -> Any:
    return None if arguments.now is None else read_moment(arguments.now)


def _show(lake: Lake, arguments: argparse.Namespace, asset: str | None) -> int:
    from partita.status.board import NOT_CURRENT as IS_WRONG
    from partita.status.board import STATES

    listed = arguments.states or []
    question = {"where": arguments.where, "now": _now(arguments), "transitive": arguments.transitive}
    with lake.ask_status(asset, observe=not arguments.no_observe, **question) as answer:
        conditions = [" OR ".join(f"({STATES[state]})" for state in listed)] if listed else []
        columns = _JSON.values() if arguments.json else _LISTED if listed else _MARKED
        rows = answer.values(tuple(columns), conditions)
        wrong = answer.count(IS_WRONG) if arguments.check else 0
        is_empty = not answer.assets or (arguments.where is not None and answer.count("true") == 0)
    if is_empty and arguments.check:
        what = "nothing is registered or recorded" if not answer.assets else "no partition matches"
        raise StatusError(f"there is nothing to check: {what} in {lake.tenant}/{lake.workspace} of {lake.uri}")
    if arguments.json:
        lines: Iterator[str] = map(_json, rows)
    elif listed:
        lines = _list(rows)
    else:
        nothing = "nothing is registered or recorded here" if not answer.assets else "no partition matches"
        lines = _grids(rows) if rows else iter([nothing])
    for line in lines:
        sys.stdout.write(f"{line}\n")
    for name, trouble in answer.troubles.items():
        _tell(f"{one_line(name)} can't be judged: {trouble}")
    if wrong and listed:
        _tell(f"{wrong:,} partitions are not current")
    return NOT_CURRENT if wrong or (arguments.check and answer.troubles) else 0


def _tell(text: str) -> None:
    print(f"partita: {text}", file=sys.stderr)  # noqa: T201 - what a command line does


def _json(row: Sequence[Any]) -> str:
    said = dict(zip(_JSON, row, strict=True))
    return json.dumps(
        {name: _moment(value) if name.endswith(("_at", "_since")) else value for name, value in said.items()},
        ensure_ascii=False,
    )


def _moment(micros: int | None) -> str | None:
    from partita.status.engine import moment

    return None if micros is None else stamp(moment(micros))


def _list(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    for asset, key, display, since, reasons, error in rows:
        why = f"  {', '.join(reasons)} since {_moment(since)}" if reasons else ""
        said = "" if error is None else f"  {error_line(error)}"
        yield f"{one_line(asset)}  {key_words(key)}  {display}{why}{said}".rstrip()


def _grids(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    by_asset: dict[str, list[Cell]] = {}
    for asset, key, state in rows:
        by_asset.setdefault(asset, []).append(Cell(key, state))
    for asset, cells in by_asset.items():
        yield from grid(one_line(asset), cells)
    yield LEGEND
