"""Build the statistics of a new data file (`add.stats`) from its Parquet footer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from partita.algebra.calendar import MICROS_PER_DAY, days_from_civil
from partita.algebra.types import INTEGER_KINDS, TIMESTAMP_KINDS, DecimalType, LogicalType, TypeKind
from partita.formats.parquet_files import FileFooter, column_chunks
from partita.formats.partition_texts.serialization import date_text

_DECIMAL_CONTEXT = Context(prec=76)
"""More digits than any decimal type has."""
_STRING_PREFIX_LENGTH = 32
"""Number of characters of a string bound, as in delta-spark."""
_TIE_BREAKER = "\U0010ffff"
"""The greatest character; appended to a truncated maximum, so that it stays an upper bound."""
_MIN_MICROS, _END_MICROS = days_from_civil(1, 1, 1) * MICROS_PER_DAY, days_from_civil(10_000, 1, 1) * MICROS_PER_DAY


@dataclass(frozen=True, slots=True)
class DeltaStatisticsEncoder:
    """Encode the footer of a new file as `add.stats`, for the columns of `column_types` (by their stored names)."""

    column_types: Mapping[str, LogicalType]

    def __call__(self, footer: FileFooter) -> str:
        return stats_json(footer, self.column_types)


def stats_json(footer: FileFooter, column_types: Mapping[str, LogicalType]) -> str:
    """Return the JSON of `add.stats` for a file, with the columns of `column_types` by their stored names.

    A bound always encloses all values of its column. A column whose bounds are unknown, or have no JSON form, gets
    none.
    """
    null_counts: dict[str, str] = {}
    minima: dict[str, str] = {}
    maxima: dict[str, str] = {}
    chunks = column_chunks(footer.metadata)
    bounds: tuple[str | None, str | None] | None
    for name, type_ in column_types.items():
        chunk_statistics = [chunk.statistics for chunk in chunks[name]] if name in chunks else None
        float_statistics = footer.float_statistics.get(name)
        if float_statistics is not None:
            null_counts[name] = str(float_statistics.null_count)
            # NaN sorts above every number, so a column with NaN has no maximum that JSON can hold.
            bounds = (
                _float_bound_json(float_statistics.min_value),
                None if float_statistics.nan_count else _float_bound_json(float_statistics.max_value),
            )
        elif chunk_statistics is None or any(s is None or not s.has_null_count for s in chunk_statistics):
            continue
        else:
            null_counts[name] = str(sum(s.null_count for s in chunk_statistics))
            bounds = _min_max_json([s for s in chunk_statistics if s.num_values], type_)
        if bounds is not None:
            minima.update({name: bounds[0]} if bounds[0] is not None else {})
            maxima.update({name: bounds[1]} if bounds[1] is not None else {})
    return (
        f'{{"numRecords":{footer.metadata.num_rows},"minValues":{_json_object(minima)},'
        f'"maxValues":{_json_object(maxima)},"nullCount":{_json_object(null_counts)}}}'
    )


def _json_object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in members.items()) + "}"


def _float_bound_json(value: float | None) -> str | None:
    return None if value is None or math.isinf(value) else repr(value)


def _min_max_json(chunk_statistics: list[Any], type_: LogicalType) -> tuple[str | None, str | None] | None:
    if not chunk_statistics or any(not s.has_min_max for s in chunk_statistics):
        return None
    values = [(_comparable_value(s.min_raw, type_), _comparable_value(s.max_raw, type_)) for s in chunk_statistics]
    if any(low is None or high is None for low, high in values):
        return None
    low = min(v[0] for v in values)
    high = max(v[1] for v in values)
    return _bound_json(low, type_, is_upper=False), _bound_json(high, type_, is_upper=True)


def _comparable_value(raw: Any, type_: LogicalType) -> Any:
    """Return a value of the footer in a form that compares like its type; None for types without bounds."""
    if isinstance(type_, DecimalType):
        unscaled_value = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal(unscaled_value).scaleb(-type_.scale, _DECIMAL_CONTEXT)
    if type_.kind is TypeKind.STRING:
        return raw.decode() if isinstance(raw, bytes) else raw
    if type_.kind in INTEGER_KINDS | TIMESTAMP_KINDS or type_.kind is TypeKind.DATE:
        return raw
    return None


def _bound_json(value: Any, type_: LogicalType, *, is_upper: bool) -> str | None:
    """Return a minimum, or with `is_upper` a maximum, as JSON; None if JSON can't hold it."""
    if isinstance(type_, DecimalType):
        return format(value, "f")
    if type_.kind is TypeKind.STRING:
        return _string_bound_json(value, is_upper=is_upper)
    if type_.kind in INTEGER_KINDS:
        return str(value)
    if type_.kind is TypeKind.DATE:
        return json.dumps(date_text(value)) if _MIN_MICROS <= value * MICROS_PER_DAY < _END_MICROS else None
    return _timestamp_json(value, "Z" if type_.kind is TypeKind.TIMESTAMP else "", is_upper=is_upper)


def _string_bound_json(value: str, *, is_upper: bool) -> str | None:
    """Truncate a string bound as delta-spark does; None if no character sorts after the truncated maximum."""
    if is_upper and value[_STRING_PREFIX_LENGTH : _STRING_PREFIX_LENGTH + 1] == _TIE_BREAKER:
        return None
    if len(value) > _STRING_PREFIX_LENGTH:
        value = value[:_STRING_PREFIX_LENGTH] + (_TIE_BREAKER if is_upper else "")
    return json.dumps(value, ensure_ascii=False)


def _timestamp_json(micros: int, zone: str, *, is_upper: bool) -> str | None:
    """Return a timestamp in whole milliseconds, as delta-spark writes it: a minimum rounded down, a maximum up."""
    millis = -(-micros // 1000) if is_upper else micros // 1000
    if not _MIN_MICROS <= millis * 1000 < _END_MICROS:
        return None
    days, rest = divmod(millis, 86_400_000)
    seconds, fraction = divmod(rest, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}"
    return f'"{date_text(days)}T{clock}{zone}"'
