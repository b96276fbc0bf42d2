"""Pruning of many partitions at once equals the pruning of each."""

from __future__ import annotations

from datetime import date
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import partita as pt
from partita.algebra.domains import domains_from_partition
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.prune import compile_predicate, may_match, must_match
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.arrow import apply
from partita.arrow.schema import to_schema
from tests.pruning_cases import PruningCase, pruning_cases
from tests.scalar_pruning import exclusion_reason

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("user_id", pa.int64()),
        ("country", pa.string()),
        ("event_date", pa.date32()),
        ("s", pa.string()),
        ("z", pa.binary()),
    ]
)


@given(pruning_cases(predicates=5))
@settings(suppress_health_check=list(HealthCheck))
def test_arrow_equals_the_scalar_definition(case: PruningCase) -> None:
    schema = to_schema(case.table.schema)
    spec = PartitionSpec.of(case.functions, schema, case.family)
    results = {f.name: apply(f.function, case.table[f.source], family=spec.family) for f in spec.fields}
    partitions = pa.table(results) if results else pa.table({"unpartitioned": pa.nulls(len(case.table))})
    facts = [domains_from_partition(spec, row) for row in partitions.to_pylist()]
    for predicate in case.predicates:
        compiled = compile_predicate(parse_predicate(predicate, schema), schema)
        hit = pt.prune(predicate, schema=case.table.schema, spec=spec, partitions=partitions)
        assert hit.may_match.to_pylist() == [may_match(compiled, f) for f in facts]
        assert hit.must_match.to_pylist() == [must_match(compiled, f) for f in facts]
        assert hit.reasons.to_pylist() == [exclusion_reason(compiled, f) for f in facts]


def may_match_list(where: Any, spec: str, partitions: dict[str, Any], *, family: str = "lance") -> Any:
    parsed = pt.parse_spec(spec, SCHEMA, family=family)
    return pt.prune(where, schema=SCHEMA, spec=parsed, partitions=pa.table(partitions)).may_match.to_pylist()


def test_seed_001_section_3_4_pruning_example() -> None:
    leaves = {
        "event_date": [date(2025, 12, 10)] * 2 + [date(2025, 12, 11)] * 2,
        "country": ["US", "CN", "US", "FR"],
    }
    where = "event_date = '2025-12-11' AND country != 'FR'"
    assert may_match_list(where, "event_date, country", leaves) == [False, False, True, False]
    spec = pt.parse_spec("event_date, country", SCHEMA, family="lance")
    hit = pt.prune(where, schema=SCHEMA, spec=spec, partitions=pa.table(leaves))
    assert hit.must_match.to_pylist() == [False, False, True, False]
    assert hit.reasons.to_pylist() == [
        "event_date = '2025-12-11'",
        "event_date = '2025-12-11'",
        None,
        "country != 'FR'",
    ]


def test_seed_001_section_4_2_time_range_example() -> None:
    where = "ts >= '2025-12-10T10:00:00Z' AND ts < '2025-12-11T00:00:00Z'"
    leaves = {"ts_year": [2025, 2025, 2025, 2024], "ts_month": [12, 12, 12, 12], "ts_day": [9, 10, 11, 10]}
    assert may_match_list(where, "year(ts), month(ts), day(ts)", leaves) == [False, True, False, False]


def test_icebergs_day_comes_as_a_date_or_as_its_ordinal() -> None:
    days = [date(2024, 12, 31), date(2025, 1, 1), None]
    ordinals = pa.array(days, pa.date32()).cast(pa.int32())
    for column in (pa.array(days, pa.date32()), ordinals, ordinals.cast(pa.int64())):
        assert may_match_list("ts >= '2025-01-01'", "day(ts)", {"ts_day": column}, family="iceberg") == [
            False,
            True,
            False,
        ]


def test_texts_in_dictionaries_chunks_and_many_bounds() -> None:
    texts = [f"c{n:03}" for n in range(100)]
    wanted = ", ".join(f"'{t}'" for t in texts[::2])
    plain = pa.array([*texts, None])
    chunked = pa.chunked_array([plain.slice(0, 30), plain.slice(30)])
    expected = [n % 2 == 0 for n in range(100)] + [False]
    for column in (plain, plain.dictionary_encode(), chunked, plain.cast(pa.large_string())):
        assert may_match_list(f"country IN ({wanted})", "country", {"country": column}) == expected
    assert may_match_list("country > 'c050'", "country", {"country": chunked}) == [n > 50 for n in range(100)] + [False]


def test_truncated_texts_and_bytes() -> None:
    assert may_match_list("s LIKE 'abc%'", "truncate(2, s)", {"s_trunc": ["ab", "a", "abx"[:2], "ac", None]}) == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert may_match_list("z >= X'6162'", "truncate(1, z)", {"z_trunc": [b"a", b"b", b"", b"\xff"]}) == [
        True,
        True,
        False,
        True,
    ]


def test_each_file_is_judged_by_its_own_spec() -> None:
    schema = to_schema(SCHEMA)
    history = SpecHistory.from_spec(pt.parse_spec("day(ts)", SCHEMA, family="iceberg"), schema)
    history = history.evolve(add=["country"]).evolve(drop=["ts_day"])
    files = pa.table(
        {
            "spec_id": [0, 0, 1, 1, 2, 2],
            "ts_day": [date(2025, 1, 1), date(2025, 1, 2), date(2025, 1, 2), date(2025, 1, 2), None, None],
            "country": [None, None, "FR", "US", "FR", "US"],
        }
    )
    hit = pt.prune("ts >= '2025-01-02' AND country = 'US'", schema=SCHEMA, spec=history, partitions=files)
    assert hit.may_match.to_pylist() == [False, True, False, True, False, True]
    assert hit.must_match.to_pylist() == [False, False, False, True, False, False]
    assert hit.reasons.to_pylist() == ["ts >= '2025-01-02'", None, "country = 'US'", None, "country = 'US'", None]
    none = pt.prune("country = 'US'", schema=SCHEMA, spec=history, partitions=files.slice(0, 0))
    assert (len(none.may_match), len(none.reasons)) == (0, 0)


def test_statistics_join_the_partition_values() -> None:
    spec = pt.parse_spec("country", SCHEMA, family="iceberg")
    files = pa.table({"country": ["US", "US", "FR"]})
    measured = pt.ColumnStatistics(
        pa.array([1, 100, 1]), pa.array([10, 200, 10]), pa.array([0, 0, 0]), pa.array([5, 5, 5])
    )
    hit = pt.prune(
        "country = 'US' AND user_id < 50", schema=SCHEMA, spec=spec, partitions=files, statistics={"USER_ID": measured}
    )
    assert hit.may_match.to_pylist() == [True, False, False]
    assert hit.must_match.to_pylist() == [True, False, False]
    assert hit.reasons.to_pylist() == [None, "user_id < 50", "country = 'US'"]


def test_statistics_of_floats_know_nothing_of_nan() -> None:
    schema = pa.schema([("x", pa.float64())])
    spec = pt.parse_spec("", schema, family="iceberg")
    ends = pa.array([1.0, float("nan")])
    measured = {"x": pt.ColumnStatistics(lower=ends, upper=ends, null_count=pa.array([0, 0]))}
    files = pa.table({"file": [1, 2]})

    def may(where: str) -> Any:
        return pt.prune(where, schema=schema, spec=spec, partitions=files, statistics=measured).may_match.to_pylist()

    assert may("x > 5") == [True, True]
    assert may("x < 1") == [False, True]


def test_truncated_numbers_do_not_wrap_around() -> None:
    last = 2**63 - 8
    spec = pt.parse_spec("truncate(100, user_id)", SCHEMA, family="iceberg")
    leaves = pa.table({"user_id_trunc": [last]})
    hit = pt.prune(f"user_id > {last + 3}", schema=SCHEMA, spec=spec, partitions=leaves)
    assert hit.may_match.to_pylist() == [True]


def test_partitions_that_do_not_fit() -> None:
    spec = pt.parse_spec("country, month(ts)", SCHEMA, family="lance")

    def assert_refused(match: str, partitions: pa.Table, of: Any = spec, **more: Any) -> None:
        with pytest.raises(pt.PartitionsError, match=match):
            pt.prune("country = 'US'", schema=SCHEMA, spec=of, partitions=partitions, **more)

    assert_refused("no column 'ts_month'; they have country", pa.table({"country": ["US"]}))
    assert_refused("'country'", pa.table({"country": [5], "ts_month": [1]}))
    assert_refused("a month is 1 to 12", pa.table({"country": ["US"], "ts_month": [13]}))
    assert_refused("'spec_id'", pa.table({"country": ["US"]}), SpecHistory.from_spec(spec, to_schema(SCHEMA)))
    assert_refused("not DataFrame", pd.DataFrame({"country": ["US"]}))
    assert_refused("'country' twice", pa.table([["US"], ["US"], [1]], names=["country", "country", "ts_month"]))
    one = pa.table({"country": ["US"], "ts_month": [1]})
    assert_refused("Arrow arrays", one, statistics={"user_id": pt.ColumnStatistics(lower=[1])})
    assert_refused(
        "counts must be integers", one, statistics={"user_id": pt.ColumnStatistics(null_count=pa.array(["0"]))}
    )
    with pytest.raises(pt.SpecError, match="not str"):
        pt.prune("country = 'US'", schema=SCHEMA, spec="country", partitions=one)  # type: ignore[arg-type] # refused
    short = {"user_id": pt.ColumnStatistics(lower=pa.array([1, 2]))}
    assert_refused("2 values for 1 partitions", pa.table({"country": ["US"], "ts_month": [1]}), statistics=short)
    history = SpecHistory.from_spec(spec, to_schema(SCHEMA))
    with pytest.raises(pt.UnknownSpec):
        pt.prune(
            "country = 'US'", schema=SCHEMA, spec=history, partitions=pa.table({"spec_id": [7], "country": ["US"]})
        )


def test_far_years_do_not_wrap_around() -> None:
    years = pa.array([-(2**31) + 1970, -300_000, 55, 300_000, 2**31 - 1971], pa.int32())
    assert may_match_list("ts >= '2025-01-01'", "year(ts)", {"ts_year": years}, family="iceberg") == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert may_match_list("ts < '2025-01-01'", "year(ts)", {"ts_year": years}, family="iceberg") == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_fields_of_one_name_that_hold_something_else() -> None:
    schema = pt.Schema.of({"a": "int", "b": "string"})
    first = pt.parse_spec("bucket(4, a) AS p", schema, family="iceberg")
    second = pt.parse_spec("truncate(2, b) AS p", schema, family="iceberg", spec_id=1)
    history = pt.SpecHistory(schema, (first, second), 1)
    assert [history.column_name(s, s.fields[0]) for s in history.specs] == ["p@0", "p@1"]
    bucket: Any = pt.bucket("a", 4).apply(7, family="iceberg")
    partitions = pa.table(
        {"spec_id": [0, 0, 1, 1], "p@0": [bucket, (bucket + 1) % 4, None, None], "p@1": [None, None, "xy", "zz"]}
    )
    hit = pt.prune("a = 7 AND b = 'xyz'", schema=schema, spec=history, partitions=partitions)
    assert hit.may_match.to_pylist() == [True, False, True, False]


def test_times_without_a_zone_are_in_the_one_that_is_given() -> None:
    schema = to_schema(SCHEMA)
    spec = PartitionSpec.of([pt.hour("ts")], schema, "iceberg")
    # 23:00 and 00:00 around the start of 2025 in UTC.
    hours = pa.table({"ts_hour": pa.array([482135, 482136], pa.int32())})
    where = "ts >= '2025-01-01'"
    zones = ("UTC", "+01:00")
    found = [pt.prune(where, schema=SCHEMA, spec=spec, partitions=hours, time_zone=zone) for zone in zones]
    assert [hit.must_match.to_pylist() for hit in found] == [[False, True], [True, True]]
    with pytest.raises(pt.TimeZoneError, match="Mars"):
        pt.prune(where, schema=SCHEMA, spec=spec, partitions=hours, time_zone="Mars")
