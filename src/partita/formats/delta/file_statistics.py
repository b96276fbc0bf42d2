"""What Delta's log says of a file's columns (`add.stats`), from the footer of the file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

from partita.algebra.calendar import DAY, days_from_civil
from partita.algebra.types import DecimalType, Kind, LogicalType
from partita.formats.delta.values.serialization import date_text
from partita.formats.parquet import Footer, column_chunks

_EXACT = Context(prec=76)
"""More digits than any decimal has."""
_TEXT = 32
"""How many characters of a text are kept, as Delta does."""
_TIE = "\U0010ffff"
"""What a cut text is still less than."""
_FIRST, _AFTER = days_from_civil(1, 1, 1) * DAY, days_from_civil(10_000, 1, 1) * DAY
_INTEGERS = {Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG}


def stats_json(footer: Footer, types: Mapping[str, LogicalType]) -> str:
    """The statistics of a file in the JSON of `add.stats`, for the columns in `types`, by their stored names.

    The ends are never inside the values. A column whose ends can't be told, or not in JSON, has none.
    """
    nulls: dict[str, str] = {}
    least: dict[str, str] = {}
    greatest: dict[str, str] = {}
    chunks = column_chunks(footer.metadata)
    ends: tuple[str | None, str | None] | None
    for name, type_ in types.items():
        found = [chunk.statistics for chunk in chunks[name]] if name in chunks else None
        floats = footer.floats.get(name)
        if floats is not None:
            nulls[name] = str(floats.nulls)
            # NaN sorts above all.
            ends = (_end(floats.least), None if floats.nans else _end(floats.greatest))
        elif found is None or any(s is None or not s.has_null_count for s in found):
            continue
        else:
            nulls[name] = str(sum(s.null_count for s in found))
            ends = _ends([s for s in found if s.num_values], type_)
        if ends is not None:
            least.update({name: ends[0]} if ends[0] is not None else {})
            greatest.update({name: ends[1]} if ends[1] is not None else {})
    return (
        f'{{"numRecords":{footer.metadata.num_rows},"minValues":{_object(least)},'
        f'"maxValues":{_object(greatest)},"nullCount":{_object(nulls)}}}'
    )


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in members.items()) + "}"


def _end(value: float | None) -> str | None:
    return None if value is None or math.isinf(value) else repr(value)


def _ends(found: list[Any], type_: LogicalType) -> tuple[str | None, str | None] | None:
    if not found or any(not s.has_min_max for s in found):
        return None
    values = [(_value(s.min_raw, type_), _value(s.max_raw, type_)) for s in found]
    if any(low is None or high is None for low, high in values):
        return None
    low = min(v[0] for v in values)
    high = max(v[1] for v in values)
    return _text(low, type_, up=False), _text(high, type_, up=True)


def _value(raw: Any, type_: LogicalType) -> Any:
    """A value that compares as the type does; None where it can't be told."""
    if isinstance(type_, DecimalType):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal(unscaled).scaleb(-type_.scale, _EXACT)
    if type_.kind is Kind.STRING:
        return raw.decode() if isinstance(raw, bytes) else raw
    if type_.kind in _INTEGERS | {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}:
        return raw
    return None


def _text(value: Any, type_: LogicalType, *, up: bool) -> str | None:
    """One end in JSON; `up` where it is the greatest."""
    if isinstance(type_, DecimalType):
        return format(value, "f")
    if type_.kind is Kind.STRING:
        if up and value[_TEXT : _TEXT + 1] == _TIE:
            return None
        cut = value[:_TEXT] + (_TIE if up else "") if len(value) > _TEXT else value
        return json.dumps(cut, ensure_ascii=False)
    if type_.kind in _INTEGERS:
        return str(value)
    if type_.kind is Kind.DATE:
        return json.dumps(date_text(value)) if _FIRST <= value * DAY < _AFTER else None
    return _moment(value, "Z" if type_.kind is Kind.TIMESTAMP else "", up=up)


def _moment(micros: int, zone: str, *, up: bool) -> str | None:
    """A timestamp in whole milliseconds, as Delta writes it: rounded down, or up."""
    millis = -(-micros // 1000) if up else micros // 1000
    if not _FIRST <= millis * 1000 < _AFTER:
        return None
    days, rest = divmod(millis, 86_400_000)
    seconds, fraction = divmod(rest, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}"
    return f'"{date_text(days)}T{clock}{zone}"'
