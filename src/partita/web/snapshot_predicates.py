"""Predicates on keys over a snapshot: which partitions match, judged on as few keys as will do, and once.

A part of a conjunction that speaks of time alone is judged on the moments that there are, and one that speaks of the
other dimensions on the lines of the map: of a million partitions that is perhaps a thousand each. Any other predicate
is judged on every key.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from partita.algebra.predicate import Predicate, Residual, conjuncts
from partita.algebra.predicate import all_of as conjunction
from partita.display.coordinates import DOWN, PARTITIONS, TICKS
from partita.display.status_snapshot import AssetSummary, StatusSnapshot
from partita.errors import PartitaError
from partita.status.duckdb_sql import Sql, all_of, name, sql

if TYPE_CHECKING:
    import pyarrow as pa

    from partita.algebra.predicate import UnboundPredicate

_MAX_CACHED_PREDICATES = 32
"""How many predicates a snapshot keeps the answers to."""
_table_numbers = count()


class _PredicateTarget(NamedTuple):
    """What a predicate is judged on: the column of `partitions`, and the keys whose places in it are its values."""

    column: str
    predicate: UnboundPredicate | Predicate
    values: pa.Array
    keys: pa.Array


def predicate_sql(snapshot: StatusSnapshot, asset: str, where: str) -> Sql:
    """The condition that a row of `partitions`, of that asset, matches; a predicate that can't be judged is refused."""
    from partita.formats.conditions import current_condition

    condition = current_condition(where, snapshot.time_zone)
    with snapshot.lock:
        if (asset, condition) not in snapshot.predicate_matches:
            facts = snapshot.asset(asset)
            judged = _split_targets(snapshot, facts, condition) or [_whole_key_target(snapshot, facts, condition)]
            found = [_create_match_table(snapshot, one) for one in judged]
            if len(snapshot.predicate_matches) >= _MAX_CACHED_PREDICATES:
                for _, relation in snapshot.predicate_matches.pop(next(iter(snapshot.predicate_matches))):
                    snapshot.fetch_rows(sql("DROP TABLE {relation}", relation=relation))
            snapshot.predicate_matches[asset, condition] = tuple(found)
        kept = snapshot.predicate_matches[asset, condition]
    return all_of(
        sql("{column} IN (SELECT value FROM {relation})", column=name(column), relation=relation)
        for column, relation in kept
    )


def _create_match_table(snapshot: StatusSnapshot, target: _PredicateTarget) -> tuple[str, Sql]:
    """The column, and a relation of its values that match."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from partita.status.key_predicates import select_matching_keys

    is_match = pc.is_in(target.keys, select_matching_keys(target.keys, target.predicate))
    relation = Sql(f"matched_{next(_table_numbers)}")
    cursor = snapshot.connection.cursor()
    cursor.register("found_values", pa.table({"value": target.values.filter(is_match)}))
    cursor.execute(sql("CREATE TABLE {relation} AS FROM found_values", relation=relation))
    cursor.unregister("found_values")
    return target.column, relation


def _whole_key_target(snapshot: StatusSnapshot, facts: AssetSummary, where: UnboundPredicate) -> _PredicateTarget:
    select = "SELECT no, partition_key FROM {partitions} WHERE asset = {number}"
    columns = snapshot.fetch_columns(sql(select, partitions=PARTITIONS, number=facts.asset_number))
    return _PredicateTarget("no", where, *columns)


def _split_targets(snapshot: StatusSnapshot, facts: AssetSummary, where: UnboundPredicate) -> list[_PredicateTarget]:
    """The parts of a conjunction, where each speaks of time alone or not of time; nothing where that isn't so."""
    time = facts.layout.time_dimension
    if time is None:
        return []
    from partita.algebra.predicate_text import parse_predicate
    from partita.arrow.key import key_columns
    from partita.arrow.schema import to_schema
    from partita.formats.file_plan import referenced_columns

    is_asset = sql("asset = {number}", number=facts.asset_number)
    sample_select = "SELECT partition_key FROM {partitions} WHERE {is_asset} AND x IS NOT NULL LIMIT 1"
    (sample,) = snapshot.fetch_columns(sql(sample_select, partitions=PARTITIONS, is_asset=is_asset))
    if not len(sample):
        return []
    try:
        schema = to_schema(key_columns(sample).schema)
        parts = [(part, referenced_columns(part, schema)) for part in conjuncts(parse_predicate(where, schema))]
    except PartitaError:
        # Judged on every key it is refused in the words that `lake.status` has for it, or it isn't.
        return []
    if any(isinstance(part, Residual) or not names or (time in names and len(names) > 1) for part, names in parts):
        return []
    moments = sql(
        "SELECT moment, {prefix} || CASE WHEN length(moment) = 10 THEN 'd:' ELSE 't:' END || moment "
        "FROM {partitions} WHERE {is_asset} AND moment <> '' GROUP BY moment",
        prefix=f"{time}=",
        partitions=PARTITIONS,
        is_asset=is_asset,
    )
    lines_select = "SELECT coordinate, value FROM {ticks} WHERE {is_asset} AND axis = {axis}"
    lines = sql(lines_select, ticks=TICKS, is_asset=is_asset, axis=DOWN)
    of_time = [part for part, names in parts if time in names]
    of_lines = [part for part, names in parts if time not in names]
    wanted = (("moment", of_time, moments), ("y", of_lines, lines))
    return [
        _PredicateTarget(column, conjunction(some), *snapshot.fetch_columns(query))
        for column, some, query in wanted
        if some
    ]
