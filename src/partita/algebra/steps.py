"""A predicate over one column as a step function: from every value, and from null, to true, false or null.

The values at which the answer can change, in order, are the bounds. They cut the domain into 2k+1 places: the gap below
the first bound, the first bound itself, the gap above it, and so on. Each place has one answer. Whatever is known of a
column's values in a partition is a run of places, so "what can the predicate be there" is the union of their answers,
whether the knowledge comes from a partition field or from a file's statistics.

Sets of answers are bit masks: `TRUE | NULL` is "true or null, never false".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from partita.algebra.plain import Plain, to_plain
from partita.algebra.predicate import Compare, In, IsNull, Predicate, StartsWith
from partita.algebra.transforms import Range, prefix_range
from partita.algebra.types import BITS, BYTES, INSTANTS, DecimalType, Kind, LogicalType

TRUE, FALSE, NULL = 1, 2, 4
ANYTHING = TRUE | FALSE | NULL


def negated(mask: int) -> int:
    """NOT of each answer in the set."""
    return (mask & NULL) | ((mask & TRUE) << 1) | ((mask & FALSE) >> 1)


def both(a: int, b: int) -> int:
    """AND of any answer of one set with any of the other."""
    return negated(either(negated(a), negated(b)))


def either(a: int, b: int) -> int:
    """OR of any answer of one set with any of the other; nothing with nothing is nothing."""
    if not a or not b:
        return 0
    true = (a | b) & TRUE
    false = a & b & FALSE
    null = NULL if (a & NULL and b & (NULL | FALSE)) or (b & NULL and a & (NULL | FALSE)) else 0
    return true | false | null


@dataclass(frozen=True, slots=True)
class Steps:
    """The step function of one column: an answer for each of the 2k+1 places (0: no value lies there), and for null."""

    column: str
    type: LogicalType
    bounds: tuple[Plain, ...]
    answers: tuple[int, ...]
    at_null: int

    def place(self, plain: Plain) -> int:
        """The place of a value."""
        return bisect_left(self.bounds, plain) + bisect_right(self.bounds, plain)

    def span(self, known: Range) -> tuple[int, int]:
        """The first and the last place that an interval touches."""
        first = 0 if known.lower is None else self.place(known.lower)
        if known.upper is None:
            return first, len(self.answers) - 1
        if known.upper_open:
            return first, 2 * bisect_left(self.bounds, known.upper)
        return first, self.place(known.upper)

    def over(self, known: Range) -> int:
        """What the predicate can be for the values of an interval."""
        first, last = self.span(known)
        return reduce(or_, self.answers[first : last + 1], 0)

    def __invert__(self) -> Steps:
        return replace(self, answers=tuple(map(negated, self.answers)), at_null=negated(self.at_null))


def steps_of(leaf: Predicate, type_: LogicalType) -> Steps | None:
    """The step function of a bound comparison; None where values of the type have no order to go by."""
    if isinstance(leaf, IsNull):
        return Steps(leaf.column, type_, (), (FALSE,), TRUE)
    if isinstance(leaf, StartsWith):
        return _within(leaf.column, type_, prefix_range(leaf.prefix))
    if isinstance(leaf, In):
        return _membership(leaf, type_)
    if isinstance(leaf, Compare):
        plain = to_plain(leaf.value, type_)
        below, at, above, at_null = _COMPARED[leaf.op]
        return _cut(Steps(leaf.column, type_, (plain,), (below, at, above), at_null))
    return None


_COMPARED = {
    "=": (FALSE, TRUE, FALSE, NULL),
    "!=": (TRUE, FALSE, TRUE, NULL),
    "<": (TRUE, FALSE, FALSE, NULL),
    "<=": (TRUE, TRUE, FALSE, NULL),
    ">": (FALSE, FALSE, TRUE, NULL),
    ">=": (FALSE, TRUE, TRUE, NULL),
    "<=>": (FALSE, TRUE, FALSE, FALSE),
}


def joined(parts: Iterable[Steps], how: Callable[[int, int], int]) -> Steps:
    """AND (`both`) or OR (`either`) of step functions of one column, as one.

    Neighbours are joined in rounds, so that thousands of them cost little more than their bounds together.
    """
    left = list(parts)
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [*(_joined(a, b, how) for a, b in pairs), *left[len(left) // 2 * 2 :]]
    return left[0]


def _joined(a: Steps, b: Steps, how: Callable[[int, int], int]) -> Steps:
    bounds = tuple(sorted({*a.bounds, *b.bounds}))
    answers = map(how, _spread(a, bounds), _spread(b, bounds))
    return _cut(Steps(a.column, a.type, bounds, tuple(answers), how(a.at_null, b.at_null)))


def _spread(steps: Steps, bounds: tuple[Plain, ...]) -> list[int]:
    """The answers at the places that finer bounds make."""
    if bounds == steps.bounds:
        return list(steps.answers)
    at = list(map(steps.place, bounds))
    spread = [steps.answers[0]]
    for place in at:
        spread += [steps.answers[place], steps.answers[place + place % 2]]
    return spread


def _membership(leaf: In, type_: LogicalType) -> Steps:
    plains = {to_plain(v, type_) for v in leaf.values if v is not None}
    outside = NULL if None in leaf.values else FALSE
    bounds = tuple(sorted(plains))
    answers = (outside, *(TRUE, outside) * len(bounds))
    return _cut(Steps(leaf.column, type_, bounds, answers, NULL))


def _within(column: str, type_: LogicalType, inside: Range) -> Steps:
    """True from the lower bound on, up to and without the upper one."""
    if inside.upper is None:
        return Steps(column, type_, (inside.lower or "",), (FALSE, TRUE, TRUE), NULL)
    bounds = (inside.lower or "", inside.upper)
    return _cut(Steps(column, type_, bounds, (FALSE, TRUE, TRUE, FALSE, FALSE), NULL))


def _cut(steps: Steps) -> Steps:
    """The same with no answer in the gaps that hold no value of the type; there it would cost `must_match` its yes."""
    if not steps.bounds:
        return steps
    answers = list(steps.answers)
    lowest, highest = _ends(steps.type)
    if steps.bounds[0] == lowest:
        answers[0] = 0
    if highest is not None and steps.bounds[-1] == highest:
        answers[-1] = 0
    if steps.type.kind in _WHOLE:
        for at, (left, right) in enumerate(zip(steps.bounds, steps.bounds[1:], strict=False)):
            if right - left == 1:  # type: ignore[operator] # whole numbers
                answers[2 * at + 2] = 0
    return replace(steps, answers=tuple(answers))


_WHOLE = frozenset(BITS) | INSTANTS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.DECIMAL}
"""Types whose plain values are whole numbers with nothing between neighbours."""


def _ends(type_: LogicalType) -> tuple[Plain | None, Plain | None]:
    if type_.kind in BITS:
        half = 1 << (BITS[type_.kind] - 1)
        return -half, half - 1
    if isinstance(type_, DecimalType):
        largest: int = 10**type_.precision - 1
        return -largest, largest
    if type_.kind is Kind.BOOLEAN:
        return False, True
    if type_.kind is Kind.STRING:
        return "", None
    return (b"", None) if type_.kind in BYTES else (None, None)
