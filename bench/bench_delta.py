"""Delta tables on Spark: our writes, changes, reads and plans, beside delta-spark's, bare Parquet and delta-rs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from deltalake import DeltaTable

import partita as pt
from bench.harness import Row, Side, at_least, compare
from bench.orders import PARTITION_COUNT, ROW_COUNT, ROW_LEVEL_CHANGES, compute_rows, merge_source, order_rows
from partita.formats.delta.log import DeltaLog
from partita.spark import spark_session
from partita.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_COUNT = 100_000
REPEAT = 2
CONNECTOR_CONFIG = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.memory": "8g",
}


def rows() -> Iterator[Row]:
    """All in one session, over the same rows, which a Parquet file holds."""
    spark = spark_session(**CONNECTOR_CONFIG)
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        root = Path(folder)
        data = order_rows(spark, folder)
        yield from _compare_appends(root, data)
        made = _create_partita_table(root, data, "made")
        theirs = _create_delta_table(root, data, "theirs")
        yield from _compare_changes(root, spark, made, theirs)
        yield from _compare_reads(spark, made, theirs)
        yield from _compare_plans(root)


def _compare_appends(root: Path, data: DataFrame) -> Iterator[Row]:
    number = count()
    ours = Side(
        "append", lambda: _make_and_set_aside(root, f"ours-{next(number)}", partial(_create_partita_table, root, data))
    )
    bare = Side(
        "df.write.partitionBy().parquet()",
        lambda: _make_and_set_aside(
            root, f"bare-{next(number)}", lambda name: _write_frame(data, "parquet", f"{root}/{name}")
        ),
    )
    connector = Side(
        "delta-spark",
        lambda: _make_and_set_aside(root, f"delta-{next(number)}", partial(_create_delta_table, root, data)),
    )
    what = f"append {ROW_COUNT:,} rows of 12 columns into {PARTITION_COUNT} partitions"
    yield compare(what, ours=ours, theirs=bare, goal=at_least(1 / 1.1), repeat=REPEAT)
    yield compare(what, ours=ours, theirs=connector, goal=at_least(1 / 0.8), repeat=REPEAT)


def _compare_changes(root: Path, spark: SparkSession, ours: Path, theirs: Path) -> Iterator[Row]:
    """Each turn changes a copy of its own; the copies share the data files, which nobody changes."""
    source = merge_source(spark, str(root))
    for name, change, sql in ROW_LEVEL_CHANGES:
        mine = iter([_hard_link_copy(ours, root / f"mine-{at}") for at in range(REPEAT + 1)])
        other = iter([_hard_link_copy(theirs, root / f"other-{at}") for at in range(REPEAT + 1)])
        yield compare(
            f"{name} of {ROW_COUNT:,} rows",
            ours=Side("partita", lambda c=change, i=mine: c(pt.open_table(str(next(i)), format="delta"), source)),  # type: ignore[misc] # defaults bind
            theirs=Side("delta-spark", lambda s=sql, i=other: spark.sql(s.format(f"delta.`{next(i)}`"))),  # type: ignore[misc] # the same
            goal=at_least(1 / 0.8),
            repeat=REPEAT,
        )
        for at in range(REPEAT + 1):
            shutil.rmtree(root / f"mine-{at}")
            shutil.rmtree(root / f"other-{at}")


def _compare_reads(spark: SparkSession, ours: Path, theirs: Path) -> Iterator[Row]:
    table = pt.open_table(str(ours), format="delta")
    yield compare(
        "read one partition",
        ours=Side("partita", lambda: compute_rows(table.read("p = 42"))),
        theirs=Side("delta-spark", lambda: compute_rows(spark.read.format("delta").load(str(theirs)).where("p = 42"))),
        goal=at_least(1 / 0.5),
    )


def _compare_plans(root: Path) -> Iterator[Row]:
    """Both from a cold start: a new object that reads the log."""
    path = root / "wide"
    _write_large_log(path)
    yield compare(
        f"plan over {FILE_COUNT:,} files",
        ours=Side("plan", lambda: pt.open_table(str(path), format="delta").plan("p = 42 AND id >= 50000").files),
        theirs=Side("deltalake get_add_actions and a filter", lambda: _delta_rs_plan(path)),
    )


def _delta_rs_plan(path: Path) -> object:
    files = pc.field("partition.p")
    actions = DeltaTable(path).get_add_actions(flatten=True)
    import pyarrow as pa

    return pa.table(actions).filter((files == 42) & (pc.field("max.id") >= 50000))


def _write_large_log(path: Path) -> None:
    """A log of many files that don't exist."""
    lake = pt.Lake(str(path.parent))
    lake.create_table(path.name, pt.Schema.of({"id": "long", "p": "int"}), format="delta", partition_by=["p"])
    stats = '{{"numRecords":10,"minValues":{{"id":{0}}},"maxValues":{{"id":{1}}},"nullCount":{{"id":0}}}}'
    adds = [
        {
            "add": {
                "path": f"p={at % PARTITION_COUNT}/part-{at}.parquet",
                "partitionValues": {"p": str(at % PARTITION_COUNT)},
                "size": 1000,
                "modificationTime": 0,
                "dataChange": True,
                "stats": stats.format(at, at + 9),
            }
        }
        for at in range(FILE_COUNT)
    ]
    log = DeltaLog(Storage.from_uri(path))
    log.write_commit(1, adds)
    log.write_checkpoint(1)


def _create_partita_table(root: Path, data: DataFrame, name: str) -> Path:
    table = pt.Lake(str(root)).create_table(name, data.schema, format="delta", partition_by=["p"])
    table.append(data)
    return root / name


def _create_delta_table(root: Path, data: DataFrame, name: str) -> Path:
    _write_frame(data, "delta", f"{root}/{name}")
    return root / name


def _write_frame(data: DataFrame, format_name: str, path: str) -> None:
    data.write.format(format_name).partitionBy("p").save(path)


def _make_and_set_aside(root: Path, name: str, make: Callable[[str], object]) -> None:
    """Make a table, and leave its files to be removed with the folder: removing them is not what is measured."""
    make(name)
    shutil.move(root / name, root / f"done-{name}")


def _hard_link_copy(table: Path, copy: Path) -> Path:
    subprocess.run(["cp", "-al", str(table), str(copy)], check=True)  # noqa: S603, S607 - paths of our own
    return copy
