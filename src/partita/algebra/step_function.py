"""A predicate over one column as a step function from values, and from null, to true, false or null.

The values at which the truth value can change are the bounds, in order. k bounds divide the values of the type into
2k+1 segments: the gap below the first bound, the first bound itself, the gap above it, and so on. The predicate has one
truth value per segment. An interval of values, whether it comes from a partition field or from a file's statistics,
covers a range of segments, and the truth values that the predicate can have there are the union of theirs.

Sets of truth values are bit masks: `TRUE | NULL` is "true or null, never false".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from partita.algebra.interval import Interval, prefix_interval
from partita.algebra.physical_values import PhysicalValue, to_physical_value
from partita.algebra.predicate import Comparison, In, IsNull, Predicate, StartsWith
from partita.algebra.types import BINARY_KINDS, INTEGER_BITS, TIMESTAMP_KINDS, DecimalType, LogicalType, TypeKind

TRUE, FALSE, NULL = 1, 2, 4
ANY_TRUTH = TRUE | FALSE | NULL


def negate_truths(mask: int) -> int:
    """Return NOT of each truth value in the set."""
    return (mask & NULL) | ((mask & TRUE) << 1) | ((mask & FALSE) >> 1)


def and_truths(a: int, b: int) -> int:
    """Return every AND of a truth value of one set with one of the other."""
    return negate_truths(or_truths(negate_truths(a), negate_truths(b)))


def or_truths(a: int, b: int) -> int:
    """Return every OR of a truth value of one set with one of the other; the empty set if one of them is empty."""
    if not a or not b:
        return 0
    true = (a | b) & TRUE
    false = a & b & FALSE
    null = NULL if (a & NULL and b & (NULL | FALSE)) or (b & NULL and a & (NULL | FALSE)) else 0
    return true | false | null


@dataclass(frozen=True, slots=True)
class StepFunction:
    """The step function of one column: the truth values in each segment, 0 if it holds no value, and of null."""

    column: str
    type: LogicalType
    bounds: tuple[PhysicalValue, ...]
    truths: tuple[int, ...]
    null_truths: int

    def segment_index(self, value: PhysicalValue) -> int:
        """Return the index of the segment of a value."""
        return bisect_left(self.bounds, value) + bisect_right(self.bounds, value)

    def segment_range(self, interval: Interval) -> tuple[int, int]:
        """Return the indices of the first and the last segment that an interval touches."""
        first = 0 if interval.lower is None else self.segment_index(interval.lower)
        if interval.upper is None:
            return first, len(self.truths) - 1
        if interval.upper_open:
            return first, 2 * bisect_left(self.bounds, interval.upper)
        return first, self.segment_index(interval.upper)

    def truths_in(self, interval: Interval) -> int:
        """Return the truth values that the predicate can have for the values of an interval."""
        first, last = self.segment_range(interval)
        return reduce(or_, self.truths[first : last + 1], 0)

    def __invert__(self) -> StepFunction:
        return replace(self, truths=tuple(map(negate_truths, self.truths)), null_truths=negate_truths(self.null_truths))


def step_function_of(leaf: Predicate, type_: LogicalType) -> StepFunction | None:
    """Return the step function of a bound leaf of a predicate; None if the leaf is of another kind."""
    if isinstance(leaf, IsNull):
        return StepFunction(leaf.column, type_, (), (FALSE,), TRUE)
    if isinstance(leaf, StartsWith):
        return _prefix_function(leaf.column, type_, prefix_interval(leaf.prefix))
    if isinstance(leaf, In):
        return _in_list_function(leaf, type_)
    if isinstance(leaf, Comparison):
        bound = to_physical_value(leaf.value, type_)
        below, equal, above, null = _COMPARISON_TRUTHS[leaf.operator]
        return _clear_empty_segments(StepFunction(leaf.column, type_, (bound,), (below, equal, above), null))
    return None


_COMPARISON_TRUTHS = {
    "=": (FALSE, TRUE, FALSE, NULL),
    "!=": (TRUE, FALSE, TRUE, NULL),
    "<": (TRUE, FALSE, FALSE, NULL),
    "<=": (TRUE, TRUE, FALSE, NULL),
    ">": (FALSE, FALSE, TRUE, NULL),
    ">=": (FALSE, TRUE, TRUE, NULL),
    "<=>": (FALSE, TRUE, FALSE, FALSE),
}


def combine_step_functions(step_functions: Iterable[StepFunction], combine: Callable[[int, int], int]) -> StepFunction:
    """Combine step functions of one column into one, by `and_truths` or `or_truths`.

    Pairs are combined in rounds, so that thousands of step functions cost little more than all their bounds together.
    """
    remaining = list(step_functions)
    while len(remaining) > 1:
        pairs = zip(remaining[::2], remaining[1::2], strict=False)
        last_unpaired = remaining[len(remaining) // 2 * 2 :]
        remaining = [*(_combine_pair(a, b, combine) for a, b in pairs), *last_unpaired]
    return remaining[0]


def _combine_pair(a: StepFunction, b: StepFunction, combine: Callable[[int, int], int]) -> StepFunction:
    bounds = tuple(sorted({*a.bounds, *b.bounds}))
    truths = map(combine, _refine_truths(a, bounds), _refine_truths(b, bounds))
    return _clear_empty_segments(
        StepFunction(a.column, a.type, bounds, tuple(truths), combine(a.null_truths, b.null_truths))
    )


def _refine_truths(steps: StepFunction, bounds: tuple[PhysicalValue, ...]) -> list[int]:
    """Return the truth values in the segments of a superset of the bounds."""
    if bounds == steps.bounds:
        return list(steps.truths)
    truths = [steps.truths[0]]
    for segment in map(steps.segment_index, bounds):
        truths += [steps.truths[segment], steps.truths[segment + segment % 2]]
    return truths


def _in_list_function(leaf: In, type_: LogicalType) -> StepFunction:
    bounds = tuple(sorted({to_physical_value(v, type_) for v in leaf.values if v is not None}))
    truth_outside = NULL if None in leaf.values else FALSE
    truths = (truth_outside, *(TRUE, truth_outside) * len(bounds))
    return _clear_empty_segments(StepFunction(leaf.column, type_, bounds, truths, NULL))


def _prefix_function(column: str, type_: LogicalType, interval: Interval) -> StepFunction:
    """Return the step function that is true from the lower bound up to and without the upper one."""
    if interval.upper is None:
        return StepFunction(column, type_, (interval.lower or "",), (FALSE, TRUE, TRUE), NULL)
    bounds = (interval.lower or "", interval.upper)
    return _clear_empty_segments(StepFunction(column, type_, bounds, (FALSE, TRUE, TRUE, FALSE, FALSE), NULL))


def _clear_empty_segments(steps: StepFunction) -> StepFunction:
    """Clear the truth values of gaps that hold no value of the type, which `must_match` would be wrongly denied by."""
    if not steps.bounds:
        return steps
    truths = list(steps.truths)
    lowest, highest = _type_limits(steps.type)
    if steps.bounds[0] == lowest:
        truths[0] = 0
    if highest is not None and steps.bounds[-1] == highest:
        truths[-1] = 0
    if steps.type.kind in _DISCRETE_KINDS:
        for index, (lower, upper) in enumerate(zip(steps.bounds, steps.bounds[1:], strict=False)):
            if upper - lower == 1:  # type: ignore[operator] # integers
                truths[2 * index + 2] = 0
    return replace(steps, truths=tuple(truths))


_DISCRETE_KINDS = (
    frozenset(INTEGER_BITS) | TIMESTAMP_KINDS | {TypeKind.BOOLEAN, TypeKind.DATE, TypeKind.TIME, TypeKind.DECIMAL}
)
"""Types whose physical values are integers, with no value between neighbours."""


def _type_limits(type_: LogicalType) -> tuple[PhysicalValue | None, PhysicalValue | None]:
    if type_.kind in INTEGER_BITS:
        half = 1 << (INTEGER_BITS[type_.kind] - 1)
        return -half, half - 1
    if isinstance(type_, DecimalType):
        largest: int = 10**type_.precision - 1
        return -largest, largest
    if type_.kind is TypeKind.BOOLEAN:
        return False, True
    if type_.kind is TypeKind.STRING:
        return "", None
    return (b"", None) if type_.kind in BINARY_KINDS else (None, None)
