"""Partition evolution by the format's rules, for both versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType, TimestamptzType

from partita.algebra.partition_functions import bucket, day, hash, hour, identity, month, truncate, void, year  # noqa: A004
from partita.algebra.transforms import PartitionFunction, UnknownTransform
from partita.errors import CommitConflict, SpecError, TableError, TransformError, UnknownColumn
from partita.formats.iceberg.spec_evolution import evolve_spec
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    data_file,
    new_table,
    partition_spec,
    reload_table,
    table_ids,
    with_interference,
)

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "Region", StringType()),
    NestedField(3, "ts", TimestamptzType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "place", StructType(NestedField(6, "country", StringType()))),
    NestedField(7, "tags", ListType(8, StringType())),
)
START = partition_spec((3, "day", "ts_day"), (1, "bucket[16]", "shard"))

Field = tuple[int, int, str, str]


def fields(table: Table, spec_id: int | None = None) -> list[Field]:
    """Return field id, source id, transform and name of each field, as the catalog has them."""
    fresh = reload_table(table)
    spec = fresh.spec() if spec_id is None else fresh.specs()[spec_id]
    return [(f.field_id, f.source_id, str(f.transform), f.name) for f in spec.fields]


@pytest.fixture(params=[1, 2])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return new_table(tmp_path, SCHEMA, START, version=request.param)


@pytest.fixture
def v1(tmp_path: Path) -> Table:
    return new_table(tmp_path, SCHEMA, START, version=1)


@pytest.fixture
def v2(tmp_path: Path) -> Table:
    return new_table(tmp_path, SCHEMA, START, version=2)


def test_added_fields_get_new_ids(table: Table) -> None:
    evolve_spec(table, add=["region", truncate("id", 10), "place.country"])
    assert fields(table) == [
        (1000, 3, "day", "ts_day"),
        (1001, 1, "bucket[16]", "shard"),
        (1002, 2, "identity", "Region"),
        (1003, 1, "truncate[10]", "id_trunc"),
        (1004, 7, "identity", "place.country"),
    ]
    assert table.metadata.last_partition_id == reload_table(table).metadata.last_partition_id == 1004
    assert table.metadata.default_spec_id == 1


def test_dropped_fields_go_in_version_2(v2: Table) -> None:
    evolve_spec(v2, drop=[day("ts")])
    assert fields(v2) == [(1001, 1, "bucket[16]", "shard")]
    evolve_spec(v2, drop=["SHARD"])
    assert fields(v2) == []


def test_dropped_fields_are_void_in_version_1(v1: Table) -> None:
    evolve_spec(v1, drop=["ts_day"])
    assert fields(v1) == [(1000, 3, "void", "ts_day"), (1001, 1, "bucket[16]", "shard")]
    evolve_spec(v1, drop=["shard"], add=[hour("ts")])
    assert fields(v1) == [(1000, 3, "void", "ts_day"), (1001, 1, "void", "shard"), (1002, 3, "hour", "ts_hour")]


def test_a_field_that_was_there_before_keeps_its_id_in_version_2(v2: Table) -> None:
    evolve_spec(v2, drop=["ts_day"], add=[hour("ts")])
    evolve_spec(v2, drop=["ts_hour"], add=[day("ts").alias("d"), year("ts")])
    assert fields(v2) == [(1001, 1, "bucket[16]", "shard"), (1000, 3, "day", "d"), (1003, 3, "year", "ts_year")]
    evolve_spec(v2, drop=["d", "ts_year"], add=[hour("ts")])
    assert fields(v2) == [(1001, 1, "bucket[16]", "shard"), (1002, 3, "hour", "ts_hour")]
    assert v2.metadata.default_spec_id == 1


def test_a_field_that_was_there_before_is_a_new_one_in_version_1(v1: Table) -> None:
    evolve_spec(v1, drop=["ts_day"])
    evolve_spec(v1, add=[day("ts")])
    assert fields(v1) == [
        (1000, 3, "void", "ts_day_1000"), (1001, 1, "bucket[16]", "shard"), (1002, 3, "day", "ts_day"),
    ]  # fmt: skip
    evolve_spec(v1, drop=["ts_day"])
    assert fields(v1)[2] == (1002, 3, "void", "ts_day")


def test_an_earlier_spec_is_taken_up_again(v2: Table) -> None:
    evolve_spec(v2, add=["region"])
    evolve_spec(v2, drop=["region"])
    assert (v2.metadata.default_spec_id, len(v2.metadata.partition_specs)) == (0, 2)
    evolve_spec(v2, add=["region"])
    assert (v2.metadata.default_spec_id, len(v2.metadata.partition_specs)) == (1, 2)


def test_the_order_of_fields_counts(v2: Table) -> None:
    evolve_spec(v2, drop=["ts_day"], add=[day("ts")])
    # Dropped and added at once, the field is at the end.
    assert [name for _, _, _, name in fields(v2)] == ["shard", "ts_day"]
    assert v2.metadata.default_spec_id == 1


def test_rename(table: Table) -> None:
    evolve_spec(table, rename={"Shard": "part", "ts_day": "d"})
    assert fields(table) == [(1000, 3, "day", "d"), (1001, 1, "bucket[16]", "part")]
    evolve_spec(table, rename={"d": "part", "part": "d"})
    assert fields(table) == [(1000, 3, "day", "part"), (1001, 1, "bucket[16]", "d")]


def test_nothing_to_do_commits_nothing(table: Table) -> None:
    before = reload_table(table).metadata_location
    evolve_spec(table)
    evolve_spec(table, rename={"shard": "shard"})
    assert reload_table(table).metadata_location == before


def test_the_place_of_a_dropped_field_leaves_its_name(v1: Table) -> None:
    evolve_spec(v1, drop=["shard"], rename={"ts_day": "shard"})
    assert fields(v1) == [(1000, 3, "day", "shard"), (1001, 1, "void", "shard_1001")]


Evolve = Callable[[Table], None]

REFUSED: list[tuple[Evolve, type[Exception], str]] = [
    (lambda t: evolve_spec(t, drop=["nope"]), SpecError, "no partition field 'nope' in spec 0; it has ts_day, shard"),
    (lambda t: evolve_spec(t, drop=[hour("ts")]), SpecError, r"no partition field hour\(ts\) in spec 0"),
    (lambda t: evolve_spec(t, rename={"nope": "x"}), SpecError, "no partition field 'nope'"),
    (lambda t: evolve_spec(t, rename={"shard": ""}), SpecError, "a partition field has a name"),
    (lambda t: evolve_spec(t, drop=["shard"], rename={"shard": "x"}), SpecError, "both dropped and renamed"),
    (lambda t: evolve_spec(t, add=[day("ts").alias("d")]), SpecError, "day of 'ts' is a partition field twice"),
    (lambda t: evolve_spec(t, add=["region", identity("Region").alias("r")]), SpecError, "identity of 'Region' is"),
    (lambda t: evolve_spec(t, add=[hour("ts").alias("SHARD")]), SpecError, "two partition fields are called"),
    (lambda t: evolve_spec(t, rename={"shard": "ts_day"}), SpecError, "two partition fields are called 'ts_day'"),
    (lambda t: evolve_spec(t, add=[bucket("id", 4).alias("region")]), SpecError, "has the name of a column"),
    (lambda t: evolve_spec(t, rename={"shard": "price"}), SpecError, "'price' has the name of a column"),
    (lambda t: evolve_spec(t, add=[identity("region").alias("id")]), SpecError, "'id' has the name of a column"),
    (lambda t: evolve_spec(t, add=["nope"]), UnknownColumn, "column 'nope' is not in the schema"),
    (
        lambda t: evolve_spec(t, add=[bucket("price", 4)]),
        TransformError,
        "can't partition column 'price' of type double",
    ),
    (lambda t: evolve_spec(t, add=[month("id")]), TransformError, "it doesn't take this type"),
    (lambda t: evolve_spec(t, add=["tags"]), TransformError, "'tags' of type list<string>"),
    (lambda t: evolve_spec(t, add=["tags.element"]), SpecError, "Invalid partition field parent: list<string>"),
    (lambda t: evolve_spec(t, add=[hash("id")]), TransformError, "Iceberg has no such function"),
    (
        lambda t: evolve_spec(t, add=[PartitionFunction("id", UnknownTransform("zorder[3]"), "z")]),
        TransformError, "Iceberg has no such function",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "match"), REFUSED, ids=[match for _, _, match in REFUSED])
def test_refused_evolutions(table: Table, change: Evolve, kind: type[Exception], match: str) -> None:
    before = reload_table(table).metadata_location
    with pytest.raises(kind, match=match):
        change(table)
    assert reload_table(table).metadata_location == before


def test_a_void_field_can_be_added(v2: Table) -> None:
    evolve_spec(v2, add=[void("region")])
    assert fields(v2)[-1] == (1002, 2, "void", "region_null")


def test_a_dropped_void_field_is_not_there_any_more(v1: Table) -> None:
    evolve_spec(v1, drop=["shard"])
    with pytest.raises(SpecError, match="no partition field 'shard' in spec 1; it has ts_day"):
        evolve_spec(v1, drop=["shard"])


def test_a_column_that_was_dropped(table: Table) -> None:
    """What is left can evolve, files can be added, and the old spec stays as it was."""
    evolve_spec(table, drop=["shard"])
    with table.update_schema() as update:
        update.delete_column("id")
    with pytest.raises(UnknownColumn):
        evolve_spec(table, add=["id"])
    evolve_spec(table, add=["region"])
    voids = [(1001, 1, "void", "shard")] if table.metadata.format_version == 1 else []
    assert fields(table) == [(1000, 3, "day", "ts_day"), *voids, (1002, 2, "identity", "Region")]
    assert fields(table, 0) == [(1000, 3, "day", "ts_day"), (1001, 1, "bucket[16]", "shard")]
    append_files(table, data_file(table, [{"Region": "eu"}], partition=[5, *(None for _ in voids), "eu"]))
    append_files(table, data_file(table, [{"Region": "eu"}], 0, partition=[5, 3]))
    assert reload_table(table).scan().to_arrow()["Region"].to_pylist() == ["eu", "eu"]


def test_a_field_whose_column_is_gone_must_go_too(v2: Table) -> None:
    """Others drop columns that the current spec is made of."""
    remaining = [field for field in SCHEMA.fields if field.name != "id"]
    schemas = [Schema(*remaining, schema_id=0)]
    v2.metadata = v2.metadata.model_copy(update={"schemas": schemas})
    from partita.formats.iceberg.spec_evolution import next_spec

    with pytest.raises(SpecError, match="the column of partition field 'shard' was dropped; drop the field too"):
        next_spec(v2.metadata, ["region"], [], {})
    assert [f.name for f in next_spec(v2.metadata, ["region"], ["shard"], {}).fields] == ["ts_day", "Region"]


def test_files_go_under_the_new_spec_and_old_ones_stay(table: Table) -> None:
    from datetime import UTC, datetime

    row = {"id": 1, "Region": "eu", "ts": datetime(2025, 1, 1, tzinfo=UTC)}
    append_files(table, data_file(table, [row]))
    evolve_spec(table, add=["region"], drop=["ts_day"])
    append_files(table, data_file(table, [{**row, "id": 2}]))
    assert table_ids(table) == [1, 2]


def test_a_lost_race_is_done_again(table: Table) -> None:
    ours = with_interference(table, before=[lambda: evolve_spec(reload_table(table), add=["region"])])
    evolve_spec(ours, add=[hour("ts")])
    assert [(field_id, name) for field_id, _, _, name in fields(table)] == [
        (1000, "ts_day"), (1001, "shard"), (1002, "Region"), (1003, "ts_hour"),
    ]  # fmt: skip


def test_the_same_done_by_another(table: Table) -> None:
    evolve_spec(
        with_interference(table, before=[lambda: evolve_spec(reload_table(table), add=["region"])]), add=["region"]
    )
    assert len(fields(table)) == 3
    ours = with_interference(table, before=[lambda: evolve_spec(reload_table(table), add=[hour("ts"), year("ts")])])
    with pytest.raises(SpecError, match="hour of 'ts' is a partition field twice"):
        evolve_spec(ours, add=[hour("ts")])
    assert len(reload_table(table).metadata.partition_specs) == 3


def test_a_column_that_another_drops_meanwhile(table: Table) -> None:
    def drop() -> None:
        with reload_table(table).update_schema() as update:
            update.delete_column("Region")

    with pytest.raises(UnknownColumn, match="column 'region' is not in the schema"):
        evolve_spec(with_interference(table, before=[drop]), add=["region"])


def failing(error: Exception) -> Callable[[], Any]:
    def act() -> NoReturn:
        raise error

    return act


@pytest.mark.slow(reason="many commits to a table")
@pytest.mark.parametrize(
    "error", [ConnectionResetError("gone"), CommitFailedException("seen")], ids=["error", "failed"]
)
def test_an_answer_that_was_lost(table: Table, error: Exception) -> None:
    ours = with_interference(table, after=[failing(error)])
    evolve_spec(ours, add=["region"])
    assert [name for _, _, _, name in fields(table)] == ["ts_day", "shard", "Region"]


def test_an_error_of_the_catalog(table: Table) -> None:
    with pytest.raises(TableError, match=r"evolve: the catalog did not take the new spec of db\.t: broken"):
        evolve_spec(with_interference(table, before=[failing(ValueError("broken"))]), add=["region"])


def test_retries_are_limited(tmp_path: Path) -> None:
    table = new_table(tmp_path, SCHEMA, START, properties={"commit.retry.num-retries": "1"})
    others = [hour("ts"), year("ts")]
    ours = with_interference(table, before=[lambda f=f: evolve_spec(reload_table(table), add=[f]) for f in others])  # type: ignore[misc]
    with pytest.raises(CommitConflict, match="evolve: another writer was first in all of 2 attempts"):
        evolve_spec(ours, add=["region"])
