"""Cases where the JVM runtime 1.12 is wrong: the fault is shown, and the reference is Spark over a plain copy."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import partita as pt
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    check_layout,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    read_with_pyiceberg,
    read_with_strict_reader,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pt.Schema.of({"id": "long", "p": "string", "k": "int", "f": "double"})
NAN = float("nan")
MERGED = {"commit.manifest.min-count-to-merge": "2"}
MARKED = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}


def numbered_rows(first: int, count: int) -> pa.Table:
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "p": pa.array(["ab"[i % 2] for i in every], pa.string()),
            "k": pa.array([i % 3 for i in every], pa.int32()),
            "f": pa.array([[0.0, -0.0, NAN, 0.1, None, 1e300][i % 6] for i in every], pa.float64()),
        }
    )


def create(folder: Path, by: list[Any], **properties: str) -> pt.Table:
    return pt.Lake(str(folder)).create_table(
        "t.t", SCHEMA, format="iceberg", partition_by=by, properties={**MARKED, **properties}
    )


def fails_on_the_jvm(jvm: SparkSession, sql: str) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JJavaError)):
        jvm.sql(sql).collect()


def test_the_column_of_an_old_spec_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """There its DML fails, and an INSERT that merges manifests makes their tuples null."""
    table, jvm = create(tmp_path, ["p"], **MERGED), jvm_session(spark, tmp_path)
    table.append(numbered_rows(0, 12))
    table.delete("id in (2, 3)")
    table.evolve(drop=["p"], add=[pt.bucket("id", 2)])
    with pyiceberg_table(table).update_schema() as update:
        update.delete_column("p")
    truth = ReferenceTable(spark, numbered_rows(0, 12).drop_columns(["p"]))
    truth.delete("id in (2, 3)")
    old = {file.partition for file in live_files(table, DATA_CONTENT)}
    assert old == {("a",), ("b",)}
    fails_on_the_jvm(jvm, "delete from partita.t.t where id = 4")
    for first in (12, 18):
        # Each of these merges the manifests of before.
        table.append(numbered_rows(first, 6).drop_columns(["p"]))
        truth.append(numbered_rows(first, 6).drop_columns(["p"]))
    for change in (table, truth):
        change.delete("k = 1 and id % 4 = 0")
        change.update({"k": "k + id", "f": "0"}, "id % 5 = 1")
        change.merge(
            numbered_rows(9, 20).drop_columns(["p"]), "t.id = s.id", pt.when_matched("s.k = 2").delete(),
            pt.when_matched().update({"k": "-s.k"}), pt.when_not_matched().insert(),
        )  # fmt: skip
    check_layout(table)
    assert (
        sorted_rows(table.read())
        == truth.rows
        == sorted_rows(read_with_strict_reader(table))
        == sorted_rows(read_with_pyiceberg(table))
    )
    assert {file.partition for file in live_files(table, DATA_CONTENT) if file.spec_id == 0} == old
    assert {0, 1} == set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == set(live_spec_ids(table, DATA_CONTENT))


def test_two_fields_of_one_name_in_different_specs(spark: SparkSession, tmp_path: Path) -> None:
    """There DML fails."""
    table, jvm = create(tmp_path, [pt.bucket("id", 2)]), jvm_session(spark, tmp_path)
    table.evolve(rename={"id_bucket": "shard"})
    table.append(numbered_rows(0, 12))
    table.evolve(drop=["shard"], add=[pt.truncate("p", 1)])
    table.evolve(rename={"p_trunc": "shard"})
    table.append(numbered_rows(12, 12))
    fails_on_the_jvm(jvm, "delete from partita.t.t where id = 4")
    truth = ReferenceTable(spark, numbered_rows(0, 24))
    for change in (table, truth):
        change.delete("k = 1 and id % 4 = 0")
        change.update({"k": "k + id", "p": "'c'"}, "id % 5 = 1")
        change.merge(
            numbered_rows(9, 20), "t.id = s.id", pt.when_matched("s.k = 2").delete(),
            pt.when_matched().update({"k": "-s.k"}), pt.when_not_matched().insert(),
        )  # fmt: skip
    check_layout(table)
    assert (
        sorted_rows(table.read())
        == truth.rows
        == sorted_rows(read_with_strict_reader(table))
        == sorted_rows(read_with_pyiceberg(table))
    )
    assert sorted_rows(table.read("p = 'a' and id > 3")) == [row for row in truth.rows if row[1] == "a" and row[0] > 3]
    assert len(set(live_spec_ids(table, POSITION_DELETES_CONTENT))) == 2


FLOATS = ["f > 1.0", "f >= 0.1", "f = 0.0", "f = -0.0", "f < 0.0", "f <= 0.0", "isnan(f)", "f = double('NaN')",
          "f <> 0.0", "not (f > 1.0)", "f is null", "f in (0.0, 0.1)", "f between -0.0 and 0.1"]  # fmt: skip


def test_a_partition_of_doubles(spark: SparkSession, tmp_path: Path) -> None:
    """There `f > 1.0` misses NaN, and a DELETE of 0.0 leaves -0.0."""
    table, jvm = create(tmp_path, ["f"]), jvm_session(spark, tmp_path)
    table.append(numbered_rows(0, 12))
    table.evolve(add=["p"])
    table.append(numbered_rows(12, 12))
    spark.createDataFrame(numbered_rows(0, 24)).createOrReplaceTempView("plain_doubles")
    columns = ", ".join(f"({where}) as f{index}" for index, where in enumerate(FLOATS))
    plain = sorted_rows(spark.sql(f"select *, {columns} from plain_doubles"))  # noqa: S608
    frames = [table.read(where).selectExpr(f"{index} as number", "*") for index, where in enumerate(FLOATS)]
    found = sorted_rows(reduce(DataFrame.unionAll, frames))
    for index, where in enumerate(FLOATS):
        truth = [row[:4] for row in plain if row[4 + index]]
        assert [row[1:] for row in found if row[0] == index] == truth, where
    theirs = sorted_rows(jvm.sql("select * from partita.t.t where f > 1.0"))
    assert theirs != sorted_rows(table.read("f > 1.0")), "the JVM finds NaN now"
    truth_copy = ReferenceTable(spark, numbered_rows(0, 24))
    for change in (table, truth_copy):
        change.update({"k": "k + 10"}, "f > 1.0")
        change.delete("f = 0.0 and id < 20")
        change.update({"f": "-f"}, "f <= 0.1")
    # pyiceberg's decoder reads a double as a float, and so finds other partitions than there are.
    check_layout(table)
    assert sorted_rows(table.read()) == sorted_rows(read_with_strict_reader(table)) == truth_copy.rows
    table.overwrite_partitions(numbered_rows(1, 1))
    remaining = [row for row in truth_copy.rows if not (str(row[3]) == "-0.0" and row[1] == "b")]
    check_layout(table)
    assert (
        sorted_rows(table.read())
        == sorted_rows(read_with_strict_reader(table))
        == sorted([*remaining, *sorted_rows(numbered_rows(1, 1))], key=repr)
    )
