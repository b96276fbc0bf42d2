"""Which manifests a predicate needs, by what the manifest list says of the partitions in each.

A summary has the least and the greatest value of a partition field. Where the field's transform keeps order, they bound
the column that it was made from; a bucket says nothing unless all files have the same one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.parse import parse_predicate
from partita.algebra.predicate import ColumnRef, Predicate
from partita.algebra.prune import compile_predicate
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
    compiled = compile_predicate(parse_predicate(where, history.schema), history.schema)
    columns = compiled.columns
    answers = may_match(compiled, {}, manifests.num_rows)
    summaries = one_array(manifests["partitions"])
    ids, lengths = manifests["spec_id"].to_numpy(), pc.fill_null(summaries.value_lengths(), 0).to_numpy()
    for spec in history.specs:
        told = [(at, field) for at, field in enumerate(spec.fields) if field.source in columns and _tells(field)]
        # Summaries that are not those of the spec say nothing.
        rows = np.flatnonzero((ids == spec.spec_id) & (lengths == len(spec.fields)))
        if not told or not len(rows):
            continue
        flat = summaries.take(pa.array(rows)).flatten()
        evidence: dict[str, list[Evidence]] = {}
        for at, field in told:
            evidence.setdefault(field.source, []).append(_evidence(field, flat[at :: len(spec.fields)]))
        answers[rows] = may_match(compiled, evidence, len(rows))
    return answers


def _tells(field: PartitionField) -> bool:
    """Whether summaries of the field say something; writers have taken the ends of UUIDs by more than one order."""
    return field.transform.known and field.transform.name != "void" and field.source_type.kind not in _UNORDERED


_UNORDERED = (Kind.OTHER, Kind.UUID)


def _evidence(field: PartitionField, summaries: pa.StructArray) -> Evidence:
    type_ = DATE if field.transform.name == "day" else field.result_type
    octets = [summaries.field(name) for name in ("lower", "upper")]
    lower, upper = (ends_of(decoded(each, type_), type_) for each in octets)
    nulls, perhaps = (_bools(summaries.field("contains_null"), unsaid) for unsaid in (False, True))
    # There are no ends where all are null, or NaN; an end that can't be read is one that isn't known.
    only_null = null_mask(octets[0]) & null_mask(octets[1]) & nulls
    if type_.kind in FLOATS:
        only_null &= ~_bools(summaries.field("contains_nan"), True)
    if field.transform.name == "bucket":
        same = ~lower.null & ~upper.null & (lower.values == upper.values) & ~perhaps
        return Hashed(field.transform, Plains(lower.values, only_null), same | only_null)
    first, last = interval(field, lower), interval(field, upper)
    end = None if type_.kind in FLOATS else last.upper
    return Within(first.lower, end, only_null, perhaps, first.prefix_width)


def _bools(answers: pa.Array, unsaid: bool) -> Bools:
    found: Bools = pc.fill_null(answers, unsaid).to_numpy(zero_copy_only=False)
    return found
