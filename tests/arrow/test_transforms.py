"""Partition functions over Arrow arrays equal those of their values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyiceberg.transforms as theirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra import partition_functions as f
from partita.algebra.transforms import PartitionFunction, TransformFamily
from partita.algebra.type_text import parse_type
from partita.algebra.types import LogicalType
from partita.arrow.schema import to_arrow_type, to_logical_type
from partita.arrow.transforms import apply
from partita.errors import PartitionsError, SchemaError, SpecError, TransformError
from tests.algebra.test_hashing import ROWS, value_from_row
from tests.algebra.test_transforms import FUNCTIONS, ICEBERG_TYPES, takes
from tests.value_strategies import ATOMIC_TYPES, arrow_arrays, nested_types

WIDE = (
    f.bucket("x", 2**31 - 1),
    f.bucket("x", 1),
    f.truncate("x", 1),
    f.truncate("x", 2**31 - 1),
    f.truncate("x", 1000),
)


def assert_applied_alike(function: PartitionFunction, array: Any, type_: LogicalType, family: TransformFamily) -> None:
    """Check that both return the same results, or that both raise."""
    try:
        expected = [function.apply(value, family=family, type=type_) for value in array.to_pylist()]
    except SchemaError:
        with pytest.raises(PartitionsError):
            apply(function, array, family=family)
        return
    found = apply(function, array, family=family)
    assert isinstance(found, pa.Array)
    found.validate(full=True)
    assert found.type == to_arrow_type(function.transform.result_type(type_))
    assert found.to_pylist() == pa.array(expected, found.type).to_pylist() or str(found.to_pylist()) == str(expected)


some_functions = st.lists(st.sampled_from((*FUNCTIONS, *WIDE)), min_size=4, max_size=4, unique=True)


@pytest.mark.parametrize("type_", ATOMIC_TYPES, ids=str)
@given(functions=some_functions, family=st.sampled_from(TransformFamily), data=st.data())
def test_results_are_the_scalar_ones(
    type_: LogicalType, functions: list[PartitionFunction], family: TransformFamily, data: st.DataObject
) -> None:
    array = data.draw(arrow_arrays(type_))
    for function in functions:
        if takes(function, type_, family):
            assert_applied_alike(function, array, type_, family)
        else:
            with pytest.raises(TransformError, match="column 'x'"):
                apply(function, array, family=family)


@given(nested_types.flatmap(lambda type_: st.tuples(st.just(type_), arrow_arrays(type_))))
def test_hashes_of_nested_values(pair: tuple[LogicalType, Any]) -> None:
    type_, array = pair
    assert_applied_alike(f.hash("x"), array, type_, TransformFamily.LANCE)
    assert apply(f.void("x"), array, family="iceberg").null_count == len(array)
    with pytest.raises(TransformError):
        apply(f.bucket("x", 4), array, family="lance")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['type']} {row['value']}")
def test_a_row_of_the_vectors(row: dict[str, Any]) -> None:
    array = pa.array([value_from_row(row), None], to_arrow_type(parse_type(row["type"])))
    assert apply(f.bucket("x", 16), array, family="iceberg").to_pylist() == [row["bucket_16"], None]
    assert apply(f.hash("x"), array, family="lance").to_pylist() == [row["hex"], None]


D = Decimal
FORMS: list[tuple[PartitionFunction, Any, str | None, Any]] = [
    (f.truncate("x", 10), pa.array([15, None, 7], pa.uint8()), None, pa.array([10, None, 0], pa.uint8())),
    (f.truncate("x", 10), pa.array([2**64 - 1], pa.uint64()), None, pa.array([2**64 - 6], pa.uint64())),
    (f.truncate("x", 1), pa.array(["éa", None], pa.string_view()), None, pa.array(["é", None], pa.string_view())),
    (f.truncate("x", 1), pa.array(["éa", None]).dictionary_encode(), None, pa.array(["é", None])),
    (f.truncate("x", 1), pa.array([b"ab", None], pa.large_binary()), None, pa.array([b"a", None], pa.large_binary())),
    (f.truncate("x", 10), pa.array([D("1.55")], pa.decimal32(5, 2)), None, pa.array([D("1.50")], pa.decimal32(5, 2))),
    (
        f.truncate("x", 10),
        pa.array([D("-1.55")], pa.decimal256(30, 2)),
        None,
        pa.array([D("-1.60")], pa.decimal256(30, 2)),
    ),
    (f.identity("x"), pa.array(["a", None]).dictionary_encode(), None, pa.array(["a", None])),
    (f.identity("x"), pa.array([5, None], pa.int64()), "int", pa.array([5, None], pa.int32())),
    (
        f.identity("x"),
        pa.array([UUID(int=5).bytes, None], pa.binary(16)),
        "uuid",
        pa.array([UUID(int=5), None], pa.uuid()),
    ),
    (f.identity("x"), pa.array([UUID(int=5), None], pa.uuid()), None, pa.array([UUID(int=5), None], pa.uuid())),
    (
        f.identity("x"),
        pa.array([7], pa.timestamp("s", "Asia/Tokyo")),
        None,
        pa.array([7], pa.timestamp("s", "Asia/Tokyo")),
    ),
    (f.day("x"), pa.array([-1_000], pa.timestamp("ns", "UTC")), "timestamp", pa.array([-1], pa.int32())),
    (f.day("x"), pa.array([-1], pa.timestamp("s")), None, pa.array([-1], pa.int32())),
    (f.year("x"), pa.array([-1], pa.date64()), None, None),
    (
        f.bucket("x", 16),
        pa.array([UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)),
        "uuid",
        pa.array([12], pa.int32()),
    ),
    (f.bucket("x", 16), pa.nulls(2), None, pa.nulls(2, pa.int32())),
    (f.hash("x"), pa.nulls(2), None, pa.nulls(2, pa.string())),
    (f.identity("x"), pa.nulls(2), None, pa.nulls(2)),
    (f.identity("x"), pa.nulls(2), "date", pa.nulls(2, pa.date32())),
    (f.void("x"), pa.array([1, 2]), None, pa.nulls(2, pa.int64())),
    (f.month("x"), pa.chunked_array([], pa.date32()), None, pa.array([], pa.int32())),
]


@pytest.mark.parametrize(
    ("function", "array", "type_", "expected"), FORMS, ids=lambda part: str(getattr(part, "type", part))
)
def test_values_come_under_many_arrow_types(
    function: PartitionFunction, array: Any, type_: str | None, expected: Any
) -> None:
    family = "lance" if function.transform.name == "hash" else "iceberg"
    if expected is None:
        with pytest.raises(PartitionsError):
            apply(function, array, family=family, type=type_)
    else:
        found = apply(function, array, family=family, type=type_)
        assert found.type == expected.type
        assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([-128], pa.int8()),
        pa.array([-(2**31)], pa.int32()),
        pa.array([-(2**63) + 1]),
        pa.array([D("-99.99")]),
        pa.array([D("-9" * 1 + "9" * 37)]),
    ],
    ids=lambda array: str(array.type),
)
def test_a_multiple_below_the_smallest_number_is_refused(array: Any) -> None:
    with pytest.raises(PartitionsError, match="truncate"):
        apply(f.truncate("x", 1000), array, family="iceberg")


def test_an_hour_so_far_out_that_no_int_holds_it() -> None:
    array = pa.array([2**63 - 1], pa.timestamp("us", "UTC"))
    with pytest.raises(PartitionsError, match="32 bits"):
        apply(f.hour("x"), array, family="iceberg")
    assert apply(f.hour("x"), array, family="lance").to_pylist() == [4]
    assert apply(f.year("x"), array, family="lance").to_pylist() == [294_247]
    assert apply(f.year("x"), pa.array([2**31 - 1], pa.int32()).view(pa.date32()), family="lance").to_pylist() == [
        5_881_580
    ]


@pytest.mark.parametrize(
    "array",
    [pa.array([1], pa.timestamp("ns")), pa.array([1], pa.duration("s")), pa.array([1.5], pa.float16())],
    ids=str,
)
def test_types_that_partita_does_not_compute_with(array: Any) -> None:
    for function in FUNCTIONS:
        if function.transform.name != "void":
            for family in ("iceberg", "lance"):
                with pytest.raises(TransformError):
                    apply(function, array, family=family)


def test_family_and_type_are_checked() -> None:
    with pytest.raises(SpecError, match="use 'iceberg' or 'lance'"):
        apply(f.year("x"), pa.array([1]), family="hive")
    with pytest.raises(PartitionsError, match="does not hold"):
        apply(f.year("x"), pa.array([1]), family="lance", type="date")
    with pytest.raises(SchemaError):
        apply(f.year("x"), pa.array([1]), family="lance", type="daet")


PAIRS: tuple[tuple[PartitionFunction, theirs.Transform[Any, Any]], ...] = (
    (f.year("x"), theirs.YearTransform()),
    (f.month("x"), theirs.MonthTransform()),
    (f.day("x"), theirs.DayTransform()),
    (f.hour("x"), theirs.HourTransform()),
    (f.bucket("x", 16), theirs.BucketTransform(16)),
    (f.truncate("x", 7), theirs.TruncateTransform(7)),
)


@pytest.mark.parametrize("type_", ["int", "long", "date", "timestamp", "timestamp_ntz", "string", "binary"])
@given(data=st.data())
def test_results_are_pyicebergs(type_: str, data: st.DataObject) -> None:
    """Compare with pyiceberg's transforms of Python values; those of Arrow arrays are in a package of its own."""
    known = parse_type(type_)
    array = data.draw(arrow_arrays(known))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    plain = (
        array.view(pa.int32() if type_ == "date" else pa.int64()) if type_.startswith(("date", "timestamp")) else array
    )
    for ours, other in PAIRS:
        if takes(ours, known, TransformFamily.ICEBERG) and to_logical_type(array.type) == known:
            expected = [None if v is None else other.transform(ICEBERG_TYPES[type_])(v) for v in plain.to_pylist()]
            try:
                assert apply(ours, array, family="iceberg").to_pylist() == expected
            except PartitionsError:
                with pytest.raises((OverflowError, pa.ArrowInvalid)):
                    pa.array(expected, array.type)
