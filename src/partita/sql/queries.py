"""The tables that a query reads, and the predicate that its WHERE implies for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from partita.algebra.predicate import Predicate, UnboundPredicate, all_of, residuals
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.algebra.sql_condition import operands
from partita.algebra.time_zones import TimeZone
from partita.errors import PartitaError, TableError
from partita.sql.name_resolution import TableScope, TextEdit, parse_expression, parse_tree, qualify_columns
from partita.sql.statements import table_qualifiers
from partita.sql.tokens import SqlFragment, keyword_of, with_nesting_flag


@dataclass(frozen=True, slots=True, eq=False)
class TableReference:
    """A table that a query reads: its name, the position of the name, and sqlglot's node for it."""

    parts: tuple[str, ...]
    start: int
    stop: int
    node: Any = field(repr=False)

    @property
    def alias(self) -> str | None:
        """The alias that the query gives it, if any."""
        return self.node.alias or None

    @property
    def is_versioned(self) -> bool:
        """Whether the query reads another version of it (VERSION or TIMESTAMP AS OF)."""
        return bool(self.node.args.get("version"))

    @property
    def is_sampled(self) -> bool:
        """Whether the query reads a sample of it (TABLESAMPLE)."""
        return bool(self.node.args.get("sample"))


@dataclass(frozen=True, slots=True, eq=False)
class ParsedQuery:
    """A query: its tree, and the tables that it reads and doesn't define itself."""

    fragment: SqlFragment
    tree: Any
    references: tuple[TableReference, ...]

    def table_edits(self, reference: TableReference, text: str) -> Iterator[TextEdit]:
        """Yield the edits that replace the name of a table by `text`.

        Columns that are qualified with the name keep its last part, which becomes the alias. Raises `PredicateError` if
        that is not possible.
        """
        if reference.is_versioned:
            self.fragment.fail("a table is read as it is now; AS OF is not supported", reference.start)
        if reference.alias is not None:
            yield TextEdit(reference.start, reference.stop, text)
            return
        if reference.is_sampled:
            self.fragment.fail("a table with TABLESAMPLE needs an alias", reference.start)
        table_name = reference.parts[-1]
        select = _enclosing_select(reference.node)
        if (
            select is not None
            and sum(_source_name(s).casefold() == table_name.casefold() for s in _select_sources(select)) > 1
        ):
            self.fragment.fail(f"two tables are called {table_name!r} here; give each an alias", reference.start)
        quoted_name = table_name.replace("`", "``")
        yield TextEdit(reference.start, reference.stop, f"{text} AS `{quoted_name}`")
        for column in self.tree.find_all(exp.Column):
            yield from _qualifier_edits(column, reference, select)


def parse_query(fragment: SqlFragment) -> ParsedQuery:
    """Parse a query and find the tables that it reads; names that a WITH defines are not among them."""
    tree = parse_tree(fragment)
    if not isinstance(tree, exp.Query | exp.Values):
        first, kind = fragment.tokens[0].text.upper(), type(tree).__name__.upper()
        raise TableError(
            f"a statement that begins with {first} is read as a query, and this is {kind}; "
            "begin with that word, and put the query into it, as in MERGE INTO t USING (WITH ... SELECT ...) s"
        )
    references = []
    for node in tree.find_all(exp.Table):
        identifiers = node.parts
        if isinstance(node.this, exp.Anonymous) and node.this.name.casefold() == "identifier":
            fragment.fail("IDENTIFIER(...) is not supported; write the name of the table")
        if not all(isinstance(i, exp.Identifier) and "start" in i.meta for i in identifiers):
            continue
        parts = tuple(identifier.name for identifier in identifiers)
        if len(parts) > 1 or not _is_cte_name(node, parts[0]):
            references.append(
                TableReference(parts, identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1, node)
            )
    return ParsedQuery(fragment, tree, tuple(references))


def pushdown_predicate(
    query: ParsedQuery, reference: TableReference, schema: Schema, zone: TimeZone
) -> Predicate | None:
    """Return a predicate that is true of every row of the table that the query can need; None if there is none.

    It consists of those conjuncts of the WHERE around the table that name only this table and that Partita can
    evaluate, if no join can bring back a row that they exclude. When in doubt, a conjunct is left out.
    """
    select = _enclosing_select(reference.node)
    if select is None or not _can_filter_before_joins(select, reference):
        return None
    sources = list(_select_sources(select))
    is_only_source = len(sources) == 1 and not select.args.get("laterals")
    scope = TableScope(table_qualifiers(reference.parts, reference.alias), schema.names)
    table_names = {qualifier[-1].casefold() for qualifier in scope.qualifiers}
    if sum(_source_name(source).casefold() in table_names for source in sources) != 1:
        return None
    predicates = []
    for conjunct in _where_conjuncts(query.fragment, select):
        predicate = _single_table_predicate(conjunct, scope, schema, zone, is_only_source=is_only_source)
        if predicate is not None:
            predicates.append(predicate)
    return all_of(predicates) if predicates else None


def _single_table_predicate(
    conjunct: SqlFragment, scope: TableScope, schema: Schema, zone: TimeZone, *, is_only_source: bool
) -> Predicate | None:
    """Return a conjunct as a predicate on one table; None if it may name another table, or can't be evaluated."""
    try:
        qualifiers = [
            [part.name for part in column.parts[:-1]][:1] for column in parse_expression(conjunct).find_all(exp.Column)
        ]
        if not qualifiers or not (is_only_source or all(map(scope.has_qualifier, qualifiers))):
            return None
        predicate = parse_predicate(UnboundPredicate(qualify_columns(conjunct, [scope]), zone), schema)
    except PartitaError:
        return None
    # A residual may call a function that is not deterministic.
    return None if any(True for _ in residuals(predicate)) else predicate


def needs_all_columns(query: ParsedQuery, reference: TableReference) -> bool:
    """Return whether a query may need columns of a table that it doesn't name: by `*`, position or implicit grouping.

    When in doubt, it does.
    """
    alias = reference.node.args.get("alias")
    has_star = any(not isinstance(star.parent, exp.Count) for star in query.tree.find_all(exp.Star))
    has_natural_join = any(join.args.get("method") for join in query.tree.find_all(exp.Join))
    return (
        has_star
        or has_natural_join
        or _enclosing_select(reference.node) is None
        or any(query.tree.find_all(exp.Pivot))
        or bool(alias and alias.columns)
    )


def _can_filter_before_joins(select: Any, reference: TableReference) -> bool:
    """Whether rows of the table that the WHERE excludes can be left out before the joins."""
    node = reference.node
    alias = node.args.get("alias")
    if reference.is_sampled or node.args.get("pivots") or node.args.get("joins") or (alias and alias.columns):
        return False
    if any(select.args.get(clause) for clause in ("match", "pivots", "into")):
        return False
    joins = select.args.get("joins") or []
    if any(join.args.get("method") for join in joins):
        return False
    kinds = {f"{join.side} {join.kind}".strip().upper() for join in joins}
    if kinds <= {"", "INNER", "CROSS"}:
        return True
    preserve_left_rows = kinds <= {
        "", "INNER", "CROSS", "LEFT", "LEFT OUTER", "SEMI", "ANTI", "LEFT SEMI", "LEFT ANTI",
    }  # fmt: skip
    return preserve_left_rows and select.args["from_"].this is node


_CLAUSE_KEYWORDS = frozenset((
    "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "union", "except", "intersect",
    "minus", "window", "qualify", "lateral", "pivot", "unpivot",
))  # fmt: skip
"""The first keywords of clauses that may follow a WHERE."""


def _where_conjuncts(fragment: SqlFragment, select: Any) -> list[SqlFragment]:
    """Return the conjuncts of a SELECT's WHERE as text; none if the text and the tree disagree."""
    where = select.args.get("where")
    if where is None or any(keyword_of(token) == "|>" for token in fragment.tokens):
        return []
    starts = [node.meta["start"] for node in where.walk() if "start" in node.meta]
    where_indices = [
        index
        for index, token in enumerate(fragment.tokens)
        if keyword_of(token) == "where" and token.start < min(starts, default=0)
    ]
    if not where_indices:
        return []
    clause = _clause_fragment(fragment, where_indices[-1] + 1)
    conjuncts = _split_conjuncts(clause) if clause is not None else []
    trees = list(operands(where.this)) if isinstance(where.this, exp.And) else [where.this]
    try:
        is_same = [parse_tree(conjunct, exp.Condition) for conjunct in conjuncts] == trees
    except PartitaError:
        return []
    return conjuncts if is_same else []


def _clause_fragment(fragment: SqlFragment, start: int) -> SqlFragment | None:
    """Return the tokens from an index to the next clause, or to the parenthesis that closes the query."""
    tokens = []
    for token, is_outside in with_nesting_flag(fragment.tokens[start:]):
        keyword = keyword_of(token)
        if is_outside and (keyword == ")" or keyword.split(" ")[0] in _CLAUSE_KEYWORDS):
            break
        tokens.append(token)
    return SqlFragment(fragment.source, tuple(tokens)) if tokens else None


def _split_conjuncts(fragment: SqlFragment) -> list[SqlFragment]:
    """Split at each AND that is outside of all parentheses and doesn't belong to a BETWEEN."""
    conjuncts: list[list[Any]] = [[]]
    open_betweens = 0
    for token, is_outside in with_nesting_flag(fragment.tokens):
        keyword = keyword_of(token) if is_outside else ""
        if keyword == "and" and not open_betweens:
            conjuncts.append([])
            continue
        open_betweens += (keyword == "between") - (keyword == "and")
        conjuncts[-1].append(token)
    return [SqlFragment(fragment.source, tuple(tokens)) for tokens in conjuncts if tokens]


def _is_cte_name(node: Any, name: str) -> bool:
    """Whether a WITH around a table's node defines that name before it."""
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            index = next(i for i, cte in enumerate(parent.expressions) if cte is child)
            visible_tables = parent.expressions[: index + 1 if parent.args.get("recursive") else index]
        else:
            with_ = parent.args.get("with_")
            visible_tables = with_.expressions if with_ is not None and with_ is not child else []
        if any(cte.alias.casefold() == name.casefold() for cte in visible_tables):
            return True
        child, parent = parent, parent.parent
    return False


def _enclosing_select(node: Any) -> Any | None:
    """Return the SELECT that has a table's node in its FROM or JOIN; None if the node is nested deeper."""
    clause = node.parent
    if not isinstance(clause, exp.From | exp.Join) or clause.this is not node:
        return None
    return clause.parent if isinstance(clause.parent, exp.Select) else None


def _select_sources(select: Any) -> Iterator[Any]:
    """Yield the sources of a SELECT: tables, subqueries and functions."""
    if select.args.get("from_") is not None:
        yield select.args["from_"].this
    for join in select.args.get("joins") or []:
        yield join.this


def _source_name(source: Any) -> str:
    return str(source.alias_or_name)


def _qualifier_edits(column: Any, reference: TableReference, select: Any) -> Iterator[TextEdit]:
    """Yield the edit that reduces a qualifier of several parts to the last part of its table's name."""
    identifiers = column.parts
    names = [identifier.name.casefold() for identifier in identifiers]
    table_parts = [part.casefold() for part in reference.parts]
    for start in range(len(table_parts) - 1):
        qualifier = table_parts[start:]
        length = len(qualifier)
        if names[:length] == qualifier and len(names) > length and _is_resolved_in(column, select, names[0]):
            yield TextEdit(identifiers[0].meta["start"], identifiers[length - 1].meta["start"], "")
            return


def _is_resolved_in(column: Any, select: Any, first_part: str) -> bool:
    """Whether no SELECT between a column and this one has a source with the first part of the column's name."""
    node = column.parent
    while node is not None and node is not select:
        if isinstance(node, exp.Select) and any(
            _source_name(source).casefold() == first_part for source in _select_sources(node)
        ):
            return False
        node = node.parent
    return node is not None
