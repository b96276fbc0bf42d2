"""Fold events into status rows, in DuckDB.

One event alone is already a status row: that of a history with a single event (`event_columns_sql`). The rows of one
partition merge into one by taking each column group from the row that is first or last in the group's order. Taking the
greatest is commutative, associative and idempotent, and therefore the fold is too: any split of a history, folded apart
and merged, gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.errors import StatusError
from partita.status.duckdb_engine import create_table, fetch_arrow, open_connection
from partita.status.duckdb_sql import Sql, comma_separated, name, names, sql
from partita.status.events import FINISHED_KINDS, PARTITION_EVENT_KINDS, EventKind
from partita.status.relations import NUMBERED_ROWS
from partita.status.schema import (
    COLUMN_GROUPS,
    FIRST_MATERIALIZATION,
    KEY_COLUMNS,
    LAST_ATTEMPT,
    LAST_MATERIALIZATION,
    LAST_START,
    LAST_WIPE,
    SWEEP_COLUMNS,
    ColumnGroup,
    status_column_names,
    status_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa


def fold_events(events: pa.Table) -> pa.Table:
    """Fold an Arrow table of events into status rows; events of other kinds than a partition's are ignored."""
    _check_arrow_table(events)
    with open_connection() as connection:
        connection.register("events", events)
        create_table(connection, NUMBERED_ROWS, number_rows_sql(Sql("FROM events")))
        return fetch_arrow(connection, fold_sql(NUMBERED_ROWS), status_schema())


def merge_status_rows(*rows: pa.Table) -> pa.Table:
    """Merge the status rows of several histories into those of all of them together.

    What a sweep stored stays with the materialization whose staleness it is.
    """
    if not rows:
        return status_schema().empty_table()
    for table in rows:
        _check_arrow_table(table)
    with open_connection() as connection:
        for i, table in enumerate(rows):
            connection.register(f"rows_{i}", table)
        all_rows = Sql(" UNION ALL BY NAME ".join(f"FROM rows_{i}" for i in range(len(rows))))
        create_table(connection, NUMBERED_ROWS, number_rows_sql(all_rows))
        return fetch_arrow(connection, merge_sql(NUMBERED_ROWS), status_schema())


def _check_arrow_table(table: pa.Table) -> None:
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        raise StatusError(f"events and status rows are Arrow tables, not {type(table).__name__}")


def number_rows_sql(select: Sql) -> Sql:
    """Return a select with a column `position` that numbers its rows.

    Create a table from it: DuckDB may number the rows differently each time it evaluates the select.
    """
    return sql("SELECT *, row_number() OVER () AS position FROM ({select})", select=select)


def fold_sql(events: Sql) -> Sql:
    """Return the select that folds a relation of events; its column `position` numbers the rows."""
    rows = sql(
        "(SELECT {columns} FROM {events} WHERE kind IN ({kinds}))",
        columns=event_columns_sql(),
        events=events,
        kinds=PARTITION_EVENT_KINDS,
    )
    return merge_sql(rows, sweep_columns=())


@dataclass(frozen=True, slots=True)
class ColumnGroupSource:
    """Which events fill a column group, and with which values; SQL that both DuckDB and Spark understand."""

    column_group: ColumnGroup
    condition: Sql
    value_expressions: tuple[str, ...]


_FINISHED_SQL = sql("kind IN ({kinds})", kinds=FINISHED_KINDS)
_SUCCEEDED_SQL = sql("kind = {kind}", kind=EventKind.SUCCEEDED)
_STARTED_SQL = sql(
    "(kind = {kind} OR ({finished} AND started_at IS NOT NULL))", kind=EventKind.STARTED, finished=_FINISHED_SQL
)
_WIPED_SQL = sql("kind = {kind}", kind=EventKind.WIPED)
_OUTPUT_COLUMNS = ("code_version", "rows", "files", "bytes", "table_version")
COLUMN_GROUP_SOURCES = (
    ColumnGroupSource(
        LAST_MATERIALIZATION,
        _SUCCEEDED_SQL,
        ("occurred_at", "event_id", "run_id", "attempt", *_OUTPUT_COLUMNS, "started_at"),
    ),
    ColumnGroupSource(
        LAST_ATTEMPT,
        _FINISHED_SQL,
        ("occurred_at", "event_id", "run_id", "attempt", "upper(kind)", "error", "started_at"),
    ),
    ColumnGroupSource(
        LAST_START, _STARTED_SQL, ("coalesce(started_at, occurred_at)", _FINISHED_SQL, "event_id", "run_id", "attempt")
    ),
    ColumnGroupSource(FIRST_MATERIALIZATION, _SUCCEEDED_SQL, ("occurred_at",)),
    ColumnGroupSource(LAST_WIPE, _WIPED_SQL, ("occurred_at", "event_id")),
)


def event_columns_sql() -> Sql:
    """Return the select list that turns an event into a status row."""
    values = [
        sql(
            "CASE WHEN {condition} THEN {value} END AS {column}",
            condition=source.condition,
            value=Sql(value),
            column=name(column),
        )
        for source in COLUMN_GROUP_SOURCES
        for column, value in zip(source.column_group.columns, source.value_expressions, strict=True)
    ]
    return comma_separated([names(KEY_COLUMNS), Sql("position"), Sql("event_id AS row_version"), *values])


def merge_sql(rows: Sql, sweep_columns: tuple[str, ...] = SWEEP_COLUMNS) -> Sql:
    """Return the select that merges a relation of status rows by column groups; its column `position` numbers the rows.

    `sweep_columns` go with the last materialization; rows of events don't have them.
    """
    # DuckDB is quick at finding the position of the greatest row, and slow at carrying that row's columns along.
    carrying_groups = [group for group in COLUMN_GROUPS if group.carried_columns]
    plain_groups = [group for group in COLUMN_GROUPS if not group.carried_columns]
    positions = [
        sql(
            "{position} AS {group}",
            # Of two rows with the same materialization, the one with the newer sweep.
            position=_latest_position_sql(group, bool(sweep_columns) and group is LAST_MATERIALIZATION),
            group=name(group.name),
        )
        for group in carrying_groups
    ]
    extremes = [sql("{value} AS {group}", value=_extreme_sql(group), group=name(group.name)) for group in plain_groups]
    columns = ("position", *(column for group in carrying_groups for column in group.columns), *sweep_columns)
    joins = [
        sql("LEFT JOIN source_rows AS {group} ON {group}.position = positions.{group}", group=name(group.name))
        for group in carrying_groups
    ]
    return sql(
        """
        WITH positions AS MATERIALIZED (
            SELECT {keys}, max(row_version) AS row_version, {aggregates} FROM {rows} GROUP BY ALL
        ), source_rows AS MATERIALIZED (
            SELECT {columns} FROM {rows} WHERE position IN (SELECT unnest([{groups}]) FROM positions)
        )
        SELECT {select_list} FROM positions {joins}
        """,
        keys=names(KEY_COLUMNS),
        aggregates=comma_separated([*positions, *extremes]),
        rows=rows,
        columns=names(columns),
        groups=names(group.name for group in carrying_groups),
        select_list=_select_list(sweep_columns),
        joins=Sql(" ".join(joins)),
    )


def _latest_position_sql(group: ColumnGroup, prefers_newer_sweep: bool) -> Sql:
    order = list(map(name, group.order_columns))
    if prefers_newer_sweep:
        order.append(Sql("coalesce(swept_at, make_timestamptz(0))"))
    return sql(
        "arg_max(position, ({order})) FILTER (WHERE {first} IS NOT NULL)", order=comma_separated(order), first=order[0]
    )


def _extreme_sql(group: ColumnGroup) -> Sql:
    order = names(group.order_columns)
    return sql(
        "{function}({value}) FILTER (WHERE {first} IS NOT NULL)",
        function=Sql("min" if group.is_earliest else "max"),
        value=order if len(group.order_columns) == 1 else sql("row({order})", order=order),
        first=name(group.order_columns[0]),
    )


def _select_list(sweep_columns: tuple[str, ...]) -> Sql:
    """Return the columns of the status schema, taken from the positions and the source rows that they point to."""
    is_wiped = sql(
        "(positions.{wipe} IS NOT NULL AND ({order}) < positions.{wipe})",
        wipe=name(LAST_WIPE.name),
        order=names(LAST_MATERIALIZATION.order_columns, relation=LAST_MATERIALIZATION.name),
    )
    expressions = {column: name(column, relation="positions") for column in (*KEY_COLUMNS, "row_version")}
    expressions["partition_values"] = partition_values_sql(Sql("positions.partition_key"))
    for group in COLUMN_GROUPS:
        for i, column in enumerate(group.columns, 1):
            part = f"[{i}]" if len(group.columns) > 1 else ""
            whole = Sql(f"{name(group.name, relation='positions')}{part}")
            expressions[column] = name(column, relation=group.name) if group.carried_columns else whole
    for column in (*LAST_MATERIALIZATION.columns, *sweep_columns):
        # A wiped materialization is gone; the wipe itself stays, so that no late event brings it back.
        expressions[column] = sql(
            "CASE WHEN NOT {wiped} THEN {value} END",
            wiped=is_wiped,
            value=name(column, relation=LAST_MATERIALIZATION.name),
        )
    nulls = {
        "stale_since": Sql("NULL::TIMESTAMPTZ"),
        "stale_reason_code": Sql("NULL::VARCHAR"),
        "stale_reasons": Sql("NULL::VARCHAR[]"),
        "swept_at": Sql("NULL::TIMESTAMPTZ"),
    }
    return comma_separated(
        sql("{value} AS {column}", value=(nulls | expressions)[column], column=name(column))
        for column in status_column_names()
    )


def partition_values_sql(key: Sql) -> Sql:
    """Return the dimensions of a canonical key and the texts of their values, as a map."""
    value = Sql("x[strpos(x, '=') + 3:]")
    base64_text = sql("replace(replace({value}, '-', '+'), '_', '/')", value=value)
    padded_base64 = sql("{encoded} || repeat('=', (4 - length({value}) % 4) % 4)", encoded=base64_text, value=value)
    return sql(
        """map_from_entries(CASE WHEN {key} = '' THEN [] ELSE list_transform(string_split({key}, ','), lambda x:
            struct_pack(key := x[:strpos(x, '=') - 1], value := CASE x[strpos(x, '=') + 1]
                WHEN 's' THEN decode(from_base64({padded})) WHEN 'n' THEN NULL ELSE {value} END)) END)""",
        key=key,
        padded=padded_base64,
        value=value,
    )
