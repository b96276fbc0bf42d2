"""Which table each name in an expression means, and the same expression with other qualifiers.

A name is resolved as in Spark (`AttributeSeq.resolve`): with as many of its leading parts as possible taken for the
name of a table, then with fewer, and last as a column alone; the parts after the column are fields inside of it. All
other text of the expression stays as the author wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from partita.algebra.schema import NameMatching, matching_names
from partita.errors import PredicateError
from partita.sql.tokens import DIALECT, QualifiedName, SqlFragment, keyword_of


@dataclass(frozen=True, slots=True)
class TableScope:
    """A table whose columns an expression can name.

    `qualifiers` may stand before a column of it in the expression; `output_qualifier` stands before it in the result,
    or nothing if that is None. `matching` says whether names match by case.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    output_qualifier: str | None = None
    matching: NameMatching = NameMatching.CASE_INSENSITIVE

    def __str__(self) -> str:
        return ".".join(self.qualifiers[0]) if self.qualifiers else "*"

    def has_qualifier(self, parts: Sequence[str]) -> bool:
        """Whether these parts are a qualifier of this table."""
        return _casefold_parts(parts) in map(_casefold_parts, self.qualifiers)

    def column_count(self, column: str) -> int:
        """Return how many columns match a name."""
        return len(self.matching_columns(column))

    def matching_columns(self, column: str) -> list[str]:
        """Return the columns that match a name."""
        return matching_names(column, self.columns, self.matching)


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement for the text between two positions."""

    start: int
    stop: int
    text: str


def apply_edits(source: str, start: int, stop: int, edits: Iterable[TextEdit]) -> Iterator[tuple[str, bool]]:
    """Yield the text between two positions in parts, each with whether it comes from an edit."""
    position = start
    for edit in sorted(set(edits), key=lambda e: (e.start, e.stop)):
        yield source[position : edit.start], False
        yield edit.text, True
        position = edit.stop
    yield source[position:stop], False


def qualify_columns(fragment: SqlFragment, scopes: Sequence[TableScope]) -> str:
    """Return the expression with the `output_qualifier` of its table before each column.

    Raises `PredicateError` with a caret for a subquery, and for a name that is ambiguous or that no table has. A name
    of one part that no table has stays unchanged: it may be a keyword of a function, and Spark refuses it if not.
    """
    tree = parse_expression(fragment)
    edits: list[TextEdit] = []
    column_positions: set[int] = set()
    for column in tree.find_all(exp.Column):
        if any("start" not in identifier.meta for identifier in column.parts):
            fragment.fail(f"the position of {column.sql()!r} in the text is not known; write it another way")
        edits += _column_edits(column, scopes, fragment)
        column_positions.add(column.parts[0].meta["start"])
    _check_dotted_names(tree, fragment, column_positions)
    return "".join(text for text, _ in apply_edits(fragment.source, fragment.start, fragment.stop, edits))


def resolve_column(name: QualifiedName, scope: TableScope, fragment: SqlFragment) -> str:
    """Return the column that a name means, as the table spells it; raise `PredicateError` for a nested field."""
    resolution = _resolve_name(name.parts, [scope])
    if resolution is None:
        fragment.fail(f"the table has no column {str(name)!r}; its columns are: {', '.join(scope.columns)}", name.start)
    qualifier_length, scopes = resolution
    if len(scopes) > 1:
        fragment.fail(f"{str(name)!r} could be more than one column", name.start)
    if qualifier_length + 1 < len(name.parts):
        fragment.fail(f"{str(name)!r} is a field inside of a column; give the whole column a new value", name.start)
    return scope.matching_columns(name.parts[qualifier_length])[0]


def parse_expression(fragment: SqlFragment) -> Any:
    """Parse an expression; raise `PredicateError` for a syntax error, a subquery or a star."""
    tree = parse_tree(fragment, exp.Condition)
    for query in tree.find_all(exp.Query):
        starts = [node.meta["start"] for node in query.walk() if "start" in node.meta]
        way_out = "MERGE INTO ... USING (SELECT ...) can do it"
        fragment.fail(f"a subquery can't stand here; {way_out}", min(starts, default=None))
    for star in tree.find_all(exp.Star):
        fragment.fail("* can't stand here; name the columns", star.meta.get("start"))
    return tree


def parse_tree(fragment: SqlFragment, into: Any = None) -> Any:
    """Parse a fragment, `into` a node of that class if given; raise errors of sqlglot as `PredicateError`."""
    parser = DIALECT.parser()
    tokens = list(fragment.tokens)
    try:
        trees = (
            parser.parse(tokens, fragment.source) if into is None else parser.parse_into(into, tokens, fragment.source)
        )
    except ParseError as error:
        raise _syntax_error(fragment, error) from None
    except SqlglotError as error:
        raise PredicateError(f"this does not parse: {error}", fragment.source, fragment.start) from None
    except RecursionError:
        raise PredicateError("the statement is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - on some nonsense sqlglot fails with errors of any kind
        raise PredicateError(f"this does not parse: {type(error).__name__}", fragment.source, fragment.start) from None
    if len(trees) != 1 or trees[0] is None:
        fragment.fail("this does not parse")
    return trees[0]


def _syntax_error(fragment: SqlFragment, error: ParseError) -> PredicateError:
    first = error.errors[0] if error.errors else {}
    lines = fragment.source.splitlines(keepends=True) or [""]
    line_start = sum(map(len, lines[: (first.get("line") or 1) - 1]))
    position = line_start + (first.get("col") or 1) - len(first.get("highlight") or "x")
    reason = str(first.get("description") or "this is not an expression").split(" <class")[0].removesuffix(" for")
    return PredicateError(
        f"this does not parse: {reason}", fragment.source, min(max(fragment.start, position), len(fragment.source))
    )


def _column_edits(column: Any, scopes: Sequence[TableScope], fragment: SqlFragment) -> Iterator[TextEdit]:
    identifiers = _name_identifiers(column)
    parts = [identifier.name for identifier in identifiers]
    start = identifiers[0].meta["start"]
    lambda_names = _lambda_names(column)
    if parts[0].casefold() in lambda_names:
        return
    resolution = _resolve_name(parts, scopes)
    name = ".".join(parts)
    if resolution is None:
        if len(parts) > 1:
            columns = ", ".join(f"{scope}.{column}" for scope in scopes for column in scope.columns)
            fragment.fail(f"there is no {name!r} here; there is {columns}", start)
        return
    qualifier_length, owners = resolution
    if len(owners) > 1:
        fragment.fail(f"{name!r} could be more than one column; qualify it with its table", start)
    qualifier = owners[0].output_qualifier
    first_part = parts[qualifier_length] if qualifier is None else qualifier
    if first_part.casefold() in lambda_names:
        fragment.fail(f"the variable {first_part!r} of a lambda would hide {name!r}; give it another name", start)
    yield TextEdit(start, identifiers[qualifier_length].meta["start"], "" if qualifier is None else f"{qualifier}.")


def _resolve_name(parts: Sequence[str], scopes: Sequence[TableScope]) -> tuple[int, list[TableScope]] | None:
    """Return how many parts are the qualifier, and the table of each column that the name can mean; None for none."""
    for length in range(len(parts) - 1, -1, -1):
        candidates = [scope for scope in scopes if scope.has_qualifier(parts[:length])] if length else scopes
        owners = [scope for scope in candidates for _ in range(scope.column_count(parts[length]))]
        if owners:
            return length, owners
    return None


def _name_identifiers(column: Any) -> list[Any]:
    """Return the identifiers of a column's name, and of the fields that follow it with a dot."""
    identifiers = list(column.parts)
    node = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
        if not isinstance(node.expression, exp.Identifier):
            break
        identifiers.append(node.expression)
    return identifiers


def _lambda_names(node: Any) -> set[str]:
    """Return the variables of the lambdas around a node."""
    names: set[str] = set()
    while node is not None:
        if isinstance(node, exp.Lambda):
            names |= {variable.name.casefold() for variable in node.expressions}
        node = node.parent
    return names


def _check_dotted_names(tree: Any, fragment: SqlFragment, column_positions: set[int]) -> None:
    """Refuse a name with a dot that is not a column of the tree: Spark would get it unchanged, and may resolve it.

    Other tokens before a dot are the variable of a lambda, and the end of a call or an index.
    """
    lambda_names = {variable.name.casefold() for node in tree.find_all(exp.Lambda) for variable in node.expressions}
    tokens = fragment.tokens
    for index, token in enumerate(tokens[:-1]):
        is_first = keyword_of(tokens[index + 1]) == "." and (index == 0 or keyword_of(tokens[index - 1]) != ".")
        if not is_first or keyword_of(token) in (")", "]") or token.token_type.name in ("STRING", "NUMBER"):
            continue
        if token.start not in column_positions and token.text.casefold() not in lambda_names:
            fragment.fail(f"it is not clear what {token.text!r} means here", token.start)


def _casefold_parts(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)
