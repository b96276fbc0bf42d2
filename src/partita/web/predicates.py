"""Predicates on keys over a snapshot: which partitions match, judged on as few keys as will do, and once.

A part of a conjunction that speaks of time alone is judged on the moments that there are, and one that speaks of the
other dimensions on the lines of the map: of a million partitions that is perhaps a thousand each. Any other predicate
is judged on every key.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from partita.algebra.predicate import Predicate, Residual, all_of, conjuncts
from partita.errors import PartitaError
from partita.picture.placing import DOWN
from partita.picture.snapshot import AssetFacts, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.parse import Condition

_KEPT = 32
"""How many predicates a snapshot keeps the answers to."""
_numbers = count()


class _Judged(NamedTuple):
    """What a predicate is judged on: the column of `partitions`, and the keys whose places in it are its values."""

    column: str
    where: Condition | Predicate
    values: pa.Array
    keys: pa.Array


def matching_sql(snapshot: Snapshot, asset: str, where: str) -> str:
    """The condition that a row of `partitions`, of that asset, matches; a predicate that can't be judged is refused."""
    from partita.formats.conditions import current_condition

    condition = current_condition(where, snapshot.time_zone)
    with snapshot.lock:
        if (asset, condition) not in snapshot.matched:
            facts = snapshot.asset(asset)
            judged = _apart(snapshot, facts, condition) or [_whole(snapshot, facts, condition)]
            found = [_found(snapshot, one) for one in judged]
            if len(snapshot.matched) >= _KEPT:
                for _, relation in snapshot.matched.pop(next(iter(snapshot.matched))):
                    snapshot.rows(f"DROP TABLE {relation}")
            snapshot.matched[asset, condition] = tuple(found)
        kept = snapshot.matched[asset, condition]
    return " AND ".join(f"{column} IN (SELECT value FROM {relation})" for column, relation in kept)  # noqa: S608


def _found(snapshot: Snapshot, judged: _Judged) -> tuple[str, str]:
    """The column, and a relation of its values that match."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from partita.status.keys import matching

    is_match = pc.is_in(judged.keys, matching(judged.keys, judged.where))
    relation = f"matched_{next(_numbers)}"
    cursor = snapshot.connection.cursor()
    cursor.register("found_values", pa.table({"value": judged.values.filter(is_match)}))
    cursor.execute(f"CREATE TABLE {relation} AS FROM found_values")
    cursor.unregister("found_values")
    return judged.column, relation


def _whole(snapshot: Snapshot, facts: AssetFacts, where: Condition) -> _Judged:
    rows = _columns(snapshot, f"SELECT no, partition_key FROM partitions WHERE asset = {facts.number:d}")  # noqa: S608
    return _Judged("no", where, *rows)


def _apart(snapshot: Snapshot, facts: AssetFacts, where: Condition) -> list[_Judged]:
    """The parts of a conjunction, where each speaks of time alone or not of time; nothing where that isn't so."""
    time = facts.layout.time
    if time is None:
        return []
    from partita.algebra.parse import parse_predicate
    from partita.arrow.key import key_columns
    from partita.arrow.schema import to_schema
    from partita.formats.plan import named_in

    own = f"asset = {facts.number:d}"
    (sample,) = _columns(snapshot, f"SELECT partition_key FROM partitions WHERE {own} AND x IS NOT NULL LIMIT 1")  # noqa: S608
    if not len(sample):
        return []
    try:
        schema = to_schema(key_columns(sample).schema)
        parts = [(part, named_in(part, schema)) for part in conjuncts(parse_predicate(where, schema))]
    except PartitaError:
        # Judged on every key it is refused in the words that `lake.status` has for it, or it isn't.
        return []
    if any(isinstance(part, Residual) or not names or (time in names and len(names) > 1) for part, names in parts):
        return []
    tagged = f"'{time}=' || CASE WHEN length(moment) = 10 THEN 'd:' ELSE 't:' END || moment"
    moments = f"SELECT moment, {tagged} FROM partitions WHERE {own} AND moment <> '' GROUP BY moment"  # noqa: S608
    lines = f"SELECT place, value FROM ticks WHERE {own} AND axis = '{DOWN}'"  # noqa: S608 - a number
    of_time = [part for part, names in parts if time in names]
    of_lines = [part for part, names in parts if time not in names]
    wanted = (("moment", of_time, moments), ("y", of_lines, lines))
    return [_Judged(column, all_of(some), *_columns(snapshot, sql)) for column, some, sql in wanted if some]


def _columns(snapshot: Snapshot, sql: str) -> list[pa.Array]:
    found = snapshot.connection.cursor().sql(sql).to_arrow_table()
    return [column.combine_chunks() for column in found.columns]
