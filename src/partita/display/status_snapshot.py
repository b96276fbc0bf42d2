"""A snapshot: every partition of a workspace as of one moment, in memory, so that no page scans the lake."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from partita.algebra.freshness import FreshnessPolicy, MaximumLag
from partita.display.coordinates import ASSET_PARTITIONS, LOADED_PARTITIONS, PARTITIONS, TICKS, assign_coordinates
from partita.display.layout import Layout
from partita.errors import DefinitionError, UnknownAsset
from partita.status.duckdb_engine import (
    create_temp_table,
    fetch_arrow,
    fetch_rows,
    open_connection,
    timestamp_from_micros,
)
from partita.status.duckdb_sql import Sql, comma_separated, name, sql
from partita.status.relations import STATUS_VIEW
from partita.status.states import MARK_SQL, MARKS, NOT_CURRENT_SQL, STATE_FILTERS, StaleReason

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from partita.algebra.predicate import UnboundPredicate
    from partita.status.definitions import AssetDefinition
    from partita.status.queries import StatusReader

STATE_BITS = {state: 1 << number for number, state in enumerate(STATE_FILTERS)}
REASON_BITS = {reason.value: 1 << number for number, reason in enumerate(StaleReason)}
_MAX_ERROR_LENGTH = 300
"""How much of an error is kept in memory; the page of a partition shows all of it."""
_COLUMN_SQL = {
    "partition_key": Sql("partition_key"),
    "mark": sql("({mark})::UTINYINT", mark=MARK_SQL),
    "states": sql("({bits})::USMALLINT", bits=Sql(" + ".join(
        sql("CASE WHEN {condition} THEN {bit} ELSE 0 END", condition=STATE_FILTERS[state], bit=bit)
        for state, bit in STATE_BITS.items()
    ))),
    "reasons": sql("({bits})::UTINYINT", bits=Sql(" + ".join(
        sql("CASE WHEN list_contains(stale_reasons, {reason}) THEN {bit} ELSE 0 END", reason=reason, bit=bit)
        for reason, bit in REASON_BITS.items()
    ))),
    "wrong": sql("({condition})", condition=NOT_CURRENT_SQL),
    "stale_since": Sql("stale_since"),
    "materialized_at": Sql("last_materialization_at"),
    "attempted_at": Sql("last_attempt_at"),
    "outcome": Sql("last_attempt_outcome"),
    "run_id": Sql("last_attempt_run_id"),
    # The last line of a traceback, which says what went wrong, as `error_line` does; whatever is cut.
    "error": sql(
        r"""left(CASE WHEN starts_with(ltrim(last_attempt_error), 'Traceback (')
            THEN regexp_extract(last_attempt_error, '([^\n]*\S)\s*$', 1) ELSE last_attempt_error END, {max_length})""",
        max_length=_MAX_ERROR_LENGTH,
    ),
    "running_since": Sql("running_since"),
}  # fmt: skip
"""The columns of a snapshot, over the status view."""


@dataclass(frozen=True, slots=True)
class AssetSummary:
    """An asset as the overview shows it.

    `state_counts` counts by state filter, as `lake.status_counts` does; `mark_counts` by mark, each partition once.
    """

    name: str
    asset_number: int
    partition_count: int
    not_current_count: int
    state_counts: Mapping[str, int]
    mark_counts: tuple[int, ...]
    layout: Layout
    dimensions: tuple[str, ...]
    upstreams: tuple[str, ...]
    table: str | None
    freshness: str | None
    code_version: str | None
    is_retired: bool
    is_registered: bool
    problem: str | None
    last_materialized: datetime | None
    stale_since: datetime | None
    last_run: str | None
    last_run_at: datetime | None
    last_run_outcome: str | None


@dataclass(frozen=True, slots=True, eq=False)
class StatusSnapshot:
    """The status of a workspace as of one moment. Any number of threads may query it.

    `time_zone` is the lake's. `predicate_matches` caches which partitions of an asset match a predicate.

    Its relation `PARTITIONS` has a row for each partition: the number of its asset; `no`, its position in the asset's
    order; its coordinates `x` and `y`; and the columns that pages show. `TICKS` has the values along axes.
    """

    as_of: datetime
    ledger_version: int
    build_seconds: float
    assets: Mapping[str, AssetSummary]
    connection: duckdb.DuckDBPyConnection
    time_zone: str = "UTC"
    predicate_matches: dict[tuple[str, UnboundPredicate], tuple[tuple[str, Sql], ...]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def asset(self, name: str) -> AssetSummary:
        """Return the summary of an asset; raise `UnknownAsset` where the snapshot doesn't have it."""
        summary = self.assets.get(name)
        if summary is None:
            raise UnknownAsset(name, tuple(self.assets))
        return summary

    def fetch_rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query as Python values."""
        return self.connection.cursor().execute(query).fetchall()

    def fetch_arrays(self, query: str) -> dict[str, Any]:
        """Return the columns of a query as numpy arrays."""
        arrays: dict[str, Any] = self.connection.cursor().execute(query).fetchnumpy()
        return arrays

    def fetch_columns(self, query: str) -> list[pa.Array]:
        """Return the columns of a query as Arrow arrays."""
        return [column.combine_chunks() for column in self.connection.cursor().sql(query).to_arrow_table().columns]


@dataclass(frozen=True, slots=True)
class _AssetInfo:
    """An asset's definition and problem."""

    definition: AssetDefinition | None = None
    is_registered: bool = False
    is_retired: bool = False
    problem: str | None = None


class StatusSource(Protocol):
    """An object that opens status readers: a lake."""

    time_zone: str

    def open_status_reader(self, asset: None = None, /, **query: Any) -> StatusReader:
        """Open a reader of what a query selects."""


def take_snapshot(lake: StatusSource, now: datetime | None = None) -> StatusSnapshot:
    """Take a snapshot of all partitions of a lake's workspace, as of `now`."""
    start_time = time.perf_counter()
    with lake.open_status_reader(now=now) as reader:
        _limit_threads(reader.connection)
        rows = fetch_arrow(reader.connection, _select_sql(STATUS_VIEW, _COLUMN_SQL))
        assets = {
            asset: _AssetInfo(
                _readable_definition(reader, asset),
                asset in reader.catalog.histories,
                asset in reader.catalog.retired_assets,
                reader.problems.get(asset),
            )
            for asset in reader.assets
        }
    snapshot = _build_snapshot(rows, assets, reader.now, reader.ledger_files.version, start_time)
    return replace(snapshot, time_zone=lake.time_zone)


def snapshot_from_status(rows: pa.Table, now: datetime | None = None) -> StatusSnapshot:
    """Make a snapshot of rows of `lake.status`; they have no definitions, so time is what looks like it in keys."""
    start_time = time.perf_counter()
    snapshot_rows = _select_columns(rows, _COLUMN_SQL)
    assets = {asset: _AssetInfo() for asset in sorted(set(rows["asset_key"].to_pylist()))}
    return _build_snapshot(snapshot_rows, assets, datetime.now(UTC) if now is None else now, -1, start_time)


def snapshot_from_marks(rows: pa.Table, as_of: datetime) -> StatusSnapshot:
    """Make a snapshot of partitions that aren't drawn by their status, as those of a table or of a plan.

    The rows have `asset_key`, `partition_key`, and `mark`, the number of the mark that they are drawn with.
    """
    start_time = time.perf_counter()
    columns = dict.fromkeys(_COLUMN_SQL, Sql("NULL::TIMESTAMPTZ"))
    columns |= dict.fromkeys(("outcome", "run_id", "error"), Sql("NULL::VARCHAR"))
    columns |= {"partition_key": Sql("partition_key"), "mark": Sql("mark::UTINYINT"), "wrong": Sql("false")}
    columns |= {"states": Sql("0::USMALLINT"), "reasons": Sql("0::UTINYINT")}
    assets = {asset: _AssetInfo() for asset in dict.fromkeys(rows["asset_key"].to_pylist())}
    return _build_snapshot(_select_columns(rows, columns), assets, as_of, -1, start_time)


def _select_columns(rows: pa.Table, columns: Mapping[str, Sql]) -> pa.Table:
    """Return the columns of a snapshot from an Arrow table."""
    with open_connection() as connection:
        connection.register("given_rows", rows)
        return fetch_arrow(connection, _select_sql(Sql("given_rows"), columns))


def _select_sql(relation: Sql, columns: Mapping[str, Sql]) -> Sql:
    select_list = comma_separated(
        sql("{value} AS {column}", value=value, column=name(column)) for column, value in columns.items()
    )
    return sql("SELECT asset_key, {columns} FROM {relation}", columns=select_list, relation=relation)


def _build_snapshot(
    rows: pa.Table, asset_infos: Mapping[str, _AssetInfo], as_of: datetime, version: int, start_time: float
) -> StatusSnapshot:
    connection = open_connection()
    _limit_threads(connection)
    _create_relations(connection, list(asset_infos), rows)
    layouts = [assign_coordinates(connection, i, info.definition) for i, info in enumerate(asset_infos.values())]
    connection.execute(sql("DROP VIEW IF EXISTS {view}", view=ASSET_PARTITIONS))
    connection.execute(sql("DROP TABLE {table}", table=LOADED_PARTITIONS))
    counts = _asset_counts(connection)
    summaries = {
        asset: _asset_summary(asset, i, counts.get(i, _EMPTY_COUNTS), layouts[i], info)
        for i, (asset, info) in enumerate(asset_infos.items())
    }
    connection.execute("RESET threads")
    return StatusSnapshot(as_of, version, time.perf_counter() - start_time, summaries, connection)


def _limit_threads(connection: duckdb.DuckDBPyConnection) -> None:
    """Use half of the cores: the other half answers requests while a snapshot is taken."""
    connection.execute(sql("SET threads = {count}", count=max(1, (os.cpu_count() or 2) // 2)))


def _readable_definition(reader: StatusReader, name: str) -> AssetDefinition | None:
    try:
        return reader.catalog.definition(name)
    except DefinitionError:
        return None


def _create_relations(connection: duckdb.DuckDBPyConnection, assets: Sequence[str], rows: pa.Table) -> None:
    """Create `LOADED_PARTITIONS`, the rows with assets as numbers, and `PARTITIONS` and `TICKS` without rows."""
    assets_table, given_rows = Sql("assets"), Sql("given_rows")
    create_temp_table(connection, assets_table, {"asset": "UINTEGER", "asset_key": "VARCHAR"}, enumerate(assets))
    connection.register(given_rows, rows)
    # Not temporary: cursors share the tables of a database, but not its temporary ones.
    connection.execute(
        sql(
            """
            CREATE TABLE {loaded} AS
            SELECT asset, row_number() OVER (PARTITION BY asset ORDER BY partition_key) AS no, g.* EXCLUDE (asset_key)
            FROM {rows} AS g JOIN {assets} USING (asset_key)
            """,
            loaded=LOADED_PARTITIONS,
            rows=given_rows,
            assets=assets_table,
        )
    )
    connection.unregister(given_rows)
    connection.execute(
        sql(
            """
            CREATE TABLE {partitions} AS
            SELECT *, NULL::VARCHAR AS moment, NULL::INTEGER AS x, NULL::INTEGER AS y FROM {loaded} LIMIT 0
            """,
            partitions=PARTITIONS,
            loaded=LOADED_PARTITIONS,
        )
    )
    columns = Sql("asset UINTEGER, axis VARCHAR, coordinate INTEGER, value VARCHAR")
    connection.execute(sql("CREATE TABLE {ticks} ({columns})", ticks=TICKS, columns=columns))


_EMPTY_COUNTS = (0, 0, None, None, None, None, None, *[0] * (len(STATE_FILTERS) + len(MARKS)))


def _asset_counts(connection: duckdb.DuckDBPyConnection) -> dict[int, tuple[Any, ...]]:
    """Return the counts and last times of each asset's partitions, by the asset's number."""
    states = [sql("count(*) FILTER (WHERE states & {bit} <> 0)", bit=bit) for bit in STATE_BITS.values()]
    marks = [sql("count(*) FILTER (WHERE mark = {number})", number=number) for number in range(len(MARKS))]
    rows = fetch_rows(
        connection,
        sql(
            """
            SELECT asset, count(*), count(*) FILTER (WHERE wrong), epoch_us(max(materialized_at)),
                   epoch_us(min(stale_since)), arg_max(run_id, attempted_at), epoch_us(max(attempted_at)),
                   arg_max(outcome, attempted_at), {counts} FROM {partitions} GROUP BY asset
            """,
            counts=comma_separated([*states, *marks]),
            partitions=PARTITIONS,
        ),
    )
    return {row[0]: row[1:] for row in rows}


def _asset_summary(name: str, number: int, row: tuple[Any, ...], layout: Layout, info: _AssetInfo) -> AssetSummary:
    definition = info.definition
    partition_count, not_current_count, materialized_micros, stale_micros, run, run_micros, outcome, *counts = row
    return AssetSummary(
        name=name,
        asset_number=number,
        partition_count=partition_count,
        not_current_count=not_current_count,
        state_counts=dict(zip(STATE_FILTERS, counts[: len(STATE_FILTERS)], strict=True)),
        mark_counts=tuple(counts[len(STATE_FILTERS) :]),
        layout=layout,
        dimensions=() if definition is None else definition.partitions.names,
        upstreams=() if definition is None else tuple(u.asset for u in definition.upstreams),
        table=None if definition is None else definition.table,
        freshness=None if definition is None else _freshness_text(definition.freshness),
        code_version=None if definition is None else definition.code_version,
        is_retired=info.is_retired,
        is_registered=info.is_registered,
        problem=info.problem,
        last_materialized=None if materialized_micros is None else timestamp_from_micros(materialized_micros),
        stale_since=None if stale_micros is None else timestamp_from_micros(stale_micros),
        last_run=run,
        last_run_at=None if run_micros is None else timestamp_from_micros(run_micros),
        last_run_outcome=outcome,
    )


def _freshness_text(freshness: FreshnessPolicy | None) -> str | None:
    if freshness is None:
        return None
    if isinstance(freshness, MaximumLag):
        return f"every {_duration_text(freshness.lag)}"
    lag = "" if freshness.lag is None else f", at most {_duration_text(freshness.lag)} before"
    return f"by cron {freshness.cron.text} ({freshness.cron.time_zone}){lag}"


def _duration_text(lag: timedelta) -> str:
    """Return a duration in words: `1 d 2 h`."""
    days, rest = divmod(lag, timedelta(days=1))
    hours, rest = divmod(rest, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest.total_seconds(), "s"))
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount)
