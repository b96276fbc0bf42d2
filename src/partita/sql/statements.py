"""What statements say: each as a value, with the text of its expressions left as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from partita.errors import TableError
from partita.formats.merge import Action, When
from partita.sql.words import Name, Piece, Words, read_words

SUPPORTED = (
    "SELECT, INSERT INTO, INSERT OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, "
    "and ALTER TABLE ... ADD, DROP or REPLACE PARTITION FIELD"
)
_QUERIES = ("select", "with", "values", "from", "(")


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes, and what the statement calls it."""

    name: Name
    alias: str | None = None

    @property
    def called(self) -> tuple[tuple[str, ...], ...]:
        """What may stand before a column of it: its alias, or else its name with or without the first parts."""
        return called(self.name.parts, self.alias)


@dataclass(frozen=True, slots=True)
class Query:
    """A query."""

    text: Piece


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows of a query, by the place of its columns among those named or all, or by their names."""

    table: Name
    columns: tuple[Name, ...] | None
    rows: Piece
    by_name: bool
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows that go; without a condition, all."""

    table: Target
    where: Piece | None


@dataclass(frozen=True, slots=True)
class Update:
    """New values by column."""

    table: Target
    values: tuple[tuple[Name, Piece], ...]
    where: Piece | None


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One clause of a merge; `values` is None where all columns are taken, and where a row goes."""

    when: When
    condition: Piece | None
    action: Action
    values: tuple[tuple[Name, Piece], ...] | None
    start: int


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge from a table, a view or, as a piece, a query."""

    table: Target
    source: Name | Piece
    source_alias: str | None
    on: Piece
    clauses: tuple[MergeClause, ...]

    @property
    def source_called(self) -> tuple[tuple[str, ...], ...]:
        """What may stand before a column of the source."""
        return called(self.source.parts if isinstance(self.source, Name) else (), self.source_alias)


@dataclass(frozen=True, slots=True)
class Create:
    """A new table; a column is its name, its type's text and whether it may be null."""

    table: Name
    if_not_exists: bool
    columns: tuple[tuple[str, str, bool], ...]
    format: str
    partition_by: str
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Evolve:
    """A partition field that comes, goes, or both."""

    table: Name
    add: str | None
    drop: str | None


Statement: TypeAlias = Query | Insert | Delete | Update | Merge | Create | Evolve


def read_statement(text: str) -> Statement:
    """The one statement in a text."""
    words = read_words(text)
    first = words.peek()
    if first in _QUERIES:
        return Query(Piece(words.source, tuple(words.tokens)))
    words.at += 1
    if first == "insert":
        return _insert(words)
    if first == "delete":
        return _delete(words)
    if first == "update":
        return _update(words)
    if first == "merge":
        return _merge(words)
    if first == "create":
        from partita.sql.partitioning import read_create

        return read_create(words)
    if first == "alter":
        from partita.sql.partitioning import read_alter

        return read_alter(words)
    raise unsupported(words.tokens[0].text)


def unsupported(what: str) -> TableError:
    """The error for a statement, or a part of one, that there is nothing for."""
    return TableError(f"{what.upper()} is not supported; there is {SUPPORTED}")


def called(parts: tuple[str, ...], alias: str | None) -> tuple[tuple[str, ...], ...]:
    """What may stand before a column of a table of that name, the longest first."""
    return ((alias,),) if alias is not None else tuple(parts[at:] for at in range(len(parts)))


def _insert(words: Words) -> Insert:
    overwrite = words.accept("overwrite")
    if not overwrite:
        words.expect("into")
    words.accept("table")
    table = words.name()
    if words.peek() == "partition":
        words.fail("INSERT with PARTITION (...) is not supported; give the partition's columns like any other")
    columns = None
    if words.peek() == "(" and words.peek(1) not in _QUERIES:
        columns = _columns(words)
    by_name = words.accept("by", "name")
    if by_name and columns is not None:
        words.fail("columns are either listed or found BY NAME")
    if words.peek() not in _QUERIES:
        words.fail("SELECT or VALUES is expected here")
    return Insert(table, columns, words.until(), by_name, overwrite)


def _delete(words: Words) -> Delete:
    words.expect("from")
    table = Target(words.name(), words.alias())
    where = words.until() if words.accept("where") else None
    words.end()
    return Delete(table, where)


def _update(words: Words) -> Update:
    table = Target(words.name(), words.alias())
    words.expect("set")
    values = _assignments(words.until("where", "from"))
    where = words.until() if words.accept("where") else None
    words.end()
    return Update(table, values, where)


def _merge(words: Words) -> Merge:
    if words.accept("with", "schema", "evolution"):
        raise unsupported("MERGE WITH SCHEMA EVOLUTION")
    words.expect("into")
    table = Target(words.name(), words.alias())
    words.expect("using")
    source = words.inside() if words.peek() == "(" else words.name()
    if isinstance(source, Piece) and source.tokens[0].text.lower() not in _QUERIES:
        source.fail("a query is expected here")
    alias = words.alias()
    if words.peek() == "(":
        words.fail("the source of a MERGE can't have a list of column names; name them in its query")
    words.expect("on")
    on = words.until("when")
    clauses = []
    while words.peek():
        clauses.append(_clause(words))
    words.end()
    if not clauses:
        words.fail("a MERGE needs a clause: WHEN MATCHED THEN ..., or WHEN NOT MATCHED THEN ...")
    return Merge(table, source, alias, on, tuple(clauses))


def _clause(words: Words) -> MergeClause:
    start = words.position
    words.expect("when")
    negated = words.accept("not")
    words.expect("matched")
    when = When.NOT_MATCHED if negated else When.MATCHED
    if negated and words.accept("by"):
        if words.accept("source"):
            when = When.NOT_MATCHED_BY_SOURCE
        else:
            words.expect("target")
    condition = words.until("then") if words.accept("and") else None
    words.expect("then")
    if when is When.NOT_MATCHED:
        words.expect("insert")
        return MergeClause(when, condition, Action.INSERT, _inserted(words), start)
    if words.accept("delete"):
        return MergeClause(when, condition, Action.DELETE, None, start)
    words.expect("update", "set")
    if words.accept("*"):
        if when is When.NOT_MATCHED_BY_SOURCE:
            words.fail("a row that the source doesn't match can't take the source's values; say which to set")
        return MergeClause(when, condition, Action.UPDATE, None, start)
    return MergeClause(when, condition, Action.UPDATE, _assignments(words.until("when")), start)


def _inserted(words: Words) -> tuple[tuple[Name, Piece], ...] | None:
    if words.accept("*"):
        return None
    columns = _columns(words)
    words.expect("values")
    values = words.inside()
    pieces = values.split(",")
    if len(pieces) != len(columns):
        values.fail(f"there are {len(columns)} columns and {len(pieces)} values")
    return tuple(zip(columns, pieces, strict=True))


def _columns(words: Words) -> tuple[Name, ...]:
    return tuple(_whole_name(piece) for piece in words.inside().split(","))


def _assignments(piece: Piece) -> tuple[tuple[Name, Piece], ...]:
    values = []
    for part in piece.split(","):
        words = Words(part.source, part.tokens)
        name = words.name()
        words.expect("=")
        values.append((name, words.until()))
    return tuple(values)


def _whole_name(piece: Piece) -> Name:
    words = Words(piece.source, piece.tokens)
    name = words.name()
    words.end()
    return name
