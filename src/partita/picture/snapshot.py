"""A snapshot: every partition of a workspace as of one moment, in memory, so that no page is a scan of the lake."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from partita.algebra.freshness import Freshness, MaximumLag
from partita.errors import DefinitionError, UnknownAsset
from partita.picture.layout import Layout
from partita.picture.marks import MARK_SQL, MARKS
from partita.picture.placing import place
from partita.status.board import BOARD, NOT_CURRENT, STATES
from partita.status.engine import connect, fetch, listed, make_table, moment
from partita.status.staleness import Reason

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from partita.algebra.parse import Condition
    from partita.status.definitions import Definition
    from partita.status.query import Answering

STATE_BITS = {name: 1 << number for number, name in enumerate(STATES)}
REASON_BITS = {reason.value: 1 << number for number, reason in enumerate(Reason)}
_ERROR = 300
"""How much of an error is kept in memory; a partition's own page shows all of it."""
_STATE_SUM = " + ".join(f"CASE WHEN {STATES[name]} THEN {bit} ELSE 0 END" for name, bit in STATE_BITS.items())
_REASON_SUM = " + ".join(
    f"CASE WHEN list_contains(stale_reasons, '{name}') THEN {bit} ELSE 0 END" for name, bit in REASON_BITS.items()
)
_COLUMNS = {
    "partition_key": "partition_key",
    "mark": f"({MARK_SQL})::UTINYINT",
    "states": f"({_STATE_SUM})::USMALLINT",
    "reasons": f"({_REASON_SUM})::UTINYINT",
    "wrong": f"({NOT_CURRENT})",
    "stale_since": "stale_since",
    "materialized_at": "last_materialization_at",
    "attempted_at": "last_attempt_at",
    "outcome": "last_attempt_outcome",
    "run_id": "last_attempt_run_id",
    # Of a traceback the last line, which says what went wrong: as `shown.error_line` has it, and whatever is cut.
    "error": "left(CASE WHEN starts_with(ltrim(last_attempt_error), 'Traceback (') "
    rf"THEN regexp_extract(last_attempt_error, '([^\n]*\S)\s*$', 1) ELSE last_attempt_error END, {_ERROR})",
    "running_since": "running_since",
}


@dataclass(frozen=True, slots=True)
class AssetFacts:
    """An asset as the overview shows it. `states` counts as `lake.status_counts` does, `marks` as a map does."""

    name: str
    number: int
    partitions: int
    not_current: int
    states: Mapping[str, int]
    marks: tuple[int, ...]
    layout: Layout
    dimensions: tuple[str, ...]
    upstreams: tuple[str, ...]
    table: str | None
    freshness: str | None
    code_version: str | None
    retired: bool
    registered: bool
    trouble: str | None
    last_materialized: datetime | None
    stale_since: datetime | None
    last_run: str | None
    last_run_at: datetime | None
    last_run_outcome: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The board of a workspace as of one moment; `version` is the ledger's. Any number of threads may ask it.

    `time_zone` is the lake's. `matched` keeps which partitions of an asset match a predicate.

    Its relation `partitions` has a row for each partition: `asset`, its number; `no`, its place in the asset's order;
    `x` and `y`, where it lies on the map; and what is shown of it.
    """

    as_of: datetime
    version: int
    seconds: float
    assets: Mapping[str, AssetFacts]
    connection: duckdb.DuckDBPyConnection
    time_zone: str = "UTC"
    matched: dict[tuple[str, Condition], tuple[tuple[str, str], ...]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def asset(self, name: str) -> AssetFacts:
        """The facts of an asset; one that isn't there is refused."""
        found = self.assets.get(name)
        if found is None:
            raise UnknownAsset(name, tuple(self.assets))
        return found

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query on `partitions` and `ticks`."""
        return self.connection.cursor().execute(sql, list(values)).fetchall()

    def arrays(self, sql: str, values: Sequence[Any] = ()) -> dict[str, Any]:
        """The same as columns of numpy."""
        found: dict[str, Any] = self.connection.cursor().execute(sql, list(values)).fetchnumpy()
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of an asset besides its partitions."""

    definition: Definition | None = None
    registered: bool = False
    retired: bool = False
    trouble: str | None = None


class Asked(Protocol):
    """What answers questions about status: a lake."""

    time_zone: str

    def ask_status(self, asset: None = None, /, **question: Any) -> Answering:
        """The relations that status is answered from."""


def take_snapshot(lake: Asked, now: datetime | None = None) -> Snapshot:
    """Ask the lake for everything, as of now, and keep it."""
    begun = time.perf_counter()
    with lake.ask_status(now=now) as answer:
        _leave_room(answer.connection)
        board = fetch(answer.connection, _board_sql(BOARD))
        known = {
            name: _Known(
                _definition(answer, name),
                name in answer.catalog.timelines,
                name in answer.catalog.retired,
                answer.troubles.get(name),
            )
            for name in answer.assets
        }
    return replace(_made(board, known, answer.now, answer.files.version, begun), time_zone=lake.time_zone)


def snapshot_of(rows: pa.Table, now: datetime | None = None) -> Snapshot:
    """The snapshot of an answer of `lake.status`; which has no definitions, so time is what looks like it in keys."""
    begun = time.perf_counter()
    with connect() as connection:
        connection.register("answered", rows)
        board = fetch(connection, _board_sql("answered"))
    known = {name: _Known() for name in sorted(set(rows["asset_key"].to_pylist()))}
    return _made(board, known, datetime.now(UTC) if now is None else now, -1, begun)


def snapshot_of_marks(rows: pa.Table, as_of: datetime) -> Snapshot:
    """The snapshot of partitions that are shown for something else than their status.

    The rows have `asset_key`, `partition_key`, and `mark`, the number of what they are drawn as.
    """
    begun = time.perf_counter()
    given = {"partition_key": "partition_key", "mark": "mark::UTINYINT", "wrong": "false"}
    numbers = {"states": "0::USMALLINT", "reasons": "0::UTINYINT"}
    texts = dict.fromkeys(("outcome", "run_id", "error"), "NULL::VARCHAR")
    said = {**given, **numbers, **texts}
    columns = ", ".join(f"{said.get(name, 'NULL::TIMESTAMPTZ')} AS {name}" for name in _COLUMNS)
    with connect() as connection:
        connection.register("marked", rows)
        board = fetch(connection, f"SELECT asset_key, {columns} FROM marked")  # noqa: S608 - our own names
    known = {name: _Known() for name in dict.fromkeys(rows["asset_key"].to_pylist())}
    return _made(board, known, as_of, -1, begun)


def _board_sql(relation: str) -> str:
    columns = ", ".join(f"{sql} AS {name}" for name, sql in _COLUMNS.items())
    return f"SELECT asset_key, {columns} FROM {relation}"  # noqa: S608 - our own names


def _made(board: pa.Table, known: Mapping[str, _Known], as_of: datetime, version: int, begun: float) -> Snapshot:
    connection = connect()
    _leave_room(connection)
    _load(connection, list(known), board)
    layouts = [place(connection, at, one.definition) for at, one in enumerate(known.values())]
    connection.execute("DROP VIEW own; DROP TABLE loaded" if known else "DROP TABLE loaded")
    counted = _counted(connection)
    assets = {
        name: _facts(name, at, counted.get(at, _NOTHING), layouts[at], one)
        for at, (name, one) in enumerate(known.items())
    }
    connection.execute("RESET threads")
    return Snapshot(as_of, version, time.perf_counter() - begun, assets, connection)


def _leave_room(connection: duckdb.DuckDBPyConnection) -> None:
    """Use half of the machine: the other half answers while a snapshot is taken."""
    connection.execute(f"SET threads = {max(1, (os.cpu_count() or 2) // 2):d}")


def _definition(answer: Answering, name: str) -> Definition | None:
    try:
        return answer.catalog.definition(name)
    except DefinitionError:
        return None


def _load(connection: duckdb.DuckDBPyConnection, assets: Sequence[str], board: Any) -> None:
    """Make `loaded`, the board with assets as numbers, and `partitions` and `ticks` without rows."""
    make_table(connection, "assets", {"asset": "UINTEGER", "asset_key": "VARCHAR"}, enumerate(assets))
    connection.register("board_rows", board)
    # Not temporary: cursors share a database, and not what is temporary in it.
    connection.execute("""
        CREATE TABLE loaded AS
        SELECT asset, row_number() OVER (PARTITION BY asset ORDER BY partition_key) AS no, b.* EXCLUDE (asset_key)
        FROM board_rows AS b JOIN assets USING (asset_key)
    """)
    connection.unregister("board_rows")
    connection.execute(
        "CREATE TABLE partitions AS SELECT *, NULL::VARCHAR AS moment, NULL::INTEGER AS x, NULL::INTEGER AS y "
        "FROM loaded LIMIT 0"
    )
    connection.execute("CREATE TABLE ticks (asset UINTEGER, axis VARCHAR, place INTEGER, value VARCHAR)")


_NOTHING = (0, 0, None, None, None, None, None, *[0] * (len(STATES) + len(MARKS)))


def _counted(connection: duckdb.DuckDBPyConnection) -> dict[int, tuple[Any, ...]]:
    """What is counted of each asset's partitions, by its number."""
    states = ", ".join(f"count(*) FILTER (WHERE states & {bit} <> 0)" for bit in STATE_BITS.values())
    marks = ", ".join(f"count(*) FILTER (WHERE mark = {number})" for number in range(len(MARKS)))
    rows = listed(
        connection,
        "SELECT asset, count(*), count(*) FILTER (WHERE wrong), epoch_us(max(materialized_at)), "  # noqa: S608
        "epoch_us(min(stale_since)), arg_max(run_id, attempted_at), epoch_us(max(attempted_at)), "
        f"arg_max(outcome, attempted_at), {states}, {marks} FROM partitions GROUP BY asset",
    )
    return {row[0]: row[1:] for row in rows}


def _facts(name: str, number: int, row: tuple[Any, ...], layout: Layout, known: _Known) -> AssetFacts:
    definition = known.definition
    partitions, wrong, materialized, stale, run, run_at, outcome, *counts = row
    return AssetFacts(
        name=name,
        number=number,
        partitions=partitions,
        not_current=wrong,
        states=dict(zip(STATES, counts[: len(STATES)], strict=True)),
        marks=tuple(counts[len(STATES) :]),
        layout=layout,
        dimensions=() if definition is None else definition.partitions.names,
        upstreams=() if definition is None else tuple(u.asset for u in definition.upstreams),
        table=None if definition is None else definition.table,
        freshness=None if definition is None else _policy(definition.freshness),
        code_version=None if definition is None else definition.code_version,
        retired=known.retired,
        registered=known.registered,
        trouble=known.trouble,
        last_materialized=None if materialized is None else moment(materialized),
        stale_since=None if stale is None else moment(stale),
        last_run=run,
        last_run_at=None if run_at is None else moment(run_at),
        last_run_outcome=outcome,
    )


def _policy(freshness: Freshness | None) -> str | None:
    if freshness is None:
        return None
    if isinstance(freshness, MaximumLag):
        return f"every {_span(freshness.lag)}"
    lag = "" if freshness.lag is None else f", at most {_span(freshness.lag)} before"
    return f"by cron {freshness.cron.text} ({freshness.cron.time_zone}){lag}"


def _span(lag: timedelta) -> str:
    """A time span in words: `1 d 2 h`."""
    days, rest = divmod(lag, timedelta(days=1))
    hours, rest = divmod(rest, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest.total_seconds(), "s"))
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount)
