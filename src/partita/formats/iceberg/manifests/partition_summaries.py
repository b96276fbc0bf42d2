"""Partition summaries of a manifest list: nulls, NaN, and the least and greatest partition value of each manifest.

Bounds of partitions are never truncated, unlike bounds of columns.
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
    """Return a summary for each partition field."""
    return summaries_of_columns(
        type_, [[partition[index] for partition in partitions] for index in range(len(type_.fields))]
    )


def summaries_of_columns(type_: StructType, columns: Sequence[Sequence[Any]]) -> list[PartitionFieldSummary]:
    """Return a summary for each partition field, given the values of each."""
    return [
        _field_summary(cast("PrimitiveType", field.field_type), values)
        for field, values in zip(type_.fields, columns, strict=True)
    ]


def may_contain_partition(
    summaries: Sequence[PartitionFieldSummary] | None, type_: StructType, partition: Record
) -> bool:
    """Return whether a manifest with those summaries may list a file of that partition."""
    if summaries is None or len(summaries) != len(type_.fields):
        return True
    return all(
        _may_contain_value(summary, cast("PrimitiveType", field.field_type), partition[index])
        for index, (field, summary) in enumerate(zip(type_.fields, summaries, strict=True))
    )


def _field_summary(type_: PrimitiveType, values: Sequence[Any]) -> PartitionFieldSummary:
    numbers = [value for value in values if value is not None and not _is_nan(value)]
    lower, upper = (min(numbers, key=_sort_key), max(numbers, key=_sort_key)) if numbers else (None, None)
    return PartitionFieldSummary(
        any(value is None for value in values),
        any(map(_is_nan, values)),
        None if lower is None else to_bytes(type_, lower),
        None if upper is None else to_bytes(type_, upper),
    )


def _may_contain_value(summary: PartitionFieldSummary, type_: PrimitiveType, value: Any) -> bool:
    if value is None:
        return summary.contains_null
    if _is_nan(value):
        return summary.contains_nan is not False
    if summary.lower_bound is None or summary.upper_bound is None:
        return False
    lower, upper = from_bytes(type_, summary.lower_bound), from_bytes(type_, summary.upper_bound)
    # Zero and negative zero compare as equal here, because writers may have replaced one by the other.
    return bool(_comparable_value(lower) <= _comparable_value(value) <= _comparable_value(upper))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _sort_key(value: Any) -> Any:
    """Return a key that orders values, with negative zero before zero."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else _comparable_value(value)


def _comparable_value(value: Any) -> Any:
    """Return the bytes of a UUID, which may also be given as bytes; any other value as it is."""
    return getattr(value, "bytes", value)
