"""What a predicate can and can't exclude, given what is known of a partition.

`compile_predicate` turns a bound predicate into a tree of step functions, one for each column that its parts speak of;
`possible` asks what that tree can be. `may_match` is the loose answer, by which files are skipped; `must_match` is the
strict one, by which whole files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce

from partita.algebra import facts as facts_room
from partita.algebra.facts import Facts
from partita.algebra.parse import Condition, Where, parse_predicate
from partita.algebra.predicate import And, Not, Or, Predicate, Residual, Truth, conjuncts
from partita.algebra.schema import Schema
from partita.algebra.steps import ANYTHING, FALSE, NULL, TRUE, Steps, both, either, joined, negated, steps_of
from partita.algebra.time_zones import IN_UTC


@dataclass(frozen=True, slots=True)
class Known:
    """A part whose answers are the same everywhere: a constant, or, with all three, what only Spark can say."""

    answers: int


@dataclass(frozen=True, slots=True)
class Junction:
    """AND (`both`) or OR (`either`) of parts on different columns."""

    how: Callable[[int, int], int]
    parts: tuple[Node, ...]


Node = Steps | Known | Junction


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the predicate that can exclude a partition, in its author's words."""

    text: str
    node: Node


@dataclass(frozen=True, slots=True)
class Compiled:
    """A predicate ready to be asked: the whole, and the parts that name the reason when it excludes."""

    whole: Node
    parts: tuple[Part, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of which something is asked."""
        return frozenset(_columns(self.whole))


def _columns(node: Node) -> Iterator[str]:
    if isinstance(node, Steps):
        yield node.column
    elif isinstance(node, Junction):
        for part in node.parts:
            yield from _columns(part)


def compiled(where: Where | Condition, schema: Schema) -> Compiled:
    """A predicate, or the text of one, as step functions."""
    condition = where if isinstance(where, Condition) else Condition(where, IN_UTC)
    if isinstance(condition.where, str):
        return _of_text(condition, schema)
    return compile_predicate(parse_predicate(condition, schema), schema)


@lru_cache(maxsize=256)
def _of_text(where: Condition, schema: Schema) -> Compiled:
    """A plan asks for the same text twice, once for the manifests and once for the files."""
    return compile_predicate(parse_predicate(where, schema), schema)


def compile_predicate(predicate: Predicate, schema: Schema) -> Compiled:
    """The predicate, bound to that schema, as step functions."""
    named = [Part(str(p), _node(p, schema)) for p in conjuncts(predicate)]
    together = _grouped([p.node for p in named], both)
    groups = (Part(_shared_text(named, n), n) for n in _parts(together) if isinstance(n, Steps))
    known = {p.node for p in named}
    extra = tuple(g for g in groups if g.node not in known)
    return Compiled(together, (*named, *extra, Part(str(predicate), together)))


def possible(node: Node, facts: Facts) -> int:
    """The set of answers that the predicate can give for rows of which these facts hold."""
    if isinstance(node, Steps):
        return facts_room.possible(node, facts)
    if isinstance(node, Known):
        return node.answers
    return reduce(node.how, (possible(p, facts) for p in node.parts))


def may_match(compiled: Compiled, facts: Facts) -> bool:
    """Whether some row can match: False means that the partition can be skipped."""
    return bool(possible(compiled.whole, facts) & TRUE)


def must_match(compiled: Compiled, facts: Facts) -> bool:
    """Whether every row does match: True means that the partition can be deleted whole."""
    return possible(compiled.whole, facts) == TRUE


def reason(compiled: Compiled, facts: Facts) -> str | None:
    """The first part of the predicate that no row can match, in its author's words; None where rows may match."""
    if may_match(compiled, facts):
        return None
    return next(p.text for p in compiled.parts if not possible(p.node, facts) & TRUE)


def _node(predicate: Predicate, schema: Schema, *, inverted: bool = False) -> Node:
    """The node of a predicate, or of its negation: NOT is pushed down to the leaves, where it only swaps answers."""
    if isinstance(predicate, Not):
        return _node(predicate.part, schema, inverted=not inverted)
    if isinstance(predicate, And | Or):
        how = both if isinstance(predicate, And) != inverted else either
        return _grouped([_node(p, schema, inverted=inverted) for p in predicate.parts], how)
    if isinstance(predicate, Residual):
        return Known(ANYTHING)
    if isinstance(predicate, Truth):
        answer = NULL if predicate.value is None else TRUE if predicate.value else FALSE
        return Known(negated(answer) if inverted else answer)
    column = schema.find(predicate.column)  # type: ignore[attr-defined] # what is left are leaves
    steps = steps_of(predicate, column.type)
    if steps is None:
        return Known(ANYTHING)
    return ~steps if inverted else steps


def _grouped(nodes: Iterable[Node], how: Callable[[int, int], int]) -> Node:
    """The junction of nodes, those on one column joined into one step function."""
    columns: dict[str, list[Steps]] = {}
    rest: list[Node] = []
    for node in (p for n in nodes for p in (n.parts if isinstance(n, Junction) and n.how is how else (n,))):
        if isinstance(node, Steps):
            columns.setdefault(node.column, []).append(node)
        else:
            rest.append(node)
    parts = (*(joined(group, how) for group in columns.values()), *rest)
    return parts[0] if len(parts) == 1 else Junction(how, parts)


def _parts(node: Node) -> tuple[Node, ...]:
    return node.parts if isinstance(node, Junction) and node.how is both else (node,)


def _shared_text(named: list[Part], group: Steps) -> str:
    return " AND ".join(p.text for p in named if isinstance(p.node, Steps) and p.node.column == group.column)
