"""delta-spark and delta-rs read what each operation of Partita wrote, and Partita reads what delta-spark wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

import partita as pt
from tests.formats.delta.tables import (
    arrow_table,
    read_with_delta_rs,
    read_with_delta_spark,
    row_ids,
    rows_by_name,
    sorted_rows,
    with_time_zone,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "id": ("long", [1, 2, 3, 4, 5, 6]),
    "p": ("string", ["a", "a", "b/ü %", None, "", "b/ü %"]),
    "day": ("date", [date(2025, 1, n) for n in (1, 1, 2, 2, 1, 2)]),
    "amount": ("decimal(10,2)", [Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00"), Decimal(7), Decimal(8)]),
    "x": ("double", [1.0, NAN, -0.0, None, float("inf"), 2.5]),
    "at": ("timestamp", [datetime(2025, 1, n, 5, 6, 7, 8, tzinfo=UTC) for n in range(1, 7)]),
}
SCHEMA = pt.Schema.of({name: text for name, (text, _) in COLUMNS.items()})
GIVEN = arrow_table(COLUMNS)


def filled_table(folder: Path, properties: dict[str, str] | None = None) -> pt.Table:
    lake = pt.Lake(str(folder))
    table = lake.create_table("t", SCHEMA, format="delta", partition_by=["p", "day"], properties=properties)
    table.append(GIVEN)
    return table


@pytest.fixture(scope="module")
def filled_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pt.Table]:
    """A filled table for each kind of column mapping, to copy."""
    return {
        mapping: filled_table(tmp_path_factory.mktemp(mapping), {"delta.columnMapping.mode": mapping})
        for mapping in ("none", "name")
    }


def copy_of(table: pt.Table, folder: Path) -> pt.Table:
    return pt.open_table(str(shutil.copytree(table.uri, folder / "t")), format="delta")


def merge_rows(table: pt.Table) -> object:
    source = GIVEN.slice(0, 3).set_column(0, "id", pa.array([1, 3, 100]))
    return table.merge(
        source,
        "t.id = s.id",
        pt.when_matched("t.id = 1").delete(),
        pt.when_matched().update({"p": "'moved'", "amount": "coalesce(t.amount, 0) + 1"}),
        pt.when_not_matched().insert(),
        pt.when_not_matched_by_source("t.id = 6").update({"x": "0.5"}),
        pt.when_not_matched_by_source("t.id = 5").delete(),
    )


OPERATIONS: dict[str, tuple[Callable[[pt.Table], object], list[int]]] = {
    "append": (lambda t: t.append(GIVEN.slice(0, 2)), [1, 1, 2, 2, 3, 4, 5, 6]),
    "overwrite_partitions": (lambda t: t.overwrite_partitions(GIVEN.slice(2, 2)), [1, 2, 3, 4, 5]),
    "overwrite": (lambda t: t.overwrite(GIVEN.slice(0, 1), "p = 'a'"), [1, 3, 4, 5, 6]),
    "overwrite all": (lambda t: t.overwrite(GIVEN.slice(3, 1)), [4]),
    "delete": (lambda t: t.delete("id = 1 or x > 2"), [3, 4]),
    "delete a partition": (lambda t: t.delete("p = 'a'"), [3, 4, 5, 6]),
    "update": (lambda t: t.update({"amount": "amount * 2", "x": "x / 2"}, "id <> 4"), [1, 2, 3, 4, 5, 6]),
    "update to another partition": (lambda t: t.update({"p": "concat('to ', p)"}, "id < 5"), [1, 2, 3, 4, 5, 6]),
    "merge": (merge_rows, [2, 3, 4, 6, 100]),
}


@pytest.mark.parametrize(
    ("name", "mapping"),
    [
        *((name, "none") for name in OPERATIONS),
        *(
            (name, "name")
            if name in ("overwrite", "update", "merge")
            else pytest.param(name, "name", marks=pytest.mark.long)
            for name in OPERATIONS
        ),
    ],
)
def test_all_read_the_same_after(
    spark: SparkSession, filled_tables: dict[str, pt.Table], tmp_path: Path, name: str, mapping: str
) -> None:
    operation, remaining = OPERATIONS[name]
    table = copy_of(filled_tables[mapping], tmp_path)
    operation(table)
    rows_of_both = rows_by_name({"ours": table.read(), "theirs": read_with_delta_spark(spark, table)})
    ours = rows_of_both["ours"]
    assert row_ids(ours) == remaining
    assert rows_of_both["theirs"] == ours
    if mapping == "none":
        assert sorted_rows(read_with_delta_rs(table)) == ours


def test_delta_spark_tells_our_history(spark: SparkSession, filled_tables: dict[str, pt.Table], tmp_path: Path) -> None:
    table = copy_of(filled_tables["none"], tmp_path)
    for operation, _ in OPERATIONS.values():
        operation(table)
    history = spark.sql(f"describe history delta.`{table.uri}`").orderBy("version").collect()
    operations = ["CREATE TABLE", "WRITE", "WRITE", "WRITE", "WRITE", "WRITE", "DELETE", "UPDATE", "MERGE"]
    assert [row["operation"] for row in history if row["version"] < 6] == operations[:6]
    assert {row["engineInfo"] for row in history} == {"Partita"}
    assert [row["version"] for row in history] == list(range(table.version + 1))


def test_we_read_what_delta_spark_did_to_our_table(
    spark: SparkSession, filled_tables: dict[str, pt.Table], tmp_path: Path
) -> None:
    table = copy_of(filled_tables["none"], tmp_path)
    name = f"delta.`{table.uri}`"
    spark.sql(f"delete from {name} where id = 1")  # noqa: S608
    frames = {"without 1": table.read()}
    spark.sql(f"update {name} set p = 'z' where id = 2")  # noqa: S608
    spark.sql(f"delete from {name} where p is null")  # noqa: S608
    # A frame without a version is of the newest one when it is collected.
    theirs = spark.read.format("delta").option("versionAsOf", table.version).load(table.uri)
    frames |= {"changed": table.read(), "changed by theirs": theirs}
    frames["only 2"] = table.read("p = 'z'")
    spark.sql(f"optimize {name}")
    frames |= {"whole": table.read(), "whole by theirs": read_with_delta_spark(spark, table)}
    rows = rows_by_name(frames)
    assert row_ids(rows["without 1"]) == [2, 3, 4, 5, 6]
    assert rows["changed"] == rows["changed by theirs"]
    assert row_ids(rows["only 2"]) == [2]
    assert rows["whole"] == rows["whole by theirs"]
    table.append(GIVEN.slice(0, 1))
    assert row_ids(sorted_rows(read_with_delta_spark(spark, table))) == [1, 2, 3, 6]


# --- types

MOMENT = datetime(2024, 2, 29, 23, 59, 59, 999_999)  # noqa: DTZ001 - a timestamp_ntz
TYPES: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, False, None]),
    "tiny": ("byte", [-128, 127, None]),
    "small": ("short", [-32_768, 32_767, None]),
    "normal": ("int", [-(2**31), 2**31 - 1, None]),
    "large": ("long", [-(2**63), 2**63 - 1, None]),
    "single": ("float", [NAN, -0.0, None]),
    "double": ("double", [NAN, float("-inf"), None]),
    "short decimal": ("decimal(9,2)", [Decimal("-1234567.89"), Decimal("0.01"), None]),
    "long decimal": ("decimal(18,0)", [Decimal("-1e17"), Decimal(1), None]),
    "wide decimal": ("decimal(38,18)", [Decimal("-99999999999999999999.999999999999999999"), Decimal("1e-18"), None]),
    "day": ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    "at": ("timestamp", [datetime(1, 1, 1, tzinfo=UTC), MOMENT.replace(tzinfo=UTC), None]),
    "local": ("timestamp_ntz", [datetime(1, 1, 1), MOMENT, None]),  # noqa: DTZ001
    "text": ("string", ["", '日本 \U0001f600\n"\\', None]),
    "long text": ("string", ["x" * 100, "\U0010ffff" * 40, None]),
    "bytes": ("binary", [b"", b"\x00\xff", None]),
    "inside": ("struct<a:int,b:struct<c:string,d:timestamp>>", [
        {"a": 1, "b": {"c": None, "d": MOMENT.replace(tzinfo=UTC)}}, {"a": None, "b": None}, None]),
    "list": ("list<decimal(5,1)>", [[], [Decimal("1.5"), None], None]),
    "map": ("map<string,list<int>>", [[("k", [1, None])], [], None]),
    "deep": ("list<struct<m:map<string,date>,s:string>>", [[{"m": [("d", date(2000, 1, 1))], "s": "x"}], [None], None]),
}  # fmt: skip


def typed_rows() -> list[tuple[Any, ...]]:
    return sorted_rows(table_of_all_types())


def table_of_all_types() -> pa.Table:
    return arrow_table({"id": ("int", [1, 2, 3]), **TYPES})


@pytest.mark.parametrize(
    ("zone", "mapping"),
    [
        ("UTC", "name"),
        ("America/New_York", "none"),
        pytest.param("UTC", "none", marks=pytest.mark.long),
        pytest.param("America/New_York", "name", marks=pytest.mark.long),
    ],
)
def test_every_type_there_and_back(spark: SparkSession, tmp_path: Path, zone: str, mapping: str) -> None:
    schema = pt.Schema.of({"id": "int", **{name: text for name, (text, _) in TYPES.items()}})
    properties = {"delta.columnMapping.mode": "name"} if mapping == "name" else {}
    if mapping == "none":
        schema = pt.Schema.of({name.replace(" ", "_"): str(schema.find_field(name).type) for name in schema.names})
    rows = table_of_all_types().rename_columns(list(schema.names))
    table = pt.Lake(str(tmp_path)).create_table("t", schema, format="delta", properties=properties)
    with with_time_zone(spark, zone):
        table.append(rows)
        rows_of_both = rows_by_name({"ours": table.read(), "theirs": read_with_delta_spark(spark, table)})
        assert rows_of_both == {"ours": typed_rows(), "theirs": typed_rows()}
        read_with_delta_spark(spark, table).write.format("delta").mode("append").save(table.uri)
        assert sorted_rows(table.read()) == sorted([*typed_rows(), *typed_rows()], key=repr)
        table.update({"id": "id + 10"}, "id = 2")
        table.delete("id = 1")
        rows_of_both = rows_by_name({"ours": table.read(), "theirs": read_with_delta_spark(spark, table)})
        assert row_ids(rows_of_both["ours"]) == [3, 3, 12, 12]
        assert rows_of_both["theirs"] == rows_of_both["ours"]


def test_no_file_is_lost_that_the_statistics_of_a_type_say(spark: SparkSession, tmp_path: Path) -> None:
    schema = pt.Schema.of({"id": "int", **{name.replace(" ", "_"): text for name, (text, _) in TYPES.items()}})
    table = pt.Lake(str(tmp_path)).create_table("t", schema, format="delta")
    for index in range(3):
        row = {name: (text, values[index : index + 1]) for name, (text, values) in TYPES.items()}
        table.append(arrow_table({"id": ("int", [index + 1]), **row}).rename_columns(list(schema.names)))
    conditions = (
        "tiny = 127", "large < 0", "double < 0", "double > 1", "single <= 0", "wide_decimal > 0", "text = ''",
        "at < timestamp'2000-01-01 00:00:00Z'", "local > timestamp_ntz'2024-02-29 23:59:59.999'", "long_text > 'xx'",
        "bytes is null", "text is not null", "long_text = repeat('x', 100)", "flag", "short_decimal = 0.01",
        "day > date'9000-01-01'",
    )  # fmt: skip
    frame = read_with_delta_spark(spark, table)
    theirs = rows_by_name({where: frame.where(where).select("id") for where in conditions})
    ours = rows_by_name({where: table.read(where, ["id"]) for where in conditions})
    assert ours == theirs


@pytest.mark.parametrize("by", ["us", "delta-rs"])
def test_nan_is_found_among_other_numbers(spark: SparkSession, tmp_path: Path, by: str) -> None:
    # Parquet's statistics leave NaN out, and Spark, to which it is the greatest, skips row groups by them.
    numbers: list[list[float | None]] = [[1.0, NAN], [NAN, 0.0, None], [NAN], [float("-inf"), NAN], [0.5, 0.25]]
    table = pt.Lake(str(tmp_path)).create_table("t", pt.Schema.of({"x": "double", "y": "float"}), format="delta")
    for column in numbers:
        rows = arrow_table({"x": ("double", column), "y": ("float", column)})
        _ = table.append(rows) if by == "us" else write_deltalake(table.uri, rows, mode="append")
    counts = {"x > 1": 4, "y > 1": 4, "x >= 1": 5, "not (y <= 1)": 4}
    frames = {f"ours, {where}": table.read(where) for where in counts}
    if by == "us":
        frames |= {f"theirs, {where}": read_with_delta_spark(spark, table).where(where) for where in counts}
    for name, rows in rows_by_name(frames).items():
        assert len(rows) == counts[name.partition(", ")[2]], name
    assert table.delete("x > 0.75").counts["rows_deleted"] == 5


def test_delta_spark_refuses_a_row_that_matches_twice_too(
    spark: SparkSession, filled_tables: dict[str, pt.Table]
) -> None:
    """Whichever clause applies; `tests/conformance/test_merge.py` has the same merge by Partita."""
    table = filled_tables["none"]
    spark.createDataFrame(pa.table({"id": [1, 1], "k": [1, 2]})).createOrReplaceTempView("twice")
    with pytest.raises(PySparkException, match="MULTIPLE_SOURCE_ROW_MATCHING"):
        spark.sql(
            f"MERGE INTO delta.`{table.uri}` t USING twice s ON t.id = s.id "
            "WHEN MATCHED AND s.k = 1 THEN UPDATE SET x = s.k"
        ).collect()
