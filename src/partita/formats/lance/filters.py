"""Translate predicates into Lance filters, leaf by leaf; conditions on partition values become constants.

A condition is translated only if Lance evaluates it exactly as Spark does. `may_match_filters` leaves other conditions
out, for callers that filter again; `exact_filters` raises `PredicateError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from partita.algebra.physical_values import datetime_to_micros
from partita.algebra.predicate import (
    And,
    BooleanLiteral,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    conjuncts,
)
from partita.algebra.types import FLOAT_KINDS, INTEGER_KINDS, TypeKind
from partita.arrow.prune import prune
from partita.errors import PredicateError
from partita.formats.lance.state import LanceTableVersion

if TYPE_CHECKING:
    import numpy as np

_TRUE, _FALSE, _NULL = "TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"


def exact_filters(
    table_version: LanceTableVersion, file_indices: np.ndarray, predicate: Predicate | None
) -> list[str | None]:
    """Return for each leaf the filter of exactly the rows that match; None if all rows match."""
    if predicate is None:
        return [None] * len(file_indices)
    return [
        None if text == _TRUE else text for text in _FilterBuilder(table_version, file_indices).filter_texts(predicate)
    ]


def may_match_filters(
    table_version: LanceTableVersion, file_indices: np.ndarray, predicate: Predicate | None
) -> list[str | None]:
    """Return for each leaf a filter that keeps every row that matches, and perhaps others; None keeps all."""
    if predicate is None:
        return [None] * len(file_indices)
    builder = _FilterBuilder(table_version, file_indices)
    texts_by_conjunct: list[list[str]] = []
    for conjunct in conjuncts(predicate):
        try:
            texts_by_conjunct.append(builder.filter_texts(conjunct))
        except PredicateError:
            continue
    filters = [_conjunction(texts) for texts in zip(*texts_by_conjunct, strict=True)] or [_TRUE] * len(file_indices)
    return [None if text == _TRUE else text for text in filters]


@dataclass(frozen=True, slots=True, eq=False)
class _FilterBuilder:
    table_version: LanceTableVersion
    file_indices: np.ndarray

    def filter_texts(self, node: Predicate) -> list[str]:
        """Return the filter of a predicate for each leaf."""
        if isinstance(node, BooleanLiteral):
            return self._repeat_per_leaf(_NULL if node.value is None else str(node.value).upper())
        if isinstance(node, Not):
            return [_negation(text) for text in self.filter_texts(node.operand)]
        if isinstance(node, And | Or):
            operand_texts = [self.filter_texts(operand) for operand in node.operands]
            join = _conjunction if isinstance(node, And) else _disjunction
            return [join(texts) for texts in zip(*operand_texts, strict=True)]
        if not isinstance(node, Comparison | In | IsNull | StartsWith):
            raise PredicateError(f"Lance can't evaluate {node}; only Spark can")
        if self._column_name(node.column) in self.table_version.definition.omitted_columns:
            return self._partition_filters(node)
        return self._repeat_per_leaf(self._node_text(node))

    def _repeat_per_leaf(self, text: str) -> list[str]:
        return [text] * len(self.file_indices)

    def _column_name(self, name: str) -> str:
        column = self.table_version.schema.find_field(name).name
        if column not in self.table_version.schema.names:
            raise PredicateError(f"{name} is inside a struct; Partita translates only whole columns for Lance")
        return column

    def _partition_filters(self, node: Predicate) -> list[str]:
        """Evaluate a condition on the partition values of each leaf: true, false or null."""
        partitions = self.table_version.partitions.take(pa.array(self.file_indices))
        is_true, is_false = (
            prune(
                p, schema=self.table_version.schema, spec=self.table_version.spec_history, partitions=partitions
            ).must_match.to_pylist()
            for p in (node, Not(node))
        )
        return [_TRUE if t else _FALSE if f else _NULL for t, f in zip(is_true, is_false, strict=True)]

    def _node_text(self, node: Comparison | In | IsNull | StartsWith) -> str:
        name = self._column_name(node.column)
        column = _quote_identifier(name)
        kind = self.table_version.schema.find_field(node.column).type.kind
        type_ = self.table_version.definition.arrow_schema.field(name).type
        if isinstance(node, IsNull):
            return f"{column} IS NULL"
        if isinstance(node, StartsWith):
            if kind is not TypeKind.STRING:
                raise PredicateError(f"{node}: Lance compares prefixes only of strings")
            return f"starts_with({column}, {_literal_text(node.prefix, kind, type_, node)})"
        if isinstance(node, In):
            texts = [
                f"{_widened_column(column, type_, v)} = {_literal_text(v, kind, type_, node)}"
                if v is not None
                else _NULL
                for v in node.values
            ]
            return _disjunction(texts)
        return _comparison_text(column, node, kind, type_)


def _comparison_text(column: str, node: Comparison, kind: TypeKind, type_: pa.DataType) -> str:
    if node.value is None:
        return f"{column} IS NULL" if node.operator == "<=>" else _NULL
    literal = _literal_text(node.value, kind, type_, node)
    column = _widened_column(column, type_, node.value)
    if node.operator == "<=>":
        return f"({column} IS NOT NULL AND {column} = {literal})"
    text = f"{column} {node.operator} {literal}"
    if kind not in FLOAT_KINDS:
        return text
    # Spark sorts NaN above all numbers; Lance sorts it by its sign.
    if node.operator in (">", ">="):
        return f"({text} OR isnan({column}))"
    return f"({text} AND NOT isnan({column}))" if node.operator in ("<", "<=") else text


def _literal_text(value: object, kind: TypeKind, type_: pa.DataType, node: Predicate) -> str:
    write = _LITERAL_WRITERS.get(kind)
    text = write(value, type_) if write is not None else None
    if text is None:
        raise PredicateError(f"{node}: Lance compares {type_} with {value!r} differently than Spark, or not at all")
    return text


def _integer_literal(value: object, type_: pa.DataType) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and pa.types.is_integer(type_)
    return str(value) if is_number and -(2**63) < cast("int", value) < 2**63 else None


def _widened_column(column: str, type_: pa.DataType, value: object) -> str:
    """Cast a column to BIGINT if a number is outside of its type; Lance fails on such a literal."""
    if not pa.types.is_integer(type_) or not isinstance(value, int):
        return column
    bits, is_signed = type_.bit_width, pa.types.is_signed_integer(type_)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return column if least <= value <= most else f"CAST({column} AS BIGINT)"


def _float_literal(value: object, _: pa.DataType) -> str | None:
    # To Spark -0.0 equals 0.0, to Lance it is less.
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    if not is_number or not isfinite(cast("float", value)) or value == 0:
        return None
    return f"CAST('{float(cast('float', value))!r}' AS DOUBLE)"


def _date_literal(value: object, _: pa.DataType) -> str | None:
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) and not isinstance(value, datetime) else None


def _timestamp_literal(value: object, type_: pa.DataType) -> str | None:
    """Return a timestamp in the unit and zone of the column; None if the column can't hold it exactly.

    Lance would read a literal without a zone as local time of the column's zone, and truncate it to the column's unit.
    """
    if not isinstance(value, datetime) or not pa.types.is_timestamp(type_):
        return None
    if (value.utcoffset() is None) != (type_.tz is None) or not _TIME_ZONE_PATTERN.fullmatch(type_.tz or ""):
        return None
    unit, micros_per_unit = _TIMESTAMP_UNITS[type_.unit]
    number, rest = divmod(datetime_to_micros(value), micros_per_unit)
    zone = "None" if type_.tz is None else f'Some("{type_.tz}")'
    return f"arrow_cast({number}, 'Timestamp({unit}, {zone})')" if not rest else None


_TIMESTAMP_UNITS = {"s": ("Second", 1_000_000), "ms": ("Millisecond", 1_000), "us": ("Microsecond", 1)}
"""The names of Arrow's units in Lance's SQL, and the microseconds of each."""
_TIME_ZONE_PATTERN = re.compile(r"[\w/+:-]*")


_LITERAL_WRITERS: dict[TypeKind, Callable[[object, pa.DataType], str | None]] = {
    TypeKind.BOOLEAN: lambda v, _: str(v).upper() if isinstance(v, bool) else None,
    **dict.fromkeys(INTEGER_KINDS, _integer_literal),
    TypeKind.DOUBLE: _float_literal,
    TypeKind.STRING: lambda v, _: "'" + v.replace("'", "''") + "'" if isinstance(v, str) else None,
    TypeKind.DATE: _date_literal,
    TypeKind.TIMESTAMP: _timestamp_literal,
    TypeKind.TIMESTAMP_NTZ: _timestamp_literal,
}


def _quote_identifier(name: str) -> str:
    if "`" in name:
        raise PredicateError(f"{name!r} has a backquote, which a Lance filter can't quote")
    return f"`{name}`"


def _negation(text: str) -> str:
    return {_TRUE: _FALSE, _FALSE: _TRUE, _NULL: _NULL}.get(text, f"NOT ({text})")


def _conjunction(texts: tuple[str, ...] | list[str]) -> str:
    if _FALSE in texts:
        return _FALSE
    return " AND ".join(f"({text})" for text in texts if text != _TRUE) or _TRUE


def _disjunction(texts: tuple[str, ...] | list[str]) -> str:
    if _TRUE in texts:
        return _TRUE
    return " OR ".join(f"({text})" for text in texts if text != _FALSE) or _FALSE
