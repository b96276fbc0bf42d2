"""Running now: attempts that started and have not ended, out of the events themselves.

An end ends the attempt that it names, by run and number, where that began before it; so two attempts at once are two,
and one that starts again under its old name runs again. Clocks differ, so an end that is dated before every start of
its run and number ends the first of them. What names no run (its run is its own event's id) is ended by what names none
and comes after it. This is a question to the set of events, so their order, repetition and split don't matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from partita.status.engine import quoted
from partita.status.events import FINISHED, STARTED

if TYPE_CHECKING:
    import duckdb

RUNNING = "running_now"
"""The relation of partitions with an open attempt: asset_key, partition_key, running_since, running_run_id, and
`open_run_ids` of all runs that have one."""


def open_attempts(events: str) -> str:
    """The select of the partitions that are being made, with the attempt that began last, from a relation of events."""
    ends = ", ".join(map(quoted, FINISHED))
    named = "CASE WHEN run_id = event_id THEN '' ELSE run_id END AS run"
    columns = f"asset_key, partition_key, {named}, attempt, occurred_at"
    same = "asset_key, partition_key, run, attempt"
    return f"""
        WITH not_ended AS MATERIALIZED (
            SELECT s.* FROM (SELECT {columns}, run_id, event_id FROM {events} WHERE kind = {quoted(STARTED)}) AS s
            ANTI JOIN (SELECT {columns} FROM {events} WHERE kind IN ({ends})) AS e
              ON e.asset_key = s.asset_key AND e.partition_key = s.partition_key AND e.run = s.run
             AND e.attempt = s.attempt AND e.occurred_at >= s.occurred_at
        ), ended_early AS (
            SELECT {same}, min(occurred_at) FILTER (kind = {quoted(STARTED)}) AS occurred_at
            FROM (SELECT {columns}, kind FROM {events} WHERE run_id <> event_id)
            SEMI JOIN not_ended USING ({same}) GROUP BY ALL HAVING count(*) FILTER (kind IN ({ends})) > 0
        )
        SELECT asset_key, partition_key, max(occurred_at) AS running_since,
               arg_max(run_id, (occurred_at, event_id)) AS running_run_id,
               list(DISTINCT run_id) AS open_run_ids
        FROM not_ended ANTI JOIN ended_early USING ({same}, occurred_at) GROUP BY asset_key, partition_key
    """  # noqa: S608 - our own names


def make_running(connection: duckdb.DuckDBPyConnection, events: str | None) -> None:
    """Make `RUNNING` a table, from a relation of starts and ends; None where no start was ever recorded."""
    nothing = (
        "SELECT NULL::VARCHAR AS asset_key, NULL::VARCHAR AS partition_key, NULL::TIMESTAMPTZ AS running_since, "
        "NULL::VARCHAR AS running_run_id, NULL::VARCHAR[] AS open_run_ids WHERE false"
    )
    select = nothing if events is None else open_attempts(events)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {RUNNING} AS {select}")
