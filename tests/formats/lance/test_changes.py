"""Writing, reading and changing Lance tables on Spark gives the same rows as plain Python."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import partita as pt
from tests.formats.lance.tables import column_values, commit_rows, create_lance_table, create_seed_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from partita.formats.lance.lance_table import LanceTable

ORDERS = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("ts", pa.timestamp("us", "UTC")), ("country", pa.string()),
    ("price", pa.float64()),
])  # fmt: skip


def orders(*numbers: int, price: float | None = None) -> pa.Table:
    countries = ["US", "FR", None]
    start = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
    stamps = pa.array([int((start + n * 7200) * 1e6) for n in numbers], pa.int64()).cast(ORDERS.field("ts").type)
    prices = [n / 2 if price is None else price for n in numbers]
    names = [countries[n % 3] for n in numbers]
    columns = [pa.array(numbers, pa.int64()), stamps, pa.array(names, pa.string()), pa.array(prices, pa.float64())]
    return pa.table(columns, schema=ORDERS)


@pytest.fixture(scope="module")
def shared_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LanceTable:
    """A table that tests only read."""
    table = create_lance_table(tmp_path_factory.mktemp("shared"), ORDERS, [pt.day("ts"), "country"], "orders")
    table.append(orders(*range(30)))
    return table


@pytest.fixture
def table(shared_table: LanceTable, tmp_path: Path) -> LanceTable:
    """A copy of the shared table; a table holds no absolute paths."""
    shutil.copytree(shared_table.uri, tmp_path / "orders")
    return cast("LanceTable", pt.open_table(str(tmp_path / "orders"), format="lance"))


def sorted_rows(table: pt.Table, where: str | None = None) -> list[dict[str, Any]]:
    return sorted(table.read(where).toArrow().to_pylist(), key=lambda row: row["id"])


def test_appended_rows_are_read_back_with_their_types(shared_table: LanceTable) -> None:
    assert sorted_rows(shared_table) == orders(*range(30)).to_pylist()
    assert shared_table.partitions().num_rows == 9
    assert sum(shared_table.partitions()["rows"].to_pylist()) == 30
    assert shared_table.read().schema.simpleString() == "struct<id:bigint,ts:timestamp,country:string,price:double>"


PREDICATES = [
    "country = 'US'", "country IS NULL", "country != 'FR'", "price > 3 AND country = 'FR'", "id IN (1, 2, 29)",
    "ts >= '2025-01-02' AND ts < '2025-01-03'", "country = 'US' OR price < 2", "NOT (country = 'US' OR id > 5)",
    "length(country) = 2 AND id < 9", "price = 4.5", "country <=> NULL", "ts < '2025-01-01T05:00:00Z'",
    "country LIKE 'U%'", "id % 7 = 3", "false",
]  # fmt: skip


def test_predicates_find_what_spark_finds(shared_table: LanceTable, spark: SparkSession) -> None:
    everything = spark.createDataFrame(orders(*range(30)))
    expected = [F.sort_array(F.collect_list(F.expr(f"CASE WHEN {where} THEN id END"))) for where in PREDICATES]
    expected_row = everything.agg(*(e.alias(str(at)) for at, e in enumerate(expected))).collect()[0]
    both = None
    for at, where in enumerate(PREDICATES):
        rows = shared_table.read(where, columns=["id"]).withColumn("at", F.lit(at))
        both = rows if both is None else both.unionAll(rows)
    assert both is not None
    ids_by_predicate: dict[int, list[int]] = {at: [] for at in range(len(PREDICATES))}
    for row in both.collect():
        ids_by_predicate[row["at"]].append(row["id"])
    assert {PREDICATES[at]: sorted(ids) for at, ids in ids_by_predicate.items()} == {
        where: expected_row[str(at)] for at, where in enumerate(PREDICATES)
    }


def test_columns_in_the_order_that_is_asked_for_and_filters_in_lance(shared_table: LanceTable) -> None:
    rows = shared_table.read("id < 3", columns=["country", "id"])
    assert rows.columns == ["country", "id"]
    assert sorted(map(tuple, rows.collect()), key=str) == [("FR", 1), ("US", 0), (None, 2)]
    assert shared_table.read(columns=["country"]).count() == 30
    assert shared_table.read("country = 'US'", columns=["country"]).distinct().count() == 1


def test_overwrite_partitions_replaces_only_those_in_the_rows(table: LanceTable) -> None:
    table.overwrite_partitions(orders(0, 30, price=9.0))
    # Rows 0 and 30 are of the first and the third day, and of the US.
    remaining = [n for n in range(30) if n % 3 or 12 <= n < 24]
    assert [row["id"] for row in sorted_rows(table)] == [0, *remaining, 30]
    assert sorted_rows(table, "id = 0")[0]["price"] == 9.0


def test_overwrite_replaces_rows_that_match_a_predicate(table: LanceTable) -> None:
    table.overwrite(orders(3, price=1.0), "country = 'US'")
    assert [row["id"] for row in sorted_rows(table)] == sorted([3, *(n for n in range(30) if n % 3)])
    with pytest.raises(pt.TableError, match="part of"):
        table.overwrite(orders(3), "id = 3")
    with pytest.raises(pt.ConstraintError, match="does not match the predicate of the overwrite"):
        table.overwrite(orders(1), "country = 'US'")


def test_delete_by_rows_and_by_whole_leaves(table: LanceTable) -> None:
    done = table.delete("price < 2 OR country = 'FR'")
    expected = [n for n in range(30) if not (n / 2 < 2 or n % 3 == 1)]
    assert [row["id"] for row in sorted_rows(table)] == expected
    assert done.counts["rows_deleted"] == 30 - len(expected)
    assert table.delete("id = 1000").version is None
    assert column_values(table) == expected


def test_an_update_moves_a_row_whose_partition_changes(table: LanceTable) -> None:
    done = table.update({"price": "price * 2", "country": "'DE'"}, "id IN (4, 5)")
    assert done.counts["rows_updated"] == 2
    assert sorted_rows(table, "country = 'DE'") == [
        {**row, "country": "DE", "price": row["price"] * 2} for row in orders(4, 5).to_pylist()
    ]
    assert len(sorted_rows(table)) == 30
    leaf = lance.dataset(f"{table.uri}/ts_day=01/country=DE.lance")
    assert sorted(leaf.to_table()["id"].to_pylist()) == [4, 5]


def test_a_merge(table: LanceTable) -> None:
    source = pa.table({"id": [1, 2, 100], "price": [0.5, 0.25, 7.0], "gone": [True, False, False]})
    done = table.merge(
        source,
        "t.id = s.id",
        pt.when_matched("s.gone").delete(),
        pt.when_matched().update({"price": "s.price"}),
        pt.when_not_matched().insert({"id": "s.id", "price": "s.price", "country": "'XX'"}),
    )
    assert (done.counts["rows_deleted"], done.counts["rows_updated"], done.counts["rows_inserted"]) == (1, 1, 1)
    rows = {row["id"]: row for row in sorted_rows(table)}
    assert 1 not in rows
    assert rows[2]["price"] == 0.25
    assert rows[100] == {"id": 100, "ts": None, "country": "XX", "price": 7.0}
    assert len(rows) == 30
    with pytest.raises(pt.ConstraintError, match="more than one row"):
        table.merge(pa.table({"id": [3, 3]}), "t.id = s.id", pt.when_matched("s.id > 0").delete())
    table.merge(pa.table({"id": [3]}), "t.id = s.id", pt.when_not_matched_by_source("t.id > 3").delete())
    assert [row["id"] for row in sorted_rows(table)] == [0, 2, 3]


def test_a_change_on_leaves_that_others_wrote_to_counts_their_rows(table: LanceTable) -> None:
    path = table.plan("id = 0 AND country = 'US' AND ts < '2025-01-02'").files["path"][0].as_py()
    ts = datetime(2025, 1, 1, tzinfo=UTC)
    stranger = pa.table({"id": pa.array([500]), "ts": pa.array([ts], ORDERS.field("ts").type), "price": [1.0]})
    dataset = lance.dataset(f"{table.uri}/{path}")
    lance.write_dataset(stranger.cast(dataset.schema), dataset, mode="append")
    assert [row["id"] for row in sorted_rows(table, "id >= 500")] == [500]
    table.update({"price": "-1.0"}, "id IN (0, 500)")
    assert {row["id"]: row["price"] for row in sorted_rows(table, "price < 0")} == {0: -1.0, 500: -1.0}
    assert len(sorted_rows(table)) == 31


def test_a_partition_value_that_no_name_holds_is_refused_by_name(table: LanceTable) -> None:
    long = orders(1).set_column(2, "country", pa.array(["\U0001f600" * 100]))
    with pytest.raises(pt.PartitionValueError, match="'country'"):
        table.append(long)


def test_odd_values_and_every_sort_of_name(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 3)), ("o", pa.binary())])
    texts = ["", "a/b$c %", "__HIVE_DEFAULT_PARTITION__", "\U0001f600", "..", "x" * 200, None]
    numbers = [Decimal("-0.500"), Decimal("12.345"), None, *[Decimal("1.000")] * 4]
    octets = [b"", b"\x00\xff", None, *[b"x"] * 4]
    rows = pa.table([pa.array(range(7)), pa.array(texts), pa.array(numbers, schema.field("d").type), pa.array(octets)],
                    schema=schema)  # fmt: skip
    by = ["s", "d", "o", pt.truncate("d", 10), pt.bucket("s", 3), pt.hash("o")]
    table = create_lance_table(tmp_path, schema, by, "odd")
    table.append(rows)
    assert sorted_rows(table) == rows.to_pylist()
    in_process = create_lance_table(tmp_path, schema, by, "other")
    commit_rows(in_process, rows)
    assert sorted(table.plan().files["path"].to_pylist()) == sorted(in_process.plan().files["path"].to_pylist())


def test_nested_values_and_vectors(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([
        ("k", pa.string()), ("v", pa.list_(pa.float32(), 3)), ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32())),
    ])  # fmt: skip
    rows = pa.table(
        {
            "k": ["a", "b"], "v": [[1.0, 2.0, 3.0], None], "s": [{"a": 1, "b": None}, None], "l": [["x"], []],
            "m": [[("q", 1)], None],
        },
        schema=schema,
    )  # fmt: skip
    table = create_lance_table(tmp_path, schema, ["k", pt.hash("s")], "nested")
    table.append(rows)
    assert sorted(table.read().toArrow().to_pylist(), key=lambda r: r["k"]) == rows.to_pylist()
    path = table.plan("k = 'a'").files["path"][0].as_py()
    assert lance.dataset(f"{table.uri}/{path}").schema.field("v").type == pa.list_(pa.float32(), 3)
    with pytest.raises(pt.SchemaError, match=r"(?s)on an executor: rows don't fit the table: .*~ v: fixed_size_list"):
        table.append(pa.table({"k": ["c"], "v": pa.array([[1.0]], pa.list_(pa.float32()))}))


def test_search_as_a_job_finds_what_search_in_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    vectors = np.random.default_rng(3).random((300, 4), dtype=np.float32)
    schema = pa.schema([("id", pa.int64()), ("country", pa.string()), ("v", pa.list_(pa.float32(), 4))])
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 4)
    table = create_lance_table(tmp_path, schema, ["country"], "vectors")
    countries = pa.array([["US", "FR", None][n % 3] for n in range(300)])
    table.append(pa.table([pa.array(range(300)), countries, column], schema=schema))
    query = vectors[5].tolist()
    for where in (None, "country = 'FR' AND id > 10"):
        job = table.search_on_spark(query, "v", 7, where).toArrow()
        nearest = table.search(query, "v", 7, where)
        assert job["id"].to_pylist() == nearest["id"].to_pylist()
        assert job["country"].to_pylist() == nearest["country"].to_pylist()


def test_the_seeds_tree_read_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = create_seed_table(tmp_path)
    rows = table.read("event_date = '2025-12-11' AND country != 'FR'").collect()
    assert [tuple(row) for row in rows] == [(3, date(2025, 12, 11), "US")]
