"""Pruning: which partitions a predicate can match, given the domains of their columns.

`compile_predicate` turns a bound predicate into a tree of step functions, one per column; `possible_truths` evaluates
the tree over domains. `may_match` is inclusive, and files where it is false are skipped; `must_match` is strict, and
files where it is true are deleted whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce

from partita.algebra.domains import ColumnDomains, step_function_truths
from partita.algebra.predicate import (
    And,
    BooleanLiteral,
    Not,
    Or,
    Predicate,
    PredicateLike,
    Residual,
    UnboundPredicate,
    conjuncts,
)
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.schema import Schema
from partita.algebra.step_function import (
    ANY_TRUTH,
    FALSE,
    NULL,
    TRUE,
    StepFunction,
    and_truths,
    combine_step_functions,
    negate_truths,
    or_truths,
    step_function_of,
)
from partita.algebra.time_zones import UTC_TIME_ZONE


@dataclass(frozen=True, slots=True)
class ConstantNode:
    """A part with the same truth values everywhere: a constant, or all three for what only Spark can evaluate."""

    truths: int


@dataclass(frozen=True, slots=True)
class JunctionNode:
    """AND (`and_truths`) or OR (`or_truths`) of parts on different columns."""

    combine: Callable[[int, int], int]
    operands: tuple[PruneNode, ...]


PruneNode = StepFunction | ConstantNode | JunctionNode


@dataclass(frozen=True, slots=True)
class PredicatePart:
    """A part of the predicate that can exclude a partition, with the text that its author wrote."""

    text: str
    node: PruneNode


@dataclass(frozen=True, slots=True)
class CompiledPredicate:
    """A predicate ready for evaluation: its root, and the parts that are reported as the reason of an exclusion."""

    root: PruneNode
    parts: tuple[PredicatePart, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the predicate refers to."""
        return frozenset(_node_columns(self.root))


def _node_columns(node: PruneNode) -> Iterator[str]:
    if isinstance(node, StepFunction):
        yield node.column
    elif isinstance(node, JunctionNode):
        for part in node.operands:
            yield from _node_columns(part)


def compile_condition(where: PredicateLike | UnboundPredicate, schema: Schema) -> CompiledPredicate:
    """Parse, bind and compile a predicate or the text of one."""
    condition = where if isinstance(where, UnboundPredicate) else UnboundPredicate(where, UTC_TIME_ZONE)
    if isinstance(condition.where, str):
        return _compile_text(condition, schema)
    return compile_predicate(parse_predicate(condition, schema), schema)


@lru_cache(maxsize=256)
def _compile_text(where: UnboundPredicate, schema: Schema) -> CompiledPredicate:
    """Compile text; cached, as a plan needs the same text for the manifests and for the files."""
    return compile_predicate(parse_predicate(where, schema), schema)


def compile_predicate(predicate: Predicate, schema: Schema) -> CompiledPredicate:
    """Compile a predicate that is bound to the schema into step functions."""
    parts = [PredicatePart(str(p), _compile_node(p, schema)) for p in conjuncts(predicate)]
    root = _combine_by_column([p.node for p in parts], and_truths)
    by_column = (PredicatePart(_column_text(parts, n), n) for n in _conjunct_nodes(root) if isinstance(n, StepFunction))
    named_nodes = {p.node for p in parts}
    column_parts = tuple(part for part in by_column if part.node not in named_nodes)
    return CompiledPredicate(root, (*parts, *column_parts, PredicatePart(str(predicate), root)))


def possible_truths(node: PruneNode, domains: ColumnDomains) -> int:
    """Return the truth values that the predicate can have for rows within the domains."""
    if isinstance(node, StepFunction):
        return step_function_truths(node, domains)
    if isinstance(node, ConstantNode):
        return node.truths
    return reduce(node.combine, (possible_truths(p, domains) for p in node.operands))


def may_match(predicate: CompiledPredicate, domains: ColumnDomains) -> bool:
    """Return whether some row can match; if not, the partition can be skipped."""
    return bool(possible_truths(predicate.root, domains) & TRUE)


def must_match(predicate: CompiledPredicate, domains: ColumnDomains) -> bool:
    """Return whether every row matches; if so, the partition can be deleted whole."""
    return possible_truths(predicate.root, domains) == TRUE


def _compile_node(predicate: Predicate, schema: Schema, *, negate: bool = False) -> PruneNode:
    """Compile a predicate or its negation: NOT is pushed down to the leaves, where it swaps true and false."""
    if isinstance(predicate, Not):
        return _compile_node(predicate.operand, schema, negate=not negate)
    if isinstance(predicate, And | Or):
        combine = and_truths if isinstance(predicate, And) != negate else or_truths
        return _combine_by_column([_compile_node(p, schema, negate=negate) for p in predicate.operands], combine)
    if isinstance(predicate, Residual):
        return ConstantNode(ANY_TRUTH)
    if isinstance(predicate, BooleanLiteral):
        truth = NULL if predicate.value is None else TRUE if predicate.value else FALSE
        return ConstantNode(negate_truths(truth) if negate else truth)
    column = schema.find_field(predicate.column)  # type: ignore[attr-defined] # all other nodes are leaves
    steps = step_function_of(predicate, column.type)
    if steps is None:
        return ConstantNode(ANY_TRUTH)
    return ~steps if negate else steps


def _combine_by_column(nodes: Iterable[PruneNode], combine: Callable[[int, int], int]) -> PruneNode:
    """Return the junction of the nodes, with those on one column combined into one step function."""
    columns: dict[str, list[StepFunction]] = {}
    rest: list[PruneNode] = []
    for node in (
        p for n in nodes for p in (n.operands if isinstance(n, JunctionNode) and n.combine is combine else (n,))
    ):
        if isinstance(node, StepFunction):
            columns.setdefault(node.column, []).append(node)
        else:
            rest.append(node)
    parts = (*(combine_step_functions(group, combine) for group in columns.values()), *rest)
    return parts[0] if len(parts) == 1 else JunctionNode(combine, parts)


def _conjunct_nodes(node: PruneNode) -> tuple[PruneNode, ...]:
    return node.operands if isinstance(node, JunctionNode) and node.combine is and_truths else (node,)


def _column_text(parts: list[PredicatePart], group: StepFunction) -> str:
    return " AND ".join(p.text for p in parts if isinstance(p.node, StepFunction) and p.node.column == group.column)
