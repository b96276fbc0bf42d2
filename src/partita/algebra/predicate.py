"""Predicates: the tree that SQL text and `col(...)` expressions are parsed into.

A comparison has a column on the left and a value on the right. An expression of any other form is a `Residual`: SQL
text that Spark evaluates and that never prunes. Predicates are true, false or null, as in SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from partita.algebra.hashing import time_text, timestamp_text
from partita.algebra.physical_values import (
    datetime_to_micros,
    has_nanoseconds,
    is_computable,
    is_unicode,
    time_to_micros,
    to_python_value,
)
from partita.algebra.schema import NameMatching
from partita.algebra.time_zones import TimeZone
from partita.errors import MAX_INTEGER_BITS, PredicateError, value_repr

LiteralValue: TypeAlias = object
"""A Python value that a column is compared with; None is NULL."""

MIRRORED_OPERATORS = {"=": "=", "!=": "!=", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate(ABC):
    """A condition on the rows of a table. Combine conditions with `&`, `|` and `~`.

    Attributes:
        text: the text that its author wrote; None for a condition that was written in Python.
    """

    text: str | None = field(default=None, compare=False, repr=False)

    def __and__(self, other: Predicate | ColumnRef) -> Predicate:
        return all_of((self, to_predicate(other)))

    def __rand__(self, other: ColumnRef) -> Predicate:
        return to_predicate(other) & self

    def __or__(self, other: Predicate | ColumnRef) -> Predicate:
        return any_of((self, to_predicate(other)))

    def __ror__(self, other: ColumnRef) -> Predicate:
        return to_predicate(other) | self

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise PredicateError("a predicate has no truth value; combine predicates with &, | and ~")

    @abstractmethod
    def sql(self) -> str:
        """Return the predicate in Spark SQL, with typed literals."""

    def __str__(self) -> str:
        return self.text if self.text is not None else self.sql()


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`column op value`, where op is one of `= != < <= > >= <=>`."""

    column: str
    operator: str
    value: LiteralValue
    position: int | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        return f"{quote_name(self.column)} {self.operator} {literal_sql(self.value)}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`column IN (values)`; a value of None is NULL."""

    column: str
    values: tuple[LiteralValue, ...]
    position: int | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        return f"{quote_name(self.column)} IN ({', '.join(map(literal_sql, self.values))})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`column IS NULL`."""

    column: str
    position: int | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        return f"{quote_name(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class StartsWith(Predicate):
    """`column LIKE 'prefix%'`."""

    column: str
    prefix: str
    position: int | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        return f"startswith({quote_name(self.column)}, {literal_sql(self.prefix)})"


@dataclass(frozen=True, slots=True)
class BooleanLiteral(Predicate):
    """TRUE, FALSE or, as None, NULL."""

    value: bool | None

    def sql(self) -> str:
        # A bare NULL has no type, and Spark requires a boolean condition.
        return "CAST(NULL AS BOOLEAN)" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Residual(Predicate):
    """An expression that the tree can't represent, as SQL text for Spark."""

    expression: str

    def sql(self) -> str:
        return self.expression


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """NOT operand."""

    operand: Predicate

    def sql(self) -> str:
        return f"NOT ({self.operand.sql()})"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """AND of the operands."""

    operands: tuple[Predicate, ...]

    def sql(self) -> str:
        return " AND ".join(f"({p.sql()})" for p in self.operands)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """OR of the operands."""

    operands: tuple[Predicate, ...]

    def sql(self) -> str:
        return " OR ".join(f"({p.sql()})" for p in self.operands)


def all_of(operands: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of predicates, with nested conjunctions flattened."""
    flat_operands = tuple(p for part in operands for p in conjuncts(part))
    return flat_operands[0] if len(flat_operands) == 1 else And(flat_operands)


def any_of(operands: Iterable[Predicate]) -> Predicate:
    """Return the disjunction of predicates, with nested disjunctions flattened."""
    flat_operands = tuple(p for part in operands for p in (part.operands if isinstance(part, Or) else (part,)))
    return flat_operands[0] if len(flat_operands) == 1 else Or(flat_operands)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the operands of a conjunction, or the predicate itself."""
    yield from predicate.operands if isinstance(predicate, And) else (predicate,)


def residuals(predicate: Predicate) -> Iterator[Residual]:
    """Yield the residuals at any depth of the tree."""
    if isinstance(predicate, Residual):
        yield predicate
    for part in _operands_of(predicate):
        yield from residuals(part)


def _operands_of(predicate: Predicate) -> tuple[Predicate, ...]:
    if isinstance(predicate, And | Or):
        return predicate.operands
    return (predicate.operand,) if isinstance(predicate, Not) else ()


class ColumnRef:
    """A column in a predicate written in Python: `col("ts") >= datetime(...)`.

    A boolean column is a predicate itself; `&`, `|` and `~` combine predicates.
    """

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment] # == makes a predicate, so a reference can't be a key

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise PredicateError(f"col() takes the name of a column, not {value_repr(name)}")
        self.name = name

    def __eq__(self, value: object) -> Comparison:  # type: ignore[override] # a predicate, not a truth
        return self._compare("=", value)

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override] # a predicate, not a truth
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Comparison:
        return self._compare("<", value)

    def __le__(self, value: object) -> Comparison:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Comparison:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Comparison:
        return self._compare(">=", value)

    def eq_null_safe(self, value: object) -> Comparison:
        """Compare with `<=>`: NULL equals NULL."""
        return self._compare("<=>", value)

    def isin(self, *values: object) -> In:
        """Compare with IN; give the values as arguments, or as one list, tuple or set."""
        single = values[0] if len(values) == 1 else None
        literals = tuple(single) if isinstance(single, list | tuple | set | frozenset | range) else values
        if not literals:
            raise PredicateError(f"{self.name} IN () has no values")
        return In(self.name, tuple(map(_check_literal, literals)))

    def between(self, lower: object, upper: object) -> Predicate:
        """Return `lower <= column AND column <= upper`."""
        return all_of((self >= lower, self <= upper))

    def is_null(self) -> IsNull:
        """Return `column IS NULL`."""
        return IsNull(self.name)

    def is_not_null(self) -> Not:
        """Return `column IS NOT NULL`."""
        return Not(IsNull(self.name))

    def startswith(self, prefix: str) -> StartsWith:
        """Compare with LIKE 'prefix%', without wildcards in the prefix."""
        literal = _check_literal(prefix)
        if not isinstance(literal, str):
            raise PredicateError(f"startswith takes a string, not {value_repr(prefix)}")
        return StartsWith(self.name, literal)

    def __and__(self, other: Predicate | ColumnRef) -> Predicate:
        return to_predicate(self) & other

    def __or__(self, other: Predicate | ColumnRef) -> Predicate:
        return to_predicate(self) | other

    def __invert__(self) -> Predicate:
        return ~to_predicate(self)

    def __bool__(self) -> bool:
        raise PredicateError("a column has no truth value; combine predicates with &, | and ~")

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def _compare(self, operator: str, value: object) -> Comparison:
        return Comparison(self.name, operator, _check_literal(value))


def col(name: str) -> ColumnRef:
    """Return a column for a predicate such as `col("ts") >= date(2025, 1, 1)`.

    Naive datetimes that it is compared with are in the time zone of the Spark session, as dates and times in text are.
    """
    return ColumnRef(name)


def to_predicate(predicate: Predicate | ColumnRef) -> Predicate:
    """Return the predicate, or the predicate that a boolean column is true."""
    if isinstance(predicate, ColumnRef):
        return Comparison(predicate.name, "=", True, text=predicate.name)
    if not isinstance(predicate, Predicate):
        raise PredicateError(f"{value_repr(predicate)} ({type(predicate).__name__}) is not a predicate")
    return predicate


PredicateLike: TypeAlias = str | Predicate | ColumnRef
"""A predicate as users give it: SQL text, or what `col(...)` returns."""


@dataclass(frozen=True, slots=True)
class UnboundPredicate:
    """A predicate as a user gave it, and how to bind it to a schema.

    `time_zone` is that of dates and times without a zone; `matching` says which columns a name finds.
    """

    where: PredicateLike
    time_zone: TimeZone
    matching: NameMatching = NameMatching.EXACT_FIRST

    def __str__(self) -> str:
        return str(self.where)


_LITERAL_TYPES = (bool, int, float, Decimal, str, bytes, date, time, UUID)


def _check_literal(value: object) -> LiteralValue:
    """Return a value as a literal; raise `PredicateError` if no column can be compared with it."""
    value = to_python_value(value)
    if value is not None and not isinstance(value, _LITERAL_TYPES):
        raise PredicateError(f"a column can't be compared with {value_repr(value)}, a {type(value).__name__}")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise PredicateError(f"a column can't be compared with an integer of {value.bit_length():,} bits")
    problem = _literal_problem(value)
    if problem is not None:
        raise PredicateError(f"a column can't be compared with {value_repr(value)}: {problem}")
    return value


def _literal_problem(value: object) -> str | None:
    if isinstance(value, str):
        return None if is_unicode(value) else "a lone surrogate is not Unicode text"
    if isinstance(value, Decimal):
        if not value.is_finite():
            return "a decimal column has no NaN or infinity"
        return None if is_computable(value) else "no decimal column has so many digits"
    if isinstance(value, datetime):
        if value != value:  # noqa: PLR0124 - NaT
            return "NaT is not a timestamp; use None for NULL"
        if has_nanoseconds(value):
            return "it has digits below the microsecond"
        return (
            None
            if _MIN_MICROS <= datetime_to_micros(value) <= _MAX_MICROS
            else "in UTC it is outside the years 0001 to 9999"
        )
    return None


_MIN_MICROS = datetime_to_micros(datetime.min.replace(tzinfo=UTC))
_MAX_MICROS = datetime_to_micros(datetime.max.replace(tzinfo=UTC))


def quote_name(name: str) -> str:
    """Return the SQL of a column's name, with each part of a dotted path in backquotes."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


_INT32_RANGE = range(-(2**31), 2**31)
_INT64_RANGE = range(-(2**63), 2**63)


def literal_sql(value: LiteralValue) -> str:
    """Return the SQL of a typed literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return (
            f"{value}"
            if value in _INT32_RANGE
            else f"{value}L"
            if value in _INT64_RANGE and value != _INT64_RANGE[0]
            else f"{value}BD"
        )
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return _quoted_literal(value)


def _quoted_literal(value: object) -> str:
    if isinstance(value, datetime):
        zone, word = ("", "TIMESTAMP_NTZ") if value.utcoffset() is None else ("Z", "TIMESTAMP")
        return f"{word} '{timestamp_text(value)}{zone}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        return f"TIME '{time_text(time_to_micros(value))}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    # Spark substitutes variables `${name}`, also inside a literal.
    return "'" + text.replace("${", "$\\{") + "'"
