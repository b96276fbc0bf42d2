"""Statements as values, with the text of their expressions unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from partita.formats.merge_clauses import MatchKind, MergeAction
from partita.sql.tokens import QualifiedName, SqlFragment


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that a statement changes, and its alias."""

    name: QualifiedName
    alias: str | None = None

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        """The qualifiers that a column of the table may have."""
        return table_qualifiers(self.name.parts, self.alias)


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """SELECT, VALUES or another query."""

    fragment: SqlFragment


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """INSERT of the rows of a query.

    The columns of the query are matched by name with `by_name`, or else by position with `columns` or, if that is None,
    with all columns of the table. `overwrite` replaces the partitions that the rows are in.
    """

    table: QualifiedName
    columns: tuple[QualifiedName, ...] | None
    query: SqlFragment
    by_name: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class DeleteStatement:
    """DELETE of the rows that a condition is true of, or of all rows."""

    table: TargetTable
    where: SqlFragment | None


@dataclass(frozen=True, slots=True)
class UpdateStatement:
    """UPDATE with the new values of columns."""

    table: TargetTable
    assignments: tuple[tuple[QualifiedName, SqlFragment], ...]
    where: SqlFragment | None


@dataclass(frozen=True, slots=True)
class ParsedMergeClause:
    """One WHEN clause of a MERGE; `assignments` is None for a DELETE, and for `*`, which takes all columns."""

    kind: MatchKind
    condition: SqlFragment | None
    action: MergeAction
    assignments: tuple[tuple[QualifiedName, SqlFragment], ...] | None
    start: int


@dataclass(frozen=True, slots=True)
class MergeStatement:
    """MERGE from a source: the name of a table or a view, or the text of a query."""

    table: TargetTable
    source: QualifiedName | SqlFragment
    source_alias: str | None
    on: SqlFragment
    clauses: tuple[ParsedMergeClause, ...]

    @property
    def source_qualifiers(self) -> tuple[tuple[str, ...], ...]:
        """The qualifiers that a column of the source may have."""
        return table_qualifiers(self.source.parts if isinstance(self.source, QualifiedName) else (), self.source_alias)


@dataclass(frozen=True, slots=True)
class CreateTableStatement:
    """CREATE TABLE; a column is its name, the text of its type, and whether it may be null."""

    table: QualifiedName
    if_not_exists: bool
    columns: tuple[tuple[str, str, bool], ...]
    format: str
    partition_by: str
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionStatement:
    """ALTER TABLE with the text of a partition field to add, to drop, or both for REPLACE."""

    table: QualifiedName
    add: str | None
    drop: str | None


DdlStatement: TypeAlias = CreateTableStatement | AlterPartitionStatement
SparkStatement: TypeAlias = QueryStatement | InsertStatement | DeleteStatement | UpdateStatement | MergeStatement
Statement: TypeAlias = DdlStatement | SparkStatement


def table_qualifiers(parts: tuple[str, ...], alias: str | None) -> tuple[tuple[str, ...], ...]:
    """Return the qualifiers that a column of a table may have: the alias, or else each suffix of the name."""
    return ((alias,),) if alias is not None else tuple(parts[index:] for index in range(len(parts)))
