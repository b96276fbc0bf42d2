"""Predicates over partition keys: select the keys that match, by the same pruning that tables use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.arrow.key import key_columns
from partita.arrow.prune import prune
from partita.arrow.schema import parse_spec, to_schema
from partita.errors import PredicateError

if TYPE_CHECKING:
    import pyarrow as pa

_NO_DIMENSIONS = "an asset without partitions has no dimensions that a predicate could name"


def select_matching_keys(keys: pa.Array, where: PredicateLike | UnboundPredicate) -> pa.Array:
    """Return the keys that match a predicate on their dimensions.

    Keys are evaluated in groups of equal dimensions. Raises `PredicateError` where no group has the columns that the
    predicate names, or where only Spark could evaluate it.
    """
    import pyarrow as pa

    matches, problem, is_evaluated = [], None, not len(keys)
    key_groups = _group_by_dimensions(keys)
    group_columns = [key_columns(group) for group in key_groups]
    types = {f.name: f.type for columns in group_columns for f in columns.schema if not pa.types.is_null(f.type)}
    for group, columns in zip(key_groups, group_columns, strict=True):
        try:
            matches.append(_select_by_pruning(group, _cast_null_columns(columns, types), where))
            is_evaluated = True
        except PredicateError as error:
            problem = error
    if not is_evaluated and problem is not None:
        raise problem
    return pa.concat_arrays(matches) if matches else pa.array([], pa.string())


def check_predicate_columns(names: Sequence[str], where: PredicateLike | UnboundPredicate) -> None:
    """Raise `PredicateError` for a predicate that names a column other than these dimensions."""
    if not names:
        raise PredicateError(_NO_DIMENSIONS)
    parse_predicate(where, Schema.of(dict.fromkeys(names, "string")))


def _group_by_dimensions(keys: pa.Array) -> list[pa.Array]:
    """Split keys into groups with the same dimensions and types."""
    import pyarrow.compute as pc

    shapes = pc.replace_substring_regex(keys, r"=([a-z]):[^,]*", r"=\1")
    return [keys.filter(pc.equal(shapes, shape)) for shape in pc.unique(shapes)]


def _cast_null_columns(columns: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Cast columns of nulls alone to the type that other keys have there, or else to string."""
    import pyarrow as pa

    nulls = {f.name: types.get(f.name, pa.string()) for f in columns.schema if pa.types.is_null(f.type)}
    return columns.cast(pa.schema([pa.field(f.name, nulls.get(f.name, f.type)) for f in columns.schema]))


def _select_by_pruning(keys: pa.Array, columns: pa.Table, where: PredicateLike | UnboundPredicate) -> pa.Array:
    import pyarrow.compute as pc

    schema = to_schema(columns.schema)
    spec = parse_spec(", ".join(columns.column_names), schema, family="iceberg") if columns.column_names else None
    if spec is None:
        raise PredicateError(_NO_DIMENSIONS)
    result = prune(where, schema=schema, spec=spec, partitions=columns)
    if pc.any(pc.and_not(result.may_match, result.must_match)).as_py():
        raise PredicateError(
            f"{where} can't be evaluated on keys; compare dimensions with values, or read the status in Spark"
        )
    matches: pa.Array = keys.filter(result.may_match)
    return matches
