"""The tables that a query names, and what its WHERE says of one of them alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from partita.algebra.condition import operands
from partita.algebra.parse import Condition, parse_predicate
from partita.algebra.predicate import Predicate, all_of, residuals
from partita.algebra.schema import Schema
from partita.algebra.time_zones import TimeZone
from partita.errors import PartitaError, TableError
from partita.sql.names import Edit, Side, expression, parsed, rewritten
from partita.sql.statements import called
from partita.sql.words import Piece, outside, word_of


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """A table that a query names: the name, and sqlglot's node for it."""

    parts: tuple[str, ...]
    start: int
    stop: int
    node: Any = field(repr=False)

    @property
    def alias(self) -> str | None:
        """What the query calls it, if not by its name."""
        return self.node.alias or None

    @property
    def is_versioned(self) -> bool:
        """Whether it is to be read as it was at another time."""
        return bool(self.node.args.get("version"))

    @property
    def is_sampled(self) -> bool:
        """Whether some of its rows are to be read."""
        return bool(self.node.args.get("sample"))


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A query, read: its tree, and the tables that it names and doesn't define itself."""

    piece: Piece
    tree: Any
    references: tuple[Reference, ...]

    def edits(self, reference: Reference, text: str) -> Iterator[Edit]:
        """What puts `text` in the place of a table's name, which the query's other names may still speak of."""
        if reference.is_versioned:
            self.piece.fail("a table is read as it is now; another version can't be named", reference.start)
        if reference.alias is not None:
            yield Edit(reference.start, reference.stop, text)
            return
        if reference.is_sampled:
            self.piece.fail("a table that is sampled needs an alias", reference.start)
        last = reference.parts[-1]
        select = _select_of(reference.node)
        if select is not None and sum(_name_of(s).casefold() == last.casefold() for s in _sources(select)) > 1:
            self.piece.fail(f"two tables are called {last!r} here; give each an alias", reference.start)
        quoted = last.replace("`", "``")
        yield Edit(reference.start, reference.stop, f"{text} AS `{quoted}`")
        for column in self.tree.find_all(exp.Column):
            yield from _shortened(column, reference, select)


def read_query(piece: Piece) -> Reading:
    """A query with the tables that it names; a name that the query defines itself is not one."""
    tree = parsed(piece)
    if not isinstance(tree, exp.Query | exp.Values):
        first, kind = piece.tokens[0].text.upper(), type(tree).__name__.upper()
        raise TableError(
            f"what begins with {first} is read as a query, and this is {kind}; "
            "begin with that word, and put the query into it, as in MERGE INTO t USING (WITH ... SELECT ...) s"
        )
    found = []
    for node in tree.find_all(exp.Table):
        identifiers = node.parts
        if isinstance(node.this, exp.Anonymous) and node.this.name.casefold() == "identifier":
            piece.fail("a table's name stands as it is; IDENTIFIER(...) is not supported")
        if not all(isinstance(i, exp.Identifier) and "start" in i.meta for i in identifiers):
            continue
        parts = tuple(identifier.name for identifier in identifiers)
        if len(parts) > 1 or not _is_defined(node, parts[0]):
            found.append(Reference(parts, identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1, node))
    return Reading(piece, tree, tuple(found))


def pushed(reading: Reading, reference: Reference, schema: Schema, zone: TimeZone) -> Predicate | None:
    """What must be true of every row of that table that can matter to the query; None where nothing is known.

    Taken are parts of the WHERE of the SELECT that the table stands in, where no join can bring back a row that they
    would take away, and that speak of this table alone in words that Partita knows. When in doubt they are left.
    """
    select = _select_of(reference.node)
    if select is None or not _may_lose_rows(select, reference):
        return None
    others = list(_sources(select))
    alone = len(others) == 1 and not select.args.get("laterals")
    side = Side(called(reference.parts, reference.alias), schema.names)
    mine = {qualifier[-1].casefold() for qualifier in side.called}
    if sum(_name_of(source).casefold() in mine for source in others) != 1:
        return None
    parts = []
    for conjunct in _conjuncts(reading.piece, select):
        predicate = _of_one(conjunct, side, schema, zone, alone=alone)
        if predicate is not None:
            parts.append(predicate)
    return all_of(parts) if parts else None


def _of_one(conjunct: Piece, side: Side, schema: Schema, zone: TimeZone, *, alone: bool) -> Predicate | None:
    try:
        heads = [[part.name for part in column.parts[:-1]][:1] for column in expression(conjunct).find_all(exp.Column)]
        if not heads or not (alone or all(side.is_called(head) for head in heads)):
            return None
        predicate = parse_predicate(Condition(rewritten(conjunct, [side]), zone), schema)
    except PartitaError:
        return None
    # A residual may call what gives another answer each time.
    return None if any(True for _ in residuals(predicate)) else predicate


def _may_lose_rows(select: Any, reference: Reference) -> bool:
    """Whether rows of the table that the WHERE refuses can go before the joins."""
    node = reference.node
    alias = node.args.get("alias")
    if reference.is_sampled or node.args.get("pivots") or node.args.get("joins") or (alias and alias.columns):
        return False
    if any(select.args.get(what) for what in ("match", "pivots", "into")):
        return False
    joins = select.args.get("joins") or []
    if any(join.args.get("method") for join in joins):
        return False
    kinds = {f"{join.side} {join.kind}".strip().upper() for join in joins}
    if kinds <= {"", "INNER", "CROSS"}:
        return True
    keeps_left = kinds <= {"", "INNER", "CROSS", "LEFT", "LEFT OUTER", "SEMI", "ANTI", "LEFT SEMI", "LEFT ANTI"}
    return keeps_left and select.args["from_"].this is node


_CLAUSES = frozenset(("group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "union", "except",
                      "intersect", "minus", "window", "qualify", "lateral", "pivot", "unpivot"))  # fmt: skip


def _conjuncts(piece: Piece, select: Any) -> list[Piece]:
    """The parts of a SELECT's WHERE that all must hold, as text; none where the text and the tree disagree."""
    where = select.args.get("where")
    if where is None or any(word_of(token) == "|>" for token in piece.tokens):
        return []
    starts = [node.meta["start"] for node in where.walk() if "start" in node.meta]
    words = [at for at, t in enumerate(piece.tokens) if word_of(t) == "where" and t.start < min(starts, default=0)]
    if not words:
        return []
    text = _clause(piece, words[-1] + 1)
    parts = _split(text) if text is not None else []
    trees = list(operands(where.this)) if isinstance(where.this, exp.And) else [where.this]
    try:
        same = [parsed(part, exp.Condition) for part in parts] == trees
    except PartitaError:
        return []
    return parts if same else []


def _clause(piece: Piece, start: int) -> Piece | None:
    """The tokens from there to the next clause, or to what closes the query."""
    taken = []
    for token, is_outside in outside(piece.tokens[start:]):
        word = word_of(token)
        if is_outside and (word == ")" or word.split(" ")[0] in _CLAUSES):
            break
        taken.append(token)
    return Piece(piece.source, tuple(taken)) if taken else None


def _split(piece: Piece) -> list[Piece]:
    """What lies between the ANDs outside of all parentheses, but for those of BETWEEN."""
    parts: list[list[Any]] = [[]]
    betweens = 0
    for token, is_outside in outside(piece.tokens):
        word = word_of(token) if is_outside else ""
        if word == "and" and not betweens:
            parts.append([])
            continue
        betweens += (word == "between") - (word == "and")
        parts[-1].append(token)
    return [Piece(piece.source, tuple(tokens)) for tokens in parts if tokens]


def _is_defined(node: Any, name: str) -> bool:
    """Whether a WITH defines that name: one around a table's node, or one that it stands in, further up."""
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            at = next(i for i, cte in enumerate(parent.expressions) if cte is child)
            visible = parent.expressions[: at + 1 if parent.args.get("recursive") else at]
        else:
            with_ = parent.args.get("with_")
            visible = with_.expressions if with_ is not None and with_ is not child else []
        if any(cte.alias.casefold() == name.casefold() for cte in visible):
            return True
        child, parent = parent, parent.parent
    return False


def _select_of(node: Any) -> Any | None:
    """The SELECT whose FROM or JOIN a table's node is; None where it stands deeper."""
    holder = node.parent
    if not isinstance(holder, exp.From | exp.Join) or holder.this is not node:
        return None
    return holder.parent if isinstance(holder.parent, exp.Select) else None


def _sources(select: Any) -> Iterator[Any]:
    """What a SELECT takes rows from."""
    if select.args.get("from_") is not None:
        yield select.args["from_"].this
    for join in select.args.get("joins") or []:
        yield join.this


def _name_of(source: Any) -> str:
    return str(source.alias_or_name)


def _shortened(column: Any, reference: Reference, select: Any) -> Iterator[Edit]:
    """A column that is said with more than the last part of its table's name, with that part alone."""
    identifiers = column.parts
    names = [identifier.name.casefold() for identifier in identifiers]
    whole = [part.casefold() for part in reference.parts]
    for start in range(len(whole) - 1):
        taken = whole[start:]
        if names[: len(taken)] == taken and len(names) > len(taken) and _reaches(column, select, names[0]):
            yield Edit(identifiers[0].meta["start"], identifiers[len(taken) - 1].meta["start"], "")
            return


def _reaches(column: Any, select: Any, first: str) -> bool:
    """Whether a name is looked up in that SELECT before any other that has something by its first part."""
    node = column.parent
    while node is not None and node is not select:
        if isinstance(node, exp.Select) and any(_name_of(source).casefold() == first for source in _sources(node)):
            return False
        node = node.parent
    return node is not None
