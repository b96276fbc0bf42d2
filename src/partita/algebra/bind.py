"""Binding of predicates to a schema: columns get the spelling of the schema, literals the type of their column."""

from __future__ import annotations

from dataclasses import dataclass, replace

from partita.algebra.literals import LossyLiteral, literal_for, literals_for
from partita.algebra.predicate import (
    And,
    BooleanLiteral,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Residual,
    StartsWith,
    all_of,
    any_of,
)  # fmt: skip
from partita.algebra.schema import NameMatching, Schema, find_field
from partita.algebra.time_zones import UTC_TIME_ZONE, TimeZone
from partita.algebra.types import STRING, CharType, Field, TypeKind
from partita.errors import PredicateError, UnknownColumn


@dataclass(frozen=True, slots=True)
class BindOptions:
    """The time zone of dates and times without a zone, and which columns a name finds."""

    time_zone: TimeZone = UTC_TIME_ZONE
    matching: NameMatching = NameMatching.EXACT_FIRST


_DEFAULT_OPTIONS = BindOptions()


def bind_predicate(
    predicate: Predicate, schema: Schema, source_text: str | None = None, options: BindOptions = _DEFAULT_OPTIONS
) -> Predicate:
    """Bind a predicate to a schema; a comparison whose literal can't have the column's type becomes a `Residual`.

    `source_text` is the text that the predicate was parsed from; errors point into it. Raises `PredicateError` for an
    unknown column, and `LossyLiteral` for such a comparison inside a leaf of that text, which has no text of its own
    that could become the residual.
    """
    if isinstance(predicate, And):
        return replace(
            all_of(bind_predicate(p, schema, source_text, options) for p in predicate.operands), text=predicate.text
        )
    if isinstance(predicate, Or):
        return replace(
            any_of(bind_predicate(p, schema, source_text, options) for p in predicate.operands), text=predicate.text
        )
    if isinstance(predicate, Not):
        return replace(predicate, operand=bind_predicate(predicate.operand, schema, source_text, options))
    if isinstance(predicate, BooleanLiteral | Residual):
        return predicate
    return _bind_leaf(predicate, schema, source_text, options)


def find_column(
    name: str, schema: Schema, source_text: str | None, position: int | None, matching: NameMatching
) -> Field:
    """Return the column with the given name; raise a `PredicateError` that points at an unknown name."""
    try:
        return find_field(schema, name, matching)
    except UnknownColumn as error:
        raise PredicateError(str(error), source_text, position) from None


def _bind_leaf(leaf: Predicate, schema: Schema, source_text: str | None, options: BindOptions) -> Predicate:
    assert isinstance(leaf, Comparison | In | IsNull | StartsWith)  # noqa: S101 - there are no other leaves
    column = find_column(leaf.column, schema, source_text, leaf.position, options.matching)
    try:
        return _bind_literals(replace(leaf, column=column.name), column, schema, options.time_zone)
    except LossyLiteral:
        if source_text is not None and leaf.text is None:
            raise
        if leaf.text is None and "." in column.name:
            reason = f"a column with a dot in its name, {column.name!r}, is compared in SQL text only"
            raise PredicateError(reason) from None
        return Residual(str(leaf), text=leaf.text)


def _bind_literals(
    leaf: Comparison | In | IsNull | StartsWith, column: Field, schema: Schema, zone: TimeZone
) -> Predicate:
    if "." in column.name and column.name in schema.names:
        raise LossyLiteral
    if isinstance(leaf, IsNull):
        return leaf
    if isinstance(leaf, StartsWith):
        if column.type.kind is not TypeKind.STRING:
            raise LossyLiteral
        return leaf
    # Spark pads the literal that a CHAR column is compared with, but not for a field inside a struct.
    type_ = STRING if isinstance(column.type, CharType) and column.name not in schema.names else column.type
    if isinstance(leaf, In):
        return replace(leaf, values=literals_for(leaf.values, type_, zone))
    if leaf.value is None:
        text = leaf.text if leaf.text is not None else leaf.sql()
        return IsNull(column.name, text=text) if leaf.operator == "<=>" else BooleanLiteral(None, text=text)
    return replace(leaf, value=literal_for(leaf.value, type_, zone))
