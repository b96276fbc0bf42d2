"""Partition keys and ids of whole Arrow tables: `partita.algebra.key` over arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from partita.algebra.calendar import MICROS_PER_DAY
from partita.algebra.key import PartitionKey, id_prefix
from partita.arrow.base64url import encode_base64url
from partita.arrow.buffers import (
    Array,
    Bools,
    dense_array,
    int64_values,
    is_string_type,
    narrow_string_array,
    null_mask,
)
from partita.arrow.key_parser import key_columns, key_text_array
from partita.arrow.scalar_text import FIRST_DAY, LAST_DAY, date_texts, join_texts, timestamp_texts
from partita.errors import KeyValueError, PartitionsError

__all__ = ["key_columns", "key_ids", "key_texts"]


def key_texts(table: Any) -> Array:
    """Return the canonical text of the key of every row; each column is a dimension.

    `table` is a `pa.Table`, a `pa.RecordBatch` or a mapping from names to Arrow arrays. The result is one `pa.Array` of
    `string` (`large_string` from 2 GiB on). Raises `KeyValueError` for a column or value that no key can hold.
    """
    columns, rows = _dimension_columns(table)
    parts: list[Any] = []
    for name in PartitionKey(dict.fromkeys(columns)):
        tag, values = _tag_and_texts(name, columns[name])
        parts += [f"{',' if parts else ''}{name}={tag}", values]
    texts = join_texts(*parts) if parts else pa.repeat(pa.scalar("", pa.large_string()), rows)
    return narrow_string_array(texts)


def key_ids(asset_id: str, texts: Array) -> Array:
    """Return the id of every partition of an asset, given the canonical texts of the keys; null stays null."""
    prefix = id_prefix(asset_id)
    octets = pc.cast(key_text_array(texts), pa.large_binary()).to_pylist()
    ids = [None if key is None else f"part_{sha256(prefix + key).hexdigest()[:32]}" for key in octets]
    return pa.array(ids, pa.string())


def _dimension_columns(table: Any) -> tuple[dict[str, Array], int]:
    if isinstance(table, Mapping):
        columns = dict(table)
        first = next(iter(columns.values()), ())
        rows = len(first) if hasattr(first, "__len__") else 0
    elif isinstance(table, pa.Table | pa.RecordBatch):
        columns, rows = dict(zip(table.schema.names, table.columns, strict=True)), table.num_rows
        _check_distinct_names(table.schema.names)
    else:
        raise PartitionsError(f"key_texts takes an Arrow table, a record batch or arrays by name, not {type(table)}")
    for name, column in columns.items():
        if not isinstance(column, pa.Array | pa.ChunkedArray):
            raise KeyValueError(name, f"{type(column).__name__} is not an Arrow array; make one with pyarrow.array")
        if len(column) != rows:
            raise KeyValueError(name, f"it has {len(column)} rows, but the first dimension has {rows}")
    return columns, rows


def _check_distinct_names(names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise KeyValueError(name, "given twice")


def _tag_and_texts(name: str, column: Array) -> tuple[str, Array]:
    """Return the tag of a column and its texts, such as `i:` and `42`; with nulls, the texts contain the tags."""
    array = dense_array(column)
    if arrow_types.is_null(array.type):
        return "", pa.repeat(_NULL_TEXT, len(array))
    for matches, tag, to_texts in _TEXT_RULES:
        if matches(array.type):
            try:
                texts = to_texts(name, array)
            except pa.ArrowException as error:
                raise KeyValueError(name, str(error)) from None
            return ("", pc.fill_null(join_texts(tag, texts), _NULL_TEXT)) if array.null_count else (tag, texts)
    raise KeyValueError(name, f"{array.type} can't be in a key; use a string, an integer, a boolean, a date, "
                              "a timestamp with a zone or null")  # fmt: skip


_NULL_TEXT = pa.scalar("n:null", pa.large_string())


def _integer_texts(_: str, array: Array) -> Array:
    return pc.cast(pc.cast(array, pa.int64()), pa.large_string())


def _bool_texts(_: str, array: Array) -> Array:
    return pc.cast(array, pa.large_string())


def _string_texts(name: str, array: Array) -> Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise KeyValueError(name, f"not Unicode text: {error}") from None
    return encode_base64url(array)


def _date_texts(name: str, array: Array) -> Array:
    days = int64_values(array if arrow_types.is_date32(array.type) else pc.cast(array, pa.date32()))
    _check_years(name, (days < FIRST_DAY) | (days > LAST_DAY))
    return date_texts(days, null_mask(array))


def _timestamp_texts(name: str, array: Array) -> Array:
    if array.type.tz is None:
        raise KeyValueError(name, f"{array.type} has no time zone; attach one, as in pyarrow.compute.assume_timezone")
    per_day, per_micro = _TIMESTAMP_UNITS[array.type.unit]
    counts = int64_values(array)
    _check_years(name, (counts < FIRST_DAY * per_day) | (counts >= (LAST_DAY + 1) * per_day))
    if per_micro > 1 and (counts % per_micro).any():
        raise KeyValueError(name, "a timestamp has digits below the microsecond; round it first")
    micros = counts // per_micro if per_micro > 1 else counts * (MICROS_PER_DAY // per_day)
    return timestamp_texts(micros, null_mask(array), "Z")


_TIMESTAMP_UNITS = {
    "s": (MICROS_PER_DAY // 1_000_000, 1),
    "ms": (MICROS_PER_DAY // 1_000, 1),
    "us": (MICROS_PER_DAY, 1),
    "ns": (MICROS_PER_DAY * 1_000, 1_000),
}
"""How many of a unit make a day, and how many a microsecond, if more than one."""


def _check_years(name: str, is_outside_years: Bools) -> None:
    if is_outside_years.any():
        row = int(np.argmax(is_outside_years))
        raise KeyValueError(name, f"row {row} is outside the years 0001 to 9999 in UTC")


_TEXT_RULES: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[str, Array], Array]], ...] = (
    (arrow_types.is_integer, "i:", _integer_texts),
    (is_string_type, "s:", _string_texts),
    (arrow_types.is_date, "d:", _date_texts),
    (arrow_types.is_timestamp, "t:", _timestamp_texts),
    (arrow_types.is_boolean, "b:", _bool_texts),
)
