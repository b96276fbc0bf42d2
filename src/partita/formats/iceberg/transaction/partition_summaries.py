"""What a manifest list says of the partitions in a manifest: nulls, NaN, and the least and the greatest value.

Bounds of partitions are whole: Iceberg cuts the bounds of columns, not these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import PartitionFieldSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.typedef import Record
    from pyiceberg.types import PrimitiveType, StructType


def partition_summaries(type_: StructType, partitions: Sequence[Record]) -> list[PartitionFieldSummary]:
    """A summary for each field."""
    return column_summaries(type_, [[partition[at] for partition in partitions] for at in range(len(type_.fields))])


def column_summaries(type_: StructType, columns: Sequence[Sequence[Any]]) -> list[PartitionFieldSummary]:
    """A summary for each field, by the values that it has."""
    return [
        _summary(cast("PrimitiveType", field.field_type), values)
        for field, values in zip(type_.fields, columns, strict=True)
    ]


def may_hold(summaries: Sequence[PartitionFieldSummary] | None, type_: StructType, partition: Record) -> bool:
    """Whether a manifest of those summaries may list a file of that partition."""
    if summaries is None or len(summaries) != len(type_.fields):
        return True
    return all(
        _may_hold(summary, cast("PrimitiveType", field.field_type), partition[at])
        for at, (field, summary) in enumerate(zip(type_.fields, summaries, strict=True))
    )


def _summary(type_: PrimitiveType, values: Sequence[Any]) -> PartitionFieldSummary:
    ordered = [value for value in values if value is not None and not _is_nan(value)]
    lower, upper = (min(ordered, key=_place), max(ordered, key=_place)) if ordered else (None, None)
    return PartitionFieldSummary(
        any(value is None for value in values),
        any(map(_is_nan, values)),
        None if lower is None else to_bytes(type_, lower),
        None if upper is None else to_bytes(type_, upper),
    )


def _may_hold(summary: PartitionFieldSummary, type_: PrimitiveType, value: Any) -> bool:
    if value is None:
        return summary.contains_null
    if _is_nan(value):
        return summary.contains_nan is not False
    if summary.lower_bound is None or summary.upper_bound is None:
        return False
    lower, upper = from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
    # Others may have put zero for negative zero, or the other way round.
    return bool(_plain(lower) <= _plain(value) <= _plain(upper))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _place(value: Any) -> Any:
    """Where a value stands among others: negative zero is before zero."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else _plain(value)


def _plain(value: Any) -> Any:
    """A UUID goes by its bytes, and may be given as them."""
    return getattr(value, "bytes", value)
