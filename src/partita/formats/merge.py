"""The clauses of a merge, in the order of SQL, and what its condition says of each side alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from partita.errors import PredicateError


class When(Enum):
    """Which rows a clause is about."""

    MATCHED = "when_matched"
    NOT_MATCHED = "when_not_matched"
    NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"


class Action(Enum):
    """What happens to them."""

    DELETE = "delete"
    UPDATE = "update"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause. `values` are SQL expressions by column; None takes all columns of the source by name."""

    when: When
    condition: str | None
    action: Action
    values: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Matched:
    """`when_matched`, before it is said what happens."""

    when: When
    condition: str | None

    def delete(self) -> Clause:
        """The row goes."""
        return Clause(self.when, self.condition, Action.DELETE)

    def update(self, values: Mapping[str, str] | None = None) -> Clause:
        """The row gets these values; without any, those of all columns that the source has."""
        if values is None and self.when is When.NOT_MATCHED_BY_SOURCE:
            raise PredicateError("when_not_matched_by_source has no source to take values from; say which to set")
        return Clause(self.when, self.condition, Action.UPDATE, values)


@dataclass(frozen=True, slots=True)
class NotMatched:
    """`when_not_matched`, before it is said what happens."""

    condition: str | None

    def insert(self, values: Mapping[str, str] | None = None) -> Clause:
        """A new row of these values; without any, those of all columns that the source has."""
        return Clause(When.NOT_MATCHED, self.condition, Action.INSERT, values)


def when_matched(condition: str | None = None) -> Matched:
    """Rows of the table that the source matches; `when_matched("s.gone").delete()`."""
    return Matched(When.MATCHED, condition)


def when_not_matched(condition: str | None = None) -> NotMatched:
    """Rows of the source that match none of the table; `when_not_matched().insert()`."""
    return NotMatched(condition)


def when_not_matched_by_source(condition: str | None = None) -> Matched:
    """Rows of the table that the source doesn't match; `when_not_matched_by_source("t.draft").delete()`."""
    return Matched(When.NOT_MATCHED_BY_SOURCE, condition)


@dataclass(frozen=True, slots=True)
class Sides:
    """What a condition says of the table alone, as SQL on its columns, and which columns equal what of the source."""

    of_target: tuple[str, ...]
    equal: tuple[tuple[str, str], ...]


def sides(on: str) -> Sides:
    """The parts of `on` that all must hold, sorted by whom they speak of; whatever can't be told is left out."""
    try:
        tree: Any = sqlglot.parse_one(on, dialect="spark")
    except SqlglotError as error:
        raise PredicateError(f"the condition of the merge does not parse: {on}") from error
    of_target: list[str] = []
    equal: list[tuple[str, str]] = []
    for part in _conjuncts(tree):
        tables = _sides_of(part)
        if tables == {"t"}:
            of_target.append(_unqualified(part))
        elif isinstance(part, exp.EQ) and tables == {"t", "s"}:
            for mine, theirs in ((part.left, part.right), (part.right, part.left)):
                if _is_column(mine) and _sides_of(mine) == {"t"} and _sides_of(theirs) == {"s"}:
                    equal.append((mine.name, theirs.sql(dialect="spark")))
    return Sides(tuple(of_target), tuple(equal))


def _conjuncts(tree: Any) -> list[Any]:
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.left), *_conjuncts(tree.right)]
    return _conjuncts(tree.this) if isinstance(tree, exp.Paren) else [tree]


def _is_column(tree: Any) -> bool:
    """Whether it is a whole column, and not a field inside of one."""
    return isinstance(tree, exp.Column) and len(tree.parts) == 2


def _sides_of(tree: Any) -> set[str]:
    """What its columns are qualified with, or nothing: `s.t.x` is of `s`, and `t` alone of neither."""
    return {column.parts[0].name if len(column.parts) > 1 else "" for column in tree.find_all(exp.Column)}


def _unqualified(tree: Any) -> str:
    def strip(node: Any) -> Any:
        if isinstance(node, exp.Column):
            parts: list[Any] = [part.copy() for part in reversed(node.parts[1:])]
            return exp.column(*parts)
        return node

    return str(tree.copy().transform(strip).sql(dialect="spark"))
