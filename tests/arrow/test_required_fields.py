"""Casts to types with required fields, which may be null inside a null struct."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partita.arrow.required_fields import cast_array, has_required_field

PLAIN = pa.struct([("a", pa.int64()), ("b", pa.string()), ("d", pa.decimal128(9, 2))])
INNER = pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.string()),
                   pa.field("d", pa.decimal128(9, 2), nullable=False)])  # fmt: skip
ONE = {"a": 1, "b": None, "d": None}


def relaxed_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(f.name, relaxed_type(f.type)) for f in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(relaxed_type(data_type.key_type), relaxed_type(data_type.item_type))
    return pa.list_(relaxed_type(data_type.value_type)) if pa.types.is_list(data_type) else data_type


def full(value: Any) -> Any:
    """The value with something for each `d`."""
    if isinstance(value, dict):
        return {k: full(v) if v is not None or k != "d" else 0 for k, v in value.items()}
    return type(value)(map(full, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (INNER, [ONE, None, ONE]),
        (INNER, [None, None]),
        (pa.struct([pa.field("s", INNER, nullable=False)]), [{"s": ONE}, None]),
        (pa.struct([pa.field("s", INNER)]), [{"s": ONE}, {"s": None}, None]),
        (pa.list_(pa.field("element", INNER, nullable=False)), [[ONE, ONE], None, [], [ONE]]),
        (pa.list_(pa.list_(INNER)), [[[ONE, None], None], None, [[]], []]),
        (pa.map_(pa.string(), INNER), [[("x", ONE), ("y", None)], None, []]),
        (pa.struct([pa.field("l", pa.list_(INNER), nullable=False)]), [{"l": [ONE]}, None, {"l": []}]),
    ],
)
def test_values_survive_the_cast_and_a_parquet_file(data_type: pa.DataType, values: list[Any], tmp_path: Any) -> None:
    given = pa.array(full(values), relaxed_type(data_type))
    for piece in (given, given.slice(1), given.slice(0, 1)):
        # As Spark sends it: what is below a null is null.
        sent = pa.concat_arrays([pa.nulls(0, piece.type), piece.take(pa.array(range(len(piece))))])
        made = cast_array(sent, data_type)
        made.validate(full=True)
        assert made.type == data_type
        assert made.to_pylist() == piece.to_pylist()
        pq.write_table(pa.table({"c": made}), tmp_path / "c.parquet")
        read = pq.read_table(tmp_path / "c.parquet")["c"]
        assert read.to_pylist() == piece.to_pylist()
        again = cast_array(read, data_type)
        pq.write_table(pa.table({"c": again}), tmp_path / "d.parquet")
        assert pq.read_table(tmp_path / "d.parquet")["c"].to_pylist() == piece.to_pylist()


def test_children_that_spark_leaves_null_are_filled() -> None:
    children = [pa.array([1, None], pa.int64()), pa.nulls(2, pa.string()), pa.array([0, None], pa.decimal128(9, 2))]
    given = pa.StructArray.from_arrays(children, fields=list(PLAIN), mask=pa.array([False, True]))
    made = cast_array(given, INNER)
    assert made.field(0).null_count == 0
    assert made.to_pylist() == given.to_pylist()


@pytest.mark.parametrize("value", [{"a": None, "d": 1}, {"a": 1, "d": None}])
def test_a_required_field_that_is_null_is_an_error(value: dict[str, Any]) -> None:
    with pytest.raises(pa.ArrowInvalid, match="is required"):
        cast_array(pa.array([value], PLAIN), INNER)


def test_types_without_required_fields_are_left_to_arrow() -> None:
    assert not has_required_field(pa.list_(PLAIN))
    plain = pa.chunked_array([pa.array([1, 2], pa.int32())])
    assert cast_array(plain, pa.int64()).type == pa.int64()
