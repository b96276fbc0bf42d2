"""A predicate bound to a schema: columns as the schema spells them, literals of their columns' types."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
from partita.algebra.schema import NameMatching, Schema, find_field
from partita.algebra.time_zones import IN_UTC, TimeZone
from partita.algebra.types import STRING, CharType, Field, Kind
from partita.errors import PredicateError, UnknownColumn


@dataclass(frozen=True, slots=True)
class Reading:
    """How a predicate is read: the time zone of dates and times that name none, and which columns its names find."""

    time_zone: TimeZone = IN_UTC
    matching: NameMatching = NameMatching.EXACT_FIRST


_DEFAULT = Reading()


def bind(predicate: Predicate, schema: Schema, source: str | None = None, reading: Reading = _DEFAULT) -> Predicate:
    """The same predicate on that schema; a comparison that a literal's type stands in the way of becomes residual.

    `source` is the text that the predicate was read from: errors point into it. A part of a leaf of that text, which
    has no text of its own to be left to Spark, is `Lossy` then.
    """
    if isinstance(predicate, And):
        return replace(all_of(bind(p, schema, source, reading) for p in predicate.parts), text=predicate.text)
    if isinstance(predicate, Or):
        return replace(any_of(bind(p, schema, source, reading) for p in predicate.parts), text=predicate.text)
    if isinstance(predicate, Not):
        return replace(predicate, part=bind(predicate.part, schema, source, reading))
    if isinstance(predicate, Truth | Residual):
        return predicate
    return _bind_leaf(predicate, schema, source, reading)


def find_column(name: str, schema: Schema, source: str | None, position: int | None, matching: NameMatching) -> Field:
    """The column of that name; an unknown one is a `PredicateError` that points at it."""
    try:
        return find_field(schema, name, matching)
    except UnknownColumn as error:
        raise PredicateError(str(error), source, position) from None


def _bind_leaf(leaf: Predicate, schema: Schema, source: str | None, reading: Reading) -> Predicate:
    assert isinstance(leaf, Compare | In | IsNull | StartsWith)  # noqa: S101 - the tree has no other leaves
    column = find_column(leaf.column, schema, source, leaf.position, reading.matching)
    try:
        return _typed(replace(leaf, column=column.name), column, schema, reading.time_zone)
    except Lossy:
        if source is not None and leaf.text is None:
            raise
        if leaf.text is None and "." in column.name:
            reason = f"a column with a dot in its name, {column.name!r}, is compared in SQL text only"
            raise PredicateError(reason) from None
        return Residual(str(leaf), text=leaf.text)


def _typed(leaf: Compare | In | IsNull | StartsWith, column: Field, schema: Schema, zone: TimeZone) -> Predicate:
    if "." in column.name and column.name in schema.names:
        raise Lossy
    if isinstance(leaf, IsNull):
        return leaf
    if isinstance(leaf, StartsWith):
        if column.type.kind is not Kind.STRING:
            raise Lossy
        return leaf
    # Spark pads the literal beside a column of type CHAR, and not beside a field inside of a column.
    type_ = STRING if isinstance(column.type, CharType) and column.name not in schema.names else column.type
    if isinstance(leaf, In):
        return replace(leaf, values=literals_for(leaf.values, type_, zone))
    if leaf.value is None:
        text = leaf.text if leaf.text is not None else leaf.sql()
        return IsNull(column.name, text=text) if leaf.op == "<=>" else Truth(None, text=text)
    return replace(leaf, value=literal_for(leaf.value, type_, zone))
