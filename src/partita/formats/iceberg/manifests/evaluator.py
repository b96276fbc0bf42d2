"""Which manifests a predicate or a partition selection needs, by the partition summaries of the manifest list.

A summary has the least and greatest value of a partition field. If the transform preserves order, they bound the source
column; a bucket tells something only if all files have the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import PredicateLike, UnboundPredicate
from partita.algebra.prune import compile_condition
from partita.algebra.spec import PartitionField, SpecHistory
from partita.algebra.transforms import HashedTransform, TransformFamily
from partita.algebra.types import FLOAT_KINDS, TypeKind
from partita.arrow.buffers import Bools, dense_array, int64_values, null_mask
from partita.arrow.domains import DomainArray, HashDomainArray, IntervalDomainArray, preimage_domain
from partita.arrow.physical_values import PhysicalArray
from partita.arrow.prune import bounds_from_statistics, may_match
from partita.formats.iceberg.statistics import decode_bounds

if TYPE_CHECKING:
    from partita.formats.partition_selection import PartitionSelection


def may_match_predicate(manifests: pa.Table, history: SpecHistory, where: PredicateLike | UnboundPredicate) -> Bools:
    """Return whether some file of each manifest may match; `manifests` are rows of `MANIFEST_FILE_SCHEMA`."""
    condition = compile_condition(where, history.schema)
    columns = condition.columns
    matches, is_unknown = np.zeros(manifests.num_rows, bool), np.ones(manifests.num_rows, bool)
    summaries = dense_array(manifests["partitions"])
    spec_ids, lengths = manifests["spec_id"].to_numpy(), summaries.value_lengths().to_numpy(zero_copy_only=False)
    for spec in history.specs:
        usable_fields = [
            (index, field)
            for index, field in enumerate(spec.fields)
            if field.source in columns and _has_usable_summary(field)
        ]
        # Summaries that don't fit the spec are ignored.
        rows = np.flatnonzero((spec_ids == spec.spec_id) & (lengths == len(spec.fields)))
        if not usable_fields or not len(rows):
            continue
        flat_summaries = (summaries if len(rows) == len(summaries) else summaries.take(pa.array(rows))).flatten()
        evidence: dict[str, list[DomainArray]] = {}
        for index, field in usable_fields:
            evidence.setdefault(field.source, []).append(
                _summary_evidence(field, flat_summaries[index :: len(spec.fields)])
            )
        matches[rows], is_unknown[rows] = may_match(condition, evidence, len(rows)), False
    if is_unknown.any():
        matches[is_unknown] = may_match(condition, {}, 1)
    return matches


def may_match_partitions(manifests: pa.Table, history: SpecHistory, selection: PartitionSelection) -> Bools:
    """Return whether each manifest may list a file of the selected partitions."""
    matches = np.ones(manifests.num_rows, bool)
    summaries = dense_array(manifests["partitions"])
    spec_ids, lengths = manifests["spec_id"].to_numpy(), summaries.value_lengths().to_numpy(zero_copy_only=False)
    for spec in history.specs:
        rows = np.flatnonzero((spec_ids == spec.spec_id) & (lengths == len(spec.fields)))
        flat_summaries = summaries.take(pa.array(rows)).flatten()
        for index, field in enumerate(spec.fields):
            selected_field = next((candidate for candidate in selection.fields if field.is_equivalent(candidate)), None)
            if (
                selected_field is not None
                and len(rows)
                and _has_usable_summary(field)
                and field.result_type.kind not in FLOAT_KINDS
            ):
                matches[rows] &= _may_contain_values(
                    field, flat_summaries[index :: len(spec.fields)], dense_array(selection.values[selected_field.name])
                )
    return matches


def _may_contain_values(field: PartitionField, summaries: pa.StructArray, values: pa.Array) -> Bools:
    """Return whether each summary's range may contain one of the values; a summary without a bound may."""
    type_ = field.key_type(TransformFamily.ICEBERG)
    bounds = [decode_bounds(summaries.field(name), type_) for name in ("lower", "upper")]
    is_unknown = null_mask(bounds[0]) | null_mask(bounds[1])
    # An unreadable bound is unknown; without bounds but with nulls, all values are null.
    has_no_bounds = null_mask(summaries.field("lower")) & null_mask(summaries.field("upper"))
    has_nulls = _bool_values(summaries.field("contains_null"), True)
    matches = is_unknown & ~(has_no_bounds & has_nulls)
    if values.null_count:
        matches |= has_nulls
    sorted_values = sorted(_comparable_values(values.drop_null()))
    known_indices = np.flatnonzero(~is_unknown)
    lower, upper = (_comparable_values(end.take(pa.array(known_indices))) for end in bounds)
    for index, least, greatest in zip(known_indices.tolist(), lower, upper, strict=True):
        position = bisect_left(sorted_values, least)
        matches[index] = matches[index] or (position < len(sorted_values) and sorted_values[position] <= greatest)
    return matches


def _comparable_values(values: pa.Array) -> list[Any]:
    """Return non-null values in a form that Python compares; dates and times as integers, whose range is unlimited."""
    is_counted = pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)
    comparable: list[Any] = int64_values(values).tolist() if is_counted else values.to_pylist()
    return comparable


def _has_usable_summary(field: PartitionField) -> bool:
    """Return whether summaries of the field can be used; writers have ordered UUIDs in more than one way."""
    return field.transform.is_known and not field.transform.is_void and field.source_type.kind not in _UNORDERED_KINDS


_UNORDERED_KINDS = (TypeKind.OTHER, TypeKind.UUID)


def _summary_evidence(field: PartitionField, summaries: pa.StructArray) -> DomainArray:
    type_ = field.key_type(TransformFamily.ICEBERG)
    encoded_bounds = [summaries.field(name) for name in ("lower", "upper")]
    # Both bounds are decoded in one call: there are few manifests, so the overhead per call dominates.
    bounds = bounds_from_statistics(decode_bounds(pa.concat_arrays(encoded_bounds), type_), type_)
    lower, upper = slice(None, len(summaries)), slice(len(summaries), None)
    has_nulls, may_have_nulls = (_bool_values(summaries.field("contains_null"), default) for default in (False, True))
    # There are no bounds if all values are null or NaN; an unreadable bound is unknown.
    is_only_null = null_mask(encoded_bounds[0]) & null_mask(encoded_bounds[1]) & has_nulls
    if type_.kind in FLOAT_KINDS:
        is_only_null &= ~_bool_values(summaries.field("contains_nan"), True)
    if isinstance(field.transform, HashedTransform):
        lowest, highest = bounds[lower], bounds[upper]
        is_single = ~lowest.nulls & ~highest.nulls & (lowest.values == highest.values) & ~may_have_nulls
        return HashDomainArray(field.transform, PhysicalArray(lowest.values, is_only_null), is_single | is_only_null)
    domain = preimage_domain(field, bounds)
    least = None if domain.lower is None else domain.lower[lower]
    greatest = None if domain.upper is None or type_.kind in FLOAT_KINDS else domain.upper[upper]
    return IntervalDomainArray(least, greatest, is_only_null, may_have_nulls, domain.prefix_width)


def _bool_values(array: pa.Array, default: bool) -> Bools:
    values: Bools = (pc.fill_null(array, default) if array.null_count else array).to_numpy(zero_copy_only=False)
    return values
