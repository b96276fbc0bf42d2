"""Statements from their text.

Only the outline of a statement is parsed here: names, and the fragments between its keywords. Expressions and queries
stay text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from partita.algebra.predicate_text import unescape_literal
from partita.errors import TableError
from partita.formats.capabilities import Operation
from partita.formats.merge_clauses import MatchKind, MergeAction
from partita.formats.registry import FORMATS, table_format
from partita.sql.statements import (
    AlterPartitionStatement,
    CreateTableStatement,
    DeleteStatement,
    InsertStatement,
    MergeStatement,
    ParsedMergeClause,
    QueryStatement,
    Statement,
    TargetTable,
    UpdateStatement,
)
from partita.sql.tokens import QualifiedName, SqlFragment, TokenStream, keyword_of, tokenize_statement

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

SUPPORTED_STATEMENTS = (
    "SELECT, INSERT INTO, INSERT OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, CREATE TABLE, "
    "and ALTER TABLE ... ADD, DROP or REPLACE PARTITION FIELD"
)
_QUERY_KEYWORDS = ("select", "with", "values", "from", "(")


def parse_statement(text: str) -> Statement:
    """Parse a text with one statement.

    Raises `TableError` for a statement that is not supported, and `PredicateError` for text that doesn't parse.
    """
    tokens = tokenize_statement(text)
    keyword = tokens.peek()
    if keyword in _QUERY_KEYWORDS:
        return QueryStatement(SqlFragment(tokens.source, tuple(tokens.tokens)))
    if keyword not in _STATEMENT_PARSERS:
        raise _unsupported_error(tokens.tokens[0].text)
    tokens.expect(keyword)
    return _STATEMENT_PARSERS[keyword](tokens)


def _unsupported_error(statement: str) -> TableError:
    return TableError(f"{statement.upper()} is not supported; there is {SUPPORTED_STATEMENTS}")


def _parse_insert(tokens: TokenStream) -> InsertStatement:
    overwrite = tokens.accept("overwrite")
    if not overwrite:
        tokens.expect("into")
    tokens.accept("table")
    table = tokens.read_name()
    if tokens.peek() == "partition":
        tokens.fail("INSERT with PARTITION (...) is not supported; give the partition's columns like any other")
    columns = None
    if tokens.peek() == "(" and tokens.peek(1) not in _QUERY_KEYWORDS:
        columns = _parse_column_list(tokens)
    by_name = tokens.accept("by", "name")
    if by_name and columns is not None:
        tokens.fail("columns are either listed or found BY NAME")
    if tokens.peek() not in _QUERY_KEYWORDS:
        tokens.fail("SELECT or VALUES is expected here")
    return InsertStatement(table, columns, tokens.read_until(), by_name, overwrite)


def _parse_delete(tokens: TokenStream) -> DeleteStatement:
    tokens.expect("from")
    table = TargetTable(tokens.read_name(), tokens.read_alias())
    where = tokens.read_until() if tokens.accept("where") else None
    tokens.expect_end()
    return DeleteStatement(table, where)


def _parse_update(tokens: TokenStream) -> UpdateStatement:
    table = TargetTable(tokens.read_name(), tokens.read_alias())
    tokens.expect("set")
    values = _parse_assignments(tokens.read_until("where", "from"))
    where = tokens.read_until() if tokens.accept("where") else None
    tokens.expect_end()
    return UpdateStatement(table, values, where)


def _parse_merge(tokens: TokenStream) -> MergeStatement:
    if tokens.accept("with", "schema", "evolution"):
        raise _unsupported_error("MERGE WITH SCHEMA EVOLUTION")
    tokens.expect("into")
    table = TargetTable(tokens.read_name(), tokens.read_alias())
    tokens.expect("using")
    source = tokens.read_parenthesized() if tokens.peek() == "(" else tokens.read_name()
    if isinstance(source, SqlFragment) and source.tokens[0].text.lower() not in _QUERY_KEYWORDS:
        source.fail("a query is expected here")
    alias = tokens.read_alias()
    if tokens.peek() == "(":
        tokens.fail("the source of a MERGE can't have a list of column names; name them in its query")
    tokens.expect("on")
    on = tokens.read_until("when")
    clauses = []
    while tokens.peek():
        clauses.append(_parse_merge_clause(tokens))
    tokens.expect_end()
    if not clauses:
        tokens.fail("a MERGE needs a clause: WHEN MATCHED THEN ..., or WHEN NOT MATCHED THEN ...")
    return MergeStatement(table, source, alias, on, tuple(clauses))


def _parse_merge_clause(tokens: TokenStream) -> ParsedMergeClause:
    start = tokens.position
    tokens.expect("when")
    is_negated = tokens.accept("not")
    tokens.expect("matched")
    kind = MatchKind.WHEN_NOT_MATCHED if is_negated else MatchKind.WHEN_MATCHED
    if is_negated and tokens.accept("by"):
        if tokens.accept("source"):
            kind = MatchKind.WHEN_NOT_MATCHED_BY_SOURCE
        else:
            tokens.expect("target")
    condition = tokens.read_until("then") if tokens.accept("and") else None
    tokens.expect("then")
    if kind is MatchKind.WHEN_NOT_MATCHED:
        tokens.expect("insert")
        return ParsedMergeClause(kind, condition, MergeAction.INSERT, _parse_insert_values(tokens), start)
    if tokens.accept("delete"):
        return ParsedMergeClause(kind, condition, MergeAction.DELETE, None, start)
    tokens.expect("update", "set")
    if tokens.accept("*"):
        if kind is MatchKind.WHEN_NOT_MATCHED_BY_SOURCE:
            tokens.fail("a row that the source doesn't match can't take the source's values; say which to set")
        return ParsedMergeClause(kind, condition, MergeAction.UPDATE, None, start)
    return ParsedMergeClause(kind, condition, MergeAction.UPDATE, _parse_assignments(tokens.read_until("when")), start)


def _parse_insert_values(tokens: TokenStream) -> tuple[tuple[QualifiedName, SqlFragment], ...] | None:
    if tokens.accept("*"):
        return None
    columns = _parse_column_list(tokens)
    tokens.expect("values")
    values = tokens.read_parenthesized()
    expressions = values.split(",")
    if len(expressions) != len(columns):
        values.fail(f"there are {len(columns)} columns and {len(expressions)} values")
    return tuple(zip(columns, expressions, strict=True))


def _parse_column_list(tokens: TokenStream) -> tuple[QualifiedName, ...]:
    return tuple(_parse_whole_name(fragment) for fragment in tokens.read_parenthesized().split(","))


def _parse_assignments(fragment: SqlFragment) -> tuple[tuple[QualifiedName, SqlFragment], ...]:
    assignments = []
    for assignment in fragment.split(","):
        tokens = TokenStream(assignment.source, assignment.tokens)
        name = tokens.read_name()
        tokens.expect("=")
        assignments.append((name, tokens.read_until()))
    return tuple(assignments)


def _parse_whole_name(fragment: SqlFragment) -> QualifiedName:
    """Parse a fragment that is a name and nothing else."""
    tokens = TokenStream(fragment.source, fragment.tokens)
    name = tokens.read_name()
    tokens.expect_end()
    return name


def _parse_alter_table(tokens: TokenStream) -> AlterPartitionStatement:
    """Parse what follows ALTER."""
    tokens.expect("table")
    table = tokens.read_name()
    action = f"ALTER TABLE ... {tokens.peek()} {tokens.peek(1)}".rstrip()
    if tokens.accept("add", "partition", "field"):
        return AlterPartitionStatement(table, add=tokens.read_until().text, drop=None)
    if tokens.accept("drop", "partition", "field"):
        return AlterPartitionStatement(table, add=None, drop=tokens.read_until().text)
    if tokens.accept("replace", "partition", "field"):
        old_field = tokens.read_until("with").text
        tokens.expect("with")
        return AlterPartitionStatement(table, add=tokens.read_until().text, drop=old_field)
    raise _unsupported_error(action)


def _parse_create_table(tokens: TokenStream) -> CreateTableStatement:
    """Parse what follows CREATE."""
    if tokens.peek() != "table":
        raise _unsupported_error(f"CREATE {tokens.peek()}")
    tokens.expect("table")
    if_not_exists = tokens.accept("if", "not", "exists")
    table = tokens.read_name()
    if tokens.peek() != "(":
        tokens.fail("the columns are expected here: (id BIGINT NOT NULL, ...)")
    column_fragments = _split_columns(tokens.read_parenthesized())
    format_, partition_by = "", ""
    properties: tuple[tuple[str, str], ...] = ()
    while tokens.peek():
        if not format_ and tokens.accept("using"):
            format_ = tokens.read_name_part().lower()
        elif not partition_by and tokens.accept("partitioned by"):
            partition_by = tokens.read_parenthesized().text
        elif not properties and tokens.accept("tblproperties"):
            properties = tuple(_parse_property(fragment) for fragment in tokens.read_parenthesized().split(","))
        elif tokens.peek() in ("as", "select", "with"):
            tokens.fail("CREATE TABLE ... AS is not supported; create the table, then INSERT INTO it")
        else:
            break
    tokens.expect_end()
    if not format_:
        tokens.fail(f"the table's format is expected: USING and one of {', '.join(FORMATS)}")
    columns = tuple(_parse_column(fragment, format_) for fragment in column_fragments)
    return CreateTableStatement(table, if_not_exists, columns, format_, partition_by, properties)


def _split_columns(fragment: SqlFragment) -> list[SqlFragment]:
    """Split the columns of a table at commas that are not inside of a type."""
    depth = 0
    columns: list[list[Token]] = [[]]
    for token in fragment.tokens:
        keyword = keyword_of(token)
        # sqlglot reads `>>` as one token.
        depth += keyword.count("<") + keyword.count("(") - keyword.count(">") - keyword.count(")")
        if keyword == "," and depth == 0:
            columns.append([])
        else:
            columns[-1].append(token)
    if not all(columns):
        fragment.fail("a column is missing")
    return [SqlFragment(fragment.source, tuple(tokens)) for tokens in columns]


_UNSUPPORTED_COLUMN_KEYWORDS = (
    "comment",
    "default",
    "generated",
    "primary",
    "unique",
    "check",
    "references",
    "collate",
)
_LENGTH_LIMITED_TYPES = ("varchar", "char", "character")


def _parse_column(fragment: SqlFragment, format_: str) -> tuple[str, str, bool]:
    """Return the name of a column, the text of its type, and whether it may be null."""
    tokens = TokenStream(fragment.source, fragment.tokens)
    name = tokens.read_name_part()
    type_ = tokens.read_until("not", "null", *_UNSUPPORTED_COLUMN_KEYWORDS)
    gap = table_format(format_).gaps.get(Operation.TEXT_LENGTHS)
    if gap is not None and any(token.text.lower() in _LENGTH_LIMITED_TYPES for token in type_.tokens):
        type_.fail(f"{format_} {gap.reason}; {gap.way_out}")
    nullable = not tokens.accept("not", "null")
    if tokens.peek() in _UNSUPPORTED_COLUMN_KEYWORDS:
        tokens.fail(f"{tokens.peek().upper()} is not supported here")
    tokens.expect_end()
    return name, type_.text, nullable


def _parse_property(fragment: SqlFragment) -> tuple[str, str]:
    sides = fragment.split("=")
    if len(sides) != 2:
        fragment.fail("a property is 'name' = 'value'")
    name, value = map(_unquote_text, sides)
    return name, value


def _unquote_text(fragment: SqlFragment) -> str:
    """Return a string literal without its quotes, and other text unchanged, such as `write.merge.mode` or 5."""
    text = fragment.text
    if fragment.tokens[0].token_type.name == "STRING":
        if len(fragment.tokens) > 1:
            fragment.fail("one string is expected here")
        return unescape_literal(text[1:-1])
    return text


_STATEMENT_PARSERS: dict[str, Callable[[TokenStream], Statement]] = {
    "alter": _parse_alter_table,
    "create": _parse_create_table,
    "delete": _parse_delete,
    "insert": _parse_insert,
    "merge": _parse_merge,
    "update": _parse_update,
}
"""The parser of each statement, by its first keyword; it gets the tokens that follow."""
