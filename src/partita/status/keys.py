"""Predicates over partition keys: which of many keys match, by the pruning that tables have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partita.algebra.parse import Condition, Where, parse_predicate
from partita.algebra.schema import Schema
from partita.arrow.key import key_columns
from partita.arrow.prune import prune
from partita.arrow.schema import to_schema
from partita.arrow.spec import parse_spec
from partita.errors import PredicateError

if TYPE_CHECKING:
    import pyarrow as pa

_NO_DIMENSIONS = "an asset without partitions has no dimensions that a predicate could name"


def matching(keys: pa.Array, where: Where | Condition) -> pa.Array:
    """Those of the keys that match a predicate on their dimensions.

    Keys of other dimensions than the first one's are judged apart; where no key has a column that the predicate names,
    that is a `PredicateError`, and so is a predicate that only Spark could evaluate.
    """
    import pyarrow as pa

    found, problem, judged = [], None, not len(keys)
    shapes = _by_shape(keys)
    columns = [key_columns(shape) for shape in shapes]
    types = {f.name: f.type for shape in columns for f in shape.schema if not pa.types.is_null(f.type)}
    for shape, shown in zip(shapes, columns, strict=True):
        try:
            found.append(_matching(shape, _typed(shown, types), where))
            judged = True
        except PredicateError as error:
            problem = error
    if not judged and problem is not None:
        raise problem
    return pa.concat_arrays(found) if found else pa.array([], pa.string())


def check_columns(names: Sequence[str], where: Where | Condition) -> None:
    """Refuse a predicate that names a column which keys of these dimensions don't have."""
    if not names:
        raise PredicateError(_NO_DIMENSIONS)
    parse_predicate(where, Schema.of(dict.fromkeys(names, "string")))


def _by_shape(keys: pa.Array) -> list[pa.Array]:
    """The keys, those with the same dimensions and types together."""
    import pyarrow.compute as pc

    shapes = pc.replace_substring_regex(keys, r"=([a-z]):[^,]*", r"=\1")
    return [keys.filter(pc.equal(shapes, shape)) for shape in pc.unique(shapes)]


def _typed(columns: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """The columns, those with nulls alone in the type that other keys have there, or else as text."""
    import pyarrow as pa

    nulls = {f.name: types.get(f.name, pa.string()) for f in columns.schema if pa.types.is_null(f.type)}
    return columns.cast(pa.schema([pa.field(f.name, nulls.get(f.name, f.type)) for f in columns.schema]))


def _matching(keys: pa.Array, columns: pa.Table, where: Where | Condition) -> pa.Array:
    import pyarrow.compute as pc

    schema = to_schema(columns.schema)
    spec = parse_spec(", ".join(columns.column_names), schema, family="iceberg") if columns.column_names else None
    if spec is None:
        raise PredicateError(_NO_DIMENSIONS)
    pruned = prune(where, schema=schema, spec=spec, partitions=columns)
    if pc.any(pc.and_not(pruned.may_match, pruned.must_match)).as_py():
        raise PredicateError(
            f"{where} can't be evaluated on keys; compare dimensions with values, or read the status in Spark"
        )
    found: pa.Array = keys.filter(pruned.may_match)
    return found
