"""Keys of Arrow tables equal the `PartitionKey` of each row."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partita.algebra.key import PartitionKey
from partita.arrow.base64url import decode_base64url, encode_base64url
from partita.arrow.buffers import BinaryBuffers
from partita.arrow.key import key_columns, key_ids, key_texts
from partita.errors import KeyFormatError, KeyValueError, PartitionsError
from tests.algebra.test_key import VECTORS, key_like, mutated, value_of
from tests.value_strategies import int64s, key_dicts, key_names, texts, utc_datetimes

COLUMN_TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): int64s,
    pa.int8(): st.integers(-128, 127),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.timestamp("us", "UTC"): utc_datetimes,
    pa.timestamp("us", "America/New_York"): utc_datetimes,
    pa.timestamp("s", "UTC"): utc_datetimes.map(lambda at: at.replace(microsecond=0)),
    pa.timestamp("ms", "UTC"): utc_datetimes.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    pa.timestamp("ns", "UTC"): utc_datetimes.filter(lambda at: 1678 <= at.year < 2262),
    pa.string(): texts,
    pa.large_string(): texts,
    pa.string_view(): texts,
    pa.dictionary(pa.int8(), pa.string()): texts,
    pa.null(): st.none(),
}
READ_AS = {"s": pa.string(), "i": pa.int64(), "b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us", "UTC")}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Any]:
    """Rows of Python values, and the same rows as an Arrow table: as one array, sliced or chunked."""
    names = draw(st.lists(key_names, unique=True, min_size=1, max_size=4))
    columns = {name: draw(st.sampled_from(list(COLUMN_TYPES))) for name in names}
    row = st.fixed_dictionaries({name: st.none() | COLUMN_TYPES[type_] for name, type_ in columns.items()})
    rows = draw(st.lists(row, max_size=8))
    table = pa.table({name: pa.array([r[name] for r in rows], type_) for name, type_ in columns.items()})
    start, stop = draw(st.integers(0, 4)), draw(st.integers(4, 8))
    if draw(st.booleans()):
        return rows[start:stop], table.slice(start, stop - start)
    return rows + rows[start:], pa.concat_tables([table, table.slice(start)])


@given(tables())
def test_texts_are_those_of_partition_key(pair: tuple[list[dict[str, Any]], Any]) -> None:
    rows, table = pair
    texts = key_texts(table)
    assert texts.type == pa.string()
    assert texts.to_pylist() == [str(PartitionKey.of(row)) for row in rows]
    assert key_texts(dict(zip(table.column_names, table.columns, strict=True))).equals(texts)
    assert key_texts(table.combine_chunks().to_batches()[0] if rows else table).equals(texts)


@given(tables())
def test_columns_come_back_from_texts(pair: tuple[list[dict[str, Any]], Any]) -> None:
    rows, table = pair
    texts = key_texts(table)
    back = key_columns(texts)
    assert back.num_rows == len(rows)
    assert back.to_pylist() == [dict(PartitionKey.of(row)) for row in rows]
    chunked = pa.chunked_array([texts[:2], texts[2:]], pa.string())
    assert key_columns(chunked).equals(back)
    assert key_columns(pa.concat_arrays([texts, texts])[len(texts) :]).equals(back)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()), tables())
def test_ids_are_those_of_partition_key(asset: str, pair: tuple[list[dict[str, Any]], Any]) -> None:
    rows, table = pair
    assert key_ids(asset, key_texts(table)).to_pylist() == [PartitionKey.of(row).id(asset) for row in rows]


@pytest.mark.parametrize("row", VECTORS["valid"], ids=lambda row: row["key"])
def test_a_valid_row(row: dict[str, Any]) -> None:
    columns = {d["name"]: pa.array([value_of(d)]) for d in row["dimensions"]}
    columns = {
        name: array.cast(READ_AS["t"]) if pa.types.is_timestamp(array.type) else array
        for name, array in columns.items()
    }
    found = key_texts(columns)
    assert found.to_pylist() == [row["key"]]
    assert key_ids(VECTORS["asset_id"], found).to_pylist() == [row["id"]]
    assert key_columns(found).to_pylist() == [dict(PartitionKey.parse(row["key"]))]


@pytest.mark.parametrize("row", VECTORS["invalid"], ids=lambda row: row["why"])
def test_an_invalid_row(row: dict[str, Any]) -> None:
    assert_refused_alike([row["key"]], 0)
    assert_refused_alike(["a=i:1", "a=i:2", row["key"], "a=i:4"], 2)


def assert_refused_alike(rows: list[str], bad: int) -> None:
    with pytest.raises(KeyFormatError) as expected:
        PartitionKey.parse(rows[bad])
    with pytest.raises(KeyFormatError) as found:
        key_columns(pa.array(rows))
    assert str(found.value) == str(expected.value)


def encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


@given(st.one_of(st.text(), key_like, mutated).filter(encodable), key_dicts)
@example("a=s:7aCA", {"a": "x"})
@example("a=d:0000-01-01", {"a": dt.date(2025, 1, 1)})
@example("a=i:" + "9" * 40, {"a": 1})
@example("a=s:AAAAA", {"a": "x"})
def test_the_two_parsers_agree_on_every_text(text: str, before: dict[str, object]) -> None:
    good = str(PartitionKey.of(before))
    try:
        expected = dict(PartitionKey.parse(text))
    except KeyFormatError:
        for rows, bad in (([text], 0), ([good, text], 1), ([good, text, good], 1)):
            assert_refused_alike(rows, bad)
        return
    assert key_columns(pa.array([text])).to_pylist() == [expected]
    alike = dict(PartitionKey.parse(good))
    if list(alike) == list(expected) and all(one_type(alike[name], expected[name]) for name in alike):
        assert key_columns(pa.array([good, text])).to_pylist() == [alike, expected]
    else:
        with pytest.raises(KeyValueError, match="row 1"):
            key_columns(pa.array([good, text]))


def one_type(left: object, right: object) -> bool:
    return left is None or right is None or type(left) is type(right)


@pytest.mark.parametrize(
    ("rows", "name", "reason"),
    [
        (["a=i:1", "a=s:MQ"], "a", "row 1 has type string, but the rows before have int64"),
        (["a=n:null", "a=i:1", "a=n:null", "a=b:true"], "a", "row 3 has type bool, but the rows before have int64"),
        (["a=i:1,b=i:1", "a=i:1,b=d:2025-01-01"], "b", "row 1 has type date32"),
        (["a=i:1", "a=i:1,b=i:2"], "b", "row 1 has it"),
        (["a=i:1,b=i:2", "a=i:1"], "b", "row 1 lacks it"),
        (["a=i:1", "b=i:1"], "a", "row 1 lacks it"),
        (["", "", "a=i:1"], "a", "row 2 has it"),
        (["a=i:1", ""], "a", "row 1 lacks it"),
    ],
)
def test_rows_of_different_sorts_are_refused(rows: list[str], name: str, reason: str) -> None:
    with pytest.raises(KeyValueError, match=reason) as caught:
        key_columns(pa.array(rows))
    assert caught.value.name == name


def test_a_null_text_is_no_key() -> None:
    with pytest.raises(KeyFormatError, match="a key is text, not NoneType"):
        key_columns(pa.array(["a=i:1", None]))
    assert key_ids("x", pa.array([None, ""])).to_pylist() == [None, PartitionKey.of().id("x")]


BROKEN_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])


@pytest.mark.parametrize("texts", [BROKEN_TEXT, pa.concat_arrays([pa.array(["a=i:1"]), BROKEN_TEXT])], ids=len)
def test_a_text_that_is_not_utf8_is_no_key(texts: Any) -> None:
    with pytest.raises(KeyFormatError):
        key_columns(texts)


@pytest.mark.parametrize("texts", [pa.array([1]), pa.array([b"a=i:1"]), ["a=i:1"], "a=i:1", None], ids=str)
def test_keys_are_an_array_of_text(texts: Any) -> None:
    for use in (key_columns, lambda given: key_ids("x", given)):
        with pytest.raises(KeyFormatError, match="an Arrow array of strings"):
            use(texts)


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_texts_may_be_of_any_type_of_text(type_: pa.DataType) -> None:
    texts = pa.array(["a=i:1", "a=n:null"]).cast(type_)
    assert key_columns(texts).to_pylist() == [{"a": 1}, {"a": None}]
    assert len(key_ids("x", texts)) == 2


def test_no_rows_and_no_dimensions() -> None:
    assert key_texts(pa.table({"a": pa.array([], pa.string())})).to_pylist() == []
    assert key_columns(pa.array([], pa.string())).shape == (0, 0)
    assert key_columns(pa.chunked_array([], pa.string())).shape == (0, 0)
    assert key_texts(pa.table({"a": [1, 2]}).select([])).to_pylist() == ["", ""]
    assert key_columns(pa.array(["", ""])).shape == (2, 0)
    assert key_texts({}).to_pylist() == []
    assert key_ids("x", pa.array([], pa.string())).type == pa.string()


def test_a_dimension_that_is_always_null_has_no_type() -> None:
    assert key_columns(pa.array(["a=n:null,b=i:1"] * 3)).schema == pa.schema({"a": pa.null(), "b": pa.int64()})


TZ = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1.5]), "double can't be in a key"),
        (pa.array([1.5], pa.float16()), "halffloat can't be in a key"),
        (pa.array([1], pa.decimal128(20, 2)), "decimal128.* can't be in a key"),
        (pa.array([b"x"]), "binary can't be in a key"),
        (pa.array([b"x"], pa.binary(1)), r"fixed_size_binary\[1\] can't be in a key"),
        (pa.array([[1]]), "list<.*> can't be in a key"),
        (pa.array([{"a": 1}]), "struct<.*> can't be in a key"),
        (pa.array([1], pa.time64("us")), "time64.* can't be in a key"),
        (pa.array([1], pa.duration("s")), "duration.* can't be in a key"),
        (pa.array([b"x" * 16], pa.uuid()), "can't be in a key"),
        (pa.array([1.5]).dictionary_encode(), "double can't be in a key"),
        (pa.array([1], pa.timestamp("us")), "has no time zone"),
        (pa.array([None], pa.timestamp("us")), "has no time zone"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "digits below the microsecond"),
        (pa.array([2**63], pa.uint64()), "not in range"),
        (pa.array([0, 2_932_897], pa.int32()).view(pa.date32()), "row 1 is outside the years"),
        (pa.array([-719_163], pa.int32()).view(pa.date32()), "row 0 is outside the years"),
        (pa.array([253_402_300_800_000_000]).view(TZ), "row 0 is outside the years"),
        (pa.array([-62_135_596_800_000_001]).view(TZ), "row 0 is outside the years"),
        (pa.array([2**62]).view(pa.timestamp("s", "UTC")), "row 0 is outside the years"),
        (pa.array([1]).view(pa.date64()), "would lose data"),
        (BROKEN_TEXT, "not Unicode text"),
        ([1], "list is not an Arrow array"),
    ],
    ids=str,
)
def test_columns_that_no_key_holds(column: Any, reason: str) -> None:
    with pytest.raises(KeyValueError, match=reason) as caught:
        key_texts({"some_name": column})
    assert caught.value.name == "some_name"


@pytest.mark.parametrize("name", ["A", "a-b", "", "1a"])
def test_names_that_no_key_holds(name: str) -> None:
    with pytest.raises(KeyValueError, match="a name is"):
        key_texts({name: pa.array([1])})


def test_tables_that_make_no_keys() -> None:
    with pytest.raises(KeyValueError, match="given twice"):
        key_texts(pa.table([pa.array([1]), pa.array([1])], names=["a", "a"]))
    with pytest.raises(KeyValueError, match="it has 2 rows"):
        key_texts({"a": pa.array([1]), "b": pa.array([1, 2])})
    with pytest.raises(PartitionsError, match="arrays by name, not"):
        key_texts([1])


def test_values_under_a_null_are_ignored() -> None:
    valid = pa.py_buffer(b"\x01")
    ints = pa.array([0, 2**62]).buffers()[1]
    hidden = {
        "t": pa.Array.from_buffers(pa.timestamp("s", "UTC"), 2, [valid, ints]),
        "s": pa.Array.from_buffers(
            pa.string(), 2, [valid, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pa.py_buffer(b"xyz")]
        ),
    }
    assert key_texts(hidden).to_pylist() == ["s=s:eA,t=t:1970-01-01T00:00:00.000000Z", "s=n:null,t=n:null"]


@given(st.lists(st.none() | st.binary(max_size=20), max_size=8), st.integers(0, 3))
def test_base64url_comes_back(values: list[bytes | None], start: int) -> None:
    array = pa.array(values, pa.binary())[start:]
    encoded = encode_base64url(array)
    assert encoded.null_count == array.null_count
    decoded, bad = decode_base64url(BinaryBuffers.from_array(encoded.fill_null("")))
    assert not bad.any()
    assert decoded.to_array(pa.large_binary()).to_pylist() == [value or b"" for value in values[start:]]


def test_many_rows_with_one_that_is_wrong() -> None:
    rows = [f"a=s:{'eHh4'}" for _ in range(1000)]
    for at in (0, 1, 499, 998, 999):
        assert_refused_alike([*rows[:at], "a=s:_w", *rows[at + 1 :]], at)
