"""Distinct rows, compared like SQL's null-safe equality."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.arrow.distinct_rows import bits_of_floats, distinct_row_ids, distinct_rows, membership_mask

NAN = float("nan")
PAIRS = st.tuples(st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["", "a", "b"]))


def table(rows: Sequence[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table({"n": pa.array([n for n, _ in rows], pa.int32()), "s": pa.array([s for _, s in rows], pa.string())})


@given(st.lists(PAIRS), st.lists(PAIRS))
def test_membership_equals_that_of_python(rows: list[Any], wanted: list[Any]) -> None:
    assert membership_mask(table(rows), table(wanted)).tolist() == [row in wanted for row in rows]
    found = distinct_rows(table(rows)).to_pylist()
    assert [(row["n"], row["s"]) for row in found] == list(dict.fromkeys(rows))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([0.0, -0.0, NAN, -NAN, None, 1.0]), [0, 0, 1, 1, 2, 3]),
        (pa.array([0.0, -0.0, NAN], pa.float32()), [0, 0, 1]),
        (pa.array(["", None, "a", ""]), [0, 1, 2, 0]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), [0, 1, 0]),
        (pa.array([b"0" * 16, b"1" * 16, b"0" * 16], pa.uuid()), [0, 1, 0]),
        (pa.array([True, None, False, True]), [0, 1, 2, 0]),
        (pa.chunked_array([["a"], ["b", "a"]]), [0, 1, 0]),
    ],
)
def test_equal_values(values: Any, expected: list[int]) -> None:
    found = distinct_row_ids([values], len(values)).tolist()
    order = list(dict.fromkeys(found))
    assert [order.index(number) for number in found] == expected


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_the_bits_of_floats_tell_zeros_apart_and_no_nans(type_: pa.DataType) -> None:
    values = pa.array([0.0, -0.0, NAN, -NAN, None, 1.0, 0.0], type_)
    for column in (values, pa.chunked_array([values.slice(0, 2), values.slice(2)]), values.dictionary_encode()):
        zero, negative_zero, *others = distinct_row_ids([bits_of_floats(column)], len(values)).tolist()
        assert zero != negative_zero
        assert others[0] == others[1]
        assert len({zero, negative_zero, *others}) == 5
        assert others[-1] == zero
    assert bits_of_floats(pa.array(["a", None])).equals(pa.array(["a", None]))


def test_an_instant_is_itself_in_every_zone() -> None:
    moments = [datetime(2025, 1, 1, tzinfo=UTC)]
    here, there = (pa.table({"t": pa.array(moments, pa.timestamp("us", zone))}) for zone in ("UTC", "Asia/Tokyo"))
    assert membership_mask(here, there).tolist() == [True]


def test_rows_without_columns_are_one() -> None:
    assert distinct_row_ids([], 3).tolist() == [0, 0, 0]
    assert distinct_row_ids([pa.array([], pa.int32())], 0).tolist() == []
