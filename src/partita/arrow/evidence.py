"""What is known of a column's values, for many partitions or files at once (`partita.algebra.facts`, by the column).

Each kind of evidence answers for every partition which answers a step function can give there, as an array of the bit
masks of `partita.algebra.steps`. Texts and bytes come dictionary-encoded, so that each distinct one is compared once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.facts import Calendar, hashed
from partita.algebra.plain import Plain
from partita.algebra.steps import ANYTHING, Steps
from partita.algebra.transforms import Transform, truncated
from partita.arrow.buffers import Bools, Ints
from partita.arrow.plain import Plains

Masks: TypeAlias = npt.NDArray[np.uint8]

_FEW = 16
"""Up to so many bounds, comparing all values with each is faster than looking every value up."""


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """The values lie in an interval; an end is unbounded where it is null, and everywhere where there is none.

    The upper end belongs to the interval. Where `prefix_width` is given, the ends are texts or bytes cut to it, and one
    that has the full width stands for all that begins with it.
    """

    lower: Plains | None
    upper: Plains | None
    null_always: Bools
    null_perhaps: Bools
    prefix_width: int | None = None

    def possible(self, steps: Steps) -> Masks:
        """What the step function can be, for each."""
        if self.lower is self.upper and self.lower is not None and self.prefix_width is None:
            found = np.array(steps.answers, np.uint8)[_places(self.lower.values, steps.bounds)]
        else:
            found = _between(steps, _first_places(self.lower, steps, len(self.null_always)), self._last_places(steps))
        found = _where(self.null_perhaps, found | np.uint8(steps.at_null), found)
        return cast("Masks", _where(self.null_always, np.uint8(steps.at_null), found))

    def _last_places(self, steps: Steps) -> Ints:
        last = len(steps.answers) - 1
        if self.upper is None:
            return np.full(len(self.null_always), last)
        places = _places(self.upper.values, steps.bounds)
        if self.prefix_width is not None:
            cut = tuple(truncated(b, self.prefix_width) for b in steps.bounds)
            full = _decoded(self.upper.values, _lengths(self.upper.values.dictionary) == self.prefix_width)
            places = np.where(full, 2 * _counts(self.upper.values, cut, bisect_right), places)
        return cast("Ints", _where(self.upper.null, last, places))


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """The values have this bucket or hash; where `known` is false, whatever stands there says nothing."""

    transform: Transform
    results: Plains
    known: Bools | None = None

    def possible(self, steps: Steps) -> Masks:
        """What the step function can be, for each."""
        answers: dict[Plain, int] = {}
        for bound, answer in zip(steps.bounds, steps.answers[1::2], strict=True):
            result = hashed(self.transform, bound, steps.type)
            answers[result] = answers.get(result, 0) | answer
        gaps = int(np.bitwise_or.reduce(np.array(steps.answers[::2], np.uint8)))
        found = _looked_up(self.results.values, answers) | np.uint8(gaps)
        found = np.where(self.results.null, np.uint8(steps.at_null), found)
        return cast("Masks", found if self.known is None else np.where(self.known, found, np.uint8(ANYTHING)))


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The values have parts of the calendar that leave gaps between them, such as the month without the year."""

    parts: Mapping[str, Plains]

    def possible(self, steps: Steps) -> Masks:
        """What the step function can be, for each; asked once for each combination that there is."""
        names = tuple(self.parts)
        table = np.stack([p.values for p in self.parts.values()], axis=1)
        combinations, inverse = np.unique(table, axis=0, return_inverse=True)
        calendars = (Calendar(**dict(zip(names, map(int, row), strict=True))) for row in combinations)
        masks = np.array([calendar.possible(steps) for calendar in calendars], np.uint8)
        null = np.logical_or.reduce([p.null for p in self.parts.values()])
        found = masks[inverse.ravel()] if len(masks) else _NONE
        return cast("Masks", np.where(null, np.uint8(steps.at_null), found))


Evidence = Within | Hashed | Parts

_NONE = np.zeros((), np.uint8)


def _where(condition: Bools, value: Any, otherwise: Any) -> Any:
    """`np.where`, which takes far longer than to see that nothing is null, as it is nearly always."""
    return np.where(condition, value, otherwise) if condition.any() else otherwise


def _between(steps: Steps, first: Ints, last: Ints) -> Masks:
    """The answers at the places from the first to the last."""
    if len(steps.bounds) <= _FEW:
        return _spans(steps.answers)[first, last]
    found = np.zeros(len(first), np.uint8)
    for bit in (1, 2, 4):
        has = [bool(answer & bit) for answer in steps.answers]
        if any(has):
            running = np.concatenate([[0], np.cumsum(has)])
            found |= (running[last + 1] > running[first]).astype(np.uint8) * np.uint8(bit)
    return found


@lru_cache(maxsize=256)
def _spans(answers: tuple[int, ...]) -> Masks:
    """All answers from one place, by rows, to another, by columns."""
    spans = np.zeros((len(answers), len(answers)), np.uint8)
    for at in range(len(answers)):
        spans[at, at:] = np.bitwise_or.accumulate(np.array(answers[at:], np.uint8))
    return spans


def _first_places(lower: Plains | None, steps: Steps, size: int) -> Ints:
    if lower is None:
        return np.zeros(size, np.int64)
    return cast("Ints", _where(lower.null, 0, _places(lower.values, steps.bounds)))


def _places(values: Any, bounds: tuple[Plain, ...]) -> Ints:
    """`Steps.place` of every value."""
    if isinstance(values, np.ndarray) and values.dtype != object and len(bounds) <= _FEW:
        places = np.zeros(len(values), np.int64)
        for bound in np.array(bounds, np.int64):
            places += values > bound
            places += values >= bound
        return places
    return _counts(values, bounds, bisect_left) + _counts(values, bounds, bisect_right)


def _counts(values: Any, bounds: tuple[Plain, ...], side: Callable[..., int]) -> Ints:
    """How many of the sorted bounds are below each value (`bisect_left`), or below or equal to it (`bisect_right`)."""
    if isinstance(values, np.ndarray):
        return _counts_of_numbers(values, bounds, side)
    texts = values.dictionary
    if len(bounds) > _FEW:
        return cast("Ints", _decoded(values, np.array([side(bounds, t) for t in texts.to_pylist()], np.int64)))
    exceeds = pc.greater if side is bisect_left else pc.greater_equal
    found = (exceeds(texts, pa.scalar(bound, texts.type)).to_numpy(zero_copy_only=False) for bound in bounds)
    return cast("Ints", _decoded(values, sum(found, np.zeros(len(texts), np.int64))))


def _counts_of_numbers(values: Any, bounds: tuple[Plain, ...], side: Callable[..., int]) -> Ints:
    sought = np.array(bounds, values.dtype if values.dtype == object else np.int64)
    where = "left" if side is bisect_left else "right"
    return np.searchsorted(sought, values, where)  # type: ignore[call-overload, no-any-return] # "left" or "right"


def _decoded(coded: pa.DictionaryArray, of_each: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What is computed of each distinct text, for every text; whatever for null."""
    if not len(of_each):
        return np.zeros(len(coded), of_each.dtype)
    return cast("np.ndarray[Any, Any]", of_each[coded.indices.fill_null(0).to_numpy()])


def _lengths(texts: pa.Array) -> Ints:
    lengths = pc.utf8_length(texts) if pa.types.is_large_string(texts.type) else pc.binary_length(texts)
    return cast("Ints", lengths.to_numpy(zero_copy_only=False))


def _looked_up(values: Any, answers: Mapping[Plain, int]) -> Masks:
    """The answers of each value, 0 for a value that has none."""
    if not answers:
        return np.zeros(len(values), np.uint8)
    results = sorted(answers)
    masks = np.array([*(answers[r] for r in results), 0], np.uint8)
    if not isinstance(values, np.ndarray):
        at = pc.index_in(values.dictionary, value_set=pa.array(results, values.dictionary.type)).fill_null(-1)
        return cast("Masks", _decoded(values, masks[at.to_numpy()]))
    keys = np.array(results, np.int64)
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return cast("Masks", np.where(keys[at] == values, masks[at], 0).astype(np.uint8))
