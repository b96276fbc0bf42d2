"""Pruning of one partition: examples, three-valued logic, and each kind of domain."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.domains import (
    CalendarDomain,
    ColumnDomains,
    IntervalDomain,
    NullPresence,
    domains_from_partition,
)
from partita.algebra.interval import Interval, prefix_interval
from partita.algebra.partition_functions import bucket
from partita.algebra.predicate_text import parse_predicate
from partita.algebra.prune import compile_predicate, may_match, must_match
from partita.algebra.schema import Schema
from partita.algebra.spec_text import parse_spec
from partita.algebra.step_function import FALSE, NULL, TRUE, and_truths, negate_truths, or_truths
from partita.errors import PartitionsError
from tests.scalar_pruning import domain_from_statistics, exclusion_reason

SCHEMA = Schema.of(
    {
        "event_date": "date",
        "country": "string",
        "ts": "timestamp",
        "user_id": "string",
        "i": "int",
        "s": "string",
        "b": "boolean",
        "x": "double",
        "t": "time",
    }
)

MAYBE, NO, YES = "may", "no", "must"


def verdict(where: str, facts: ColumnDomains) -> str:
    compiled = compile_predicate(parse_predicate(where, SCHEMA), SCHEMA)
    may, must = may_match(compiled, facts), must_match(compiled, facts)
    assert (exclusion_reason(compiled, facts) is None) == may
    assert may or not must
    return YES if must else MAYBE if may else NO


def partition(spec: str, *values: object, family: str = "lance") -> ColumnDomains:
    parsed = parse_spec(spec, SCHEMA, family)
    return domains_from_partition(parsed, dict(zip(parsed.names, values, strict=True)))


def why(where: str, facts: ColumnDomains) -> str | None:
    return exclusion_reason(compile_predicate(parse_predicate(where, SCHEMA), SCHEMA), facts)


def test_seed_001_section_3_4_pruning_example() -> None:
    where = "event_date = '2025-12-11' AND country != 'FR'"
    leaves = [
        (date(2025, 12, 10), "US"),
        (date(2025, 12, 10), "CN"),
        (date(2025, 12, 11), "US"),
        (date(2025, 12, 11), "FR"),
    ]
    scanned = [leaf for leaf in leaves if verdict(where, partition("event_date, country", *leaf)) != NO]
    assert scanned == [(date(2025, 12, 11), "US")]
    assert why(where, partition("event_date, country", *leaves[0])) == "event_date = '2025-12-11'"
    assert why(where, partition("event_date, country", *leaves[3])) == "country != 'FR'"


def test_seed_001_section_4_2_time_range_example() -> None:
    where = "ts >= '2025-12-10T10:00:00Z' AND ts < '2025-12-11T00:00:00Z'"
    days = [(2025, 12, 9), (2025, 12, 10), (2025, 12, 11), (2025, 11, 10), (2024, 12, 10)]
    scanned = [d for d in days if verdict(where, partition("year(ts), month(ts), day(ts)", *d)) != NO]
    assert scanned == [(2025, 12, 10)]


def test_seed_001_section_4_1_identity_example() -> None:
    assert verdict("country = 'US'", partition("country", "US")) == YES
    assert verdict("country = 'US'", partition("country", "CN")) == NO


def test_seed_001_section_4_3_bucket_example() -> None:
    mine = bucket("user_id", 16).apply("some_user_id", family="lance")
    for n in range(16):
        expected = MAYBE if n == mine else NO
        assert verdict("user_id = 'some_user_id'", partition("bucket(16, user_id)", n)) == expected
        assert verdict("user_id IN ('some_user_id', NULL)", partition("bucket(16, user_id)", n)) == expected
        assert verdict("user_id > 'some_user_id'", partition("bucket(16, user_id)", n)) == MAYBE


def test_seed_001_section_4_4_truncate_examples() -> None:
    assert verdict("s = 'abcdef'", partition("truncate(3, s)", "abc")) == MAYBE
    assert verdict("s = 'abcdef'", partition("truncate(3, s)", "abd")) == NO
    assert verdict("s LIKE 'ab%'", partition("truncate(3, s)", "abc")) == YES
    assert verdict("s LIKE 'abcd%'", partition("truncate(3, s)", "abc")) == MAYBE
    assert verdict("s LIKE 'abcd%'", partition("truncate(3, s)", "ab")) == NO
    # The seed says that `i > 125` excludes partitions <= 120, but 120 holds the numbers up to 129.
    assert [verdict("i > 125", partition("truncate(10, i)", n)) for n in (110, 120, 130)] == [NO, MAYBE, YES]


def test_seed_001_section_4_5_hash_example() -> None:
    assert verdict("i = 34", partition("hash(i)", "783ca153")) == MAYBE
    assert verdict("i = 35", partition("hash(i)", "783ca153")) == NO
    assert verdict("i > 34", partition("hash(i)", "783ca153")) == MAYBE


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("i NOT IN (1, NULL)", 1, NO),
        ("i NOT IN (1, NULL)", 2, NO),
        ("i IN (1, NULL)", 1, YES),
        ("NOT (i IN (2, NULL))", 1, NO),
        ("i != 1", None, NO),
        ("NOT i = 1", None, NO),
        ("i <=> NULL", None, YES),
        ("i <=> 1", None, NO),
        ("NOT i <=> 1", None, YES),
        ("i IS NULL OR i > 5", None, YES),
        ("i = 1 OR NULL", 1, YES),
        ("i = 1 OR NULL", 2, NO),
        ("i = 1 AND NULL", 1, NO),
        ("NOT (i = 1 AND NULL)", 2, YES),
        ("i = NULL", 1, NO),
        ("i > 0 AND length(s) > 2", 1, MAYBE),
        ("i > 0 AND length(s) > 2", 0, NO),
        ("i > 0 OR length(s) > 2", 1, YES),
        ("NOT (i > 0 AND length(s) > 2)", 0, YES),
        ("TRUE", 1, YES),
        ("FALSE", 1, NO),
    ],
)
def test_three_valued_logic(where: str, value: int | None, expected: str) -> None:
    assert verdict(where, partition("i", value)) == expected


def test_nan_sorts_above_all_else_and_equals_itself() -> None:
    nan = partition("x", float("nan"), family="iceberg")
    assert verdict("x > double('Infinity')", nan) == YES
    assert verdict("x = CAST('NaN' AS DOUBLE)", nan) == YES
    assert verdict("x < 5", nan) == NO
    assert verdict("x = 0", partition("x", -0.0, family="iceberg")) == YES


def test_several_fields_on_one_column_are_joined() -> None:
    where = "ts >= '2025-06-01T08:00:00Z' AND ts < '2025-06-01T12:00:00Z'"
    assert verdict(where, partition("year(ts), hour(ts)", 2025, 7)) == NO
    assert verdict(where, partition("year(ts), hour(ts)", 2025, 8)) == MAYBE
    assert verdict(where, partition("month(ts)", 7)) == NO
    assert verdict(where, partition("month(ts), day(ts)", 6, 1)) == MAYBE
    assert verdict(where, partition("month(ts), day(ts)", 6, 2)) == NO
    assert verdict("ts < '2025-01-01'", partition("month(ts), day(ts)", 2, 29)) == MAYBE
    assert verdict("i = 15", partition("truncate(10, i), bucket(4, i)", 20, 0)) == NO
    assert why(where, partition("hour(ts)", 7)) == where


def test_the_hour_of_a_time() -> None:
    assert verdict("t >= TIME '07:00:00' AND t < TIME '08:00:00'", partition("hour(t)", 7)) == YES
    assert verdict("t >= TIME '07:30:00'", partition("hour(t)", 6)) == NO


def test_icebergs_ordinals() -> None:
    where = "ts >= '1969-12-31T23:00:00Z' AND ts < '1970-01-01'"
    assert verdict(where, partition("hour(ts)", -1, family="iceberg")) == YES
    assert verdict(where, partition("day(ts)", -1, family="iceberg")) == MAYBE
    assert verdict(where, partition("day(ts)", date(1969, 12, 31), family="iceberg")) == MAYBE
    assert verdict(where, partition("month(ts)", 0, family="iceberg")) == NO
    assert verdict("event_date < '1970-01-01'", partition("year(event_date)", -1, family="iceberg")) == YES


def test_void_and_unknown_say_nothing() -> None:
    assert verdict("i = 1", partition("void(i)", None, family="iceberg")) == MAYBE


def test_statistics() -> None:
    def file(lower: object, upper: object, nulls: NullPresence) -> ColumnDomains:
        return {"i": (domain_from_statistics(lower, upper, nulls, SCHEMA.find_field("i").type),)}

    assert verdict("i > 5", file(1, 5, NullPresence.NEVER)) == NO
    assert verdict("i >= 1", file(1, 5, NullPresence.NEVER)) == YES
    assert verdict("i >= 1", file(1, 5, NullPresence.POSSIBLE)) == MAYBE
    assert verdict("i IS NULL", file(1, 5, NullPresence.NEVER)) == NO
    assert verdict("i IS NULL", file(None, None, NullPresence.ALWAYS)) == YES
    assert verdict("i IN (1, 2, 3)", file(1, 3, NullPresence.NEVER)) == YES
    assert verdict("i > 5", file(1, None, NullPresence.NEVER)) == MAYBE
    assert verdict("i > 5", {}) == MAYBE
    floats: ColumnDomains = {"x": (domain_from_statistics(1.0, 2.0, NullPresence.NEVER, SCHEMA.find_field("x").type),)}
    assert verdict("x > 3", floats) == MAYBE
    assert verdict("x < 1", floats) == NO


def test_nan_as_a_bound_of_statistics_is_unknown() -> None:
    ends: ColumnDomains = {
        "x": (domain_from_statistics(float("nan"), float("nan"), NullPresence.NEVER, SCHEMA.find_field("x").type),)
    }
    assert verdict("x < 5", ends) == MAYBE


def test_leap_days_are_found_across_a_century_that_skips_one() -> None:
    leap_day = partition("month(ts), day(ts)", 2, 29)
    assert verdict("ts >= '1896-03-01' AND ts < '1904-02-29'", leap_day) == NO
    assert verdict("ts >= '1896-03-01' AND ts < '1904-03-01'", leap_day) == MAYBE
    assert verdict("ts >= '1896-03-01'", leap_day) == MAYBE
    assert verdict("ts < '1904-02-29'", leap_day) == MAYBE


def test_the_prefix_before_the_surrogates_ends_after_them() -> None:
    assert prefix_interval("\ud7ff") == Interval("\ud7ff", "\ue000", upper_open=True)
    assert prefix_interval("a\U0010ffff") == Interval("a\U0010ffff", "b", upper_open=True)
    assert prefix_interval("\U0010ffff") == Interval("\U0010ffff", None)


@pytest.mark.parametrize(
    ("op", "below", "at", "above"),
    [
        ("=", NO, YES, NO),
        ("!=", YES, NO, YES),
        ("<", YES, NO, NO),
        ("<=", YES, YES, NO),
        (">", NO, NO, YES),
        (">=", NO, YES, YES),
        ("<=>", NO, YES, NO),
    ],
)
def test_comparisons_below_at_and_above(op: str, below: str, at: str, above: str) -> None:
    assert [verdict(f"i {op} 5", partition("i", n)) for n in (4, 5, 6)] == [below, at, above]


def test_partitions_that_do_not_fit_their_spec() -> None:
    with pytest.raises(PartitionsError, match="'country'"):
        partition("country", 5)
    with pytest.raises(PartitionsError, match="no month 13"):
        partition("month(ts)", 13)
    with pytest.raises(PartitionsError, match="no value for its field 'i'"):
        domains_from_partition(parse_spec("i", SCHEMA, "lance"), {})


ANSWERS = {TRUE: True, FALSE: False, NULL: None}


@given(st.integers(0, 7), st.integers(0, 7))
def test_sets_of_answers_follow_kleene(a: int, b: int) -> None:
    members = [[answer for bit, answer in ANSWERS.items() if mask & bit] for mask in (a, b)]

    def mask(answers: list[Any]) -> int:
        return sum({bit for bit, answer in ANSWERS.items() if answer in answers})

    pairs = [(p, q) for p in members[0] for q in members[1]]
    assert and_truths(a, b) == mask([False if False in pair else None if None in pair else True for pair in pairs])
    assert or_truths(a, b) == mask([True if True in pair else None if None in pair else False for pair in pairs])
    assert negate_truths(a) == mask([None if p is None else not p for p in members[0]])


@given(st.text(max_size=4), st.text(max_size=6))
def test_a_prefix_range_holds_just_what_starts_with_it(prefix: str, text: str) -> None:
    def inside(known: Interval, value: Any) -> bool:
        below = known.upper is None or (value < known.upper if known.upper_open else value <= known.upper)
        return bool((known.lower is None or known.lower <= value) and below)

    assert inside(prefix_interval(prefix), text) == text.startswith(prefix)
    assert inside(prefix_interval(prefix), prefix + text)
    octets, cut = text.encode(), prefix.encode()
    assert inside(prefix_interval(cut), octets) == octets.startswith(cut)


moments = st.datetimes(min_value=datetime(1890, 1, 1), max_value=datetime(2110, 1, 1))  # noqa: DTZ001 - UTC is added


@given(moments, moments, st.sets(st.sampled_from(["year", "month", "day", "hour"]), min_size=1))
def test_parts_of_the_calendar_never_lose_a_moment(at: datetime, bound: datetime, names: set[str]) -> None:
    parts = CalendarDomain(**{name: getattr(at, name) for name in names})
    compiled = compile_predicate(parse_predicate(f"ts < TIMESTAMP '{bound}Z'", SCHEMA), SCHEMA)
    facts: ColumnDomains = {"ts": (parts,)}
    assert may_match(compiled, facts) or at >= bound
    assert not must_match(compiled, facts) or at < bound
    same = compile_predicate(parse_predicate(f"ts = TIMESTAMP '{at}Z'", SCHEMA), SCHEMA)
    assert may_match(same, facts)
    other = compile_predicate(parse_predicate(f"ts = TIMESTAMP '{bound}Z'", SCHEMA), SCHEMA)
    assert may_match(other, facts) == all(getattr(at, n) == getattr(bound, n) for n in names)


def test_within_is_everything_by_default() -> None:
    assert verdict("ts > '2025-01-01'", {"ts": (IntervalDomain(),)}) == MAYBE
    assert datetime(2025, 1, 1, tzinfo=UTC).year == 2025
