"""`partita status`: print the status of partitions as a grid, a list or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from partita.cli.key_argument import key_argument, parse_timestamp
from partita.cli.lake_option import add_lake_options, open_lake
from partita.cli.output import print_line, print_stderr
from partita.cli.status_grid import GridCell, grid_lines
from partita.errors import StatusError, UnknownAsset
from partita.status.duckdb_sql import Sql, any_of
from partita.status.states import COMMON_STATE_FILTERS, MARK_LEGEND, MARK_SQL, NOT_CURRENT_SQL, STATE_FILTERS
from partita.status.text import error_line, one_line, timestamp_text

if TYPE_CHECKING:
    from partita.lake import Lake

DESCRIPTION = """
Show the status of every partition as a grid per asset, or list the partitions
in certain states with --stale, --missing, --failed and so on. With --check the
exit code is 1 if an expected partition is not current or its status is unknown,
whatever is listed, and 2 if there is nothing to check.

`partita status export FILE` writes the status table as a Parquet file.
"""
EXAMPLES = (
    "partita status",
    "partita status daily_sales --stale --where \"date >= '2025-01-01'\"",
    "partita status --check --json",
    "partita status export partition_status.parquet",
)
EXIT_NOT_CURRENT = 1
_STATE_OPTIONS = tuple(state for state in COMMON_STATE_FILTERS if state != "current")
_LIST_COLUMNS = ("asset_key", "partition_key", "display_status", "epoch_us(stale_since)", "stale_reasons",
           "last_attempt_error")  # fmt: skip
_GRID_COLUMNS = ("asset_key", "partition_key", MARK_SQL)
_JSON_COLUMNS = {
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
"""The names of --json and their expressions over the status view; later versions add names at the end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `partita status`."""
    parser.add_argument("asset", nargs="*", metavar="ASSET", help="show only this asset; or 'export FILE'")
    for state in _STATE_OPTIONS:
        summary = f"list partitions that are {state}"
        parser.add_argument(f"--{state}", action="append_const", dest="states", const=state, help=summary)
    parser.add_argument("--where", metavar="SQL", help="predicate on the dimensions of the keys")
    parser.add_argument("--now", type=str, metavar="TIME", help="show the status at this time instead of now")
    parser.add_argument(
        "--transitive", action="store_true", help="count partitions with a stale upstream partition as stale"
    )
    parser.add_argument("--no-observe", action="store_true", help="do not read the logs of source tables first")
    parser.add_argument("--json", action="store_true", help="print one JSON object per partition")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a partition is not current")
    add_lake_options(parser)
    parser.set_defaults(run=_run, parser=parser)


def _run(arguments: argparse.Namespace) -> int:
    words = arguments.asset
    if len(words) == 2 and words[0] == "export":
        _refuse_filters(arguments)
        lake = open_lake(arguments)
        row_count = lake.export_status(words[1], now=_requested_time(arguments), observe=not arguments.no_observe)
        print_stderr(f"{words[1]}: {row_count:,} partitions")
        return 0
    if len(words) > 1:
        arguments.parser.error("give one asset, or 'export FILE'")
    try:
        return _print_status(open_lake(arguments), arguments, words[0] if words else None)
    except UnknownAsset:
        if words == ["export"]:
            arguments.parser.error("'export' needs the name of a file")
        raise


def _refuse_filters(arguments: argparse.Namespace) -> None:
    """Report a usage error for an argument that does not apply to the export of the whole status table."""
    names = [
        *(arguments.states or ()),
        *(name for name in _EXPORT_CONFLICTS if getattr(arguments, name) not in {None, False}),
    ]
    if names:
        arguments.parser.error(f"'export FILE' writes every partition, so it does not take --{names[0]}")


_EXPORT_CONFLICTS = ("where", "transitive", "json", "check")


def _requested_time(arguments: argparse.Namespace) -> datetime | None:
    return None if arguments.now is None else parse_timestamp(arguments.now)


def _print_status(lake: Lake, arguments: argparse.Namespace, asset: str | None) -> int:
    states = arguments.states or []
    query = {"where": arguments.where, "now": _requested_time(arguments), "transitive": arguments.transitive}
    with lake.open_status_reader(asset, observe=not arguments.no_observe, **query) as reader:
        conditions = [any_of(STATE_FILTERS[state] for state in states)] if states else []
        columns = _JSON_COLUMNS.values() if arguments.json else _LIST_COLUMNS if states else _GRID_COLUMNS
        rows = reader.row_values(tuple(columns), conditions)
        not_current_count = reader.count_rows(NOT_CURRENT_SQL) if arguments.check else 0
        is_empty = not reader.assets or (arguments.where is not None and reader.count_rows(Sql("true")) == 0)
    if is_empty and arguments.check:
        reason = "no partition matches" if reader.assets else "no asset is registered or recorded"
        raise StatusError(f"there is nothing to check: {reason} in {lake.tenant}/{lake.workspace} of {lake.uri}")
    if arguments.json:
        lines: Iterator[str] = map(_json_line, rows)
    elif states:
        lines = _list_lines(rows)
    elif rows:
        lines = _asset_grids(rows)
    else:
        lines = iter(["no partition matches" if reader.assets else "no asset is registered or recorded here"])
    for line in lines:
        print_line(line)
    for name, problem in reader.problems.items():
        print_stderr(f"partita: the status of {one_line(name)} is unknown: {problem}")
    if not_current_count and states:
        print_stderr(f"partita: {not_current_count:,} partitions are not current")
    return EXIT_NOT_CURRENT if not_current_count or (arguments.check and reader.problems) else 0


def _json_line(row: Sequence[Any]) -> str:
    values = dict(zip(_JSON_COLUMNS, row, strict=True))
    return json.dumps(
        {name: _timestamp_text(value) if name.endswith(("_at", "_since")) else value for name, value in values.items()},
        ensure_ascii=False,
    )


def _timestamp_text(micros: int | None) -> str | None:
    from partita.status.duckdb_engine import timestamp_from_micros

    return None if micros is None else timestamp_text(timestamp_from_micros(micros))


def _list_lines(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    for asset, key, display, since, reasons, error in rows:
        reason_text = f"  {', '.join(reasons)} since {_timestamp_text(since)}" if reasons else ""
        error_text = "" if error is None else f"  {error_line(error)}"
        yield f"{one_line(asset)}  {key_argument(key)}  {display}{reason_text}{error_text}".rstrip()


def _asset_grids(rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    by_asset: dict[str, list[GridCell]] = {}
    for asset, key, mark in rows:
        by_asset.setdefault(asset, []).append(GridCell(key, mark))
    for asset, cells in by_asset.items():
        yield from grid_lines(one_line(asset), cells)
    yield MARK_LEGEND
