"""Which manifests a predicate needs, by what the manifest list says of the partitions in each.

A summary has the least and the greatest value of a partition field. Where the field's transform keeps order, they bound
the column that it was made from; a bucket says nothing unless all files have the same one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.predicate import ColumnRef, Predicate
from partita.algebra.prune import compiled
from partita.algebra.spec import PartitionField, SpecHistory
from partita.algebra.types import DATE, FLOATS, Kind
from partita.arrow.buffers import Bools, null_mask, one_array
from partita.arrow.evidence import Evidence, Hashed, Within
from partita.arrow.fields import interval
from partita.arrow.plain import Plains
from partita.arrow.prune import ends_of, may_match
from partita.formats.iceberg.statistics import decoded


def needed(manifests: pa.Table, history: SpecHistory, where: str | Predicate | ColumnRef) -> Bools:
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
