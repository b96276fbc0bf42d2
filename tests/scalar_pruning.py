"""What pruning on Arrow is compared with, for one partition at a time: domains of statistics, reasons of exclusions."""

from __future__ import annotations

from partita.algebra.domains import ColumnDomains, IntervalDomain, NullPresence
from partita.algebra.interval import Interval
from partita.algebra.physical_values import to_physical_value
from partita.algebra.prune import CompiledPredicate, may_match, possible_truths
from partita.algebra.step_function import TRUE
from partita.algebra.types import FLOAT_KINDS, CharType, LogicalType


def domain_from_statistics(
    lower: object, upper: object, null_presence: NullPresence, type_: LogicalType
) -> IntervalDomain:
    """Return what a file's statistics say about a column; a bound of None is unknown.

    Statistics leave out NaN, which sorts above all else, so a float column has no upper bound. A bound of NaN, which
    some writers store, counts as unknown.
    """
    bounds = [None if bound is None or bound != bound else to_physical_value(bound, type_) for bound in (lower, upper)]  # noqa: PLR0124
    if isinstance(type_, CharType) and isinstance(bounds[1], str):
        # Values are padded when they are read; characters below the space can then change their order.
        bounds[1] = bounds[1].ljust(type_.length) if min(bounds[1], default=" ") >= " " else None
    return IntervalDomain(Interval(bounds[0], None if type_.kind in FLOAT_KINDS else bounds[1]), null_presence)


def exclusion_reason(predicate: CompiledPredicate, domains: ColumnDomains) -> str | None:
    """Return the text of the first part of the predicate that no row can match, or None if rows may match."""
    if may_match(predicate, domains):
        return None
    return next(p.text for p in predicate.parts if not possible_truths(p.node, domains) & TRUE)
