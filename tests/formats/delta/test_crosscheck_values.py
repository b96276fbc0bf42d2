"""Four readers read the values of the numbered table from Partita's tables, and Partita from delta-spark's."""

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
    actions_of_kind,
    arrow_table,
    assert_unchanged,
    comparable_value,
    read_with_delta_rs,
    read_with_delta_spark,
    read_with_duckdb,
    rows_by_name,
    sorted_rows,
    with_time_zone,
)
from tests.formats.partition_texts.test_values import TABLE, ZONE, vector_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = list(dict.fromkeys(row["type"] for row in TABLE["rows"]))


def writable_vectors(type_: str) -> list[dict[str, Any]]:
    return [row for row in TABLE["rows"] if row["type"] == type_ and not row.get("write_fails")]


def expected_rows(type_: str) -> list[tuple[Any, Any]]:
    """Return what a reader should return: the row's number and its value; an empty text is null."""
    rows = []
    for row in writable_vectors(type_):
        value = vector_value(type_, row["value"])
        rows.append((row["row"], None if value in ("", b"") else comparable_value(value)))
    return sorted(rows, key=repr)


def arrow_values(type_: str, values: list[tuple[int, Any]]) -> Any:
    return arrow_table({"id": ("int", [n for n, _ in values]), "p": (type_, [value for _, value in values])})


def arrow_vectors(type_: str) -> Any:
    return arrow_values(type_, [(row["row"], vector_value(type_, row["value"])) for row in writable_vectors(type_)])


def create_table(tmp_path: Path, type_: str) -> pt.Table:
    schema = pt.Schema.of({"id": "int", "p": type_})
    return pt.Lake(str(tmp_path)).create_table("t", schema, format="delta", partition_by=["p"])


@pytest.fixture(scope="module")
def written_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pt.Table]:
    """A table for each type, with every row of the numbered table that can be written."""
    tables = {}
    with with_time_zone(spark, ZONE):
        for type_ in TYPES:
            tables[type_] = create_table(tmp_path_factory.mktemp("values"), type_)
            tables[type_].append(arrow_vectors(type_))
    return tables


@pytest.mark.parametrize("type_", TYPES)
def test_the_log_holds_the_values_of_the_numbered_table(written_tables: dict[str, pt.Table], type_: str) -> None:
    adds = {
        add["partitionValues"]["p"]: add["path"].rpartition("/")[0]
        for add in actions_of_kind(written_tables[type_], "add")
    }
    assert adds == {row["partition_value"]: row["add_path"] for row in writable_vectors(type_)}
    for path in (add["path"] for add in actions_of_kind(written_tables[type_], "add")):
        assert Path(written_tables[type_].uri, unquote(path)).is_file()


@pytest.mark.parametrize("type_", TYPES)
def test_we_and_delta_spark_read_what_both_wrote(
    spark: SparkSession, written_tables: dict[str, pt.Table], tmp_path: Path, type_: str
) -> None:
    with with_time_zone(spark, ZONE):
        frame = spark.createDataFrame(arrow_vectors(type_), f"id int, p {type_}")
        frame.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))
    frames = {
        "ours by us": written_tables[type_].read(),
        "ours by delta-spark": read_with_delta_spark(spark, written_tables[type_]),
        "delta-spark's by us": pt.open_table(str(tmp_path / "t"), format="delta").read(),
    }
    assert rows_by_name(frames) == dict.fromkeys(frames, expected_rows(type_))


@pytest.mark.parametrize("type_", TYPES)
def test_delta_rs_reads_what_we_wrote(written_tables: dict[str, pt.Table], type_: str) -> None:
    assert sorted_rows(read_with_delta_rs(written_tables[type_])) == expected_rows(type_)


@pytest.mark.parametrize("type_", [type_ for type_ in TYPES if "decimal" not in type_])
def test_duckdb_reads_what_we_wrote(written_tables: dict[str, pt.Table], type_: str) -> None:
    assert sorted_rows(read_with_duckdb(written_tables[type_])) == expected_rows(type_)


def test_delta_rs_hands_no_negative_decimal_to_arrow(written_tables: dict[str, pt.Table]) -> None:
    # delta-rs 1.6 prints the sign of a partition value twice, whoever wrote it; so DuckDB can't have it.
    with pytest.raises(pa.ArrowInvalid, match=r"-1\.-23"):
        read_with_duckdb(written_tables["decimal(38,18)"])


REFUSED = [pytest.param(row, id=f"row {row['row']}") for row in TABLE["rows"] if row.get("write_fails")]


@pytest.mark.parametrize("row", REFUSED)
def test_a_row_that_is_refused_leaves_no_file(spark: SparkSession, tmp_path: Path, row: dict[str, Any]) -> None:
    table = create_table(tmp_path, row["type"])
    good = "fine" if row["type"] == "string" else b"fine"
    with assert_unchanged(table), pytest.raises(PartitionValueError, match="'p'"):
        table.append(arrow_values(row["type"], [(1, good), (2, vector_value(row["type"], row["value"]))]))


ODD = [
    "__HIVE_DEFAULT_PARTITION__", ".", "..", "../up", "/", "a/b=c", "x" * 300, "ü" * 200, "%41", "%", "%%%",
    "a%2", "\n", "\t", "\x7f", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff", "\ud7ff", "'", '"', "\\", ":", "*", "?",
    "#", "a#b?c", "[a]", "{}", "~", "`", "^", "null", "NULL", "true", "1", "İ", "e\u0301", "\u00e9", "_x", ".x",
    "part-00000", "_delta_log",
]  # fmt: skip


def test_odd_texts_are_the_same_to_all(spark: SparkSession, tmp_path: Path) -> None:
    table = create_table(tmp_path, "string")
    table.append(arrow_values("string", list(enumerate(ODD))))
    everything = sorted(enumerate(ODD), key=repr)
    rows_of_both = rows_by_name({"ours": table.read(), "delta-spark's": read_with_delta_spark(spark, table)})
    assert rows_of_both == {"ours": everything, "delta-spark's": everything}
    assert sorted_rows(read_with_delta_rs(table)) == everything
    assert sorted_rows(read_with_duckdb(table)) == everything
    assert len(actions_of_kind(table, "add")) == len(ODD)
    assert table.delete(pt.col("p") == "__HIVE_DEFAULT_PARTITION__").counts["rows_deleted"] == 1
    assert table.overwrite_partitions(arrow_values("string", [(100, "../up")])).counts["files_removed"] == 1
    assert table.update({"id": "id + 1000"}).counts["rows_updated"] == len(ODD) - 1
    rows_of_both = rows_by_name({"ours": table.read(), "delta-spark's": read_with_delta_spark(spark, table)})
    assert rows_of_both["delta-spark's"] == rows_of_both["ours"]


# Twice it is half past one in Los Angeles on the second of November.
FIRST, SECOND = datetime(2025, 11, 2, 8, 30, tzinfo=UTC), datetime(2025, 11, 2, 9, 30, tzinfo=UTC)
FAULTS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "the hour that comes twice": ("timestamp", [FIRST, SECOND], [FIRST, FIRST]),
    "the text that stands for null": ("string", ["__HIVE_DEFAULT_PARTITION__", "a"], [None, "a"]),
    "bytes that are not UTF-8": ("binary", [b"\xde\xad\xbe\xef", b"a"], ["\u07ad\ufffd\ufffd".encode(), b"a"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_values_that_delta_spark_does_not_keep(spark: SparkSession, tmp_path: Path, name: str) -> None:
    type_, values, theirs = FAULTS[name]
    numbered = list(enumerate(values))
    with with_time_zone(spark, ZONE):
        frame = spark.createDataFrame(arrow_values(type_, numbered), f"id int, p {type_}")
        frame.write.format("delta").partitionBy("p").save(str(tmp_path / "theirs"))
    table = pt.open_table(str(tmp_path / "theirs"), format="delta")
    rows_of_both = rows_by_name({"ours": table.read(), "delta-spark's": read_with_delta_spark(spark, table)})
    assert rows_of_both == dict.fromkeys(rows_of_both, sorted(enumerate(theirs), key=repr))
    if type_ == "binary":
        return
    with with_time_zone(spark, ZONE):
        table = create_table(tmp_path, type_)
        table.append(arrow_values(type_, numbered))
        rows_of_both = rows_by_name({"ours": table.read(), "delta-spark's": read_with_delta_spark(spark, table)})
        assert rows_of_both == dict.fromkeys(rows_of_both, sorted(numbered, key=repr))
