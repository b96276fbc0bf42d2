"""Iceberg tables on Spark: our writes, changes and reads beside those of Iceberg's own runtime, at its best settings.

Each turn of a change works on a table of its own, registered from the same metadata file, so that all begin alike and
share the data files, which nobody changes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count, tee
from itertools import repeat as again
from pathlib import Path
from typing import TYPE_CHECKING

import partita as pt
from bench.harness import Row, Side, at_least, compare
from bench.orders import PARTITION_COUNT, ROW_COUNT, ROW_LEVEL_CHANGES, compute_rows, merge_source, order_rows
from partita.formats.iceberg.catalogs import CATALOG_FILE, CATALOG_NAME, lake_catalog
from partita.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPEAT = 3
RUNTIME_CONFIG = {
    "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.46.1.3",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.driver.memory": "8g",
}
TABLE_PROPERTIES = {
    "format-version": "2", "write.distribution-mode": "hash", "write.delete.distribution-mode": "hash",
    "write.update.distribution-mode": "hash", "write.merge.distribution-mode": "hash",
    "write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read", "write.merge.mode": "merge-on-read",
    "write.delete.granularity": "partition", "write.parquet.compression-codec": "zstd",
}  # fmt: skip
"""What the runtime is quickest with here: deletes by partition, and no fanout writers."""


def rows() -> Iterator[Row]:
    """All in one session, over the same rows, which a Parquet file holds."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        spark = _iceberg_session(folder)
        data = order_rows(spark, folder)
        lake = pt.Lake(folder)
        yield from _compare_appends(spark, lake, data)
        _create_two_spec_table(lake, data)
        _create_two_spec_iceberg_table(spark, data)
        yield from _compare_changes(spark, lake)
        yield from _compare_reads(spark, lake)


def _iceberg_session(folder: str) -> SparkSession:
    catalog = f"spark.sql.catalog.{CATALOG_NAME}"
    return spark_session(
        **RUNTIME_CONFIG,
        **{
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{folder}/{CATALOG_FILE}",
            f"{catalog}.jdbc.schema-version": "V1",
            f"{catalog}.warehouse": folder,
            f"{catalog}.cache-enabled": "false",
        },
    )


def _compare_appends(spark: SparkSession, lake: pt.Lake, data: DataFrame) -> Iterator[Row]:
    number = count()
    yield compare(
        f"append {ROW_COUNT:,} rows of 12 columns into {PARTITION_COUNT} partitions",
        ours=Side("append", lambda: _create_table(lake, data, f"b.ours{next(number)}").append(data)),
        theirs=Side(
            f"Iceberg {_runtime_label()}", lambda: _append_with_iceberg(spark, data, f"b.theirs{next(number)}")
        ),
        goal=at_least(1 / 0.8),
        repeat=REPEAT,
    )


def _runtime_label() -> str:
    """Whether Hadoop forks a chmod for each file, which it does where its native library is missing."""
    places = [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    home = os.environ.get("HADOOP_HOME")
    places += [Path(home) / "lib/native"] if home else []
    native = any((place / "libhadoop.so").exists() for place in places)
    return "1.12" if native else "1.12, with a chmod forked for each file"


def _create_table(lake: pt.Lake, data: DataFrame, name: str) -> pt.Table:
    return lake.create_table(name, data.schema, format="iceberg", partition_by=["p"])


def _append_with_iceberg(spark: SparkSession, data: DataFrame, name: str) -> None:
    _create_iceberg_table(spark, data, name)
    _run_without_coalescing(spark, lambda: data.writeTo(f"{CATALOG_NAME}.{name}").append())


def _create_iceberg_table(spark: SparkSession, data: DataFrame, name: str) -> None:
    columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in data.schema.fields)
    settings = ", ".join(f"'{key}'='{value}'" for key, value in TABLE_PROPERTIES.items())
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG_NAME}.b")
    spark.sql(
        f"CREATE TABLE {CATALOG_NAME}.{name} ({columns}) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ({settings})"
    )


def _run_without_coalescing(spark: SparkSession, run: Callable[[], object]) -> object:
    """Without the coalescing of shuffles, which leaves Iceberg's writers with too few tasks."""
    key = "spark.sql.adaptive.coalescePartitions.enabled"
    spark.conf.set(key, "false")
    try:
        return run()
    finally:
        spark.conf.unset(key)


def _create_two_spec_table(lake: pt.Lake, data: DataFrame) -> None:
    table = _create_table(lake, data, "b.mine")
    table.append(data.where("id % 2 = 0"))
    table.evolve(add=[pt.bucket("user_id", 2)])
    table.append(data.where("id % 2 = 1"))


def _create_two_spec_iceberg_table(spark: SparkSession, data: DataFrame) -> None:
    _create_iceberg_table(spark, data, "b.other")
    name = f"{CATALOG_NAME}.b.other"
    _run_without_coalescing(spark, lambda: data.where("id % 2 = 0").writeTo(name).append())
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, user_id)")
    _run_without_coalescing(spark, lambda: data.where("id % 2 = 1").writeTo(name).append())


def _compare_changes(spark: SparkSession, lake: pt.Lake) -> Iterator[Row]:
    source = merge_source(spark, lake.uri)
    for name, change, sql in ROW_LEVEL_CHANGES:
        word = name.partition(" ")[0].lower()
        mine, other = (iter(_register_copies(lake, whose, word)) for whose in ("mine", "other"))
        yield compare(
            f"{name} of {ROW_COUNT:,} rows in two specs",
            ours=Side("partita", lambda c=change, i=mine: c(lake.table(next(i)), source)),  # type: ignore[misc] # defaults bind
            theirs=Side(
                f"Iceberg {_runtime_label()}",
                lambda s=sql, i=other: _run_without_coalescing(
                    spark, lambda: spark.sql(s.format(f"{CATALOG_NAME}.{next(i)}"))
                ),  # type: ignore[misc] # the same
            ),
            goal=at_least(1.0),
            repeat=REPEAT,
        )


def _register_copies(lake: pt.Lake, name: str, suffix: str) -> list[str]:
    """As many tables as there are turns, each at the snapshot of the named one."""
    catalog = lake_catalog(lake.storage)
    location = catalog.load_table(f"b.{name}").metadata_location
    names = [f"b.{name}_{suffix}{at}" for at in range(REPEAT + 1)]
    for copy in names:
        catalog.register_table(copy, location)
    return names


def _compare_reads(spark: SparkSession, lake: pt.Lake) -> Iterator[Row]:
    """After the MERGE, with its deletes. Both sides ask the catalog each time, and so see what others commit."""
    table = lake.table("b.mine_merge0")
    theirs = f"{CATALOG_NAME}.b.other_merge0"
    assert table.read().count() == spark.table(theirs).count()
    one = "p = 42"
    others = [where for number in range(PARTITION_COUNT) if (where := f"p = {number}") != one]

    def compare_read(
        what: str, wheres: Iterable[str], repeat: int, session_override: SparkSession | None = None
    ) -> Row:
        mine, other = tee(wheres)
        return compare(
            f"read {what}",
            ours=Side("partita", lambda: compute_rows(table.read(next(mine), spark=session_override))),
            theirs=Side(
                "Iceberg 1.12", lambda: compute_rows((session_override or spark).table(theirs).where(next(other)))
            ),
            goal=at_least(1.0),
            repeat=repeat,
        )

    # A tenth of a second is short: in five turns, what the JVM compiles meanwhile counts as much as the reading.
    yield compare_read("one partition after that", again(one), 51)
    # The first of them is the turn that isn't measured.
    yield compare_read("each of the others once", others, len(others) - 1)
    yield compare_read("all after that", again("true"), 5)
    # By default Iceberg's catalog keeps a table for half a minute, and doesn't see meanwhile what others commit.
    behind = spark.newSession()
    behind.conf.set(f"spark.sql.catalog.{CATALOG_NAME}.cache-enabled", "true")
    row = compare_read("each of the others once", others, len(others) - 1, behind)
    yield replace(row, theirs_label=f"{row.theirs_label}, as of up to 30 s ago", goal=None, ok=None)
