"""The four stages of a partition value and their inverse, by the rows of the numbered table."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.physical_values import to_physical_value
from partita.algebra.schema import Schema
from partita.algebra.type_text import parse_type
from partita.algebra.types import Field, TypeKind
from partita.errors import PartitionValueError
from partita.formats.delta import encode_partition, parse_partition
from partita.formats.partition_texts.hive import unescape_name
from partita.formats.partition_texts.java_floats import java_float_text
from partita.formats.partition_texts.uri import decode_uri, encode_uri
from tests.vectors import load_vectors

TABLE = load_vectors("delta_partition_values")
ZONE = TABLE["session_timezone"]


def vector_value(type_name: str, value: Any) -> Any:
    """Return the Python value of a row of the numbered table."""
    if value is None or type_name in ("int", "long", "byte", "short", "boolean", "string"):
        return value
    if type_name in ("float", "double"):
        return float(value)
    if type_name == "binary":
        return bytes.fromhex(value)
    if type_name == "date":
        return date.fromisoformat(value)
    if type_name == "timestamp":
        return datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(ZONE))
    return datetime.fromisoformat(value) if type_name == "timestamp_ntz" else Decimal(value)


def vector_rows(*, fails: bool) -> list[Any]:
    return [pytest.param(r, id=f"row {r['row']}") for r in TABLE["rows"] if r.get("write_fails", False) is fails]


@pytest.mark.parametrize("row", vector_rows(fails=False))
def test_row_of_the_numbered_table(row: dict[str, Any]) -> None:
    schema = {"p": row["type"]}
    value = vector_value(row["type"], row["value"])
    encoded = encode_partition({"p": value}, schema, time_zone=ZONE)
    assert encoded.directory == row["dir"]
    assert encoded.path == row["add_path"]
    assert encoded.values == {"p": row["partition_value"]}
    assert decode_uri(encoded.path) == encoded.directory
    parsed = parse_partition(encoded.values, schema, time_zone=ZONE)["p"]
    assert is_same_value(parsed, value, row["type"])


def is_same_value(parsed: Any, value: Any, type_name: str) -> bool:
    if value in (None, "", b""):
        return parsed is None
    if isinstance(value, float):
        return struct.pack(">d", parsed) == struct.pack(">d", value)
    if isinstance(value, date):
        return bool(parsed == to_physical_value(value, parse_type(type_name)))
    return bool(parsed == value)


@pytest.mark.parametrize("row", vector_rows(fails=True))
def test_row_whose_write_fails_is_refused_with_its_place(row: dict[str, Any]) -> None:
    with pytest.raises(PartitionValueError) as caught:
        encode_partition({"p": vector_value(row["type"], row["value"])}, {"p": row["type"]}, time_zone=ZONE)
    assert caught.value.column == "p"
    assert caught.value.found.startswith(("U+0000 at", "byte"))
    assert "\0" not in str(caught.value)


def test_every_row_of_the_table_is_tested() -> None:
    assert [r["row"] for r in TABLE["rows"]] == list(range(1, 69))


def encode_error(values: dict[str, Any], schema: Any) -> PartitionValueError:
    with pytest.raises(PartitionValueError) as caught:
        encode_partition(values, schema)
    return caught.value


def test_names_match_without_regard_to_case_and_take_the_schemas() -> None:
    encoded = encode_partition({"REGION": "us", "Day": date(2025, 1, 15)}, {"day": "date", "Region": "string"})
    assert encoded.values == {"day": "2025-01-15", "Region": "us"}
    assert encoded.directory == "day=2025-01-15/Region=us"


@pytest.mark.parametrize(
    ("values", "column", "expected", "found"),
    [
        ({}, "p", "a value", "none"),
        ({"p": 1, "q": 2}, "q", "columns p", "no such column"),
        ({"p": 1, "P": 2}, "p", "one value", "'p' and 'P'"),
        ({"p": "1"}, "p", "int", "str '1'"),
        ({"p": True}, "p", "int", "bool True"),
        ({"p": 2**31}, "p", "int", "int 2147483648"),
        ({"p": 1.0}, "p", "int", "float 1.0"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(
    values: dict[str, Any], column: str, expected: str, found: str
) -> None:
    error = encode_error(values, {"p": "int"})
    assert error.column == column
    assert expected in error.expected
    assert found in error.found


def test_null_nested_types_and_wide_floats() -> None:
    strict = Schema((Field("p", parse_type("int"), nullable=False),))
    assert "not null" in encode_error({"p": None}, strict).expected
    assert encode_error({"p": [1]}, {"p": "list<int>"}).found == "list<int>"
    assert "1e+39" in encode_error({"p": 1e39}, {"p": "float"}).found
    with pytest.raises(PartitionValueError, match="the name of a time zone"):
        encode_partition({}, {}, time_zone="Mars/Base")


def test_the_text_of_nulls_directory_has_one_of_its_own() -> None:
    name = "__HIVE_DEFAULT_PARTITION__"
    encoded = encode_partition({"p": name}, {"p": "string"})
    assert encoded.values == {"p": name}
    assert encoded.directory != encode_partition({"p": None}, {"p": "string"}).directory
    assert unescape_name(encoded.directory) == f"p={name}"


@pytest.mark.parametrize("zone", ["+05:30", "+5:30", "UTC+05:30", "GMT+5:30", "Asia/Kolkata", "IST"])
def test_fixed_offsets_are_zones_too(zone: str) -> None:
    local = datetime(2025, 1, 1, 5, 30)  # noqa: DTZ001 - in the zone
    encoded = encode_partition({"p": local}, {"p": "timestamp"}, time_zone=zone)
    assert encoded.values == {"p": "2025-01-01T00:00:00.000000Z"}
    assert encoded.directory == "p=2025-01-01 05%3A30%3A00"
    read = parse_partition({"p": "2025-01-01 05:30:00"}, {"p": "timestamp"}, time_zone=zone)
    assert read == {"p": 1_735_689_600_000_000}


def test_the_repeated_hour_keeps_both_instants_apart() -> None:
    first = datetime(2024, 11, 3, 8, 30, tzinfo=UTC)
    second = datetime(2024, 11, 3, 9, 30, tzinfo=UTC)
    one, two = (encode_partition({"p": at}, {"p": "timestamp"}, time_zone=ZONE) for at in (first, second))
    assert (one.values["p"], two.values["p"]) == ("2024-11-03T08:30:00.000000Z", "2024-11-03T09:30:00.000000Z")
    assert one.directory == "p=2024-11-03 01%3A30%3A00"
    assert two.directory == "p=2024-11-03 01%3A30%3A00-0800"


def test_far_years_as_spark_writes_them() -> None:
    days = {"+10000-01-01": 2_932_897, "0000-12-31": -719_163, "-0001-12-31": -719_529}
    for text, count in days.items():
        encoded = encode_partition({"p": count}, {"p": "date"})
        assert encoded.values == {"p": text}
        assert parse_partition(encoded.values, {"p": "date"}) == {"p": count}
    far = encode_partition({"p": 2_932_897 * 86_400_000_000 + 1}, {"p": "timestamp"})
    assert far.values == {"p": "+10000-01-01T00:00:00.000001Z"}
    assert parse_partition(far.values, {"p": "timestamp"}) == {"p": 2_932_897 * 86_400_000_000 + 1}


def test_a_name_over_the_file_systems_limit_is_hashed() -> None:
    texts = ["日" * 200, "日" * 201]
    partitions = [encode_partition({"p": text}, {"p": "string"}) for text in texts]
    assert [e.values["p"] for e in partitions] == texts
    assert len({e.directory for e in partitions}) == 2
    assert all(len(e.directory.encode()) <= 255 for e in partitions)


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("decimal(38,18)", "0E-18", Decimal(0)),
        ("timestamp", "2024-06-15 12:30:45", 1_718_479_845_000_000),
        ("timestamp", "2024-06-15 12:30:45.5", 1_718_479_845_500_000),
        ("timestamp", "2024-06-15T12:30:45-07:00", 1_718_479_845_000_000),
        ("timestamp_ntz", "2024-06-15 12:30:45", 1_718_454_645_000_000),
        ("double", "4.9E-324", 5e-324),
        ("string", "", None),
    ],
)
def test_texts_of_older_writers_are_read(type_name: str, text: str, value: Any) -> None:
    assert parse_partition({"p": text}, {"p": type_name}, time_zone=ZONE) == {"p": value}


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("int", "x"),
        ("int", "2147483648"),
        ("date", "2025-02-30"),
        ("timestamp", "2025-01-01T25:00:00Z"),
        ("double", "1,5"),
        ("boolean", "yes"),
        ("decimal(4,2)", "1.234"),
        ("timestamp_ntz", "2025-01-01 00:00:00Z"),
    ],
)
def test_text_of_no_value_is_refused(type_name: str, text: str) -> None:
    with pytest.raises(PartitionValueError, match="'p'"):
        parse_partition({"p": text}, {"p": type_name})


def test_the_uri_stage_encodes_of_non_ascii_just_controls_and_spaces() -> None:
    listed = [*range(0x80, 0xA1), 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    beyond = (c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF)
    assert [c for c in beyond if encode_uri(chr(c)) != chr(c)] == listed


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@given(st.dictionaries(st.sampled_from(["a", "b c", "d=e/f"]), texts, min_size=1))
def test_strings_round_trip_through_all_stages(values: dict[str, str]) -> None:
    schema = dict.fromkeys(values, "string")
    encoded = encode_partition(values, schema)
    assert parse_partition(encoded.values, schema) == {name: text or None for name, text in values.items()}
    assert decode_uri(encoded.path) == encoded.directory
    assert encoded.directory.count("/") == len(values) - 1


@given(st.floats())
def test_doubles_read_back_as_themselves(number: float) -> None:
    text = java_float_text(number, TypeKind.DOUBLE)
    assert struct.pack(">d", float(text)) == struct.pack(">d", number) or text == "NaN"


@given(st.floats(width=32, allow_nan=False))
def test_singles_read_back_as_themselves(number: float) -> None:
    text = java_float_text(number, TypeKind.FLOAT)
    assert struct.pack(">f", float(text)) == struct.pack(">f", number)
    assert len(text) <= len(java_float_text(number, TypeKind.DOUBLE))


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999), st.sampled_from(["UTC", ZONE, "Asia/Kolkata"]))
def test_instants_round_trip_in_every_zone(micros: int, zone: str) -> None:
    encoded = encode_partition({"p": micros}, {"p": "timestamp"}, time_zone=zone)
    assert parse_partition(encoded.values, {"p": "timestamp"}, time_zone=zone) == {"p": micros}


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.1, "0.1"), (1 / 3, "0.33333334"), (16777217.0, "1.6777216E7"), (-0.0, "-0.0"), (1e-60, "0.0"),
     (3.4028235e38, "3.4028235E38"), (float("inf"), "Infinity"), (float("nan"), "NaN")],
)  # fmt: skip
def test_a_python_float_is_the_nearest_float_of_32_bits(number: float, text: str) -> None:
    encoded = encode_partition({"p": number}, {"p": "float"})
    assert (encoded.values["p"], encoded.directory) == (text, f"p={text}")
    assert encode_error({"p": -1e300}, {"p": "float"}).expected == "a float of 32 bits"
