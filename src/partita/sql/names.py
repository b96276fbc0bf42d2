"""Which table each name in an expression means, and the same expression with other names for the tables.

A name is looked up as Spark does it (`AttributeSeq.resolve`): with as many of its parts as can be taken for a table's
name, then with fewer, and last as a column alone; what follows the column are fields inside of it. Everything that
isn't a name stays as the author wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from partita.algebra.schema import NameMatching, matching_names
from partita.errors import PredicateError
from partita.sql.words import DIALECT, Name, Piece, word_of


@dataclass(frozen=True, slots=True)
class Side:
    """A table that names in an expression can mean.

    `called` is what may stand before a column of it, `columns` are its own, and `becomes` is what stands before one in
    the text that is made: a name, or nothing. `matching` says which columns a name finds.
    """

    called: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    becomes: str | None = None
    matching: NameMatching = NameMatching.ANY_CASE

    def __str__(self) -> str:
        return ".".join(self.called[0]) if self.called else "*"

    def is_called(self, parts: Sequence[str]) -> bool:
        """Whether those parts are a name of this table."""
        return _folded(parts) in map(_folded, self.called)

    def count(self, column: str) -> int:
        """How many columns of that name it has."""
        return len(self.find(column))

    def find(self, column: str) -> list[str]:
        """The columns of that name."""
        return matching_names(column, self.columns, self.matching)


@dataclass(frozen=True, slots=True)
class Edit:
    """Text between two places that is to be replaced."""

    start: int
    stop: int
    text: str


def edited(source: str, start: int, stop: int, edits: Iterable[Edit]) -> Iterator[tuple[str, bool]]:
    """The text between two places in parts: what stays as it is, and, with True, what is put in."""
    at = start
    for edit in sorted(set(edits), key=lambda e: (e.start, e.stop)):
        yield source[at : edit.start], False
        yield edit.text, True
        at = edit.stop
    yield source[at:stop], False


def rewritten(piece: Piece, sides: Sequence[Side]) -> str:
    """The expression with each column said to be of what its table `becomes`.

    A name that may mean two things, or nothing that is known, is refused with a caret under it, and so is a subquery. A
    name of one part that no table has stays: it may be a word of a function's own, and Spark says so if it isn't.
    """
    tree = expression(piece)
    edits: list[Edit] = []
    seen: set[int] = set()
    for column in tree.find_all(exp.Column):
        if any("start" not in identifier.meta for identifier in column.parts):
            piece.fail(f"it can't be told where {column.sql()!r} stands in the text")
        edits += _edits(column, sides, piece)
        seen.add(column.parts[0].meta["start"])
    _check_all_seen(tree, piece, seen)
    return "".join(text for text, _ in edited(piece.source, piece.start, piece.stop, edits))


def column_of(name: Name, side: Side, piece: Piece) -> str:
    """The column of a table that a name says whole, as the table spells it."""
    found = _resolved(name.parts, [side])
    if found is None:
        piece.fail(f"the table has no column {str(name)!r}; its columns are: {', '.join(side.columns)}", name.start)
    taken, sides = found
    if len(sides) > 1:
        piece.fail(f"{str(name)!r} could be more than one column", name.start)
    if taken + 1 < len(name.parts):
        piece.fail(f"{str(name)!r} is a field inside of a column; give the whole column a new value", name.start)
    return side.find(name.parts[taken])[0]


def expression(piece: Piece) -> Any:
    """The tree of an expression; what does not parse, a subquery and a star are refused."""
    tree = parsed(piece, exp.Condition)
    for query in tree.find_all(exp.Query):
        starts = [node.meta["start"] for node in query.walk() if "start" in node.meta]
        way_out = "MERGE INTO ... USING (SELECT ...) can do it"
        piece.fail(f"a subquery can't stand here; {way_out}", min(starts, default=None))
    for star in tree.find_all(exp.Star):
        piece.fail("* can't stand here; name the columns", star.meta.get("start"))
    return tree


def parsed(piece: Piece, into: Any = None) -> Any:
    """The tree of a statement, or of what it is to be; sqlglot's errors end here."""
    parser = DIALECT.parser()
    tokens = list(piece.tokens)
    try:
        trees = parser.parse(tokens, piece.source) if into is None else parser.parse_into(into, tokens, piece.source)
    except ParseError as error:
        raise _syntax_error(piece, error) from None
    except SqlglotError as error:
        raise PredicateError(f"this does not parse: {error}", piece.source, piece.start) from None
    except RecursionError:
        raise PredicateError("the statement is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - on some nonsense sqlglot fails with errors of any kind
        raise PredicateError(f"this does not parse: {type(error).__name__}", piece.source, piece.start) from None
    if len(trees) != 1 or trees[0] is None:
        piece.fail("this does not parse")
    return trees[0]


def _syntax_error(piece: Piece, error: ParseError) -> PredicateError:
    first = error.errors[0] if error.errors else {}
    lines = piece.source.splitlines(keepends=True) or [""]
    before = sum(map(len, lines[: (first.get("line") or 1) - 1]))
    position = before + (first.get("col") or 1) - len(first.get("highlight") or "x")
    reason = str(first.get("description") or "this is not an expression").split(" <class")[0].removesuffix(" for")
    return PredicateError(
        f"this does not parse: {reason}", piece.source, min(max(piece.start, position), len(piece.source))
    )


def _edits(column: Any, sides: Sequence[Side], piece: Piece) -> Iterator[Edit]:
    identifiers = _identifiers(column)
    parts = [identifier.name for identifier in identifiers]
    start = identifiers[0].meta["start"]
    bound = _lambda_names(column)
    if parts[0].casefold() in bound:
        return
    found = _resolved(parts, sides)
    said = ".".join(parts)
    if found is None:
        if len(parts) > 1:
            known = ", ".join(f"{side}.{column}" for side in sides for column in side.columns)
            piece.fail(f"there is no {said!r} here; there is {known}", start)
        return
    taken, owners = found
    if len(owners) > 1:
        piece.fail(f"{said!r} could be more than one column; say whose it is", start)
    becomes = owners[0].becomes
    head = parts[taken] if becomes is None else becomes
    if head.casefold() in bound:
        piece.fail(f"the variable {head!r} of a lambda would hide {said!r}; give it another name", start)
    before = "" if becomes is None else f"{becomes}."
    yield Edit(start, identifiers[taken].meta["start"], before)


def _resolved(parts: Sequence[str], sides: Sequence[Side]) -> tuple[int, list[Side]] | None:
    """How many parts are the table's name, and the tables that it can be, once for each column; None for neither."""
    for taken in range(len(parts) - 1, -1, -1):
        asked = [side for side in sides if side.is_called(parts[:taken])] if taken else sides
        found = [side for side in asked for _ in range(side.count(parts[taken]))]
        if found:
            return taken, found
    return None


def _identifiers(column: Any) -> list[Any]:
    """The parts of a column's name, and of the fields that follow it with a dot."""
    found = list(column.parts)
    node = column
    while isinstance(node.parent, exp.Dot) and node.parent.this is node:
        node = node.parent
        if not isinstance(node.expression, exp.Identifier):
            break
        found.append(node.expression)
    return found


def _lambda_names(node: Any) -> set[str]:
    """The variables of the lambdas around a node."""
    names: set[str] = set()
    while node is not None:
        if isinstance(node, exp.Lambda):
            names |= {variable.name.casefold() for variable in node.expressions}
        node = node.parent
    return names


def _check_all_seen(tree: Any, piece: Piece, seen: set[int]) -> None:
    """Refuse a name with a dot that the tree hasn't as a column: it would go to Spark as it is, and may mean another.

    Words that aren't names before a dot are those of a lambda, and what ends a call or an index.
    """
    bound = {v.name.casefold() for found in tree.find_all(exp.Lambda) for v in found.expressions}
    tokens = piece.tokens
    for at, token in enumerate(tokens[:-1]):
        is_first = word_of(tokens[at + 1]) == "." and (at == 0 or word_of(tokens[at - 1]) != ".")
        if not is_first or word_of(token) in (")", "]") or token.token_type.name in ("STRING", "NUMBER"):
            continue
        if token.start not in seen and token.text.casefold() not in bound:
            piece.fail(f"it can't be told what {token.text!r} means here", token.start)


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)
