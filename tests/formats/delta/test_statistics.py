"""Statistics of files are parsed from JSON into Arrow; a value that can't be parsed is unknown, others are kept."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.schema import Schema
from partita.algebra.spark_json import schema_from_json
from partita.arrow.prune import ColumnStatistics
from partita.formats.delta.log import DeltaLog, physical_names
from partita.formats.delta.statistics import file_statistics, row_counts
from partita.storage import Storage


def stats_table(*stats: str | None) -> pa.Table:
    return pa.table({"stats": pa.chunked_array([pa.array(stats, pa.string())])})


def stats_json(least: Any, greatest: Any, nulls: Any = 0, rows: Any = 1) -> str:
    return (
        f'{{"numRecords":{json.dumps(rows)},"minValues":{{"c":{least}}},'
        f'"maxValues":{{"c":{greatest}}},"nullCount":{{"c":{json.dumps(nulls)}}}}}'
    )


def column_bounds(type_: str, *stats: str | None) -> list[tuple[Any, Any]]:
    statistics = file_statistics(stats_table(*stats), Schema.of({"c": type_}), {}).get("c", ColumnStatistics())
    nothing = [None] * len(stats)
    lower, upper = (nothing if array is None else array.to_pylist() for array in (statistics.lower, statistics.upper))
    return list(zip(lower, upper, strict=True))


@pytest.mark.parametrize(
    ("type_", "least", "greatest", "expected"),
    [
        ("byte", "-128", "127", (-128, 127)),
        ("int", "0", "0", (0, 0)),
        ("long", "-9223372036854775808", "9007199254740993", (-(2**63), 2**53 + 1)),
        ("float", "0.1", "3.4028235e38", (0.10000000149011612, 3.4028234663852886e38)),
        ("double", "-0.0", "1e300", (0.0, 1e300)),
        ("string", '""', '"z\\u00e9\\udbff\\udfff"', ("", "zé\U0010ffff")),
        ("date", '"0001-01-01"', '"2025-01-15"', (date(1, 1, 1), date(2025, 1, 15))),
        ("decimal(15,2)", "0.1", "1234567890123.45", (Decimal("0.10"), Decimal("1234567890123.45"))),
        ("decimal(5,2)", "1E+2", '"1.5"', (Decimal("100.00"), Decimal("1.50"))),
    ],
)
def test_ends_of_each_type(type_: str, least: str, greatest: str, expected: Any) -> None:
    for stats in (
        [stats_json(least, greatest)],
        [None, stats_json(least, greatest), stats_json("null", "null"), "damaged"],
    ):
        assert expected in column_bounds(type_, *stats)
        assert all(bounds in (expected, (None, None)) for bounds in column_bounds(type_, *stats))


def moment_from_micros(micros: int, zone: Any = UTC) -> datetime:
    return datetime(2025, 1, 15, 10, 30, 0, micros, zone)


@pytest.mark.parametrize(
    ("text", "least", "greatest"),
    [
        ("2025-01-15T10:30:00.123456Z", 123456, 123456),
        ("2025-01-15T10:30:00.123Z", 123000, 123999),
        ("2025-01-15T10:30:00Z", 0, 999),
        ("2025-01-15T12:30:00.123+02:00", 123000, 123999),
        ("2025-01-15T02:30:00.123456-0800", 123456, 123456),
        ("2025-01-15 10:30:00.123Z", 123000, 123999),
    ],
)
def test_a_greatest_instant_stands_for_its_millisecond(text: str, least: int, greatest: int) -> None:
    for others in ([], ["not a time"]):
        stats = [stats_json(json.dumps(each), json.dumps(each)) for each in (text, *others)]
        assert column_bounds("timestamp", *stats) == [
            (moment_from_micros(least), moment_from_micros(greatest)),
            *((None, None) for _ in others),
        ]


@pytest.mark.parametrize("behind", ["", "Z"])
@pytest.mark.parametrize("between", ["T", " "])
def test_local_times(behind: str, between: str) -> None:
    text = json.dumps(f"2025-01-15{between}10:30:00.123{behind}")
    assert column_bounds("timestamp_ntz", stats_json(text, text)) == [
        (moment_from_micros(123000, None), moment_from_micros(123999, None))
    ]


def test_an_instant_without_a_zone_could_be_any() -> None:
    text = '"2025-01-15T10:30:00.123"'
    assert column_bounds("timestamp", stats_json(text, text)) == [(None, None)]


def test_days_and_instants_beyond_python() -> None:
    schema = Schema.of({"d": "date", "t": "timestamp"})
    stats = '{"maxValues":{"d":"+10000-01-01","t":"+10000-01-01T00:00:00.000Z"}}'
    statistics = file_statistics(stats_table(stats), schema, {})
    assert statistics["d"].upper.cast(pa.int32()).to_pylist() == [2932897]  # type: ignore[union-attr] # said above
    assert statistics["t"].upper.cast(pa.int64()).to_pylist() == [2932897 * 86_400_000_000 + 999]  # type: ignore[union-attr] # the same


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.booleans())
def test_decimals_hold_even_if_they_went_over_a_double(unscaled: int, exact: bool) -> None:
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -10))
    text = str(value) if exact else json.dumps(float(value))
    [(lower, upper)] = column_bounds("decimal(38,10)", stats_json(text, text))
    assert lower is None or lower <= value
    assert upper is None or upper >= value
    assert not exact or (lower is not None and upper is not None)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", '"1"'),
        ("int", "1.5"),
        ("int", "2147483648"),
        ("int", "true"),
        ("int", "{}"),
        ("int", "[1]"),
        ("double", '"NaN"'),
        ("double", '"Infinity"'),
        ("double", "1e999"),
        ("string", "1"),
        ("string", '"\\ud800"'),
        ("date", '"2025-02-30"'),
        ("date", '"yesterday"'),
        ("date", "1"),
        ("timestamp", '"10:30"'),
        ("timestamp", '"2025-01-15T10:30:00.123456789Z"'),
        ("timestamp", '"+300000-01-01T00:00:00.000Z"'),
        ("decimal(4,2)", "1e999999"),
        ("decimal(4,2)", '"x"'),
        ("decimal(4,2)", "true"),
    ],
)
def test_an_unusable_bound_is_unknown(type_: str, value: str) -> None:
    good = {"string": '"a"', "date": '"2025-01-15"', "timestamp": '"2025-01-15T10:30:00.000000Z"'}.get(type_, "2")
    stats = [stats_json(good, good), stats_json(value, value, nulls=3, rows=9), stats_json(good, good)]
    first, odd, last = column_bounds(type_, *stats)
    assert first == last
    assert None not in first
    assert odd == (None, None)
    statistics = file_statistics(stats_table(*stats), Schema.of({"c": type_}), {})["c"]
    assert statistics.null_count is not None
    assert statistics.null_count.to_pylist() == [0, 3, 0]
    assert row_counts(stats_table(*stats)).to_pylist() == [1, 9, 1]


def test_a_decimal_with_more_digits_than_its_type_is_rounded_outwards() -> None:
    assert column_bounds("decimal(4,2)", stats_json("1.239", "1.231")) == [(Decimal("1.23"), Decimal("1.24"))]
    assert column_bounds("decimal(4,2)", stats_json("-1.231", "-1.239")) == [(Decimal("-1.24"), Decimal("-1.23"))]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"numRecords":1}{"numRecords":2}', '{"numRecords":"1"}', "{}"]
)
def test_unusable_statistics_of_one_file_leave_the_others(text: str) -> None:
    counts = row_counts(stats_table(stats_json(1, 2, rows=5), text, None, stats_json(1, 2, rows=6)))
    assert counts.type == pa.int64()
    assert counts.to_pylist() == [5, None, None, 6]


def test_a_text_over_several_lines() -> None:
    pretty = json.dumps(json.loads(stats_json(1, 2, rows=5)), indent=2)
    assert row_counts(stats_table(pretty, pretty)).to_pylist() == [5, 5]
    assert column_bounds("int", pretty, stats_json(3, 4)) == [(1, 2), (3, 4)]


def test_negative_counts_are_unknown() -> None:
    assert row_counts(stats_table(stats_json(1, 2, rows=-1), stats_json(1, 2, rows=0))).to_pylist() == [None, 0]


def test_a_damaged_text_among_many() -> None:
    stats = [stats_json(moment_from_micros, moment_from_micros) for moment_from_micros in range(3000)]
    stats[1500] = stats_json('"x"', 1500)
    bounds = column_bounds("int", *stats)
    assert bounds[1500] == (None, 1500)
    assert bounds[:1500] + bounds[1501:] == [
        (moment_from_micros, moment_from_micros) for moment_from_micros in range(3000) if moment_from_micros != 1500
    ]


def test_columns_go_by_their_physical_names() -> None:
    stats = '{"minValues":{"col-1":1,"A":7},"nullCount":{"col-1":0}}'
    statistics = file_statistics(stats_table(stats), Schema.of({"A": "int", "b": "int"}), {"A": "col-1", "b": "col-2"})
    assert list(statistics) == ["A"]
    assert (statistics["A"].lower, statistics["A"].upper) == (pa.array([1], pa.int32()), None)


def test_only_the_columns_asked_for() -> None:
    stats = '{"numRecords":2,"minValues":{"a":1,"b":"never read as a number"},"nullCount":{"a":0,"b":0}}'
    schema = Schema.of({"a": "int", "b": "int"})
    assert list(file_statistics(stats_table(stats), schema, {}, columns=["a"])) == ["a"]
    assert file_statistics(stats_table(stats), schema, {}, columns=[]) == {}
    assert file_statistics(stats_table(), schema, {}) == {}
    assert file_statistics(stats_table(None, None), schema, {}) == {}


def test_booleans_and_bytes_have_counts_only_and_structs_nothing() -> None:
    stats = '{"minValues":{"b":false,"y":"AA","s":{"i":1}},"nullCount":{"b":1,"y":2,"s":{"i":3}},"numRecords":4}'
    statistics = file_statistics(
        stats_table(stats), Schema.of({"b": "boolean", "y": "binary", "s": "struct<i:int>"}), {}
    )
    assert sorted(statistics) == ["b", "y"]
    for name, nulls in (("b", 1), ("y", 2)):
        assert (statistics[name].lower, statistics[name].upper) == (None, None)
        assert (statistics[name].null_count, statistics[name].row_count) == (pa.array([nulls]), pa.array([4]))


def test_statistics_of_delta_rs_hold(tmp_path: Path) -> None:
    instants = [moment_from_micros(123456), moment_from_micros(999999), None]
    table = pa.table(
        {
            "i": pa.array([3, 1, None], pa.int16()),
            "d": pa.array([date(2025, 1, 15), date(1, 1, 1), None]),
            "t": pa.array(instants, pa.timestamp("us", "UTC")),
            "n": pa.array([i and i.replace(tzinfo=None) for i in instants], pa.timestamp("us")),
            "c": pa.array([Decimal("12345678901234567890.12"), Decimal("-0.01"), None], pa.decimal128(22, 2)),
            "s": ["z" * 100, "é", None],
            "f": pa.array([0.1, -0.2, None], pa.float32()),
        }
    )
    write_deltalake(tmp_path, table)
    snapshot = DeltaLog(Storage.from_uri(tmp_path)).snapshot()
    statistics = file_statistics(
        snapshot.files, schema_from_json(snapshot.metadata.schema_json), physical_names(snapshot.metadata)
    )
    assert sorted(statistics) == sorted(table.column_names)
    for name in table.column_names:
        values = table[name].drop_null().to_pylist()
        [lower], [upper] = statistics[name].lower.to_pylist(), statistics[name].upper.to_pylist()  # type: ignore[union-attr] # all known
        assert lower <= min(values), name
        assert upper >= max(values), name
        assert statistics[name].null_count.to_pylist() == [1]  # type: ignore[union-attr] # the same
