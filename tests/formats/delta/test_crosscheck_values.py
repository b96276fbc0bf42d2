"""Partition values by the numbered table, as four readers see them in our tables, and as we do in delta-spark's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import PartitionValueError
from tests.formats.delta.tables import (
    actions,
    by_delta_rs,
    by_delta_spark,
    by_duckdb,
    in_zone,
    plain,
    rows,
    table_of,
    unchanged,
)
from tests.formats.delta.test_values import TABLE, ZONE, typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = list(dict.fromkeys(row["type"] for row in TABLE["rows"]))


def writable(type_: str) -> list[dict[str, Any]]:
    return [row for row in TABLE["rows"] if row["type"] == type_ and not row.get("write_fails")]


def expected(type_: str) -> list[tuple[Any, Any]]:
    """What a reader finds: the row's number and its value, where an empty text is null."""
    found = []
    for row in writable(type_):
        value = typed(type_, row["value"])
        found.append((row["row"], None if value in ("", b"") else plain(value)))
    return sorted(found, key=repr)


def given(type_: str, values: list[tuple[int, Any]]) -> Any:
    return table_of({"id": ("int", [n for n, _ in values]), "p": (type_, [value for _, value in values])})


def of_rows(type_: str) -> Any:
    return given(type_, [(row["row"], typed(type_, row["value"])) for row in writable(type_)])


def create(tmp_path: Path, type_: str) -> pt.Table:
    schema = pt.Schema.of({"id": "int", "p": type_})
    return pt.Lake(str(tmp_path)).create_table("t", schema, format="delta", partition_by=["p"])


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pt.Table]:
    """A table for each type, with every row of the numbered table that can be written."""
    tables = {}
    with in_zone(spark, ZONE):
        for type_ in TYPES:
            tables[type_] = create(tmp_path_factory.mktemp("values"), type_)
            tables[type_].append(of_rows(type_))
    return tables


@pytest.mark.parametrize("type_", TYPES)
def test_the_log_holds_what_the_numbered_table_says(written: dict[str, pt.Table], type_: str) -> None:
    adds = {add["partitionValues"]["p"]: add["path"].rpartition("/")[0] for add in actions(written[type_], "add")}
    assert adds == {row["partition_value"]: row["add_path"] for row in writable(type_)}
    for path in (add["path"] for add in actions(written[type_], "add")):
        assert Path(written[type_].uri, unquote(path)).is_file()


@pytest.mark.parametrize("type_", TYPES)
def test_we_read_what_we_wrote(spark: SparkSession, written: dict[str, pt.Table], type_: str) -> None:
    assert rows(written[type_].read()) == expected(type_)


@pytest.mark.parametrize("type_", TYPES)
def test_delta_spark_reads_what_we_wrote(spark: SparkSession, written: dict[str, pt.Table], type_: str) -> None:
    assert rows(by_delta_spark(spark, written[type_])) == expected(type_)


@pytest.mark.parametrize("type_", TYPES)
def test_delta_rs_reads_what_we_wrote(written: dict[str, pt.Table], type_: str) -> None:
    assert rows(by_delta_rs(written[type_])) == expected(type_)


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if "decimal" not in type_])
def test_duckdb_reads_what_we_wrote(written: dict[str, pt.Table], type_: str) -> None:
    assert rows(by_duckdb(written[type_])) == expected(type_)


def test_delta_rs_hands_no_negative_decimal_to_arrow(written: dict[str, pt.Table]) -> None:
    # delta-rs 1.6 prints the sign of a partition value twice, whoever wrote it; so DuckDB can't have it.
    with pytest.raises(pa.ArrowInvalid, match=r"-1\.-23"):
        by_duckdb(written["decimal(38,18)"])


@pytest.mark.parametrize("type_", TYPES)
def test_we_read_what_delta_spark_wrote(spark: SparkSession, tmp_path: Path, type_: str) -> None:
    with in_zone(spark, ZONE):
        frame = spark.createDataFrame(of_rows(type_), f"id int, p {type_}")
        frame.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))
    table = pt.open_table(str(tmp_path / "t"), format="delta")
    assert rows(table.read()) == expected(type_)


REFUSED = [pytest.param(row, id=f"row {row['row']}") for row in TABLE["rows"] if row.get("write_fails")]


@pytest.mark.parametrize("row", REFUSED)
def test_a_row_that_is_refused_leaves_no_file(spark: SparkSession, tmp_path: Path, row: dict[str, Any]) -> None:
    table = create(tmp_path, row["type"])
    good = "fine" if row["type"] == "string" else b"fine"
    with unchanged(table), pytest.raises(PartitionValueError, match="'p'"):
        table.append(given(row["type"], [(1, good), (2, typed(row["type"], row["value"]))]))


ODD = [
    "__HIVE_DEFAULT_PARTITION__", ".", "..", "../up", "/", "a/b=c", "x" * 300, "ü" * 200, "%41", "%", "%%%",
    "a%2", "\n", "\t", "\x7f", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff", "\ud7ff", "'", '"', "\\", ":", "*", "?",
    "#", "a#b?c", "[a]", "{}", "~", "`", "^", "null", "NULL", "true", "1", "İ", "e\u0301", "\u00e9", "_x", ".x",
    "part-00000", "_delta_log",
]  # fmt: skip


def test_odd_texts_are_the_same_to_all(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "string")
    table.append(given("string", list(enumerate(ODD))))
    everything = sorted(enumerate(ODD), key=repr)
    assert rows(table.read()) == everything
    assert rows(by_delta_spark(spark, table)) == everything
    assert rows(by_delta_rs(table)) == everything
    assert rows(by_duckdb(table)) == everything
    assert len(actions(table, "add")) == len(ODD)
    assert table.delete(pt.col("p") == "__HIVE_DEFAULT_PARTITION__").counts["rows_deleted"] == 1
    assert table.overwrite_partitions(given("string", [(100, "../up")])).counts["files_removed"] == 1
    assert table.update({"id": "id + 1000"}).counts["rows_updated"] == len(ODD) - 1
    assert rows(by_delta_spark(spark, table)) == rows(table.read())


# Twice it is half past one in Los Angeles on the second of November.
FIRST, SECOND = datetime(2025, 11, 2, 8, 30, tzinfo=UTC), datetime(2025, 11, 2, 9, 30, tzinfo=UTC)
FAULTS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "the hour that comes twice": ("timestamp", [FIRST, SECOND], [FIRST, FIRST]),
    "the text that stands for null": ("string", ["__HIVE_DEFAULT_PARTITION__", "a"], [None, "a"]),
    "bytes that are not UTF-8": ("binary", [b"\xde\xad\xbe\xef", b"a"], ["\u07ad\ufffd\ufffd".encode(), b"a"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_delta_spark_does_not_keep(spark: SparkSession, tmp_path: Path, name: str) -> None:
    type_, values, theirs = FAULTS[name]
    numbered = list(enumerate(values))
    with in_zone(spark, ZONE):
        frame = spark.createDataFrame(given(type_, numbered), f"id int, p {type_}")
        frame.write.format("delta").partitionBy("p").save(str(tmp_path / "theirs"))
    there = pt.open_table(str(tmp_path / "theirs"), format="delta")
    assert rows(by_delta_spark(spark, there)) == sorted(enumerate(theirs), key=repr)
    assert rows(there.read()) == sorted(enumerate(theirs), key=repr)
    if type_ == "binary":
        return
    with in_zone(spark, ZONE):
        table = create(tmp_path, type_)
        table.append(given(type_, numbered))
        assert rows(table.read()) == rows(by_delta_spark(spark, table)) == sorted(numbered, key=repr)
