"""Predicates: one small tree for what SQL text and `col(...)` expressions say.

A comparison has a column on its left and a value on its right. What the tree can't hold is a `Residual`: text that
Spark evaluates, and that never excludes anything. Truth has three values, as in SQL.
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
from partita.algebra.plain import is_computable, is_finer, is_unicode, micros_of, micros_of_time, native
from partita.errors import MAX_BITS, PredicateError, value_repr

Value: TypeAlias = object
"""A Python value that a column is compared with; None is NULL."""

MIRRORED = {"=": "=", "!=": "!=", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate(ABC):
    """A node of the tree. `text` is how its author wrote it, where that is known."""

    text: str | None = field(default=None, compare=False, repr=False)

    def __and__(self, other: Predicate | ColumnRef) -> Predicate:
        return all_of((self, as_predicate(other)))

    def __rand__(self, other: ColumnRef) -> Predicate:
        return as_predicate(other) & self

    def __or__(self, other: Predicate | ColumnRef) -> Predicate:
        return any_of((self, as_predicate(other)))

    def __ror__(self, other: ColumnRef) -> Predicate:
        return as_predicate(other) | self

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise PredicateError("a predicate has no truth of its own; combine predicates with &, | and ~")

    @abstractmethod
    def sql(self) -> str:
        """The predicate in Spark's SQL, every literal with its type."""

    def __str__(self) -> str:
        return self.text if self.text is not None else self.sql()


@dataclass(frozen=True, slots=True)
class Compare(Predicate):
    """`column op value`, where op is one of `= != < <= > >= <=>`."""

    column: str
    op: str
    value: Value
    position: int | None = field(default=None, compare=False, repr=False)

    def sql(self) -> str:
        return f"{quote_name(self.column)} {self.op} {literal_sql(self.value)}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`column IN (values)`; None among them is NULL."""

    column: str
    values: tuple[Value, ...]
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
class Truth(Predicate):
    """TRUE, FALSE or, as None, NULL."""

    value: bool | None

    def sql(self) -> str:
        # A bare NULL has no type, and Spark takes no condition that is not boolean.
        return "CAST(NULL AS BOOLEAN)" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Residual(Predicate):
    """What the tree can't hold, as text for Spark."""

    residual: str

    def sql(self) -> str:
        return self.residual


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """NOT part."""

    part: Predicate

    def sql(self) -> str:
        return f"NOT ({self.part.sql()})"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """All parts."""

    parts: tuple[Predicate, ...]

    def sql(self) -> str:
        return " AND ".join(f"({p.sql()})" for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """Any part."""

    parts: tuple[Predicate, ...]

    def sql(self) -> str:
        return " OR ".join(f"({p.sql()})" for p in self.parts)


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """The conjunction, flat."""
    flat = tuple(p for part in parts for p in conjuncts(part))
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """The disjunction, flat."""
    flat = tuple(p for part in parts for p in (part.parts if isinstance(part, Or) else (part,)))
    return flat[0] if len(flat) == 1 else Or(flat)


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts that all must be true."""
    yield from predicate.parts if isinstance(predicate, And) else (predicate,)


def residuals(predicate: Predicate) -> Iterator[Residual]:
    """The parts, however deep, that are left to Spark."""
    if isinstance(predicate, Residual):
        yield predicate
    for part in _below(predicate):
        yield from residuals(part)


def _below(predicate: Predicate) -> tuple[Predicate, ...]:
    if isinstance(predicate, And | Or):
        return predicate.parts
    return (predicate.part,) if isinstance(predicate, Not) else ()


class ColumnRef:
    """A column in a predicate that is written in Python: `col("ts") >= datetime(...)`.

    A boolean column is a predicate itself; `&`, `|` and `~` combine.
    """

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment] # == makes a predicate, so a reference can't be a key

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise PredicateError(f"col takes the name of a column, not {value_repr(name)}")
        self.name = name

    def __eq__(self, value: object) -> Compare:  # type: ignore[override] # a predicate, not a truth
        return self._compare("=", value)

    def __ne__(self, value: object) -> Compare:  # type: ignore[override] # a predicate, not a truth
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Compare:
        return self._compare("<", value)

    def __le__(self, value: object) -> Compare:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Compare:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Compare:
        return self._compare(">=", value)

    def eq_null_safe(self, value: object) -> Compare:
        """`<=>`: equal, and NULL equals NULL."""
        return self._compare("<=>", value)

    def isin(self, *values: object) -> In:
        """IN; the values one by one, or as one list, tuple or set."""
        only = values[0] if len(values) == 1 else None
        given = tuple(only) if isinstance(only, list | tuple | set | frozenset | range) else values
        if not given:
            raise PredicateError(f"{self.name} IN () has no values")
        return In(self.name, tuple(map(_checked, given)))

    def between(self, lower: object, upper: object) -> Predicate:
        """`lower <= column AND column <= upper`."""
        return all_of((self >= lower, self <= upper))

    def is_null(self) -> IsNull:
        """IS NULL."""
        return IsNull(self.name)

    def is_not_null(self) -> Not:
        """IS NOT NULL."""
        return Not(IsNull(self.name))

    def startswith(self, prefix: str) -> StartsWith:
        """LIKE 'prefix%', with nothing in the prefix being a wildcard."""
        checked = _checked(prefix)
        if not isinstance(checked, str):
            raise PredicateError(f"startswith takes text, not {value_repr(prefix)}")
        return StartsWith(self.name, checked)

    def __and__(self, other: Predicate | ColumnRef) -> Predicate:
        return as_predicate(self) & other

    def __or__(self, other: Predicate | ColumnRef) -> Predicate:
        return as_predicate(self) | other

    def __invert__(self) -> Predicate:
        return ~as_predicate(self)

    def __bool__(self) -> bool:
        raise PredicateError("a column has no truth of its own; combine predicates with &, | and ~")

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def _compare(self, op: str, value: object) -> Compare:
        return Compare(self.name, op, _checked(value))


def col(name: str) -> ColumnRef:
    """A column, to be compared in a predicate: `col("ts") >= date(2025, 1, 1)`."""
    return ColumnRef(name)


def as_predicate(given: Predicate | ColumnRef) -> Predicate:
    """The predicate itself; a column alone is one when it is boolean."""
    if isinstance(given, ColumnRef):
        return Compare(given.name, "=", True, text=given.name)
    if not isinstance(given, Predicate):
        raise PredicateError(f"{value_repr(given)} ({type(given).__name__}) is not a predicate")
    return given


_VALUES = (bool, int, float, Decimal, str, bytes, date, time, UUID)


def _checked(value: object) -> Value:
    """A value that a column can be compared with, as Python's own."""
    value = native(value)
    if value is not None and not isinstance(value, _VALUES):
        raise PredicateError(f"a column can't be compared with {value_repr(value)}, a {type(value).__name__}")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise PredicateError(f"a column can't be compared with an integer of {value.bit_length():,} bits")
    problem = _problem(value)
    if problem is not None:
        raise PredicateError(f"a column can't be compared with {value_repr(value)}: {problem}")
    return value


def _problem(value: object) -> str | None:
    if isinstance(value, str):
        return None if is_unicode(value) else "a lone surrogate is not Unicode text"
    if isinstance(value, Decimal):
        if not value.is_finite():
            return "no decimal of a table is NaN or infinite"
        return None if is_computable(value) else "no decimal of a table has so many digits"
    if isinstance(value, datetime):
        if value != value:  # noqa: PLR0124 - pandas' NaT
            return "NaT is no timestamp; use None for NULL"
        if is_finer(value):
            return "it is finer than a microsecond"
        return None if _FIRST <= micros_of(value) <= _LAST else "in UTC it is outside the years 0001 to 9999"
    return None


_FIRST = micros_of(datetime.min.replace(tzinfo=UTC))
_LAST = micros_of(datetime.max.replace(tzinfo=UTC))


def quote_name(name: str) -> str:
    """A column's name in SQL, each part of its way through structs in backquotes."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


def literal_sql(value: Value) -> str:
    """A value as a literal of Spark's SQL, with its type."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return (
            f"{value}" if value in _INT32 else f"{value}L" if value in _INT64 and value != _INT64[0] else f"{value}BD"
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
        return f"TIME '{time_text(micros_of_time(value))}'"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    # Spark would put a variable in the place of `${name}`, also inside a literal.
    return "'" + text.replace("${", "$\\{") + "'"
