"""The clauses of a merge, in the order of SQL, and what its condition says of each side alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from partita.algebra.sql_condition import parse_condition, split_conjuncts
from partita.errors import PredicateError, SchemaError, value_repr
from partita.formats.arguments import mapping_by_name

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


class MatchKind(Enum):
    """Which rows a clause is about."""

    MATCHED = "when_matched"
    NOT_MATCHED = "when_not_matched"
    NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"


class MergeAction(Enum):
    """What happens to them."""

    DELETE = "delete"
    UPDATE = "update"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class WhenClause:
    """A clause of a merge: which rows, and what happens to them.

    `values` are SQL expressions by column; None stands for all columns of the source, by name.
    """

    match_kind: MatchKind
    condition: str | None
    action: MergeAction
    values: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        _check_values(self.values)


@dataclass(frozen=True, slots=True)
class WhenMatched:
    """A condition of a merge clause on rows of the table; a method adds the action."""

    match_kind: MatchKind
    condition: str | None

    def __post_init__(self) -> None:
        _check_condition(self.condition)

    def delete(self) -> WhenClause:
        """Delete these rows."""
        return WhenClause(self.match_kind, self.condition, MergeAction.DELETE)

    def update(self, values: Mapping[str, str] | None = None) -> WhenClause:
        """Update these rows.

        Args:
            values: SQL expressions by column; None sets every column that the source has to the source's value.
        """
        if values is None and self.match_kind is MatchKind.NOT_MATCHED_BY_SOURCE:
            raise PredicateError("when_not_matched_by_source has no source to take values from; say which to set")
        return WhenClause(self.match_kind, self.condition, MergeAction.UPDATE, values)


@dataclass(frozen=True, slots=True)
class WhenNotMatched:
    """A condition of a merge clause on rows of the source; a method adds the action."""

    condition: str | None

    def __post_init__(self) -> None:
        _check_condition(self.condition)

    def insert(self, values: Mapping[str, str] | None = None) -> WhenClause:
        """Insert a row for each of these rows of the source.

        Args:
            values: SQL expressions by column; None takes every column of the source by name.
        """
        return WhenClause(MatchKind.NOT_MATCHED, self.condition, MergeAction.INSERT, values)


def _check_condition(condition: object) -> None:
    if not isinstance(condition, str | None):
        raise PredicateError(f"the condition of a clause is SQL text, not {type(condition).__name__}")


def _check_values(values: object) -> None:
    """Refuse new values that are no texts by column; None are those of the source."""
    if values is None:
        return
    for name, text in mapping_by_name(values, "a clause").items():  # type: ignore[arg-type] # it checks that
        if not isinstance(text, str):
            raise SchemaError(f"the new value of {name!r} is SQL text, not {type(text).__name__}: {value_repr(text)}")


def when_matched(condition: str | None = None) -> WhenMatched:
    """Select the rows of the table that match a row of the source: `when_matched("s.gone").delete()`.

    Args:
        condition: a further condition in SQL on `t` and `s`.
    """
    return WhenMatched(MatchKind.MATCHED, condition)


def when_not_matched(condition: str | None = None) -> WhenNotMatched:
    """Select the rows of the source that match no row of the table: `when_not_matched().insert()`.

    Args:
        condition: a further condition in SQL on `s`.
    """
    return WhenNotMatched(condition)


def when_not_matched_by_source(condition: str | None = None) -> WhenMatched:
    """Select the rows of the table that match no row of the source: `when_not_matched_by_source("t.draft").delete()`.

    Args:
        condition: a further condition in SQL on `t`.
    """
    return WhenMatched(MatchKind.NOT_MATCHED_BY_SOURCE, condition)


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """What a condition says of the table alone, as SQL on its columns, and which of these equal which of the source."""

    target_conditions: tuple[str, ...] = ()
    equal_columns: tuple[tuple[str, str], ...] = ()


def split_join_condition(on: str) -> JoinCondition:
    """The parts of `on` that all must hold, sorted by whom they speak of; whatever can't be told is left out.

    What is said of the table is its author's text, in which just the names of columns are others.
    """
    if "${" in on:
        # Spark would put variables in their places first.
        return JoinCondition()
    try:
        parts = split_conjuncts(*parse_condition(on))
    except RecursionError:
        raise PredicateError("the condition of the merge is nested too deeply") from None
    of_target: list[str] = []
    equal: list[tuple[str, str]] = []
    for part, tokens in parts:
        columns = list(part.find_all(exp.Column))
        of = {_qualifier_of(column) for column in columns}
        if of == {"t"} and all("start" in name.meta for column in columns for name in column.parts):
            of_target.append(_unqualified_text(on, tokens, columns))
        elif (
            isinstance(part, exp.EQ)
            and of == {"t", "s"}
            and _is_top_level_column(part.left)
            and _is_top_level_column(part.right)
        ):
            mine, theirs = sorted((part.left, part.right), key=_qualifier_of, reverse=True)
            equal.append((mine.name, theirs.name))
    return JoinCondition(tuple(of_target), tuple(equal))


def _is_top_level_column(tree: Any) -> bool:
    """Whether it is a whole column, and not a field inside of one."""
    return isinstance(tree, exp.Column) and len(tree.parts) == 2


def _qualifier_of(column: Any) -> str:
    """What a column is qualified with, or nothing: `s.t.x` is of `s`, and `t` alone of neither."""
    return column.parts[0].name if len(column.parts) > 1 else ""


def _unqualified_text(on: str, tokens: Sequence[Token], columns: Sequence[Any]) -> str:
    """The text of those tokens, with each column in quotes and without what it is qualified with."""
    text, at = "", tokens[0].start
    found = {column.parts[0].meta["start"]: column.parts for column in columns}
    for start, names in sorted(found.items()):
        quoted = ".".join(f"`{name.name.replace('`', '``')}`" for name in names[1:])
        text += on[at:start] + quoted
        at = names[-1].meta["end"] + 1
    return text + on[at : tokens[-1].end + 1]
