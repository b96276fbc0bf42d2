"""Times that name no zone, in tables of every format: one meaning in every call, that of the Spark session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.spark.frames import frame_from_arrow
from partita.spark.positions import FILE_INDEX
from tests.formats.delta.tables import rows_by_name, with_time_zone
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "+05:30"]
SCHEMA = pa.schema([
    ("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")), ("d", pa.date32()),
    ("k", pa.int64()),
])  # fmt: skip
MOMENTS = [
    # Kolkata's midnight.
    "2025-01-15 18:29:59", "2025-01-15 18:30:00", "2025-01-15 22:30:00",
    # Los Angeles skips 02:00 to 03:00 on March 9, and Berlin on March 30.
    "2025-03-09 09:30:00", "2025-03-09 10:00:00", "2025-03-09 10:30:00", "2025-03-29 22:30:00", "2025-03-29 23:00:00",
    "2025-03-30 00:30:00", "2025-03-30 00:59:59", "2025-03-30 01:00:00", "2025-03-30 01:30:00", "2025-03-30 02:30:00",
    # Berlin has 02:00 to 03:00 twice on October 26, and Los Angeles 01:00 to 02:00 on November 2.
    "2025-10-25 22:00:00", "2025-10-26 00:00:00", "2025-10-26 00:30:00", "2025-10-26 01:00:00", "2025-10-26 01:30:00",
    "2025-10-26 02:00:00", "2025-11-02 08:30:00", "2025-11-02 09:00:00", "2025-11-02 09:30:00",
]  # fmt: skip
PREDICATES = [
    "ts < '2025-03-30 02:30:00'",
    "ts >= DATE '2025-10-26' AND ts < '2025-10-27'",
    "ts BETWEEN TIMESTAMP '2025-03-09 02:30:00' AND '2025-03-30'",
    "ts IN (TIMESTAMP '2025-10-26 02:30:00', TIMESTAMP '2025-01-16 00:00:00')",
    "hour(ts) = 2",
    "date(ts) = '2025-10-26'",
    "n < TIMESTAMP '2025-03-30 12:00:00'",
    "NOT n >= '2025-03-30 02:30:00'",
    "d = TIMESTAMP '2025-03-30 00:00:00'",
    "CAST(ts AS DATE) <= DATE '2025-03-29' OR ts IS NULL",
    "ts > CAST('2025-11-02 01:30:00' AS TIMESTAMP)",
    "ts < '2025-3-30'",
]
BY = {"delta": pt.day("ts"), "iceberg": pt.hour("ts"), "lance": pt.day("ts")}


def moment_rows() -> pa.Table:
    """A row for each moment, and one of nulls."""
    at = [datetime.fromisoformat(text) for text in MOMENTS]
    rows = [(i, one.replace(tzinfo=UTC), one, one.date(), 0) for i, one in enumerate(at)]
    columns = zip(*[*rows, (len(rows), None, None, None, 0)], strict=True)
    return pa.table(
        [pa.array(column, type_) for column, type_ in zip(columns, SCHEMA.types, strict=True)], SCHEMA.names
    )


def create_filled_table(folder: Path, format_: str, name: str) -> pt.Table:
    table = pt.Lake(str(folder)).create_table(name, SCHEMA, format=format_, partition_by=[BY[format_]])
    table.append(moment_rows())
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("zones")


@pytest.fixture(scope="module", params=BY)
def table(request: pytest.FixtureRequest, spark: SparkSession, folder: Path) -> pt.Table:
    return create_filled_table(folder, request.param, f"kept.{request.param}")


@cache
def matching(spark: SparkSession, zone: str) -> list[set[int]]:
    """The ids of the rows that match each predicate, by plain Spark in a session of the zone."""
    with with_time_zone(spark, zone):
        columns = [f"({text}) AS p{at}" for at, text in enumerate(PREDICATES)]
        rows = frame_from_arrow(spark, moment_rows()).selectExpr("id", *columns).toArrow().to_pylist()
    return [{row["id"] for row in rows if row[f"p{at}"]} for at in range(len(PREDICATES))]


@cache
def ids_of_files(spark: SparkSession, table: pt.Table) -> dict[int, set[int]]:
    """The ids of the rows of each file, by its place."""
    state = table._store.current_version()
    places = table.plan().file_indices
    found: dict[int, set[int]] = {}
    for row in state.rows().scan(spark, places, ["id"], positions=True).collect():
        found.setdefault(int(places[row[FILE_INDEX]]), set()).add(row.id)
    return found


@pytest.mark.parametrize(
    "zone",
    [zone if zone in ("Europe/Berlin", "+05:30") else pytest.param(zone, marks=pytest.mark.long) for zone in ZONES],
)
def test_reads_and_plans_equal_those_of_plain_spark(spark: SparkSession, table: pt.Table, zone: str) -> None:
    expected, ids = matching(spark, zone), ids_of_files(spark, table)
    with with_time_zone(spark, zone):
        frames = [table.read(text, ["id"]).selectExpr("id", f"{at} AS p") for at, text in enumerate(PREDICATES)]
        rows = reduce(lambda a, b: a.unionAll(b), frames).toArrow().to_pylist()
        plans = [table.plan(text) for text in PREDICATES]
    for at, (text, plan) in enumerate(zip(PREDICATES, plans, strict=True)):
        assert sorted(row["id"] for row in rows if row["p"] == at) == sorted(expected[at]), text
        assert plan.time_zone == zone
        assert expected[at] <= {i for place in plan.file_indices for i in ids[int(place)]}, text
        assert {i for place in plan.file_indices[plan.must_match] for i in ids[int(place)]} <= expected[at], text
    assert f"time zone {zone}" in repr(plans[0])
    # Times prune in every zone.
    assert len(plans[0].file_indices) < len(ids)
    with with_time_zone(spark, zone):
        assert table.partitions(PREDICATES[0]).num_rows < table.partitions().num_rows


SOURCE = pa.table({"id": list(range(len(MOMENTS)))})
CHANGES: dict[str, tuple[str, str, Callable[[pt.Lake, pt.Table, str], object]]] = {
    "delete": ("Europe/Berlin", "ts < '2025-03-09 11:30:00'", lambda _, table, where: table.delete(where)),
    "update": (
        "America/Los_Angeles",
        "ts >= '2025-11-02 01:30:00' OR hour(ts) = 17",
        lambda _, table, where: table.update({"k": "1"}, where),
    ),
    "merge": (
        "+05:30",
        "t.ts BETWEEN '2025-03-30 06:00:00' AND TIMESTAMP '2025-03-30 06:30:00'",
        lambda _, table, where: table.merge(SOURCE, f"t.id = s.id AND {where}", pt.when_matched().delete()),
    ),
    "sql": (
        "Europe/Berlin",
        "ts = '2025-10-26 02:30:00' OR date(ts) = '2025-03-29'",
        lambda lake, table, where: lake.sql(f"DELETE FROM {table.name} WHERE {where}"),  # noqa: S608
    ),
}


@pytest.mark.parametrize("format_", BY)
def test_changes_equal_those_of_plain_spark(spark: SparkSession, folder: Path, format_: str) -> None:
    table = create_filled_table(folder, format_, f"changed.{format_}")
    lake = pt.Lake(str(folder))
    left = moment_rows()
    for operation, (zone, where, change) in CHANGES.items():
        with with_time_zone(spark, zone):
            change(lake, table, where)
            plain = frame_from_arrow(spark, left).alias("t")
            if operation == "update":
                rows = plain.selectExpr("id", "ts", "n", "d", f"CASE WHEN {where} THEN 1 ELSE k END AS k")
            else:
                rows = plain.where(f"NOT coalesce({where}, false)")
            after = rows.toArrow().cast(SCHEMA)
        assert after.to_pylist() != left.to_pylist(), operation
        left = after
        assert sorted_rows(table.read(columns=SCHEMA.names).toArrow()) == sorted_rows(left), operation


def sorted_rows(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.cast(SCHEMA).sort_by("id").to_pylist()
    return found


def test_an_overwrite_replaces_what_the_session_means(spark: SparkSession, folder: Path) -> None:
    table = create_filled_table(folder, "iceberg", "overwritten.t")
    new = moment_rows().slice(len(MOMENTS) - 1, 1)
    with with_time_zone(spark, "Europe/Berlin"):
        # 2025-11-02 09:00 in UTC.
        done = table.overwrite(new, "ts >= '2025-11-02 10:00:00'")
        assert done.counts["files_removed"] == 1
        with pytest.raises(pt.ConstraintError, match="does not match the predicate of the overwrite"):
            table.overwrite(new, "ts >= '2025-11-02 11:00:00'")
    assert table.read().count() == len(MOMENTS)


def test_sql_prunes_in_the_session_s_zone(spark: SparkSession, table: pt.Table, folder: Path) -> None:
    lake = pt.Lake(str(folder))
    text = f"SELECT id FROM {table.name} WHERE ts >= '2025-11-02 01:30:00'"  # noqa: S608
    with with_time_zone(spark, "America/Los_Angeles"):
        found: Any = lake.sql(text)
        assert {row.id for row in found.collect()} == {19, 20, 21}
        if table.format != "lance":
            assert len(found.inputFiles()) < len(ids_of_files(spark, table))


def test_a_frame_keeps_the_meaning_that_it_was_made_with(spark: SparkSession, table: pt.Table) -> None:
    with with_time_zone(spark, "Asia/Kolkata"):
        frame = table.read("ts < '2025-01-16' AND hour(ts) = 23", ["id"])
    assert [row.id for row in frame.collect()] == [0]


def test_another_session_has_its_own_zone(spark: SparkSession, table: pt.Table) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    where = "ts < '2025-01-16 00:00:00'"
    assert [row.id for row in table.read(where, ["id"], spark=other).collect()] == [0]
    assert sorted(row.id for row in table.read(where, ["id"]).collect()) == [0, 1, 2]


def test_timestamp_may_be_short_for_one_without_a_zone(spark: SparkSession, table: pt.Table) -> None:
    """A cast to it drops the zone that a text names, so what such a text means is left to Spark."""
    conditions = [
        where
        for value in (
            "CAST('2025-01-16T00:00:00Z' AS TIMESTAMP)",
            "TIMESTAMP '2025-01-16 00:00:00'",
            "timestamp '2025-01-16 00:00:00Z'",
        )
        for where in (f"ts < {value}", f"NOT n >= {value}", f"ts = {value} OR ts > {value}")
    ]
    with session_settings(
        spark, {"spark.sql.session.timeZone": "Asia/Kolkata", "spark.sql.timestampType": "TIMESTAMP_NTZ"}
    ):
        plain_rows = frame_from_arrow(spark, moment_rows())
        expected = rows_by_name({where: plain_rows.where(where).select("id") for where in conditions})
        assert rows_by_name({where: table.read(where, ["id"]) for where in conditions}) == expected
        earlier_rows = plain_rows.where("ts < CAST('2025-01-16T00:00:00Z' AS TIMESTAMP)")
        assert [row.id for row in earlier_rows.collect()] == [0]


def test_a_predicate_is_asked_for_where_all_would_go_without_one(table: pt.Table) -> None:
    with pytest.raises(pt.PredicateError, match="None"):
        table.delete(None)  # type: ignore[arg-type]


WITHOUT_SPARK = """
import sys
import partita as pt

where = "ts >= '2025-03-30 00:00:00' AND ts < '2025-03-30 02:00:00'"
for zone in sys.argv[3:]:
    table = pt.Lake(sys.argv[1], time_zone=zone).table(sys.argv[2])
    plan = table.plan(where)
    opened = [] if table.format == "iceberg" else [pt.open_table(table.uri, format=table.format, time_zone=zone)]
    assert all(same.plan(where).file_indices.tolist() == plan.file_indices.tolist() for same in opened)
    assert "pyspark" not in sys.modules
    print(plan.time_zone, ",".join(map(str, plan.file_indices.tolist())), table.partitions(where).num_rows)
"""


def test_without_a_session_times_are_in_the_zone_of_the_lake(
    spark: SparkSession, table: pt.Table, folder: Path
) -> None:
    # 23:00 to 01:00 in UTC, or 00:00 to 02:00.
    expected_ids = {"Europe/Berlin": {7, 8, 9}, "UTC": {8, 9, 10, 11}}
    arguments = [str(folder), table.name, *expected_ids]
    done = subprocess.run([sys.executable, "-c", WITHOUT_SPARK, *arguments], capture_output=True, text=True, check=True)
    ids = ids_of_files(spark, table)
    for line, (zone, expected) in zip(done.stdout.splitlines(), expected_ids.items(), strict=True):
        name, places, _ = line.split()
        found = {i for place in places.split(",") for i in ids[int(place)]}
        assert name == zone
        assert expected <= found, zone
        assert found == expected or table.format != "iceberg"


def test_a_zone_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pt.TimeZoneError, match="Mars"):
        pt.Lake(str(tmp_path), time_zone="Mars")
    table = pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="delta")
    with pytest.raises(pt.TimeZoneError, match="Mars"):
        pt.open_table(table.uri, format="delta", time_zone="Mars")
