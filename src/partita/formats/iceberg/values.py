"""Partition values of Iceberg tables: as text that executors return, as manifest values, and as folder names."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from decimal import Context, Decimal
from urllib.parse import quote_plus

import pyarrow as pa

from partita.algebra.spec import PartitionField
from partita.algebra.types import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    TIMESTAMP_KINDS,
    DecimalType,
    LogicalType,
    TypeKind,
)

_MAX_SEGMENT_LENGTH = 200
"""The longest folder name in bytes; file systems allow 255."""


def parse_partition_text(text: str | None, field: PartitionField) -> object:
    """Parse the text of a partition value into a value of pyiceberg's records."""
    return None if text is None else _value_from_text(text, field.result_type)


def _value_from_text(text: str, type_: LogicalType) -> object:
    if isinstance(type_, DecimalType):
        return Decimal(text).quantize(Decimal(1).scaleb(-type_.scale), context=Context(prec=38))
    if type_.kind in INTEGER_KINDS | TIMESTAMP_KINDS | {TypeKind.DATE, TypeKind.TIME}:
        return int(text)
    if type_.kind in FLOAT_KINDS:
        return float(text)
    if type_.kind in BINARY_KINDS:
        return base64.b64decode(text)
    return text == "True" if type_.kind is TypeKind.BOOLEAN else text


def partition_array(values: Sequence[object], type_: pa.DataType) -> pa.Array:
    """Return values of pyiceberg's records as an Arrow array."""
    if pa.types.is_date32(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def partition_directory(fields: Sequence[PartitionField], texts: Sequence[str | None]) -> str:
    """Return the folder of a partition, which is for people only: `ts_day=2025-01-15/region=us`."""
    return "/".join(_directory_segment(field, text) for field, text in zip(fields, texts, strict=True))


def _directory_segment(field: PartitionField, text: str | None) -> str:
    directory_text = "null" if text is None else field.transform.directory_text(text, field.source_type)
    segment = f"{quote_plus(field.name)}={quote_plus(directory_text)}"
    if len(segment) <= _MAX_SEGMENT_LENGTH:
        return segment
    return f"{segment[:_MAX_SEGMENT_LENGTH]}-{hashlib.sha256(segment.encode()).hexdigest()[:16]}"
