"""SQL text into the predicate tree.

sqlglot reads the text as Spark's dialect. Each node of its tree that ours can hold is taken over; any other stays as
the author's own text, a `Residual`. Literals are read from that text again, by Spark's rules for escapes, so that
nothing depends on how sqlglot rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from partita.algebra.bind import Reading, bind, find_column
from partita.algebra.condition import is_wrapped, operands_of, read_condition, word_of
from partita.algebra.literals import Lossy, cast_literal, finite
from partita.algebra.predicate import (
    MIRRORED,
    ColumnRef,
    Compare,
    In,
    IsNull,
    Not,
    Predicate,
    Residual,
    StartsWith,
    Truth,
    all_of,
    any_of,
    as_predicate,
)  # fmt: skip
from partita.algebra.schema import NameMatching, Schema
from partita.algebra.time_zones import IN_UTC, TimeZone
from partita.algebra.type_text import parse_type
from partita.algebra.types import CharType, Field, Kind, LogicalType
from partita.errors import PredicateError, SchemaError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


Where: TypeAlias = str | Predicate | ColumnRef
"""A predicate as users give it: SQL text, or what `col(...)` makes."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate as a user gave it, the time zone of its dates and times that name none, and what its names find."""

    where: Where
    time_zone: TimeZone
    matching: NameMatching = NameMatching.EXACT_FIRST

    def __str__(self) -> str:
        return str(self.where)


def parse_predicate(where: Where | Condition, schema: Schema) -> Predicate:
    """A predicate of SQL text, or one made with `col(...)`, bound to the schema.

    Timestamps become instants in UTC; what names no zone is in that of the `Condition`, or else in UTC. Text that does
    not parse, and columns that aren't there, are a `PredicateError` with a caret under the place.
    """
    condition = where if isinstance(where, Condition) else Condition(where, IN_UTC)
    given, reading = condition.where, Reading(condition.time_zone, condition.matching)
    try:
        if isinstance(given, str):
            return _parsed(given, schema, reading)
        return bind(as_predicate(given), schema, reading=reading)
    except RecursionError:
        raise PredicateError("the predicate is nested too deeply") from None


@lru_cache(maxsize=256)
def _parsed(where: str, schema: Schema, reading: Reading) -> Predicate:
    """A plan reads the same text twice, once for the manifests and once for the files, and many come again."""
    tree, tokens = read_condition(where)
    reader = _Reader(where, schema, reading)
    # Spark would put variables in their places first, so none of the text can be taken at its word.
    is_sparks = "${" in where or (reading.time_zone.timestamp_is_ntz and "timestamp" in where.lower())
    return reader.residual(tree, where) if is_sparks else reader.read(tree, tokens)


_OPS = {
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "<=>",
}
_CASTS = ("Cast", "TryCast")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads sqlglot's nodes with the tokens that they stand on."""

    source: str
    schema: Schema
    reading: Reading

    def read(self, node: Any, tokens: list[Token]) -> Predicate:
        kind = type(node).__name__
        if kind == "Paren" and is_wrapped(tokens):
            return self.read(node.this, tokens[1:-1])
        if kind in ("And", "Or"):
            return self._junction(node, kind, tokens)
        if kind == "Not" and tokens and word_of(tokens[0]) in ("not", "!"):
            return Not(self.read(node.this, tokens[1:]), text=self._text(tokens))
        return self._leaf(node, self._text(tokens))

    def _text(self, tokens: list[Token]) -> str:
        return self.source[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def _junction(self, node: Any, kind: str, tokens: list[Token]) -> Predicate:
        found = operands_of(node, tokens)
        if found is None:
            return self.residual(node, self._text(tokens))
        parts = [self.read(operand, piece) for operand, piece in found]
        return replace(all_of(parts) if kind == "And" else any_of(parts), text=self._text(tokens))

    def _leaf(self, node: Any, text: str) -> Predicate:
        try:
            return bind(replace(self._held(node, text), text=text), self.schema, self.source, self.reading)
        except Lossy:
            return self.residual(node, text)

    def residual(self, node: Any, text: str) -> Residual:
        """The text as it is, with its columns checked."""
        for column in _columns(node):
            name, position = _name(column)
            self._find_column(name, position)
        return Residual(text, text=text)

    def _held(self, node: Any, text: str | None) -> Predicate:
        """The node in our tree, or `Lossy`; `text` is the node's own, None where it stands under a NOT of its text."""
        kind = type(node).__name__
        arguments = {name for name, value in node.args.items() if value not in (None, False, [])}
        if kind == "Column":
            return as_predicate(ColumnRef(_name(node)[0]))
        if kind == "Boolean":
            return Truth(bool(node.this))
        if kind == "Null":
            return Truth(None)
        if kind == "Not":
            return Not(self._held(node.this, None))
        if kind in _OPS and arguments == {"this", "expression"}:
            return self._comparison(node, kind)
        if kind == "Is" and arguments <= {"this", "expression"}:
            return self._is(node)
        if kind == "In" and arguments == {"this", "expressions"}:
            name, position = self._column(node.this)
            return In(name, tuple(map(self._literal, node.expressions)), position)
        if kind == "Between" and arguments == {"this", "low", "high"}:
            name, position = self._column(node.this)
            self._check_not_padded(name, position)
            low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
            return all_of((Compare(name, ">=", low, position), Compare(name, "<=", high, position)))
        if kind in ("Like", "StartsWith") and arguments <= {"this", "expression", "negate"}:
            negated = bool(node.args.get("negate"))
            held = self._like(node, kind, None if negated else text)
            return Not(held) if negated else held
        raise Lossy

    def _comparison(self, node: Any, kind: str) -> Predicate:
        op, left, right = _OPS[kind], node.this, node.expression
        if type(left).__name__ != "Column":
            op, left, right = MIRRORED[op], right, left
        name, position = self._column(left)
        compared = Compare(name, op, self._literal(right), position)
        return Not(compared) if kind == "NullSafeNEQ" else compared

    def _is(self, node: Any) -> Predicate:
        name, position = self._column(node.this)
        kind = type(node.expression).__name__
        if kind == "Null":
            return IsNull(name, position)
        if kind == "Boolean":
            return Compare(name, "<=>", bool(node.expression.this), position)
        raise Lossy

    def _like(self, node: Any, kind: str, text: str | None) -> Predicate:
        name, position = self._column(node.this)
        pattern = self._literal(node.expression)
        is_text = self._find_column(name, position).type.kind is Kind.STRING
        if not isinstance(pattern, str) or not is_text:
            raise Lossy
        prefix, rest = (pattern, "%") if kind == "StartsWith" else _like_prefix(pattern)
        if not rest:
            self._check_not_padded(name, position)
            return Compare(name, "=", prefix, position)
        starts = StartsWith(name, prefix, position)
        if not rest.strip("%"):
            return starts
        if text is None:
            raise Lossy
        return all_of((starts, Residual(text, text=text)))

    def _check_not_padded(self, name: str, position: int | None) -> None:
        """Leave CHAR columns to Spark where it compares them with a text as it is, in BETWEEN and LIKE."""
        if isinstance(self._find_column(name, position).type, CharType):
            raise Lossy

    def _find_column(self, name: str, position: int | None) -> Field:
        return find_column(name, self.schema, self.source, position, self.reading.matching)

    def _column(self, node: Any) -> tuple[str, int | None]:
        if type(node).__name__ == "Paren":
            return self._column(node.this)
        if type(node).__name__ != "Column":
            raise Lossy
        return _name(node)

    def _literal(self, node: Any) -> object:
        kind = type(node).__name__
        if kind == "Paren":
            return self._literal(node.this)
        if kind == "Literal":
            return self._quoted(node) if node.is_string else _number(node.this)
        if kind == "Null":
            return None
        if kind == "Boolean":
            return bool(node.this)
        if kind == "HexString":
            return _octets(node.this)
        if kind == "Neg":
            return _negative(self._literal(node.this))
        if kind in _CASTS and not node.args.get("format"):
            return cast_literal(self._literal(node.this), _cast_type(node), self.reading.time_zone)
        raise Lossy

    def _quoted(self, node: Any) -> str:
        meta = node.meta
        raw = self.source[meta["start"] : meta["end"] + 1] if "start" in meta else ""
        if len(raw) < 2 or raw[0] not in "'\"" or raw[0] != raw[-1]:
            return self._bare(node)
        return unescape(raw[1:-1])

    def _bare(self, node: Any) -> str:
        """A number that sqlglot turned into text on the way to a cast, as in `2.5BD`."""
        if type(node.parent).__name__ in _CASTS and isinstance(_number(node.this), Decimal | int):
            return cast("str", node.this)
        raise Lossy


def unescape(raw: str) -> str:
    """The text of a quoted literal, by Spark's escapes; the rare ones by number are left to Spark (`Lossy`)."""
    out: list[str] = []
    characters = iter(raw)
    for character in characters:
        if character != "\\":
            out.append(character)
            continue
        escaped = next(characters, None)
        if escaped is None or escaped in "uU0123":
            raise Lossy
        out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)


_ESCAPES = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _like_prefix(pattern: str) -> tuple[str, str]:
    """The literal text that a LIKE pattern begins with, and what follows from the first wildcard on."""
    prefix = ""
    at = 0
    while at < len(pattern) and pattern[at] not in "%_":
        if pattern[at] == "\\":
            at += 1
            if pattern[at : at + 1] not in ("%", "_", "\\"):
                raise Lossy
        prefix += pattern[at]
        at += 1
    return prefix, pattern[at:]


def _number(text: str) -> int | Decimal | float:
    try:
        if "e" in text.lower():
            return finite(float(text))
        return Decimal(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):
        raise Lossy from None


def _negative(value: object) -> object:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return -value
    raise Lossy


def _octets(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Lossy from None


def _cast_type(node: Any) -> LogicalType:
    target = node.args["to"]
    word = target.this.name
    if word not in _CAST_TYPES:
        raise Lossy
    try:
        return parse_type(_CAST_TYPES[word] or target.sql(dialect="spark"))
    except SchemaError:
        raise Lossy from None


_CAST_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "byte", "SMALLINT": "short", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double", "DECIMAL": "", "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
"""sqlglot's names for types, and ours; a decimal is read with its digits."""


def _name(column: Any) -> tuple[str, int | None]:
    """A column's name with its dots, and where it starts in the text."""
    parts = column.parts
    return ".".join(p.name for p in parts), parts[0].meta.get("start")


def _columns(node: Any) -> Iterator[Any]:
    """The columns below a node that are the table's own: not a lambda's, not a subquery's."""
    from sqlglot import exp

    for found in node.walk(prune=lambda n: isinstance(n, exp.Lambda | exp.Query)):
        if type(found).__name__ == "Column" and type(found.this).__name__ == "Identifier":
            yield found
