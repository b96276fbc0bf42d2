"""The clauses of a merge, and the parts of its condition that restrict the target alone."""

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
    """The rows that a clause applies to."""

    WHEN_MATCHED = "when_matched"
    WHEN_NOT_MATCHED = "when_not_matched"
    WHEN_NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"


class MergeAction(Enum):
    """What a clause does with its rows."""

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
        if values is None and self.match_kind is MatchKind.WHEN_NOT_MATCHED_BY_SOURCE:
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
        return WhenClause(MatchKind.WHEN_NOT_MATCHED, self.condition, MergeAction.INSERT, values)


def _check_condition(condition: object) -> None:
    if not isinstance(condition, str | None):
        raise PredicateError(f"the condition of a clause is SQL text, not {type(condition).__name__}")


def _check_values(values: object) -> None:
    """Raise `SchemaError` unless these are SQL texts by column, or None."""
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
    return WhenMatched(MatchKind.WHEN_MATCHED, condition)


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
    return WhenMatched(MatchKind.WHEN_NOT_MATCHED_BY_SOURCE, condition)


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """The parts of a join condition: conditions on the target alone, and pairs of equal target and source columns."""

    target_conditions: tuple[str, ...] = ()
    equal_columns: tuple[tuple[str, str], ...] = ()


def split_join_condition(on: str) -> JoinCondition:
    """Return the conjuncts of a join condition that are conditions on the target, or equate two columns.

    Other conjuncts are left out. A condition on the target is the author's text with unqualified column names. Raises
    `PredicateError` if the condition is nested too deeply.
    """
    if "${" in on:
        # Spark would substitute variables first.
        return JoinCondition()
    try:
        conjuncts = split_conjuncts(*parse_condition(on))
    except RecursionError:
        raise PredicateError("the condition of the merge is nested too deeply") from None
    target_conditions: list[str] = []
    equal_columns: list[tuple[str, str]] = []
    for conjunct, tokens in conjuncts:
        columns = list(conjunct.find_all(exp.Column))
        qualifiers = {_qualifier_of(column) for column in columns}
        if qualifiers == {"t"} and all("start" in name.meta for column in columns for name in column.parts):
            target_conditions.append(_unqualified_text(on, tokens, columns))
        elif (
            isinstance(conjunct, exp.EQ)
            and qualifiers == {"t", "s"}
            and _is_top_level_column(conjunct.left)
            and _is_top_level_column(conjunct.right)
        ):
            target_column, source_column = sorted((conjunct.left, conjunct.right), key=_qualifier_of, reverse=True)
            equal_columns.append((target_column.name, source_column.name))
    return JoinCondition(tuple(target_conditions), tuple(equal_columns))


def _is_top_level_column(tree: Any) -> bool:
    """Whether an expression is a qualified top-level column, not a field inside a struct."""
    return isinstance(tree, exp.Column) and len(tree.parts) == 2


def _qualifier_of(column: Any) -> str:
    """Return the qualifier of a column: `s` of `s.t.x`; empty for an unqualified one such as `t`."""
    return column.parts[0].name if len(column.parts) > 1 else ""


def _unqualified_text(on: str, tokens: Sequence[Token], columns: Sequence[Any]) -> str:
    """Return the text of some tokens with each column quoted and without its qualifier."""
    text, position = "", tokens[0].start
    parts_by_start = {column.parts[0].meta["start"]: column.parts for column in columns}
    for start, names in sorted(parts_by_start.items()):
        quoted_name = ".".join(f"`{name.name.replace('`', '``')}`" for name in names[1:])
        text += on[position:start] + quoted_name
        position = names[-1].meta["end"] + 1
    return text + on[position : tokens[-1].end + 1]
