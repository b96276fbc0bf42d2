"""Parser of predicates in SQL text.

sqlglot parses the text in Spark's dialect. Each node of its tree that our tree can represent is converted; any other
becomes a `Residual` with the author's text. Literals are parsed from the text again, by Spark's rules for escapes, so
that nothing depends on how sqlglot rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from partita.algebra.bind import BindOptions, bind_predicate, find_column
from partita.algebra.literals import LossyLiteral, cast_literal, require_finite
from partita.algebra.predicate import (
    MIRRORED_OPERATORS,
    BooleanLiteral,
    ColumnRef,
    Comparison,
    In,
    IsNull,
    Not,
    Predicate,
    PredicateLike,
    Residual,
    StartsWith,
    UnboundPredicate,
    all_of,
    any_of,
    to_predicate,
)  # fmt: skip
from partita.algebra.schema import Schema
from partita.algebra.sql_condition import is_parenthesized, parse_condition, split_operands, token_word
from partita.algebra.time_zones import UTC_TIME_ZONE
from partita.algebra.type_text import parse_type
from partita.algebra.types import CharType, Field, LogicalType, TypeKind
from partita.errors import PredicateError, SchemaError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


def parse_predicate(where: PredicateLike | UnboundPredicate, schema: Schema) -> Predicate:
    """Parse SQL text, or take a predicate made with `col(...)`, and bind it to the schema.

    Timestamps become instants in UTC; one without a zone is in the zone of the `UnboundPredicate`, or else in UTC.
    Raises a `PredicateError` with a caret under the position if the text does not parse or a column does not exist.
    """
    unbound_predicate = where if isinstance(where, UnboundPredicate) else UnboundPredicate(where, UTC_TIME_ZONE)
    predicate, options = unbound_predicate.where, BindOptions(unbound_predicate.time_zone, unbound_predicate.matching)
    try:
        if isinstance(predicate, str):
            return _parse_text(predicate, schema, options)
        return bind_predicate(to_predicate(predicate), schema, options=options)
    except RecursionError:
        raise PredicateError("the predicate is nested too deeply") from None


@lru_cache(maxsize=256)
def _parse_text(where: str, schema: Schema, options: BindOptions) -> Predicate:
    """Parse text; cached, as a plan needs the same text for the manifests and for the files."""
    tree, tokens = parse_condition(where)
    parser = _PredicateParser(where, schema, options)
    # Spark substitutes variables before it parses, and TIMESTAMP means TIMESTAMP_NTZ in some sessions.
    is_residual = "${" in where or (options.time_zone.timestamp_is_ntz and "timestamp" in where.lower())
    return parser.residual_predicate(tree, where) if is_residual else parser.parse_node(tree, tokens)


_COMPARISON_OPERATORS = {
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "<=>",
}
_CAST_NODES = ("Cast", "TryCast")


@dataclass(frozen=True, slots=True)
class _PredicateParser:
    """Converts sqlglot's nodes, given the tokens that each node covers."""

    source_text: str
    schema: Schema
    options: BindOptions

    def parse_node(self, node: Any, tokens: list[Token]) -> Predicate:
        kind = type(node).__name__
        if kind == "Paren" and is_parenthesized(tokens):
            return self.parse_node(node.this, tokens[1:-1])
        if kind in ("And", "Or"):
            return self._parse_junction(node, kind, tokens)
        if kind == "Not" and tokens and token_word(tokens[0]) in ("not", "!"):
            return Not(self.parse_node(node.this, tokens[1:]), text=self._token_text(tokens))
        return self._parse_leaf(node, self._token_text(tokens))

    def _token_text(self, tokens: list[Token]) -> str:
        return self.source_text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    def _parse_junction(self, node: Any, kind: str, tokens: list[Token]) -> Predicate:
        operands = split_operands(node, tokens)
        if operands is None:
            return self.residual_predicate(node, self._token_text(tokens))
        parts = [self.parse_node(operand, operand_tokens) for operand, operand_tokens in operands]
        return replace(all_of(parts) if kind == "And" else any_of(parts), text=self._token_text(tokens))

    def _parse_leaf(self, node: Any, text: str) -> Predicate:
        try:
            return bind_predicate(
                replace(self._convert_node(node, text), text=text), self.schema, self.source_text, self.options
            )
        except LossyLiteral:
            return self.residual_predicate(node, text)

    def residual_predicate(self, node: Any, text: str) -> Residual:
        """Return a residual with the text; raise `PredicateError` if it refers to an unknown column."""
        for column in _table_columns(node):
            name, position = _column_path(column)
            self._find_column(name, position)
        return Residual(text, text=text)

    def _convert_node(self, node: Any, text: str | None) -> Predicate:
        """Convert a leaf, or raise `LossyLiteral`; `text` is None if the node shares its text with a NOT around it."""
        kind = type(node).__name__
        arguments = {name for name, value in node.args.items() if value not in (None, False, [])}
        if kind == "Column":
            return to_predicate(ColumnRef(_column_path(node)[0]))
        if kind == "Boolean":
            return BooleanLiteral(bool(node.this))
        if kind == "Null":
            return BooleanLiteral(None)
        if kind == "Not":
            return Not(self._convert_node(node.this, None))
        if kind in _COMPARISON_OPERATORS and arguments == {"this", "expression"}:
            return self._parse_comparison(node, kind)
        if kind == "Is" and arguments <= {"this", "expression"}:
            return self._parse_is(node)
        if kind == "In" and arguments == {"this", "expressions"}:
            name, position = self._column_name(node.this)
            return In(name, tuple(map(self._parse_literal, node.expressions)), position)
        if kind == "Between" and arguments == {"this", "low", "high"}:
            name, position = self._column_name(node.this)
            self._check_not_padded(name, position)
            low, high = self._parse_literal(node.args["low"]), self._parse_literal(node.args["high"])
            return all_of((Comparison(name, ">=", low, position), Comparison(name, "<=", high, position)))
        if kind in ("Like", "StartsWith") and arguments <= {"this", "expression", "negate"}:
            is_negated = bool(node.args.get("negate"))
            predicate = self._parse_like(node, kind, None if is_negated else text)
            return Not(predicate) if is_negated else predicate
        raise LossyLiteral

    def _parse_comparison(self, node: Any, kind: str) -> Predicate:
        operator, left, right = _COMPARISON_OPERATORS[kind], node.this, node.expression
        if type(left).__name__ != "Column":
            operator, left, right = MIRRORED_OPERATORS[operator], right, left
        name, position = self._column_name(left)
        comparison = Comparison(name, operator, self._parse_literal(right), position)
        return Not(comparison) if kind == "NullSafeNEQ" else comparison

    def _parse_is(self, node: Any) -> Predicate:
        name, position = self._column_name(node.this)
        kind = type(node.expression).__name__
        if kind == "Null":
            return IsNull(name, position)
        if kind == "Boolean":
            return Comparison(name, "<=>", bool(node.expression.this), position)
        raise LossyLiteral

    def _parse_like(self, node: Any, kind: str, text: str | None) -> Predicate:
        name, position = self._column_name(node.this)
        pattern = self._parse_literal(node.expression)
        is_text = self._find_column(name, position).type.kind is TypeKind.STRING
        if not isinstance(pattern, str) or not is_text:
            raise LossyLiteral
        prefix, rest = (pattern, "%") if kind == "StartsWith" else _split_like_pattern(pattern)
        if not rest:
            self._check_not_padded(name, position)
            return Comparison(name, "=", prefix, position)
        starts = StartsWith(name, prefix, position)
        if not rest.strip("%"):
            return starts
        if text is None:
            raise LossyLiteral
        return all_of((starts, Residual(text, text=text)))

    def _check_not_padded(self, name: str, position: int | None) -> None:
        """Raise `LossyLiteral` for a CHAR column: in BETWEEN and LIKE, Spark does not pad the literal."""
        if isinstance(self._find_column(name, position).type, CharType):
            raise LossyLiteral

    def _find_column(self, name: str, position: int | None) -> Field:
        return find_column(name, self.schema, self.source_text, position, self.options.matching)

    def _column_name(self, node: Any) -> tuple[str, int | None]:
        if type(node).__name__ == "Paren":
            return self._column_name(node.this)
        if type(node).__name__ != "Column":
            raise LossyLiteral
        return _column_path(node)

    def _parse_literal(self, node: Any) -> object:
        kind = type(node).__name__
        if kind == "Paren":
            return self._parse_literal(node.this)
        if kind == "Literal":
            return self._parse_quoted_text(node) if node.is_string else _parse_number(node.this)
        if kind == "Null":
            return None
        if kind == "Boolean":
            return bool(node.this)
        if kind == "HexString":
            return _parse_hex(node.this)
        if kind == "Neg":
            return _negate_literal(self._parse_literal(node.this))
        if kind in _CAST_NODES and not node.args.get("format"):
            return cast_literal(self._parse_literal(node.this), _cast_type(node), self.options.time_zone)
        raise LossyLiteral

    def _parse_quoted_text(self, node: Any) -> str:
        meta = node.meta
        raw = self.source_text[meta["start"] : meta["end"] + 1] if "start" in meta else ""
        if len(raw) < 2 or raw[0] not in "'\"" or raw[0] != raw[-1]:
            return self._cast_number_text(node)
        return unescape_literal(raw[1:-1])

    def _cast_number_text(self, node: Any) -> str:
        """Return a number that sqlglot turned into a string to cast it, as in `2.5BD`."""
        if type(node.parent).__name__ in _CAST_NODES and isinstance(_parse_number(node.this), Decimal | int):
            return cast("str", node.this)
        raise LossyLiteral


def unescape_literal(raw: str) -> str:
    """Resolve the escapes of a quoted literal as Spark does; raise `LossyLiteral` for numeric escapes."""
    literal_characters: list[str] = []
    characters = iter(raw)
    for character in characters:
        if character != "\\":
            literal_characters.append(character)
            continue
        next_character = next(characters, None)
        if next_character is None or next_character in "uU0123":
            raise LossyLiteral
        literal_characters.append(_ESCAPES.get(next_character, next_character))
    return "".join(literal_characters)


_ESCAPES = {"b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _split_like_pattern(pattern: str) -> tuple[str, str]:
    """Split a LIKE pattern into its literal prefix and the rest from the first wildcard on."""
    prefix = ""
    index = 0
    while index < len(pattern) and pattern[index] not in "%_":
        if pattern[index] == "\\":
            index += 1
            if pattern[index : index + 1] not in ("%", "_", "\\"):
                raise LossyLiteral
        prefix += pattern[index]
        index += 1
    return prefix, pattern[index:]


def _parse_number(text: str) -> int | Decimal | float:
    try:
        if "e" in text.lower():
            return require_finite(float(text))
        return Decimal(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):
        raise LossyLiteral from None


def _negate_literal(value: object) -> object:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return -value
    raise LossyLiteral


def _parse_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise LossyLiteral from None


def _cast_type(node: Any) -> LogicalType:
    target = node.args["to"]
    name = target.this.name
    if name not in _CAST_TYPES:
        raise LossyLiteral
    try:
        return parse_type(_CAST_TYPES[name] or target.sql(dialect="spark"))
    except SchemaError:
        raise LossyLiteral from None


_CAST_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "byte", "SMALLINT": "short", "INT": "int", "BIGINT": "long", "FLOAT": "float",
    "DOUBLE": "double", "DECIMAL": "", "DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp", "TIMESTAMPLTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
"""sqlglot's names of types, and ours; a decimal is parsed with its precision and scale."""


def _column_path(column: Any) -> tuple[str, int | None]:
    """Return the dotted name of a column and its position in the text."""
    parts = column.parts
    return ".".join(p.name for p in parts), parts[0].meta.get("start")


def _table_columns(node: Any) -> Iterator[Any]:
    """Yield the table's columns below a node, without those of lambdas and subqueries."""
    from sqlglot import exp

    for descendant in node.walk(prune=lambda n: isinstance(n, exp.Lambda | exp.Query)):
        if type(descendant).__name__ == "Column" and type(descendant.this).__name__ == "Identifier":
            yield descendant
