"""Specs from text and JSON, and their evolution."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.partition_functions import bucket, day, identity, month, truncate, year
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.algebra.spec_text import parse_spec, spec_to_json
from partita.errors import (
    PartitaError,
    SpecError,
    SpecFormatError,
    TransformError,
    UnknownColumn,
    UnknownSpec,
)

SCHEMA = Schema.of(
    {
        "ts": "timestamp",
        "user_id": "long",
        "name": "string",
        "country": "string",
        "Region": "string",
        "price": "double",
        "event_date": "date",
        "tenant_id": "string",
        "at": "time",
        "odd name": "string",
        "place": "struct<city:string,zip:int>",
    }
)


def field_descriptions(spec: PartitionSpec) -> list[tuple[str, str, str, int]]:
    return [(f.name, f.source, str(f.transform), f.field_id) for f in spec.fields]


def test_text_is_parsed_into_functions_columns_and_names() -> None:
    spec = parse_spec("day(ts), bucket(16, user_id), truncate(3, name) AS letters, COUNTRY", SCHEMA, "iceberg")
    assert (spec.spec_id, spec.family) == (0, "iceberg")
    assert field_descriptions(spec) == [
        ("ts_day", "ts", "day", 1000),
        ("user_id_bucket", "user_id", "bucket[16]", 1001),
        ("letters", "name", "truncate[3]", 1002),
        ("country", "country", "identity", 1003),
    ]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("days(ts)", "day(ts)"),
        ("bucket(user_id, 16)", "bucket(16, user_id)"),
        ("`odd name`", "`odd name`"),
        ("PLACE.City", "place.city"),
        ("  year( ts ) ,month(ts)", "year(ts), month(ts)"),
        ("", ""),
    ],
)
def test_other_spellings(text: str, same: str) -> None:
    assert parse_spec(text, SCHEMA, "lance") == parse_spec(same, SCHEMA, "lance")


@pytest.mark.parametrize(
    "text", ["day(ts), bucket(16, user_id), truncate(3, name) AS `the letters`, country", "`odd name`", "place.city"]
)
def test_the_text_of_a_spec_parses_to_it(text: str) -> None:
    spec = parse_spec(text, SCHEMA, "iceberg")
    assert parse_spec(str(spec), SCHEMA, "iceberg") == spec


def test_seed_001_section_3_1_metadata_example() -> None:
    columns = (
        '[{"name": "event_date", "function": "identity"}, '
        '{"name": "tenant_id", "function": "bucket", "properties": {"num_buckets": "100"}}]'
    )
    spec = parse_spec(columns, SCHEMA, "lance")
    assert field_descriptions(spec) == [
        ("event_date", "event_date", "identity", 1000),
        ("tenant_id_bucket", "tenant_id", "bucket[100]", 1001),
    ]
    assert parse_spec(json.loads(columns), SCHEMA, "lance") == spec


def test_json_defaults_to_identity_and_reads_numbers_and_truncate_with_its_width() -> None:
    columns = [
        {"name": "country"},
        {"name": "name", "function": "truncate(3)"},
        {"name": "tenant_id", "function": "truncate", "properties": {"width": 2}},
    ]
    assert str(parse_spec(columns, SCHEMA, "lance")) == "country, truncate(3, name), truncate(2, tenant_id)"


def test_json_is_written_with_the_seeds_strings_and_the_hash() -> None:
    spec = parse_spec("event_date, bucket(100, tenant_id), hash(name), year(ts)", SCHEMA, "lance")
    assert json.loads(spec_to_json(spec)) == [
        {"name": "event_date", "function": "identity"},
        {"name": "tenant_id", "function": "bucket", "properties": {"num_buckets": "100", "hash": "murmur3_32"}},
        {"name": "name", "function": "hash", "properties": {"hash": "murmur3_32"}},
        {"name": "ts", "function": "year"},
    ]
    assert parse_spec(spec_to_json(spec), SCHEMA, "lance") == spec


@pytest.mark.parametrize(
    ("text", "family", "function", "column", "data_type"),
    [
        ("bucket(4, price)", "iceberg", "bucket[4]", "price", "double"),
        ("year(name)", "iceberg", "year", "name", "string"),
        ("hour(event_date)", "iceberg", "hour", "event_date", "date"),
        ("hour(event_date)", "lance", "hour", "event_date", "date"),
        ("hour(at)", "iceberg", "hour", "at", "time"),
        ("year(at)", "lance", "year", "at", "time"),
        ("truncate(3, ts)", "iceberg", "truncate[3]", "ts", "timestamp"),
        ("hash(name)", "iceberg", "hash", "name", "string"),
        ("void(name)", "lance", "void", "name", "string"),
        ("price", "lance", "identity", "price", "double"),
        ("place", "iceberg", "identity", "place", "struct<city:string,zip:int>"),
    ],
)
def test_a_type_that_a_function_does_not_take_is_refused_by_name(
    text: str, family: str, function: str, column: str, data_type: str
) -> None:
    with pytest.raises(TransformError) as caught:
        parse_spec(text, SCHEMA, family)
    assert (caught.value.function, caught.value.column, caught.value.data_type) == (function, column, data_type)
    assert all(part in str(caught.value) for part in (function, column, data_type))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("day(ts", "')' is missing\n  day(ts\n        ^"),
        ("bucket(user_id)", "needs its num_buckets"),
        ("truncate(0, name)", "positive"),
        ("bucket(99999999999999999999, user_id)", "positive"),
        ("day(ts, 3)", "takes no number"),
        ("week(ts)", "unknown partition function 'week'"),
        ("day(ts),", "missing after the comma"),
        ("day(ts) country", "',' is missing"),
        ('"ts"', '\n  "ts"\n  ^'),
        ("[1]", "JSON object"),
        ("[{]", "must be JSON"),
        ('[{"function": "day"}]', "'name'"),
        ('[{"name": "ts", "function": "day(3)"}]', "takes no number"),
        ('[{"name": "ts", "function": 3}]', "not a function"),
        ('[{"name": "name", "function": "hash", "properties": {"hash": "xxhash"}}]', "xxhash"),
    ],
)
def test_invalid_spec_texts(text: str, says: str) -> None:
    with pytest.raises(SpecFormatError) as caught:
        parse_spec(text, SCHEMA, "lance")
    assert says in str(caught.value)


def test_unknown_columns_families_and_duplicates() -> None:
    with pytest.raises(UnknownColumn, match="nope"):
        parse_spec("nope", SCHEMA, "iceberg")
    with pytest.raises(SpecError, match="'delta'"):
        parse_spec("country", SCHEMA, "delta")
    with pytest.raises(SpecError, match="twice"):
        parse_spec("country, COUNTRY", SCHEMA, "iceberg")
    with pytest.raises(SpecError, match="two partition fields are called 'Shard'"):
        parse_spec("bucket(4, user_id) AS shard, bucket(8, user_id) AS Shard", SCHEMA, "iceberg")
    with pytest.raises(SpecError, match="name of a column"):
        parse_spec("day(ts) AS country", SCHEMA, "iceberg")


def test_ambiguous_columns_are_refused() -> None:
    with pytest.raises(UnknownColumn, match="ambiguous"):
        parse_spec("aB", Schema.of({"ab": "int", "AB": "int"}), "iceberg")


def history(text: str = "day(ts)") -> SpecHistory:
    return SpecHistory.from_spec(parse_spec(text, SCHEMA, "iceberg"), SCHEMA)


def test_adding_dropping_and_renaming_make_new_specs() -> None:
    grown = history().evolve(add=["region", bucket("user_id", 16)])
    assert field_descriptions(grown.current) == [
        ("ts_day", "ts", "day", 1000),
        ("Region", "Region", "identity", 1001),
        ("user_id_bucket", "user_id", "bucket[16]", 1002),
    ]
    changed = grown.evolve(drop=["ts_day"], rename={"user_id_bucket": "shard"})
    assert field_descriptions(changed.current) == [
        ("Region", "Region", "identity", 1001),
        ("shard", "user_id", "bucket[16]", 1002),
    ]
    assert [s.spec_id for s in changed.specs] == [0, 1, 2]
    assert changed.current_spec_id == 2
    assert changed.spec(0) == history().current


def test_an_equivalent_field_keeps_its_id_and_a_new_one_never_takes_a_used_one() -> None:
    dropped = history("day(ts), country").evolve(drop=["country"])
    replaced = dropped.evolve(add=[month("ts")])
    again = replaced.evolve(add=["country", year("ts")])
    assert [(f.name, f.field_id) for f in again.current.fields] == [
        ("ts_day", 1000),
        ("ts_month", 1002),
        ("country", 1001),
        ("ts_year", 1003),
    ]


def test_a_spec_that_the_table_has_had_becomes_current_again() -> None:
    there = history().evolve(add=["country"])
    back = there.evolve(drop=[identity("country")])
    assert (back.current_spec_id, len(back.specs)) == (0, 2)


def test_refused_evolutions() -> None:
    table = history("day(ts), country")
    with pytest.raises(SpecError, match="country is a partition field twice"):
        table.evolve(add=["country"])
    with pytest.raises(SpecError, match="no partition field 'nope'"):
        table.evolve(drop=["nope"])
    with pytest.raises(SpecError, match="no partition field year"):
        table.evolve(drop=[year("ts")])
    with pytest.raises(SpecError, match="two partition fields are called"):
        table.evolve(add=[bucket("user_id", 4).alias("TS_DAY")])
    with pytest.raises(SpecError, match="name of a column"):
        table.evolve(rename={"ts_day": "price"})
    with pytest.raises(SpecError, match="both dropped and renamed"):
        table.evolve(drop=[day("ts")], rename={"ts_day": "x"})
    with pytest.raises(TransformError, match="price"):
        table.evolve(add=[truncate("price", 3)])


def test_an_unknown_spec_names_itself_and_the_known_ones() -> None:
    with pytest.raises(UnknownSpec) as caught:
        history().evolve(add=["country"]).spec(99)
    assert (caught.value.spec_id, caught.value.known) == (99, (0, 1))
    assert "99" in str(caught.value)
    assert "0, 1" in str(caught.value)


_SPEC_PIECES = st.sampled_from(
    ["day", "bucket", "ts", "16", "(", ")", ",", "`", " AS ", "[", "{", '"name"', ":", "\x00", "é"]
)


@given(st.one_of(st.text(max_size=60), st.lists(_SPEC_PIECES, max_size=12).map("".join)))
def test_fuzz_raises_nothing_but_our_errors(text: str) -> None:
    try:
        parsed = parse_spec(text, SCHEMA, "iceberg")
    except PartitaError:
        return
    assert parse_spec(str(parsed), SCHEMA, "iceberg") == parsed
