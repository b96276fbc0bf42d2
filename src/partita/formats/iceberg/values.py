"""Partition values of Iceberg: as executors tell them in text, as manifests hold them, as folders show them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from decimal import Context, Decimal
from urllib.parse import quote_plus

import pyarrow as pa

from partita.algebra.calendar import civil_from_days
from partita.algebra.spec import PartitionField
from partita.algebra.types import BYTES, FLOATS, INSTANTS, INTEGERS, DecimalType, Kind, LogicalType

_LONGEST = 200
"""How many bytes a folder's name has at most; file systems take 255."""


def text_of(value: pa.Scalar) -> str | None:
    """A partition value as text: dates and times as the number that they are, bytes in base64."""
    if not value.is_valid:
        return None
    if pa.types.is_temporal(value.type):
        return str(value.value)
    plain = value.as_py()
    return base64.b64encode(plain).decode() if isinstance(plain, bytes) else str(plain)


def parse(text: str | None, field: PartitionField) -> object:
    """The value of a field that a text says, as pyiceberg's records hold it."""
    return None if text is None else _parsed(text, field.result_type)


def _parsed(text: str, type_: LogicalType) -> object:
    if isinstance(type_, DecimalType):
        return Decimal(text).quantize(Decimal(1).scaleb(-type_.scale), context=Context(prec=38))
    if type_.kind in INTEGERS | INSTANTS | {Kind.DATE, Kind.TIME}:
        return int(text)
    if type_.kind in FLOATS:
        return float(text)
    if type_.kind in BYTES:
        return base64.b64decode(text)
    return text == "True" if type_.kind is Kind.BOOLEAN else text


def plain_array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """Such values as Arrow's."""
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def directory(fields: Sequence[PartitionField], texts: Sequence[str | None]) -> str:
    """The folder of a partition, for people: `ts_day=2025-01-15/region=us`."""
    return "/".join(_step(field, text) for field, text in zip(fields, texts, strict=True))


def _step(field: PartitionField, text: str | None) -> str:
    step = f"{quote_plus(field.name)}={quote_plus('null' if text is None else _shown(field, text))}"
    if len(step) <= _LONGEST:
        return step
    return f"{step[:_LONGEST]}-{hashlib.sha256(step.encode()).hexdigest()[:16]}"


def _shown(field: PartitionField, text: str) -> str:
    """Ordinals as the time that they are of; all else as it is."""
    name = field.transform.name
    if name == "year":
        return f"{1970 + int(text):04d}"
    if name == "month":
        return f"{1970 + int(text) // 12:04d}-{int(text) % 12 + 1:02d}"
    if name == "day" or (name == "identity" and field.source_type.kind is Kind.DATE):
        return _date(int(text))
    if name == "hour":
        return f"{_date(int(text) // 24)}-{int(text) % 24:02d}"
    return text


def _date(days: int) -> str:
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"
