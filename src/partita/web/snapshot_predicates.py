"""Evaluate predicates on the keys of a snapshot, on as few values as possible, and cache the matches.

A term of a conjunction on time alone is evaluated once for each moment, and one on the other dimensions once for each
line of the map: for a million partitions that is perhaps a thousand values each. Any other predicate is evaluated on
every key.
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
"""The number of predicates whose matches a snapshot caches."""
_table_numbers = count()


class _PredicateTarget(NamedTuple):
    """A predicate and what it is evaluated on: a column of `PARTITIONS`, its values, and the key of each value."""

    column: str
    predicate: UnboundPredicate | Predicate
    values: pa.Array
    keys: pa.Array


def predicate_sql(snapshot: StatusSnapshot, asset: str, where: str) -> Sql:
    """Return the condition that a row of `PARTITIONS` of this asset matches a predicate.

    Raises `PredicateError` for a predicate that can't be evaluated on keys.
    """
    from partita.formats.conditions import current_condition

    condition = current_condition(where, snapshot.time_zone)
    with snapshot.lock:
        if (asset, condition) not in snapshot.predicate_matches:
            facts = snapshot.asset(asset)
            targets = _split_targets(snapshot, facts, condition) or [_whole_key_target(snapshot, facts, condition)]
            match_tables = tuple(_create_match_table(snapshot, target) for target in targets)
            if len(snapshot.predicate_matches) >= _MAX_CACHED_PREDICATES:
                for _, relation in snapshot.predicate_matches.pop(next(iter(snapshot.predicate_matches))):
                    snapshot.fetch_rows(sql("DROP TABLE {relation}", relation=relation))
            snapshot.predicate_matches[asset, condition] = match_tables
        match_tables = snapshot.predicate_matches[asset, condition]
    return all_of(
        sql("{column} IN (SELECT value FROM {relation})", column=name(column), relation=relation)
        for column, relation in match_tables
    )


def _create_match_table(snapshot: StatusSnapshot, target: _PredicateTarget) -> tuple[str, Sql]:
    """Create a table of the values that match; return the target's column and the table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from partita.status.key_predicates import select_matching_keys

    is_match = pc.is_in(target.keys, select_matching_keys(target.keys, target.predicate))
    relation = Sql(f"matched_{next(_table_numbers)}")
    cursor = snapshot.connection.cursor()
    cursor.register("matching_values", pa.table({"value": target.values.filter(is_match)}))
    cursor.execute(sql("CREATE TABLE {relation} AS FROM matching_values", relation=relation))
    cursor.unregister("matching_values")
    return target.column, relation


def _whole_key_target(snapshot: StatusSnapshot, facts: AssetSummary, where: UnboundPredicate) -> _PredicateTarget:
    select = "SELECT no, partition_key FROM {partitions} WHERE asset = {number}"
    columns = snapshot.fetch_columns(sql(select, partitions=PARTITIONS, number=facts.asset_number))
    return _PredicateTarget("no", where, *columns)


def _split_targets(snapshot: StatusSnapshot, facts: AssetSummary, where: UnboundPredicate) -> list[_PredicateTarget]:
    """Return the targets of a conjunction whose terms are each on time alone or on no time; else an empty list."""
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
        terms = [(term, referenced_columns(term, schema)) for term in conjuncts(parse_predicate(where, schema))]
    except PartitaError:
        # Evaluating it on every key raises the same error as `lake.status`, if any.
        return []
    if any(isinstance(term, Residual) or not names or (time in names and len(names) > 1) for term, names in terms):
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
    time_terms = [term for term, names in terms if time in names]
    line_terms = [term for term, names in terms if time not in names]
    return [
        _PredicateTarget(column, conjunction(column_terms), *snapshot.fetch_columns(query))
        for column, column_terms, query in (("moment", time_terms, moments), ("y", line_terms, lines))
        if column_terms
    ]
