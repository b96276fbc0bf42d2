"""Which manifests a predicate needs, by what the manifest list says of the partitions in each.

A summary has the least and the greatest value of a partition field. Where the field's transform keeps order, they bound
the column that it was made from; a bucket says nothing unless all files have the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import Condition, Where
from partita.algebra.prune import compiled
from partita.algebra.spec import PartitionField, SpecHistory
from partita.algebra.types import DATE, FLOATS, Kind
from partita.arrow.buffers import Bools, int64_values, null_mask, one_array
from partita.arrow.evidence import Evidence, Hashed, Within
from partita.arrow.fields import interval
from partita.arrow.plain import Plains
from partita.arrow.prune import ends_of, may_match
from partita.formats.iceberg.statistics import decoded

if TYPE_CHECKING:
    from partita.formats.chosen import Chosen


def needed(manifests: pa.Table, history: SpecHistory, where: Where | Condition) -> Bools:
    """Whether some file of each manifest may match; `manifests` are rows of `MANIFESTS`."""
    asked = compiled(where, history.schema)
    columns = asked.columns
    answers, unsaid = np.zeros(manifests.num_rows, bool), np.ones(manifests.num_rows, bool)
    summaries = one_array(manifests["partitions"])
    ids, lengths = manifests["spec_id"].to_numpy(), summaries.value_lengths().to_numpy(zero_copy_only=False)
    for spec in history.specs:
        told = [(at, field) for at, field in enumerate(spec.fields) if field.source in columns and _tells(field)]
        # Summaries that are not those of the spec say nothing.
        rows = np.flatnonzero((ids == spec.spec_id) & (lengths == len(spec.fields)))
        if not told or not len(rows):
            continue
        flat = (summaries if len(rows) == len(summaries) else summaries.take(pa.array(rows))).flatten()
        evidence: dict[str, list[Evidence]] = {}
        for at, field in told:
            evidence.setdefault(field.source, []).append(_evidence(field, flat[at :: len(spec.fields)]))
        answers[rows], unsaid[rows] = may_match(asked, evidence, len(rows)), False
    if unsaid.any():
        answers[unsaid] = may_match(asked, {}, 1)
    return answers


def needed_by_partitions(manifests: pa.Table, history: SpecHistory, chosen: Chosen) -> Bools:
    """Whether each manifest may list a file that lies in chosen partitions, as a whole or in part."""
    answers = np.ones(manifests.num_rows, bool)
    summaries = one_array(manifests["partitions"])
    ids, lengths = manifests["spec_id"].to_numpy(), summaries.value_lengths().to_numpy(zero_copy_only=False)
    for spec in history.specs:
        rows = np.flatnonzero((ids == spec.spec_id) & (lengths == len(spec.fields)))
        flat = summaries.take(pa.array(rows)).flatten()
        for at, field in enumerate(spec.fields):
            own = next((one for one in chosen.fields if field.same_as(one)), None)
            if own is not None and len(rows) and _tells(field) and field.result_type.kind not in FLOATS:
                answers[rows] &= _hold_any(field, flat[at :: len(spec.fields)], one_array(chosen.values[own.name]))
    return answers


def _hold_any(field: PartitionField, summaries: pa.StructArray, values: pa.Array) -> Bools:
    """Whether each summary has one of the values between its ends; one that lacks an end may."""
    type_ = DATE if field.transform.name == "day" else field.result_type
    ends = [decoded(summaries.field(name), type_) for name in ("lower", "upper")]
    unknown = null_mask(ends[0]) | null_mask(ends[1])
    # An end that is there and can't be read says nothing; where none is there and nulls are, all values are null.
    absent = null_mask(summaries.field("lower")) & null_mask(summaries.field("upper"))
    nulls = _bools(summaries.field("contains_null"), True)
    held = unknown & ~(absent & nulls)
    if values.null_count:
        held |= nulls
    wanted = sorted(_comparable(values.drop_null()))
    known = np.flatnonzero(~unknown)
    lower, upper = (_comparable(end.take(pa.array(known))) for end in ends)
    for at, least, greatest in zip(known.tolist(), lower, upper, strict=True):
        place = bisect_left(wanted, least)
        held[at] = held[at] or (place < len(wanted) and wanted[place] <= greatest)
    return held


def _comparable(values: pa.Array) -> list[Any]:
    """Values without nulls as what Python compares; dates and times by their numbers, which have no limits."""
    is_counted = pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)
    found: list[Any] = int64_values(values).tolist() if is_counted else values.to_pylist()
    return found


def _tells(field: PartitionField) -> bool:
    """Whether summaries of the field say something; writers have taken the ends of UUIDs by more than one order."""
    return field.transform.known and field.transform.name != "void" and field.source_type.kind not in _UNORDERED


_UNORDERED = (Kind.OTHER, Kind.UUID)


def _evidence(field: PartitionField, summaries: pa.StructArray) -> Evidence:
    type_ = DATE if field.transform.name == "day" else field.result_type
    octets = [summaries.field(name) for name in ("lower", "upper")]
    # Both ends in one: there are few manifests, and each step takes longer than what it does.
    ends = ends_of(decoded(pa.concat_arrays(octets), type_), type_)
    lower, upper = slice(None, len(summaries)), slice(len(summaries), None)
    nulls, perhaps = (_bools(summaries.field("contains_null"), unsaid) for unsaid in (False, True))
    # There are no ends where all are null, or NaN; an end that can't be read is one that isn't known.
    only_null = null_mask(octets[0]) & null_mask(octets[1]) & nulls
    if type_.kind in FLOATS:
        only_null &= ~_bools(summaries.field("contains_nan"), True)
    if field.transform.name == "bucket":
        first, last = ends[lower], ends[upper]
        same = ~first.null & ~last.null & (first.values == last.values) & ~perhaps
        return Hashed(field.transform, Plains(first.values, only_null), same | only_null)
    around = interval(field, ends)
    least = None if around.lower is None else around.lower[lower]
    greatest = None if around.upper is None or type_.kind in FLOATS else around.upper[upper]
    return Within(least, greatest, only_null, perhaps, around.prefix_width)


def _bools(answers: pa.Array, unsaid: bool) -> Bools:
    found: Bools = (pc.fill_null(answers, unsaid) if answers.null_count else answers).to_numpy(zero_copy_only=False)
    return found
