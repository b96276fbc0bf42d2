"""The fold: from events to status rows, in DuckDB.

An event alone is a status row already, that of a history with one event; `lifted` says which. Rows of one partition
merge into one by taking each of its parts, a role, from the row that is first or last in the role's order. Taking the
greatest knows no order, no grouping and no repetition, so neither does the fold: any split of a history, folded apart
and merged, gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.errors import StatusError
from partita.status.engine import connect, fetch, quoted
from partita.status.events import FINISHED, OF_PARTITIONS, STARTED, WIPED, Outcome
from partita.status.rows import (
    ATTEMPT,
    FIRST,
    KEY,
    MATERIALIZATION,
    ROLES,
    START,
    SWEPT,
    WIPE,
    Role,
    row_names,
    row_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa


def fold(events: pa.Table) -> pa.Table:
    """The status rows of events; kinds that aren't of partitions are passed over."""
    _check(events)
    with connect() as connection:
        connection.register("given", events)
        connection.execute(f"CREATE TEMP TABLE numbered AS {numbered('FROM given')}")
        return fetch(connection, folded("numbered"), row_schema())


def merge(*rows: pa.Table) -> pa.Table:
    """Status rows of several histories as those of all of them together.

    What a sweep filled in stays where the materialization that it judged does.
    """
    if not rows:
        return row_schema().empty_table()
    for table in rows:
        _check(table)
    with connect() as connection:
        for at, table in enumerate(rows):
            connection.register(f"given_{at}", table)
        every = " UNION ALL BY NAME ".join(f"FROM given_{at}" for at in range(len(rows)))
        connection.execute(f"CREATE TEMP TABLE numbered AS {numbered(every)}")
        return fetch(connection, merged("numbered"), row_schema())


def _check(table: pa.Table) -> None:
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        raise StatusError(f"events and status rows are Arrow tables, not {type(table).__name__}")


def numbered(select: str) -> str:
    """A select with `position`, a number for each row. To make a table of: asked twice, it may number otherwise."""
    return f"SELECT *, row_number() OVER () AS position FROM ({select})"  # noqa: S608 - our own names


def folded(events: str) -> str:
    """The select of the status rows of a relation of events that has a column `position`, one number for each row."""
    kinds = ", ".join(map(quoted, OF_PARTITIONS))
    return _merged(f"(SELECT {lifted()} FROM {events} WHERE kind IN ({kinds}))", swept=False)  # noqa: S608 - our own


def merged(rows: str) -> str:
    """The select that merges a relation of status rows that has a column `position`."""
    return _merged(rows, swept=True)


@dataclass(frozen=True, slots=True)
class Lift:
    """Which events play a role, and what they bring to its columns; SQL that DuckDB and Spark both read."""

    role: Role
    condition: str
    values: tuple[str, ...]


_DONE = f"kind IN ({', '.join(map(quoted, FINISHED))})"
_OK = f"kind = {quoted(Outcome.SUCCEEDED.kind)}"
_BEGUN = f"(kind = {quoted(STARTED)} OR ({_DONE} AND started_at IS NOT NULL))"
_WIPED = f"kind = {quoted(WIPED)}"
_WROTE = ("code_version", "rows", "files", "bytes", "table_version")
LIFTS = (
    Lift(MATERIALIZATION, _OK, ("occurred_at", "event_id", "run_id", "attempt", *_WROTE, "started_at")),
    Lift(ATTEMPT, _DONE, ("occurred_at", "event_id", "run_id", "attempt", "upper(kind)", "error", "started_at")),
    Lift(START, _BEGUN, ("coalesce(started_at, occurred_at)", _DONE, "event_id", "run_id", "attempt")),
    Lift(FIRST, _OK, ("occurred_at",)),
    Lift(WIPE, _WIPED, ("occurred_at", "event_id")),
)


def lifted() -> str:
    """The columns of an event as those of a status row."""
    values = [
        f"CASE WHEN {lift.condition} THEN {value} END AS {name}"
        for lift in LIFTS
        for name, value in zip(lift.role.columns, lift.values, strict=True)
    ]
    return ", ".join([*KEY, "position", "event_id AS row_version", *values])


def _merged(rows: str, *, swept: bool) -> str:
    # DuckDB is quick at finding the place of the greatest row, and slow at carrying its columns along.
    carrying = [role for role in ROLES if role.carried]
    bare = [role for role in ROLES if not role.carried]
    # Of two rows with one materialization, that with the newer sweep.
    tie = {MATERIALIZATION.name: ("coalesce(swept_at, make_timestamptz(0))",)} if swept else {}
    places = ", ".join(f"{_place(role, *tie.get(role.name, ()))} AS {role.name}" for role in carrying)
    ends = ", ".join(f"{_end(role)} AS {role.name}" for role in bare)
    wanted = ", ".join(["position", *(c for role in carrying for c in role.columns), *(SWEPT if swept else ())])
    joins = " ".join(f"LEFT JOIN chosen AS {r.name} ON {r.name}.position = places.{r.name}" for r in carrying)
    found = ", ".join(role.name for role in carrying)
    return f"""
        WITH places AS MATERIALIZED (
            SELECT {", ".join(KEY)}, max(row_version) AS row_version, {places}, {ends} FROM {rows} GROUP BY ALL
        ), chosen AS MATERIALIZED (
            SELECT {wanted} FROM {rows} WHERE position IN (SELECT unnest([{found}]) FROM places)
        )
        SELECT {_shown(swept=swept)} FROM places {joins}
    """  # noqa: S608 - our own names


def _place(role: Role, *tie: str) -> str:
    return f"arg_max(position, ({', '.join((*role.order, *tie))})) FILTER (WHERE {role.order[0]} IS NOT NULL)"


def _end(role: Role) -> str:
    what = role.order[0] if len(role.order) == 1 else f"row({', '.join(role.order)})"
    return f"{'min' if role.first else 'max'}({what}) FILTER (WHERE {role.order[0]} IS NOT NULL)"


def _shown(*, swept: bool) -> str:
    """The columns of the schema, from the places and what was chosen by them."""
    lasts = f"(materialization.{MATERIALIZATION.order[0]}, materialization.{MATERIALIZATION.order[1]})"
    gone = f"(places.wipe IS NOT NULL AND {lasts} < places.wipe)"
    shown = {name: f"places.{name}" for name in (*KEY, "row_version")}
    shown["partition_values"] = values_sql("places.partition_key")
    for role in ROLES:
        for at, name in enumerate(role.columns, 1):
            part = f"[{at}]" if len(role.columns) > 1 else ""
            shown[name] = f"{role.name}.{name}" if role.carried else f"places.{role.name}{part}"
    for name in (*MATERIALIZATION.columns, *(SWEPT if swept else ())):
        # What was wiped is not there any more; the wipe stays, so that no late event brings it back.
        shown[name] = f"CASE WHEN NOT {gone} THEN materialization.{name} END"
    nothing = {"stale_since": "NULL::TIMESTAMPTZ", "stale_reason_code": "NULL::VARCHAR",
               "stale_reasons": "NULL::VARCHAR[]", "swept_at": "NULL::TIMESTAMPTZ"}  # fmt: skip
    return ", ".join(f"{(nothing | shown)[name]} AS {name}" for name in row_names())


def values_sql(key: str) -> str:
    """The dimensions of a canonical key and the texts of their values, as a map in DuckDB."""
    value = "x[strpos(x, '=') + 3:]"
    encoded = f"replace(replace({value}, '-', '+'), '_', '/')"
    padded = f"{encoded} || repeat('=', (4 - length({value}) % 4) % 4)"
    text = f"CASE x[strpos(x, '=') + 1] WHEN 's' THEN decode(from_base64({padded})) WHEN 'n' THEN NULL ELSE {value} END"
    entries = f"list_transform(string_split({key}, ','), lambda x: {{'key': x[:strpos(x, '=') - 1], 'value': {text}}})"
    return f"map_from_entries(CASE WHEN {key} = '' THEN [] ELSE {entries} END)"
