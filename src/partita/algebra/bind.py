"""A predicate bound to a schema: columns as the schema spells them, literals of their columns' types."""

from __future__ import annotations

from dataclasses import replace

from partita.algebra.literals import Lossy, literal_for, literals_for
from partita.algebra.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Residual,
    StartsWith,
    Truth,
    all_of,
    any_of,
)  # fmt: skip
from partita.algebra.schema import Schema
from partita.algebra.types import Field, Kind
from partita.errors import PredicateError, UnknownColumn


def bind(predicate: Predicate, schema: Schema, source: str | None = None) -> Predicate:
    """The same predicate on that schema; a comparison that a literal's type stands in the way of becomes residual.

    `source` is the text that the predicate was read from: errors point into it. A part of a leaf of that text, which
    has no text of its own to be left to Spark, is `Lossy` then.
    """
    if isinstance(predicate, And):
        return replace(all_of(bind(p, schema, source) for p in predicate.parts), text=predicate.text)
    if isinstance(predicate, Or):
        return replace(any_of(bind(p, schema, source) for p in predicate.parts), text=predicate.text)
    if isinstance(predicate, Not):
        return replace(predicate, part=bind(predicate.part, schema, source))
    if isinstance(predicate, Truth | Residual):
        return predicate
    return _bind_leaf(predicate, schema, source)


def find_column(name: str, schema: Schema, source: str | None, position: int | None) -> Field:
    """The column of that name; an unknown one is a `PredicateError` that points at it."""
    try:
        return schema.find(name)
    except UnknownColumn as error:
        raise PredicateError(str(error), source, position) from None


def _bind_leaf(leaf: Predicate, schema: Schema, source: str | None) -> Predicate:
    assert isinstance(leaf, Compare | In | IsNull | StartsWith)  # noqa: S101 - the tree has no other leaves
    column = find_column(leaf.column, schema, source, leaf.position)
    try:
        return _typed(replace(leaf, column=column.name), column, schema)
    except Lossy:
        if source is not None and leaf.text is None:
            raise
        if leaf.text is None and "." in column.name:
            reason = f"a column with a dot in its name, {column.name!r}, is compared in SQL text only"
            raise PredicateError(reason) from None
        return Residual(str(leaf), text=leaf.text)


def _typed(leaf: Compare | In | IsNull | StartsWith, column: Field, schema: Schema) -> Predicate:
    if "." in column.name and column.name in schema.names:
        raise Lossy
    if isinstance(leaf, IsNull):
        return leaf
    if isinstance(leaf, StartsWith):
        if column.type.kind is not Kind.STRING:
            raise Lossy
        return leaf
    if isinstance(leaf, In):
        return replace(leaf, values=literals_for(leaf.values, column.type))
    if leaf.value is None:
        text = leaf.text if leaf.text is not None else leaf.sql()
        return IsNull(column.name, text=text) if leaf.op == "<=>" else Truth(None, text=text)
    return replace(leaf, value=literal_for(leaf.value, column.type))
