"""PartitionKey: the vectors, and properties of every key and every text."""

from __future__ import annotations

import enum
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partita.algebra.key import PartitionKey, partition_id
from partita.errors import KeyFormatError, KeyValueError, PartitaError
from tests.value_strategies import key_dicts, texts, zoned_datetimes
from tests.vectors import load_vectors

VECTORS = load_vectors("identity")


def value_of(dimension: dict[str, Any]) -> object:
    value = dimension["value"]
    if dimension["type"] == "date":
        return date.fromisoformat(value)
    return datetime.fromisoformat(value) if dimension["type"] == "timestamp" else value


@pytest.mark.parametrize("row", VECTORS["valid"], ids=lambda row: row["key"])
def test_a_valid_row(row: dict[str, Any]) -> None:
    key = PartitionKey.of({d["name"]: value_of(d) for d in row["dimensions"]})
    assert str(key) == row["key"]
    assert key.id(VECTORS["asset_id"]) == row["id"]
    assert PartitionKey.parse(row["key"]) == key


@pytest.mark.parametrize("row", VECTORS["invalid"], ids=lambda row: row["why"])
def test_an_invalid_row(row: dict[str, Any]) -> None:
    with pytest.raises(KeyFormatError) as caught:
        PartitionKey.parse(row["key"])
    assert 0 <= caught.value.position <= len(row["key"])


@given(key_dicts)
def test_a_key_comes_back_from_its_text(values: dict[str, object]) -> None:
    key = PartitionKey.of(values)
    back = PartitionKey.parse(str(key))
    assert back == key
    assert dict(back) == dict(key)
    assert [type(v) for v in back.values()] == [type(v) for v in key.values()]
    assert list(key) == sorted(values)


@given(key_dicts)
def test_a_key_holds_the_values_it_was_given(values: dict[str, object]) -> None:
    key = PartitionKey.of(values)
    assert dict(key) == values
    assert all(type(key[name]) is type(value) for name, value in values.items())


@given(key_dicts, st.data())
def test_the_order_of_dimensions_does_not_count(values: dict[str, object], data: st.DataObject) -> None:
    shuffled = dict(data.draw(st.permutations(list(values.items()))))
    assert PartitionKey.of(shuffled) == PartitionKey.of(values)


@given(key_dicts, key_dicts)
def test_keys_are_equal_as_their_texts_are(left: dict[str, object], right: dict[str, object]) -> None:
    a, b = PartitionKey.of(left), PartitionKey.of(right)
    assert (a == b) == (str(a) == str(b))
    assert a != b or hash(a) == hash(b)
    assert sum((a < b, a == b, a > b)) == 1


key_like = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "a",
                "b",
                "=",
                "i:",
                "s:",
                "b:",
                "d:",
                "t:",
                "n:",
                "null",
                "true",
                ",",
                "1",
                "-",
                "0",
                "2025-01-15",
                "dGVzdA",
                "_w",
            ]
        ),
        st.sampled_from(["T10:30:00.000000Z", "9223372036854775807", "\n", "é", "٣"]),
        st.characters(),
    )
).map("".join)
mutated = st.builds(
    lambda values, at, junk: str(PartitionKey.of(values))[:at] + junk + str(PartitionKey.of(values))[at + 1 :],
    key_dicts,
    st.integers(0, 60),
    st.text(max_size=1),
)


@given(st.one_of(st.text(), key_like, mutated))
@example("a=i:" + "9" * 10_000)
@example("a=s:" + "A" * 4001)
@example("a=d:0000-01-01")
@example("a=s:7aCA")
def test_any_text_is_a_key_and_its_own_canon_or_refused(text: str) -> None:
    key = key_or_error(text)
    if isinstance(key, KeyFormatError):
        assert 0 <= key.position <= len(text)
        assert key.text == text
    else:
        assert str(PartitionKey.of(dict(key))) == text


def key_or_error(text: str) -> PartitionKey | KeyFormatError:
    try:
        return PartitionKey.parse(text)
    except KeyFormatError as error:
        return error


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a=i:1,,b=i:2", 6),
        ("a=i:1,B=i:2", 6),
        ("a=i:1,a", 7),
        ("a=i:1,a=i:2", 6),
        ("a=i:01", 5),
        ("ab=q:1", 3),
        ("a=d:2025-1-1", 10),
        ("a=s:dGVzd!", 9),
    ],
)
def test_an_error_points_at_the_place(text: str, position: int) -> None:
    with pytest.raises(KeyFormatError) as caught:
        PartitionKey.parse(text)
    assert caught.value.position == position
    assert str(caught.value).splitlines()[1:] == [f"  {text}", "  " + " " * position + "^"]


@pytest.mark.parametrize("text", [None, 3, b"a=i:1"])
def test_only_text_is_parsed(text: Any) -> None:
    with pytest.raises(KeyFormatError, match="a key is text"):
        PartitionKey.parse(text)


class Region(enum.StrEnum):
    EAST = "us-east"


class Flavour(str, enum.Enum):  # noqa: UP042 - they are not the same
    SWEET = "sweet"


class Size(enum.IntEnum):
    LARGE = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int8(-5), "i:-5"),
        (np.uint64(2**63 - 1), "i:9223372036854775807"),
        (np.bool_(True), "b:true"),
        (np.bool_(False), "b:false"),
        (np.str_("x"), "s:eA"),
        (Region.EAST, "s:dXMtZWFzdA"),
        (Flavour.SWEET, "s:c3dlZXQ"),
        (Size.LARGE, "i:3"),
        (pd.Timestamp("2025-01-15T10:30:00.123456", tz="UTC"), "t:2025-01-15T10:30:00.123456Z"),
        (pd.Timestamp("2025-01-15T10:30", tz="Europe/Paris"), "t:2025-01-15T09:30:00.000000Z"),
        (datetime(2025, 7, 1, tzinfo=ZoneInfo("America/New_York")), "t:2025-07-01T04:00:00.000000Z"),
        (datetime(2025, 11, 2, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York")), "t:2025-11-02T06:30:00.000000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "t:0001-01-01T00:00:00.000000Z"),
        (datetime.max.replace(tzinfo=UTC), "t:9999-12-31T23:59:59.999999Z"),
    ],
)
def test_values_that_count_as_what_they_hold(value: object, text: str) -> None:
    key = PartitionKey.of(a=value)
    assert str(key) == f"a={text}"
    assert type(key["a"]) in (int, bool, str, date, datetime)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1.5, "float can't be in a key"),
        (float("nan"), "float can't be in a key"),
        (np.float64(1), "float64 can't be in a key"),
        (Decimal(1), "Decimal can't be in a key"),
        (b"x", "bytes can't be in a key"),
        (bytearray(b"x"), "bytearray can't be in a key"),
        ([1], "list can't be in a key"),
        (timedelta(1), "timedelta can't be in a key"),
        (np.datetime64("2025-01-01"), "datetime64 can't be in a key"),
        (np.array(3), "ndarray can't be in a key"),
        (np.array([3, 4]), "ndarray can't be in a key"),
        (2**63, "over 64 bits"),
        (-(2**63) - 1, "over 64 bits"),
        (np.uint64(2**63), "over 64 bits"),
        ("\ud800", "lone surrogate at 0"),
        ("ab\udfff", "lone surrogate at 2"),
        (datetime(2025, 1, 1), "has no time zone"),  # noqa: DTZ001 - naive on purpose
        (pd.Timestamp("2025-01-01"), "has no time zone"),
        (pd.NaT, "NaT"),
        (pd.Timestamp("2025-01-01T00:00:00.000000001", tz="UTC"), "digits below the microsecond"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "outside the years"),
        (datetime(9999, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-1))), "outside the years"),
    ],
)
def test_values_that_no_key_holds(value: object, reason: str) -> None:
    with pytest.raises(KeyValueError, match=reason) as caught:
        PartitionKey.of({"some_name": value})
    assert caught.value.name == "some_name"


@pytest.mark.parametrize("name", ["", "A", "1a", "_a", "a-b", "a.b", "é", "a ", "a\n", "\uff41", 3, None])
def test_names_that_no_key_holds(name: Any) -> None:
    with pytest.raises(KeyValueError, match="a name is"):
        PartitionKey.of({name: 1})


def test_a_name_given_twice() -> None:
    with pytest.raises(KeyValueError, match="given twice"):
        PartitionKey.of({"a": 1}, a=2)


@given(zoned_datetimes)
def test_an_instant_is_one_key_in_every_zone(at: datetime) -> None:
    assert PartitionKey.of(t=at) == PartitionKey.of(t=at.astimezone(UTC))


def test_types_tell_keys_apart() -> None:
    assert (
        len(
            {PartitionKey.of(a=value) for value in (1, "1", True, "true", None, "null", date(2025, 1, 1), "2025-01-01")}
        )
        == 8
    )


def test_the_empty_key() -> None:
    assert str(PartitionKey.of()) == ""
    assert PartitionKey.parse("") == PartitionKey.of() == PartitionKey.of({})
    assert len(PartitionKey.of()) == 0


def test_keys_are_ordered_by_value_with_null_first() -> None:
    ordered = [
        PartitionKey.of(a=value)
        for value in (None, False, True, -10, 9, 10, "", "10", "9", date(2024, 12, 31), date(2025, 1, 1))
    ]
    backwards = ordered[::-1]
    assert sorted(backwards) == ordered
    assert PartitionKey.of() < ordered[0]


def test_a_key_can_not_change() -> None:
    key = PartitionKey.of(a=1)
    with pytest.raises(AttributeError, match="immutable"):
        key.a = 2
    with pytest.raises(AttributeError, match="immutable"):
        key._text = ""
    with pytest.raises(AttributeError, match="immutable"):
        del key._text
    with pytest.raises(TypeError):
        key["a"] = 2  # type: ignore[index]
    with pytest.raises(TypeError):
        key._values["a"] = 2  # type: ignore[index]
    assert str(key) == "a=i:1"


@given(key_dicts)
def test_a_key_can_be_pickled(values: dict[str, object]) -> None:
    key = PartitionKey.of(values)
    assert pickle.loads(pickle.dumps(key)) == key  # noqa: S301 - our own
    assert repr(key) == f"PartitionKey.parse({str(key)!r})"


@pytest.mark.parametrize("values", [{"a": 1.5}, {"A": 1}])
def test_errors_of_values_can_be_pickled(values: dict[str, object]) -> None:
    with pytest.raises(KeyValueError) as caught:
        PartitionKey.of(values)
    assert_can_be_pickled(caught.value)


def test_errors_of_texts_can_be_pickled() -> None:
    with pytest.raises(KeyFormatError) as caught:
        PartitionKey.parse("a")
    assert_can_be_pickled(caught.value)


def assert_can_be_pickled(error: PartitaError) -> None:
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_a_key_is_unlike_anything_else() -> None:
    key = PartitionKey.of(a=1)
    assert key != "a=i:1"
    assert key != {"a": 1}
    with pytest.raises(TypeError):
        _ = key < "a=i:1"


@given(texts.filter(bool), key_dicts)
def test_ids_depend_on_asset_and_key(asset: str, values: dict[str, object]) -> None:
    key = PartitionKey.of(values)
    assert key.id(asset) == partition_id(asset, str(key)) == PartitionKey.parse(str(key)).id(asset)
    assert key.id(asset) != key.id(asset + "x")
    assert key.id(asset) != PartitionKey.of({**values, "zz_other": 1}).id(asset)


@pytest.mark.parametrize("asset", ["", None, 3, "\ud800"])
def test_an_asset_id_is_text(asset: Any) -> None:
    with pytest.raises(KeyValueError, match="asset_id"):
        PartitionKey.of(a=1).id(asset)
