"""How the partition fields of a table store the dimensions of an asset."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.mappings import DimensionSelection
from partita.algebra.spec import PartitionSpec
from partita.assets.dimension_fields import DimensionFields
from partita.formats.lake_tables import new_table_spec
from partita.lake import Lake

SCHEMA = pt.Schema.of({"ts": "timestamp", "day": "date", "at": "timestamp", "region": "string", "n": "long",
                       "flag": "boolean", "plain": "timestamp_ntz"})  # fmt: skip
NOON = datetime(2025, 1, 2, 12, tzinfo=UTC)
DAYS: dict[str, Any] = {"start": "2025-01-01"}


def spec(*functions: Any, family: str = "iceberg") -> PartitionSpec:
    return PartitionSpec.of(functions, SCHEMA, family)


def with_name(function: pt.PartitionFunction, name: str) -> pt.PartitionFunction:
    return pt.PartitionFunction(function.source, function.transform, name)


@pytest.mark.parametrize(
    ("partitions", "function", "key", "stored"),
    [
        (pt.daily("day", **DAYS), pt.identity("day"), date(2025, 1, 15), date(2025, 1, 15)),
        (pt.weekly("day", **DAYS), pt.identity("day"), date(2025, 1, 13), date(2025, 1, 13)),
        (pt.daily("ts_day", **DAYS), pt.day("ts"), date(2025, 1, 15), date(2025, 1, 15)),
        (pt.monthly("ts_month", **DAYS), pt.month("ts"), date(2025, 3, 1), 55 * 12 + 2),
        (pt.monthly("ts_month", start="1960-01-01"), pt.month("ts"), date(1969, 12, 1), -1),
        (pt.hourly("ts_hour", **DAYS), pt.hour("ts"), datetime(1970, 1, 2, 3, tzinfo=UTC), 27),
        (
            pt.hourly("at", **DAYS),
            pt.identity("at"),
            datetime(2025, 1, 2, 3, tzinfo=UTC),
            datetime(2025, 1, 2, 3, tzinfo=UTC),
        ),
        (pt.static("region", ["é,", None]), pt.identity("region"), "é,", "é,"),
        (pt.static("region", ["é,", None]), pt.identity("region"), None, None),
        (pt.static("n_bucket", [0, 1]), pt.bucket("n", 2), 1, 1),
        (pt.dynamic("flag"), pt.identity("flag"), True, True),
    ],
)
def test_values_round_trip(partitions: pt.PartitionSet, function: Any, key: Any, stored: Any) -> None:
    dimension_fields = DimensionFields.of("a", partitions, spec(function, "n"))
    (name,) = partitions.names
    field_rows = dimension_fields.partition_rows_of_keys([pt.PartitionKey.of({name: key})])
    assert field_rows[name].to_pylist() == [stored]
    assert dimension_fields.partition_keys(field_rows).to_pylist() == [str(pt.PartitionKey.of({name: key}))]


def test_days_stored_as_integers_are_dates_in_keys() -> None:
    dimension_fields = DimensionFields.of("a", pt.daily("ts_day", **DAYS), spec(pt.day("ts")))
    counted = pa.table({"ts_day": pa.array([20103, None], pa.int32())})
    assert dimension_fields.partition_keys(counted).to_pylist() == [
        str(pt.PartitionKey.of(ts_day=value)) for value in (date(2025, 1, 15), None)
    ]


def test_partitions_are_selected_by_some_dimensions_or_none() -> None:
    both = pt.daily("day", **DAYS) * pt.static("region", ["us"])
    dimension_fields = DimensionFields.of("a", both, spec("day", "region"))
    rows = dimension_fields.partition_rows(DimensionSelection(("region",), (("us",), ("eu",))))
    assert rows.to_pydict() == {"region": ["us", "eu"]}
    assert dimension_fields.partition_rows(DimensionSelection(("region",), ())).to_pydict() == {"region": []}
    assert (
        DimensionFields.of("a", pt.PartitionSet(()), spec()).partition_rows_of_keys([pt.PartitionKey.of()]).num_columns
        == 0
    )


@pytest.mark.parametrize(
    ("partitions", "functions", "family", "reason"),
    [
        (pt.daily("date", **DAYS), ("day",), "iceberg", "partitioned by day"),
        (pt.daily("region", **DAYS), ("region",), "iceberg", "need dates"),
        (pt.hourly("day", **DAYS), ("day",), "iceberg", "timestamps with a time zone"),
        (pt.daily("ts_month", **DAYS), (pt.month("ts"),), "iceberg", "can't hold windows by day"),
        (pt.daily("ts_day", **DAYS), (pt.day("ts"),), "lance", "can't hold windows by day"),
        (pt.daily("ts_day", time_zone="Europe/Berlin", **DAYS), (pt.day("ts"),), "iceberg", "in UTC"),
        (pt.daily("ts_day", offset=timedelta(hours=6), **DAYS), (pt.day("ts"),), "iceberg", "in UTC"),
        (pt.hourly("ts_hour", time_zone="Asia/Kolkata", **DAYS), (pt.hour("ts"),), "iceberg", "in UTC"),
        (pt.weekly("ts_day", **DAYS), (pt.day("ts"),), "iceberg", "can't hold windows by week"),
        (pt.static("region", ["us", 1]), ("region",), "iceberg", "can't hold 1"),
        (pt.static("n", ["1"]), ("n",), "iceberg", "can't hold '1'"),
        (pt.static("flag", [1]), ("flag",), "iceberg", "can't hold 1"),
        (pt.dynamic("plain"), ("plain",), "iceberg", "which a key can.t hold"),
    ],
)
def test_dimensions_that_a_table_cannot_store_are_refused(
    partitions: Any, functions: Any, family: str, reason: str
) -> None:
    with pytest.raises(pt.DefinitionError, match=reason):
        DimensionFields.of("a", partitions, spec(*functions, family=family))


def partition_by_fields(*fields: Any) -> dict[str, Any]:
    return {"partition_by": fields}


@pytest.mark.parametrize(
    ("partitions", "options", "reason"),
    [
        (
            pt.daily("date", **DAYS),
            partition_by_fields("ts"),
            r"test_dimension_fields.py:\d+: .*'date'.* partitioned by ts",
        ),
        (
            pt.daily("date", **DAYS) * pt.static("region", ["us"]),
            partition_by_fields("date"),
            "'region'.* partitioned by date",
        ),
        (pt.daily("date", **DAYS), partition_by_fields(), "partitioned by nothing"),
        (pt.static("n_bucket", [0]), partition_by_fields(pt.bucket("n", 2)), "a Delta table is partitioned by columns"),
        (
            pt.daily("date", **DAYS),
            {"format": "parquet", **partition_by_fields(pt.day("ts").alias("date"))},
            "a Parquet table is partitioned by columns",
        ),
        (
            pt.static("name", ["us"]),
            {"format": "parquet", **partition_by_fields(pt.identity("region").alias("name"))},
            "a Parquet table is partitioned by columns",
        ),
        (
            pt.daily("ts_month", **DAYS),
            {"format": "iceberg", **partition_by_fields(pt.month("ts"))},
            "can't hold windows by day",
        ),
        (
            pt.daily("ts_day", **DAYS),
            {"format": "lance", **partition_by_fields(pt.day("ts"))},
            "can't hold windows by day",
        ),
        (pt.static("region", ["us"]), {"schema": {"region": "int", "n": "int"}}, "can't hold 'us'"),
        (
            pt.monthly("ts_month", **DAYS),
            {"schema": SCHEMA, **partition_by_fields(pt.month("ts"))},
            "holds string.* need dates",
        ),
        (pt.static("n", [1]), {"schema": {"m": "int"}, "format": "iceberg"}, "'n'"),
        (pt.static("n", [1]), {"schema": {"m": "int"}, "format": "lance"}, "'n'"),
    ],
)
def test_dimensions_that_a_new_table_could_not_store_are_refused_on_registration(
    lake: Lake, partitions: Any, options: Any, reason: str
) -> None:
    def rows(_: Any) -> None: ...

    with pytest.raises(pt.DefinitionError, match=reason):
        lake.register(pt.asset(table="t", partitions=partitions, **options)(rows))
    assert lake.partitions_of("rows") is None


@pytest.mark.parametrize(
    ("partitions", "options"),
    [
        (pt.daily("date", **DAYS), partition_by_fields(pt.day("ts").alias("date"), "region")),
        (pt.daily("date", **DAYS), {"schema": SCHEMA, **partition_by_fields(pt.day("ts").alias("date"))}),
        (pt.static("region", ["us"]), partition_by_fields("REGION")),
        (pt.static("region", ["us"]), {"format": "parquet", **partition_by_fields("REGION")}),
        (pt.hourly("ts_hour", **DAYS), {"format": "iceberg", **partition_by_fields(pt.hour("ts"))}),
        (pt.static("n_bucket", [0]), {"format": "lance", **partition_by_fields(pt.bucket("n", 2))}),
        (pt.static("n_bucket", [0]), {"format": "lance", "schema": SCHEMA, **partition_by_fields(pt.bucket("n", 2))}),
    ],
)
def test_dimensions_that_a_new_table_can_store_are_accepted(lake: Lake, partitions: Any, options: Any) -> None:
    assert lake.register(pt.asset(name="a", table="t", partitions=partitions, **options)(print)) == ["a"]


@pytest.mark.parametrize("format_name", ["delta", "iceberg", "lance"])
def test_a_new_table_has_the_predicted_spec(lake: Lake, format_name: str) -> None:
    fields: list[Any] = ["region", pt.day("ts"), *([] if format_name == "delta" else [pt.bucket("n", 4)])]
    table = lake.create_table("t", SCHEMA, format=format_name, partition_by=fields)
    assert new_table_spec(SCHEMA, format_name, fields) == table.spec
