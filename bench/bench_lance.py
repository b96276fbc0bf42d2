"""Lance tables: writes and reads on Spark beside Spark's partitioned Parquet, discovery beside a scan, search."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import lance
import numpy as np
import pyarrow as pa
from lance_namespace import ListNamespacesRequest, ListTablesRequest, connect

import partita as pt
from bench.harness import Row, Side, at_least, compare
from partita.formats.lance.lance_table import LanceTable
from partita.formats.lance.log import LanceLog, WriteOutcome, fold_outcomes
from partita.formats.lance.namespace import leaf_ids, read_namespace_tree, register_leaves
from partita.formats.lance.store import LanceTableStore
from partita.spark import spark_session
from partita.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 1_000_000
LEAF_COUNT = 32
DISCOVERED_LEAF_COUNT = 100_000
REPEAT = 3
VECTOR_SIZE = 64
COLUMNS = (
    "id", "id * 7919 % 1000003 as user_id", f"int(pmod(xxhash64(id), {LEAF_COUNT})) as p", "id % 1000 / 7d as price",
    "timestamp_micros(1735689600000000 + id * 17000) as ts", "id % 3 = 0 as flag", "concat('name-', id % 5000) as name",
    "concat('city-', id % 300) as city", "int(id % 97) as quantity",
)  # fmt: skip


def rows() -> Iterator[Row]:
    """All in one session, over the same rows, which a Parquet file holds."""
    with tempfile.TemporaryDirectory(prefix="partita-bench-") as folder:
        root = Path(folder)
        yield from _compare_discovery(root)
        yield from _compare_search(root)
        spark = spark_session(**{"spark.driver.memory": "4g"})
        spark.range(ROWS).selectExpr(*COLUMNS).coalesce(2).write.parquet(f"{root}/rows")
        data = spark.read.parquet(f"{root}/rows")
        yield _compare_writes(root, data)
        yield from _compare_reads(spark, root, data)


def _compare_writes(root: Path, data: DataFrame) -> Row:
    names = count()
    return compare(
        f"write {ROWS:,} rows to {LEAF_COUNT} leaves",
        ours=Side(
            "append",
            lambda: _make_and_set_aside(root, f"ours{next(names)}", lambda name: _create_table(root, data, name)),
        ),
        theirs=Side(
            "Spark's partitioned Parquet",
            lambda: _make_and_set_aside(
                root, f"theirs{next(names)}", lambda name: data.write.partitionBy("p").parquet(f"{root}/{name}")
            ),
        ),
        goal=at_least(1.0),
        repeat=REPEAT,
    )


def _compare_reads(spark: SparkSession, root: Path, data: DataFrame) -> Iterator[Row]:
    table = _create_table(root, data, "read")
    data.write.partitionBy("p").parquet(f"{root}/parquet")
    theirs = spark.read.parquet(f"{root}/parquet")
    assert _total_price(table.read()) == _total_price(theirs)
    yield compare(
        f"sum over {ROWS:,} rows",
        ours=Side("read", lambda: _total_price(table.read(columns=["price", "quantity"]))),
        theirs=Side("Spark on Parquet", lambda: _total_price(spark.read.parquet(f"{root}/parquet"))),
        goal=at_least(1 / 1.5),
        repeat=REPEAT,
    )
    where = "p = 7 AND quantity < 10"
    assert _total_price(table.read(where)) == _total_price(theirs.filter(where))
    yield compare(
        "sum over one partition, filtered",
        ours=Side("read(where)", lambda: _total_price(table.read(where, columns=["price", "quantity"]))),
        theirs=Side("Spark on Parquet", lambda: _total_price(spark.read.parquet(f"{root}/parquet").filter(where))),
        goal=at_least(1 / 1.2),
        repeat=REPEAT,
    )


def _total_price(rows: DataFrame) -> Any:
    return rows.selectExpr("round(sum(price * quantity), 2) AS s", "count(*) AS n").collect()[0]


def _compare_discovery(root: Path) -> Iterator[Row]:
    """A manifest and a log of many leaves that don't exist."""
    table = pt.Lake(str(root)).create_table(
        "wide", pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.string())]), format="lance",
        partition_by=["a", "b"],
    )  # fmt: skip
    storage = Storage.from_uri(table.uri)
    tree = read_namespace_tree(storage)
    names = [(f"a={n // 100}", f"b=v{n}") for n in range(DISCOVERED_LEAF_COUNT)]
    register_leaves(tree.root, [(one, tree.root.leaf_location(one)) for one in names])
    log = LanceLog(storage)
    ending = WriteOutcome(1, True, "append", 0, tuple(("$".join(one), 2, 10, 1000) for one in names))
    log.write_checkpoint(fold_outcomes(log.read_latest()[0], [ending]).with_leaf_order(leaf_ids(tree.root)))
    log.end_write(ending)

    def ours() -> object:
        return LanceTableStore(storage).current_version().partitions

    def scan() -> object:
        return lance.dataset(f"{table.uri}/__manifest").to_table()

    yield compare(
        f"discovery of {DISCOVERED_LEAF_COUNT:,} leaves",
        ours=Side("state", ours),
        theirs=Side("a raw scan of the manifest", scan),
        goal=at_least(1 / 5),
    )
    yield compare(
        f"discovery of {DISCOVERED_LEAF_COUNT:,} leaves",
        ours=Side("state", ours),
        theirs=Side("ListNamespaces, ListTables", lambda: _count_listed_tables(table.uri)),
        repeat=1,
    )


def _count_listed_tables(uri: str) -> int:
    namespace = connect("dir", {"root": uri})
    found = 0
    for name in namespace.list_namespaces(ListNamespacesRequest(id=["wide"])).namespaces:
        found += len(namespace.list_tables(ListTablesRequest(id=["wide", name])).tables)
    assert found == DISCOVERED_LEAF_COUNT
    return found


def _compare_search(root: Path) -> Iterator[Row]:
    """Vectors in a hundred leaves, each with its own index, and all in one data set without any."""
    rows_ = 200_000
    vectors = np.random.default_rng(1).random((rows_, VECTOR_SIZE), dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), VECTOR_SIZE)
    data = pa.table({"id": pa.array(range(rows_)), "g": pa.array(np.arange(rows_) % 100, pa.int32()), "v": column})
    table = cast(
        "LanceTable", pt.Lake(str(root)).create_table("vectors", data.schema, format="lance", partition_by=["g"])
    )
    for leaf in range(100):
        part = data.filter(pa.array(np.arange(rows_) % 100 == leaf)).drop_columns(["g"])
        lance.write_dataset(part, f"{table.uri}/g={leaf}.lance")
    table.repair()
    one = lance.write_dataset(data, f"{root}/one.lance")
    asked = vectors[17].tolist()

    def brute_force_search() -> pa.Table:
        return one.to_table(columns=["id"], nearest={"column": "v", "q": asked, "k": 10})

    assert table.search(asked, "v", 10, columns=["id"])["id"].to_pylist() == brute_force_search()["id"].to_pylist()
    yield compare(
        "top 10 over 100 leaves, exact", ours=Side("search", lambda: table.search(asked, "v", 10, columns=["id"])),
        theirs=Side("brute force over one data set", brute_force_search),
    )  # fmt: skip
    table.create_index("v", num_partitions=8, num_sub_vectors=16)
    yield compare(
        "top 10 over 100 leaves, indexed", ours=Side("search", lambda: table.search(asked, "v", 10, columns=["id"])),
        theirs=Side("brute force over one data set", brute_force_search),
    )  # fmt: skip


def _create_table(root: Path, data: DataFrame, name: str) -> pt.Table:
    table = pt.Lake(str(root)).create_table(name, data.schema, format="lance", partition_by=["p"])
    table.append(data)
    return table


def _make_and_set_aside(root: Path, name: str, make: Callable[[str], object]) -> None:
    """Make a table, and leave its files to be removed with the folder: removing them is not what is measured."""
    make(name)
    shutil.move(root / name, root / f"done-{name}")
