"""Predicates as filters of Lance, leaf by leaf: what a leaf's name says is put in as true, false or null.

A part is put into Lance's words only where those mean exactly what Spark means. `loose_filters` leaves the others out,
for who filters again; `exact_filters` refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from partita.algebra.plain import micros_of
from partita.algebra.predicate import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith, Truth, conjuncts
from partita.algebra.types import FLOATS, INTEGERS, Kind
from partita.arrow.prune import prune
from partita.errors import PredicateError
from partita.formats.lance.state import LanceState

if TYPE_CHECKING:
    import numpy as np

_TRUE, _FALSE, _NULL = "TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"


def exact_filters(state: LanceState, places: np.ndarray, predicate: Predicate | None) -> list[str | None]:
    """For each leaf, the filter whose rows are those that match; None where all do."""
    if predicate is None:
        return [None] * len(places)
    return [None if text == _TRUE else text for text in _Writer(state, places).written(predicate)]


def loose_filters(state: LanceState, places: np.ndarray, predicate: Predicate | None) -> list[str | None]:
    """For each leaf, a filter that keeps every row that matches, and perhaps others; None keeps all."""
    if predicate is None:
        return [None] * len(places)
    writer = _Writer(state, places)
    kept: list[list[str]] = []
    for part in conjuncts(predicate):
        try:
            kept.append(writer.written(part))
        except PredicateError:
            continue
    whole = [_and(row) for row in zip(*kept, strict=True)] or [_TRUE] * len(places)
    return [None if text == _TRUE else text for text in whole]


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    state: LanceState
    places: np.ndarray

    def written(self, node: Predicate) -> list[str]:
        """The node's text for each leaf."""
        if isinstance(node, Truth):
            return self._everywhere(_NULL if node.value is None else str(node.value).upper())
        if isinstance(node, Not):
            return [_not(text) for text in self.written(node.part)]
        if isinstance(node, And | Or):
            parts = [self.written(part) for part in node.parts]
            join = _and if isinstance(node, And) else _or
            return [join(texts) for texts in zip(*parts, strict=True)]
        if not isinstance(node, Compare | In | IsNull | StartsWith):
            raise PredicateError(f"{node} is for Spark to evaluate, and Lance can't")
        if self._column(node.column) in self.state.definition.left_out:
            return self._by_name(node)
        return self._everywhere(self._text(node))

    def _everywhere(self, text: str) -> list[str]:
        return [text] * len(self.places)

    def _column(self, name: str) -> str:
        found = self.state.schema.find(name).name
        if found not in self.state.schema.names:
            raise PredicateError(f"{name} is inside a struct, and Lance is not asked for that")
        return found

    def _by_name(self, node: Predicate) -> list[str]:
        """What the names of the leaves say: true where it must be, false where its contrary must be, else null."""
        partitions = self.state.partitions.take(pa.array(self.places))
        is_true, is_false = (
            prune(p, schema=self.state.schema, spec=self.state.specs, partitions=partitions).must_match.to_pylist()
            for p in (node, Not(node))
        )
        return [_TRUE if yes else _FALSE if no else _NULL for yes, no in zip(is_true, is_false, strict=True)]

    def _text(self, node: Compare | In | IsNull | StartsWith) -> str:
        name = self._column(node.column)
        column = _quoted(name)
        kind = self.state.schema.find(node.column).type.kind
        type_ = self.state.definition.arrow.field(name).type
        if isinstance(node, IsNull):
            return f"{column} IS NULL"
        if isinstance(node, StartsWith):
            if kind is not Kind.STRING:
                raise PredicateError(f"{node}: Lance compares the start of text alone")
            return f"starts_with({column}, {_literal(node.prefix, kind, type_, node)})"
        if isinstance(node, In):
            texts = [
                f"{_reaching(column, type_, v)} = {_literal(v, kind, type_, node)}" if v is not None else _NULL
                for v in node.values
            ]
            return _or(texts)
        return _compared(column, node, kind, type_)


def _compared(column: str, node: Compare, kind: Kind, type_: pa.DataType) -> str:
    if node.value is None:
        return f"{column} IS NULL" if node.op == "<=>" else _NULL
    literal = _literal(node.value, kind, type_, node)
    column = _reaching(column, type_, node.value)
    if node.op == "<=>":
        return f"({column} IS NOT NULL AND {column} = {literal})"
    text = f"{column} {node.op} {literal}"
    if kind not in FLOATS:
        return text
    # Spark counts NaN as the greatest number; Lance goes by its sign.
    if node.op in (">", ">="):
        return f"({text} OR isnan({column}))"
    return f"({text} AND NOT isnan({column}))" if node.op in ("<", "<=") else text


def _literal(value: object, kind: Kind, type_: pa.DataType, node: Predicate) -> str:
    write = _LITERALS.get(kind)
    text = write(value, type_) if write is not None else None
    if text is None:
        raise PredicateError(f"{node}: Lance is not asked to compare {type_} with {value!r}")
    return text


def _integer(value: object, type_: pa.DataType) -> str | None:
    is_number = isinstance(value, int) and not isinstance(value, bool) and pa.types.is_integer(type_)
    return str(value) if is_number and -(2**63) < cast("int", value) < 2**63 else None


def _reaching(column: str, type_: pa.DataType, value: object) -> str:
    """The column, wide enough to be compared with that number: Lance fails where a literal is beyond its type."""
    if not pa.types.is_integer(type_) or not isinstance(value, int):
        return column
    bits, is_signed = type_.bit_width, pa.types.is_signed_integer(type_)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    return column if least <= value <= most else f"CAST({column} AS BIGINT)"


def _float(value: object, _: pa.DataType) -> str | None:
    # -0.0 is 0.0 to Spark, and less to Lance.
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    if not is_number or not isfinite(cast("float", value)) or value == 0:
        return None
    return f"CAST('{float(cast('float', value))!r}' AS DOUBLE)"


def _date(value: object, _: pa.DataType) -> str | None:
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) and not isinstance(value, datetime) else None


def _timestamp(value: object, type_: pa.DataType) -> str | None:
    """The moment in the unit and the zone of the column.

    Lance takes one without them for a time of day in the column's zone, and cuts it to the column's unit.
    """
    if not isinstance(value, datetime) or not pa.types.is_timestamp(type_):
        return None
    if (value.utcoffset() is None) != (type_.tz is None) or not _ZONE.fullmatch(type_.tz or ""):
        return None
    word, size = _UNITS[type_.unit]
    number, rest = divmod(micros_of(value), size)
    zone = "None" if type_.tz is None else f'Some("{type_.tz}")'
    return f"arrow_cast({number}, 'Timestamp({word}, {zone})')" if not rest else None


_UNITS = {"s": ("Second", 1_000_000), "ms": ("Millisecond", 1_000), "us": ("Microsecond", 1)}
"""Arrow's units as Lance writes them, and the microseconds in each."""
_ZONE = re.compile(r"[\w/+:-]*")


_LITERALS: dict[Kind, Callable[[object, pa.DataType], str | None]] = {
    Kind.BOOLEAN: lambda v, _: str(v).upper() if isinstance(v, bool) else None,
    **dict.fromkeys(INTEGERS, _integer),
    Kind.DOUBLE: _float,
    Kind.STRING: lambda v, _: "'" + v.replace("'", "''") + "'" if isinstance(v, str) else None,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_NTZ: _timestamp,
}


def _quoted(name: str) -> str:
    if "`" in name:
        raise PredicateError(f"{name!r} has a backquote, which Lance's filters can't")
    return f"`{name}`"


def _not(text: str) -> str:
    return {_TRUE: _FALSE, _FALSE: _TRUE, _NULL: _NULL}.get(text, f"NOT ({text})")


def _and(texts: tuple[str, ...] | list[str]) -> str:
    if _FALSE in texts:
        return _FALSE
    left = [text for text in texts if text != _TRUE]
    return " AND ".join(f"({text})" for text in left) or _TRUE


def _or(texts: tuple[str, ...] | list[str]) -> str:
    if _TRUE in texts:
        return _TRUE
    left = [text for text in texts if text != _FALSE]
    return " OR ".join(f"({text})" for text in left) or _FALSE
