"""Arrow columns from the canonical texts of partition keys: the strict parser over arrays.

The first row says which dimensions there are. The others are compared with it place by place over all rows at once.
Wherever that fails, the first row that is wrong goes to `PartitionKey.parse`, which knows where and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from partita.algebra.calendar import DAY, civil_from_days, days_from_civil
from partita.algebra.key import PartitionKey
from partita.arrow.base64url import decode
from partita.arrow.buffers import (
    Array,
    Bools,
    Ints,
    Octets,
    Runs,
    is_text,
    narrow_text,
    null_mask,
    offsets_of,
    one_array,
)
from partita.errors import KeyFormatError, KeyValueError


def key_columns(texts: Array) -> Any:
    """A `pa.Table` with one typed column for each dimension of the keys that the texts say, in the keys' order.

    The types are `string`, `int64`, `bool`, `date32`, `timestamp[us, UTC]`, and `null` where all are null. A text that
    is not canonical is the `KeyFormatError` of `PartitionKey.parse`. Rows that differ in their dimensions or in the
    type of one are a `KeyValueError` that names the row. The first row that is wrong decides.
    """
    whole = text_array(texts)
    if not len(whole):
        return pa.table({})
    names = tuple(PartitionKey.parse(_text(whole, 0)))
    columns: dict[str, Array] = {}
    spans, wrong = _dimensions(whole, names)
    for name, span in zip(names, spans, strict=True):
        columns[name], first = _read(name, span.head(wrong))
        wrong = min(wrong, first)
    if wrong < len(whole):
        raise _problem(whole, wrong, columns)
    return pa.table(columns) if names else pa.table({"rows": whole}).select([])


def text_array(texts: Array) -> Array:
    """The texts as one `pa.Array`; what is no Arrow array of text is a `KeyFormatError`."""
    type_ = texts.type if isinstance(texts, pa.Array | pa.ChunkedArray) else type(texts).__name__
    whole = one_array(texts) if isinstance(type_, pa.DataType) else None
    if whole is None or not is_text(whole.type):
        raise KeyFormatError(str(type_), 0, f"keys are an Arrow array of text, not {type_}")
    return whole


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """One piece of each row's text: the bytes from `starts` up to `stops`."""

    octets: Octets
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Ints:
        return self.stops - self.starts

    def head(self, rows: int) -> _Spans:
        return _Spans(self.octets, self.starts[:rows], self.stops[:rows])

    def of_rows(self, rows: Bools) -> _Spans:
        return _Spans(self.octets, self.starts[rows], self.stops[rows])

    def after(self, count: int) -> _Spans:
        return _Spans(self.octets, np.minimum(self.starts + count, self.stops), self.stops)

    def places(self, width: int) -> Octets:
        """The first `width` bytes of each row; where a row has fewer they mean nothing."""
        at = self.starts[:, None] + np.arange(width)
        return cast("Octets", self.octets[np.minimum(at, len(self.octets) - 1)])

    def start_with(self, text: str) -> Bools:
        fixed = np.frombuffer(text.encode(), np.uint8)
        same: Bools = (self.places(len(fixed)) == fixed).all(axis=1)
        return same & (self.lengths >= len(fixed))

    def equal(self, text: str) -> Bools:
        same: Bools = self.lengths == len(text)
        return same & self.start_with(text)

    def runs(self) -> Runs:
        """The pieces, one behind the other."""
        offsets = offsets_of(self.lengths)
        at = np.arange(offsets[-1]) + np.repeat(self.starts - offsets[:-1], self.lengths)
        return Runs(self.octets[at], offsets)


def _dimensions(texts: Array, names: tuple[str, ...]) -> tuple[list[_Spans], int]:
    """Where each dimension stands, up to the first row that has another number of them; and which row that is."""
    runs = Runs.of(texts)
    commas = np.flatnonzero(runs.octets == ord(","))
    counts = np.diff(np.searchsorted(commas, runs.offsets))
    wrong = _first(null_mask(texts) | (counts != max(len(names) - 1, 0)) | ((runs.lengths > 0) != bool(names)))
    starts, stops = runs.offsets[:wrong, None], runs.offsets[1 : wrong + 1, None]
    inner = commas[: counts[:wrong].sum()].reshape(wrong, max(len(names) - 1, 0))
    bounds = np.hstack((starts, inner + 1)), np.hstack((inner, stops))
    return [_Spans(runs.octets, bounds[0][:, at], bounds[1][:, at]) for at in range(len(names))], wrong


def _read(name: str, dimension: _Spans) -> tuple[Array, int]:
    """The column of one dimension, and the first row that can't be read as the first one that isn't null is."""
    wrong = _first(~dimension.start_with(f"{name}="))
    tagged = dimension.head(wrong).after(len(name) + 1)
    null = tagged.equal("n:null")
    given = tagged.of_rows(~null)
    tag = chr(given.octets[given.starts[0]]) if len(given) and given.lengths[0] else "n"
    if tag not in _READERS:
        rows = np.flatnonzero(~null)
        return pa.nulls(len(null)), int(rows[0]) if len(rows) else wrong
    type_, read = _READERS[tag]
    values, bad = read(given.after(2))
    bad |= ~given.start_with(f"{tag}:")
    if bad.any():
        wrong = min(wrong, int(np.flatnonzero(~null)[_first(bad)]))
    return _with_nulls(values, null, type_), wrong


def _with_nulls(values: Any, null: Bools, type_: pa.DataType) -> Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if null.any():
        array = array.take(pa.array(np.cumsum(~null) - 1, mask=null))
    return narrow_text(array) if is_text(type_) else array.cast(type_)


def _first(flags: Bools) -> int:
    """The first place that is true, or how many there are."""
    return int(np.argmax(flags)) if flags.any() else len(flags)


def _digits(spans: _Spans, form: str) -> tuple[Octets, Bools]:
    """The digits of each row, and which rows don't have `form`, where a 0 stands for any digit."""
    places = spans.places(len(form))
    fixed = np.frombuffer(form.encode(), np.uint8)
    numeric = fixed == ord("0")
    digits = places[:, numeric] - np.uint8(ord("0"))
    same = (places[:, ~numeric] == fixed[~numeric]).all(axis=1) & (digits <= 9).all(axis=1)
    return digits, (spans.lengths != len(form)) | ~same


def _number(digits: Octets, start: int, stop: int) -> Ints:
    powers = 10 ** np.arange(stop - start - 1, -1, -1)
    return cast("Ints", (digits[:, start:stop] * powers).sum(axis=1))


def _days(digits: Octets) -> tuple[Ints, Bools]:
    date = _number(digits, 0, 4), _number(digits, 4, 6), _number(digits, 6, 8)
    days = days_from_civil(*date)
    back = civil_from_days(days)
    bad = (date[0] < 1) | (date[1] != back[1]) | (date[2] != back[2])
    return days, bad


def _read_dates(spans: _Spans) -> tuple[Any, Bools]:
    digits, bad = _digits(spans, "0000-00-00")
    days, impossible = _days(digits)
    return days.astype(np.int32), bad | impossible


def _read_timestamps(spans: _Spans) -> tuple[Any, Bools]:
    digits, bad = _digits(spans, "0000-00-00T00:00:00.000000Z")
    days, impossible = _days(digits)
    hour, minute, second = _number(digits, 8, 10), _number(digits, 10, 12), _number(digits, 12, 14)
    bad |= impossible | (hour > 23) | (minute > 59) | (second > 59)
    return days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + _number(digits, 14, 20), bad


def _read_bools(spans: _Spans) -> tuple[Any, Bools]:
    true = spans.equal("true")
    return true, ~(true | spans.equal("false"))


_LONGEST = 19
"""Digits of the largest int64; so many always fit a uint64."""


def _read_ints(spans: _Spans) -> tuple[Any, Bools]:
    negative = spans.start_with("-")
    unsigned = _Spans(spans.octets, spans.starts + negative, spans.stops)
    lengths = unsigned.lengths
    bad = (lengths < 1) | (lengths > _LONGEST)
    magnitude = np.zeros(len(spans), np.uint64)
    places = unsigned.places(_LONGEST) - np.uint8(ord("0"))
    for at in range(min(int(lengths.max(initial=0)), _LONGEST)):
        here = lengths > at
        bad |= here & (places[:, at] > 9)
        magnitude = np.where(here, magnitude * np.uint64(10) + places[:, at], magnitude)
    bad |= (places[:, 0] == 0) & ((lengths > 1) | negative)
    bad |= magnitude > np.where(negative, np.uint64(2**63), np.uint64(2**63 - 1))
    signed = magnitude.view(np.int64)
    return np.where(negative, -signed, signed), bad


def _read_strings(spans: _Spans) -> tuple[Any, Bools]:
    decoded, bad = decode(spans.runs())
    texts = decoded.to_array(pa.large_string())
    stray = _first_invalid(texts)
    if stray < len(texts):
        bad[stray] = True
    return texts, bad


def _first_invalid(texts: Array) -> int:
    """The first row that is not UTF-8, or how many there are; in one pass where all are."""
    low, high = 0, len(texts)
    if _is_valid(texts):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_valid(texts[low:middle]) else (low, middle)
    return low


def _is_valid(texts: Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


_READERS: dict[str, tuple[pa.DataType, Callable[[_Spans], tuple[Any, Bools]]]] = {
    "s": (pa.string(), _read_strings),
    "i": (pa.int64(), _read_ints),
    "b": (pa.bool_(), _read_bools),
    "d": (pa.date32(), _read_dates),
    "t": (pa.timestamp("us", "UTC"), _read_timestamps),
}


def _text(texts: Array, row: int) -> Any:
    """A row's text as a `str`, also where it is not UTF-8; or None."""
    octets = texts[row].cast(pa.large_binary()).as_py()
    return None if octets is None else octets.decode(errors="surrogateescape")


def _problem(texts: Array, row: int, columns: dict[str, Array]) -> KeyValueError:
    """Why the row is wrong: it does not parse, which raises, or it parses and the rows before are of another sort."""
    found = PartitionKey.parse(_text(texts, row))
    for name in sorted(set(columns) ^ set(found)):
        return KeyValueError(name, f"row {row} {'has' if name in found else 'lacks'} it, unlike the rows before")
    for name, column in columns.items():
        type_ = pa.scalar(found[name]).type
        if type_ != column.type and pa.null() not in (type_, column.type):
            return KeyValueError(name, f"row {row} holds {type_}, and the rows before {column.type}")
    raise AssertionError(f"the two parsers disagree on {found}")
