"""Partition fields, back to what they say of their source columns (`partita.algebra.facts.facts_of`, by the column)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from partita.algebra.calendar import DAY, HOUR, days_from_civil
from partita.algebra.facts import CALENDAR_PARTS, is_calendar_part
from partita.algebra.spec import PartitionField, PartitionSpec
from partita.algebra.transforms import Family
from partita.algebra.types import DATE, CharType, Kind, LogicalType
from partita.arrow.buffers import Ints, is_text, one_array, one_chunk
from partita.arrow.evidence import Evidence, Hashed, Parts, Within
from partita.arrow.plain import Plains, padded, ranks
from partita.errors import PartitionsError


def from_fields(
    spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch, wanted: Collection[str]
) -> Iterator[tuple[str, Evidence]]:
    """What the values of a spec's fields say of those source columns that are wanted; all values are checked."""
    parts: dict[str, dict[str, tuple[PartitionField, Plains]]] = {}
    for given in spec.fields:
        if given.transform.name == "void" or not given.transform.known:
            continue
        column = column_of(partitions, given.name)
        type_, is_identity = given.source_type, given.transform.name == "identity"
        if isinstance(type_, CharType) and is_identity and is_text(one_array(column).type):
            column = padded(column, type_)
        results = _results(given, spec.family, column)
        if given.source not in wanted or (isinstance(type_, CharType) and not is_identity):
            continue
        if is_calendar_part(given, spec.family):
            parts.setdefault(given.source, {})[given.transform.name] = (given, results)
        elif given.transform.name in ("bucket", "hash"):
            yield given.source, Hashed(given.transform, results)
        else:
            yield given.source, interval(given, results)
    for source, found in parts.items():
        fields = {name: found[name] for name in CALENDAR_PARTS if name in found}
        yield source, _calendar(next(iter(fields.values()))[0].source_type, {n: p for n, (_, p) in fields.items()})


def _results(given: PartitionField, family: Family, column: Any) -> Plains:
    is_date = given.transform.name == "day" and family is Family.ICEBERG and pa.types.is_date(column.type)
    try:
        results = ranks(column, DATE if is_date else given.result_type)
    except PartitionsError as error:
        raise PartitionsError(f"partition field {given.name!r}: {error}") from None
    legal = CALENDAR_PARTS.get(given.transform.name) if is_calendar_part(given, family) else None
    if legal is not None and ((results.values < legal.start) | (results.values >= legal.stop))[~results.null].any():
        raise PartitionsError(
            f"partition field {given.name!r}: a {given.transform.name} is {legal.start} to {legal.stop - 1}"
        )
    return coded(results)


def coded(plains: Plains) -> Plains:
    """Texts and bytes dictionary-encoded, as evidence wants them."""
    return plains if isinstance(plains.values, np.ndarray) else Plains(plains.values.dictionary_encode(), plains.null)


def interval(given: PartitionField, results: Plains) -> Within:
    """`partita.algebra.transforms.preimage`, for each."""
    name, width = given.transform.name, given.transform.width
    never = np.zeros(len(results), bool)
    if name == "identity" or not isinstance(results.values, np.ndarray):
        return Within(results, results, results.null, never, width)
    if name == "truncate":
        lower, upper = results.values, _plus(results.values, cast("int", width) - 1)
    else:
        lower, upper = _ordinal_window(name, results.values, given.source_type)
    return Within(Plains(lower, results.null), Plains(upper, results.null), results.null, never)


def _plus(values: Any, more: int) -> Any:
    """A sum that stops at the end of int64 where it is one of those."""
    return values + more if values.dtype == object else np.where(values > _INT64 - more, _INT64, values + more)


_INT64 = 2**63 - 1
_LAST_DAY = _INT64 // DAY
"""Days further from 1970 than that have no microseconds in an int64, and so no rows."""


def _ordinal_window(name: str, ordinals: Ints, type_: LogicalType) -> tuple[Ints, Ints]:
    if name == "hour":
        hours = np.minimum(np.maximum(ordinals, -_LAST_DAY * 24), _LAST_DAY * 24 - 1)
        return hours * HOUR, (hours + 1) * HOUR - 1
    if name == "day":
        return _day_window(ordinals, ordinals + 1, type_)
    if name == "year":
        return _day_window(days_from_civil(ordinals + 1970, 1, 1), days_from_civil(ordinals + 1971, 1, 1), type_)
    after = ordinals + 1
    return _day_window(
        days_from_civil(1970 + ordinals // 12, ordinals % 12 + 1, 1),
        days_from_civil(1970 + after // 12, after % 12 + 1, 1),
        type_,
    )


def _day_window(first: Ints, after: Ints, type_: LogicalType) -> tuple[Ints, Ints]:
    if type_.kind is Kind.DATE:
        return first, after - 1
    # numpy's `clip` takes several times as long.
    first, after = (np.minimum(np.maximum(days, -_LAST_DAY), _LAST_DAY) for days in (first, after))
    return first * DAY, after * DAY - 1


def _calendar(type_: LogicalType, parts: Mapping[str, Plains]) -> Evidence:
    """One interval where the parts leave no gap between the year and the finest, or an hour of the day."""
    null = np.logical_or.reduce([p.null for p in parts.values()])
    values = {name: np.where(null, 1, p.values) for name, p in parts.items()}
    if type_.kind is Kind.TIME:
        lower, upper = values["hour"] * HOUR, (values["hour"] + 1) * HOUR - 1
    elif tuple(parts) == tuple(CALENDAR_PARTS)[: len(parts)]:
        lower, upper = _calendar_window(type_, **values)
    else:
        return Parts({name: Plains(values[name], null) for name in parts})
    return Within(Plains(lower, null), Plains(upper, null), null, np.zeros(len(null), bool))


def _calendar_window(
    type_: LogicalType, year: Ints, month: Ints | None = None, day: Ints | None = None, hour: Ints | None = None
) -> tuple[Ints, Ints]:
    if month is None:
        return _ordinal_window("year", year - 1970, type_)
    if day is None:
        return _ordinal_window("month", (year - 1970) * 12 + month - 1, type_)
    days = days_from_civil(year, month, day)
    return _ordinal_window("day", days, type_) if hour is None else _ordinal_window("hour", days * 24 + hour, type_)


def column_of(partitions: pa.Table | pa.RecordBatch, name: str) -> Any:
    """The column of that name, in one piece."""
    if partitions.schema.names.count(name) > 1:
        raise PartitionsError(f"the partitions have the column {name!r} twice")
    if name not in partitions.schema.names:
        raise PartitionsError(
            f"the partitions have no column {name!r}; they have {', '.join(partitions.schema.names) or 'none'}"
        )
    return one_chunk(partitions.column(name))
