"""Strict parser of canonical key texts into Arrow columns.

The first row determines the dimensions; all rows are then parsed at once, column by column. If that fails, the first
invalid row is parsed by `PartitionKey.parse`, which reports the position and the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from partita.algebra.calendar import MICROS_PER_DAY, civil_from_days, days_from_civil
from partita.algebra.key import PartitionKey
from partita.arrow.base64url import decode_base64url
from partita.arrow.buffers import (
    Array,
    BinaryBuffers,
    Bools,
    Ints,
    Octets,
    dense_array,
    is_string_type,
    narrow_string_array,
    null_mask,
    offsets_from_lengths,
)
from partita.errors import KeyFormatError, KeyValueError


def key_columns(texts: Array) -> Any:
    """Parse keys into a `pa.Table` with one typed column per dimension, in the order of the keys.

    The types are `string`, `int64`, `bool`, `date32`, `timestamp[us, UTC]`, and `null` if all values are null. Raises
    the `KeyFormatError` of `PartitionKey.parse` for a text that is not canonical, and a `KeyValueError` with the row if
    rows differ in their dimensions or in the type of one. The first invalid row is reported.
    """
    keys = key_text_array(texts)
    if not len(keys):
        return pa.table({})
    names = tuple(PartitionKey.parse(_row_text(keys, 0)))
    columns: dict[str, Array] = {}
    spans, valid_rows = _dimension_spans(keys, names)
    for name, span in zip(names, spans, strict=True):
        columns[name], invalid_row = _parse_dimension(name, span.head(valid_rows))
        valid_rows = min(valid_rows, invalid_row)
    if valid_rows < len(keys):
        raise _row_error(keys, valid_rows, columns)
    return pa.table(columns) if names else pa.table({"rows": keys}).select([])


def key_text_array(texts: Array) -> Array:
    """Return the texts as one `pa.Array`; raise `KeyFormatError` for anything but an Arrow array of strings."""
    type_ = texts.type if isinstance(texts, pa.Array | pa.ChunkedArray) else type(texts).__name__
    array = dense_array(texts) if isinstance(type_, pa.DataType) else None
    if array is None or not is_string_type(array.type):
        raise KeyFormatError(str(type_), 0, f"keys must be an Arrow array of strings, not {type_}")
    return array


@dataclass(frozen=True, slots=True, eq=False)
class _TextSpans:
    """A span of the text of each row: the bytes from `starts` to before `stops`."""

    octets: Octets
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Ints:
        return self.stops - self.starts

    def head(self, rows: int) -> _TextSpans:
        return _TextSpans(self.octets, self.starts[:rows], self.stops[:rows])

    def filter_rows(self, mask: Bools) -> _TextSpans:
        return _TextSpans(self.octets, self.starts[mask], self.stops[mask])

    def skip_bytes(self, count: int) -> _TextSpans:
        return _TextSpans(self.octets, np.minimum(self.starts + count, self.stops), self.stops)

    def leading_bytes(self, width: int) -> Octets:
        """Return the first `width` bytes of each row; those beyond the end of a row are undefined."""
        indices = self.starts[:, None] + np.arange(width)
        return cast("Octets", self.octets[np.minimum(indices, len(self.octets) - 1)])

    def starts_with(self, text: str) -> Bools:
        prefix = np.frombuffer(text.encode(), np.uint8)
        mask: Bools = (self.leading_bytes(len(prefix)) == prefix).all(axis=1)
        return mask & (self.lengths >= len(prefix))

    def equals(self, text: str) -> Bools:
        mask: Bools = self.lengths == len(text)
        return mask & self.starts_with(text)

    def to_buffers(self) -> BinaryBuffers:
        """Return the spans as contiguous buffers."""
        offsets = offsets_from_lengths(self.lengths)
        indices = np.arange(offsets[-1]) + np.repeat(self.starts - offsets[:-1], self.lengths)
        return BinaryBuffers(self.octets[indices], offsets)


def _dimension_spans(texts: Array, names: tuple[str, ...]) -> tuple[list[_TextSpans], int]:
    """Return the span of each dimension up to the first row with another number of dimensions, and that row."""
    buffers = BinaryBuffers.from_array(texts)
    commas = np.flatnonzero(buffers.octets == ord(","))
    counts = np.diff(np.searchsorted(commas, buffers.offsets))
    has_other_count = (counts != max(len(names) - 1, 0)) | ((buffers.lengths > 0) != bool(names))
    invalid_row = _first_true(null_mask(texts) | has_other_count)
    starts, stops = buffers.offsets[:invalid_row, None], buffers.offsets[1 : invalid_row + 1, None]
    inner = commas[: counts[:invalid_row].sum()].reshape(invalid_row, max(len(names) - 1, 0))
    starts, stops = np.hstack((starts, inner + 1)), np.hstack((inner, stops))
    return [_TextSpans(buffers.octets, starts[:, i], stops[:, i]) for i in range(len(names))], invalid_row


def _parse_dimension(name: str, dimension: _TextSpans) -> tuple[Array, int]:
    """Return the column of a dimension, and the first row whose value does not have the type of the others."""
    invalid_row = _first_true(~dimension.starts_with(f"{name}="))
    tagged_values = dimension.head(invalid_row).skip_bytes(len(name) + 1)
    nulls = tagged_values.equals("n:null")
    non_null = tagged_values.filter_rows(~nulls)
    tag = chr(non_null.octets[non_null.starts[0]]) if len(non_null) and non_null.lengths[0] else "n"
    if tag not in _PARSERS:
        rows = np.flatnonzero(~nulls)
        return pa.nulls(len(nulls)), int(rows[0]) if len(rows) else invalid_row
    type_, parse = _PARSERS[tag]
    values, is_invalid = parse(non_null.skip_bytes(2))
    is_invalid |= ~non_null.starts_with(f"{tag}:")
    if is_invalid.any():
        invalid_row = min(invalid_row, int(np.flatnonzero(~nulls)[_first_true(is_invalid)]))
    return _insert_nulls(values, nulls, type_), invalid_row


def _insert_nulls(values: Any, nulls: Bools, type_: pa.DataType) -> Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if nulls.any():
        array = array.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))
    return narrow_string_array(array) if is_string_type(type_) else array.cast(type_)


def _first_true(flags: Bools) -> int:
    """Return the index of the first true flag, or the number of flags."""
    return int(np.argmax(flags)) if flags.any() else len(flags)


def _parse_digits(spans: _TextSpans, layout: str) -> tuple[Octets, Bools]:
    """Return the digits of each row, and which rows don't have the layout, in which 0 is any digit."""
    octets = spans.leading_bytes(len(layout))
    layout_octets = np.frombuffer(layout.encode(), np.uint8)
    is_digit = layout_octets == ord("0")
    digits = octets[:, is_digit] - np.uint8(ord("0"))
    matches = (octets[:, ~is_digit] == layout_octets[~is_digit]).all(axis=1) & (digits <= 9).all(axis=1)
    return digits, (spans.lengths != len(layout)) | ~matches


def _digits_to_int(digits: Octets, start: int, stop: int) -> Ints:
    powers = 10 ** np.arange(stop - start - 1, -1, -1)
    return cast("Ints", (digits[:, start:stop] * powers).sum(axis=1))


def _digits_to_days(digits: Octets) -> tuple[Ints, Bools]:
    date = _digits_to_int(digits, 0, 4), _digits_to_int(digits, 4, 6), _digits_to_int(digits, 6, 8)
    days = days_from_civil(*date)
    _, month, day = civil_from_days(days)
    return days, (date[0] < 1) | (date[1] != month) | (date[2] != day)


def _parse_dates(spans: _TextSpans) -> tuple[Any, Bools]:
    digits, is_invalid = _parse_digits(spans, "0000-00-00")
    days, is_no_date = _digits_to_days(digits)
    return days.astype(np.int32), is_invalid | is_no_date


def _parse_timestamps(spans: _TextSpans) -> tuple[Any, Bools]:
    digits, is_invalid = _parse_digits(spans, "0000-00-00T00:00:00.000000Z")
    days, is_no_date = _digits_to_days(digits)
    hour, minute, second = _digits_to_int(digits, 8, 10), _digits_to_int(digits, 10, 12), _digits_to_int(digits, 12, 14)
    is_invalid |= is_no_date | (hour > 23) | (minute > 59) | (second > 59)
    return days * MICROS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + _digits_to_int(
        digits, 14, 20
    ), is_invalid


def _parse_bools(spans: _TextSpans) -> tuple[Any, Bools]:
    true = spans.equals("true")
    return true, ~(true | spans.equals("false"))


_MAX_INT64_DIGITS = 19
"""The digits of the largest int64; any number with so many digits fits a uint64."""


def _parse_ints(spans: _TextSpans) -> tuple[Any, Bools]:
    is_negative = spans.starts_with("-")
    digit_spans = _TextSpans(spans.octets, spans.starts + is_negative, spans.stops)
    lengths = digit_spans.lengths
    is_invalid = (lengths < 1) | (lengths > _MAX_INT64_DIGITS)
    magnitude = np.zeros(len(spans), np.uint64)
    digits = digit_spans.leading_bytes(_MAX_INT64_DIGITS) - np.uint8(ord("0"))
    for index in range(min(int(lengths.max(initial=0)), _MAX_INT64_DIGITS)):
        has_digit = lengths > index
        is_invalid |= has_digit & (digits[:, index] > 9)
        magnitude = np.where(has_digit, magnitude * np.uint64(10) + digits[:, index], magnitude)
    is_invalid |= (digits[:, 0] == 0) & ((lengths > 1) | is_negative)
    is_invalid |= magnitude > np.where(is_negative, np.uint64(2**63), np.uint64(2**63 - 1))
    signed_values = magnitude.view(np.int64)
    return np.where(is_negative, -signed_values, signed_values), is_invalid


def _parse_strings(spans: _TextSpans) -> tuple[Any, Bools]:
    decoded_values, is_invalid = decode_base64url(spans.to_buffers())
    texts = decoded_values.to_array(pa.large_string())
    invalid_row = _first_invalid_row(texts)
    if invalid_row < len(texts):
        is_invalid[invalid_row] = True
    return texts, is_invalid


def _first_invalid_row(texts: Array) -> int:
    """Return the first row that is not UTF-8, or the number of rows; one pass if all are valid."""
    low, high = 0, len(texts)
    if _is_valid_utf8(texts):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_valid_utf8(texts[low:middle]) else (low, middle)
    return low


def _is_valid_utf8(texts: Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


_PARSERS: dict[str, tuple[pa.DataType, Callable[[_TextSpans], tuple[Any, Bools]]]] = {
    "s": (pa.string(), _parse_strings),
    "i": (pa.int64(), _parse_ints),
    "b": (pa.bool_(), _parse_bools),
    "d": (pa.date32(), _parse_dates),
    "t": (pa.timestamp("us", "UTC"), _parse_timestamps),
}


def _row_text(texts: Array, row: int) -> Any:
    """Return the text of a row as a `str`, also if it is not UTF-8, or None."""
    octets = texts[row].cast(pa.large_binary()).as_py()
    return None if octets is None else octets.decode(errors="surrogateescape")


def _row_error(texts: Array, row: int, columns: dict[str, Array]) -> KeyValueError:
    """Return why a row is invalid: it does not parse, which raises, or it differs from the rows before."""
    key = PartitionKey.parse(_row_text(texts, row))
    for name in sorted(set(columns) ^ set(key)):
        return KeyValueError(name, f"row {row} {'has' if name in key else 'lacks'} it, unlike the rows before")
    for name, column in columns.items():
        type_ = pa.scalar(key[name]).type
        if type_ != column.type and pa.null() not in (type_, column.type):
            return KeyValueError(name, f"row {row} has type {type_}, but the rows before have {column.type}")
    raise AssertionError(f"the two parsers disagree on {key}")
