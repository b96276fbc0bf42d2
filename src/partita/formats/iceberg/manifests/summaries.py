"""Which manifests a predicate needs, by what the manifest list says of the partitions in each.

A summary has the least and the greatest value of a partition field. Where the field's transform keeps order, they bound
the column that it was made from; a bucket says nothing unless all files have the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from partita.algebra.facts import EVERYWHERE, Fact, Hashed, Nulls, Within
from partita.algebra.parse import parse_predicate
from partita.algebra.plain import NAN_RANK, Plain
from partita.algebra.predicate import ColumnRef, Predicate
from partita.algebra.prune import compile_predicate, may_match
from partita.algebra.spec import PartitionField, PartitionSpec, SpecHistory
from partita.algebra.transforms import Family, Range, preimage
from partita.algebra.types import DATE, FLOATS, Kind, LogicalType
from partita.arrow.buffers import Bools
from partita.arrow.plain import Plains, ranks
from partita.formats.iceberg.statistics import decoded


def needed(manifests: pa.Table, history: SpecHistory, where: str | Predicate | ColumnRef) -> Bools:
    """Whether some file of each manifest may match; `manifests` are rows of `MANIFESTS`."""
    compiled = compile_predicate(parse_predicate(where, history.schema), history.schema)
    answers = np.ones(manifests.num_rows, bool)
    for spec in history.specs:
        rows = np.flatnonzero(manifests["spec_id"].to_numpy() == spec.spec_id)
        summaries = manifests["partitions"].take(pa.array(rows)).combine_chunks()
        for row, facts in zip(rows, _facts(summaries, spec), strict=True):
            answers[row] = may_match(compiled, facts)
    return answers


def _facts(summaries: pa.ListArray, spec: PartitionSpec) -> Iterator[dict[str, tuple[Fact, ...]]]:
    """What is known of the source columns in each manifest; nothing where its summaries are not those of the spec."""
    lengths = summaries.value_lengths().to_numpy(zero_copy_only=False)
    whole = np.flatnonzero(lengths == len(spec.fields))
    flat = summaries.take(pa.array(whole)).flatten()
    fields = [_field_facts(field, flat[at :: len(spec.fields)]) for at, field in enumerate(spec.fields)]
    place = {int(row): at for at, row in enumerate(whole)}
    for row in range(len(summaries)):
        found: dict[str, tuple[Fact, ...]] = {}
        if row in place:
            for field, facts in zip(spec.fields, fields, strict=True):
                fact = facts[place[row]]
                found[field.source] = (*found.get(field.source, ()), *(() if fact is None else (fact,)))
        yield found


def _field_facts(field: PartitionField, summaries: pa.StructArray) -> Sequence[Fact | None]:
    if field.transform.name == "void" or not field.transform.known or field.source_type.kind in (Kind.OTHER, Kind.UUID):
        # Writers have taken the ends of UUIDs by more than one order.
        return [None] * len(summaries)
    type_ = DATE if field.transform.name == "day" else field.result_type
    lower, upper = (_plains(summaries.field(name), type_) for name in ("lower", "upper"))
    nulls = summaries.field("contains_null").to_pylist()
    nans = summaries.field("contains_nan").to_pylist()
    return [_fact(field, low, high, *rest) for low, high, *rest in zip(lower, upper, nulls, nans, strict=True)]


def _plains(octets: pa.Array, type_: LogicalType) -> list[Plain | None]:
    plains: Plains = ranks(decoded(octets, type_), type_)
    values: list[Any] = plains.values.tolist() if isinstance(plains.values, np.ndarray) else plains.values.to_pylist()
    return [
        None if null or (type_.kind in FLOATS and v == NAN_RANK) else v
        for v, null in zip(values, plains.null, strict=True)
    ]


def _fact(
    field: PartitionField, lower: Plain | None, upper: Plain | None, has_null: bool | None, has_nan: bool | None
) -> Fact | None:
    if lower is None and upper is None:
        # No value has an end where all are null, or some are NaN.
        is_float = field.result_type.kind in FLOATS
        only_null = bool(has_null) and (not is_float or has_nan is False)
        return Within(nulls=Nulls.ALWAYS) if only_null else None
    nulls = Nulls.PERHAPS if has_null is None or has_null else Nulls.NEVER
    if field.transform.name == "bucket":
        same = lower is not None and lower == upper and nulls is Nulls.NEVER
        return Hashed(field.transform, lower) if same and lower is not None else None
    return Within(_range(field, lower, upper), nulls)


def _range(field: PartitionField, lower: Plain | None, upper: Plain | None) -> Range:
    first = EVERYWHERE if lower is None else _preimage(field, lower)
    last = EVERYWHERE if upper is None or field.result_type.kind in FLOATS else _preimage(field, upper)
    return Range(first.lower, last.upper, last.upper_open)


def _preimage(field: PartitionField, result: Plain) -> Range:
    return preimage(field.transform, result, field.source_type, Family.ICEBERG) or EVERYWHERE
