"""Statements on tables of each format have the check_rows result as queries of Spark on plain views."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import partita as pt
from tests.formats.delta.tables import with_time_zone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

FORMATS = ("delta", "iceberg")
# Columns with the names of aliases, and of keywords.
COLUMNS = "id BIGINT NOT NULL, t INT, country STRING, `select` DOUBLE, `odd-name` STRING, s STRUCT<id: INT, t: STRING>"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("t", pa.int32()), ("country", pa.string()),
                    ("select", pa.float64()), ("odd-name", pa.string()),
                    ("s", pa.struct([("id", pa.int32()), ("t", pa.string())]))])  # fmt: skip


def random_rows(seed: int, ids: list[int]) -> pa.Table:
    draw = random.Random(seed)  # noqa: S311 - data for a test
    rows = [
        {
            "id": number,
            "t": draw.choice([None, *range(5)]),
            "country": draw.choice([None, "FR", "DE", "it's"]),
            "select": draw.choice([None, 0.5, -1.0, 2.0]),
            "odd-name": draw.choice([None, "{a}", "b"]),
            "s": draw.choice([None, {"id": draw.randrange(5), "t": "x"}, {"id": None, "t": None}]),
        }
        for number in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


ROWS = random_rows(1, list(range(12)))
NEWS = random_rows(2, list(range(8, 16)))
GIVEN = pa.table({"n": [1, 2, 3, 99]})


@pytest.fixture(scope="module", params=FORMATS)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> pt.Lake:
    """Create a lake with a table that tests change, and one with `ROWS` that stays."""
    lake = pt.Lake(str(tmp_path_factory.mktemp(f"lake-{request.param}")))
    for name in ("sales.orders", "sales.kept"):
        lake.sql(f"CREATE TABLE {name} ({COLUMNS}) USING {request.param} PARTITIONED BY (country)")
    lake.table("sales.kept").append(ROWS)
    return lake


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[None]:
    """Create plain views of the check_rows rows."""
    rows_by_view = {"plain": ROWS, "news": NEWS, "given_view": GIVEN}
    for name, rows in rows_by_view.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    yield
    for name in rows_by_view:
        spark.catalog.dropTempView(name)


@pytest.fixture
def orders(lake: pt.Lake, views: None) -> pt.Table:
    """Return the table with the rows of `plain` again."""
    table = lake.table("sales.orders")
    table.overwrite(ROWS)
    return table


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def check_rows(lake: pt.Lake, spark: SparkSession, query: str) -> None:
    """Check that the table has the rows of a query on plain views."""
    assert sorted_rows(lake.table("sales.orders").read()) == sorted_rows(spark.sql(query))


def test_merge(lake: pt.Lake, orders: pt.Table, spark: SparkSession) -> None:
    """The aliases of the table and the source are swapped with those that Partita uses."""
    result = lake.sql(
        """
        MERGE INTO sales.orders AS s USING news AS t
        ON s.id = t.id AND (s.country <=> t.country OR t.t > 1 /* s.id */)
        WHEN MATCHED AND t.s.id IS NULL AND s.s.id IS NOT NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET s.t = t.t + s.t, country = concat(s.country, t.country, 's.id'), `SELECT` = s.s.id
        WHEN NOT MATCHED AND t.id > 12 THEN INSERT (id, country, `odd-name`) VALUES (t.id * 2, 'new', t.`odd-name`)
        WHEN NOT MATCHED BY SOURCE AND s.t = 1 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND s.`select` < 1 THEN UPDATE SET s.t = s.t - 100
        """
    )
    assert not isinstance(result, pt.Table)
    check_rows(
        lake,
        spark,
        """
        WITH pairs AS (SELECT a.*, b.id IS NOT NULL AS hit, b.t AS bt, b.country AS bc, b.s AS bs
          FROM plain a LEFT JOIN news b ON a.id = b.id AND (a.country <=> b.country OR b.t > 1))
        SELECT id, CASE WHEN hit THEN bt + t WHEN `select` < 1 THEN t - 100 ELSE t END AS t,
               CASE WHEN hit THEN concat(country, bc, 's.id') ELSE country END AS country,
               CASE WHEN hit THEN s.id ELSE `select` END AS `select`, `odd-name`, s
          FROM pairs WHERE CASE WHEN hit THEN NOT (bs.id IS NULL AND s.id IS NOT NULL) ELSE NOT t <=> 1 END
        UNION ALL
        SELECT id * 2, null, 'new', null, `odd-name`, null FROM news b WHERE id > 12 AND NOT EXISTS (
          SELECT 1 FROM plain a WHERE a.id = b.id AND (a.country <=> b.country OR b.t > 1))
        """,
    )


def test_merge_of_all_columns_from_a_query(lake: pt.Lake, orders: pt.Table, spark: SparkSession) -> None:
    lake.sql(
        """MERGE INTO sales.orders USING (
             SELECT n.*, 1 AS other FROM given n JOIN sales.kept k ON n.id - 4 = k.id WHERE k.id > 3) u
           ON orders.id = u.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
        given=NEWS,
    )
    picked = "SELECT * FROM news WHERE id - 4 IN (SELECT id FROM plain WHERE id > 3)"
    check_rows(lake, spark, f"{picked} UNION ALL SELECT * FROM plain WHERE id NOT IN (SELECT id FROM ({picked}))")  # noqa: S608


def test_update(lake: pt.Lake, orders: pt.Table, spark: SparkSession) -> None:
    """Swap two columns, move rows to a new partition, and use names with several meanings."""
    lake.sql(
        "UPDATE sales.orders T SET t = CAST(T.`select` AS INT), T.`select` = t.T, Country = coalesce(t.s.t, country) "
        "WHERE t.t > 1 AND (t.country = 'it\\'s' OR country IS NULL OR s.id = 1)"
    )
    condition = "a.t > 1 AND (a.country = 'it\\'s' OR a.country IS NULL OR a.s.id = 1)"
    check_rows(
        lake,
        spark,
        f"""SELECT id, IF({condition}, CAST(`select` AS INT), t) AS t,
                   IF({condition}, coalesce(a.s.t, country), country),
                   IF({condition}, t, `select`), `odd-name`, s FROM plain a""",  # noqa: S608 - a test's own
    )


@pytest.mark.parametrize(
    "condition",
    [
        "orders.country = 'FR'",
        "sales.orders.t > 1 OR orders.s.id = 2 OR s.t = 'x'",
        "exists(array(1, 2), x -> x = orders.t) AND `odd-name` LIKE '{a%'",
    ],
)
def test_delete(lake: pt.Lake, orders: pt.Table, spark: SparkSession, condition: str) -> None:
    lake.sql(f"DELETE FROM sales.orders WHERE {condition} -- all of them")  # noqa: S608
    plain = condition.replace("sales.orders.", "a.").replace("orders.", "a.")
    check_rows(lake, spark, f"SELECT * FROM plain a WHERE NOT coalesce({plain}, false)")  # noqa: S608


def test_insert(lake: pt.Lake, orders: pt.Table, spark: SparkSession) -> None:
    lake.sql("DELETE FROM sales.orders")
    lake.sql(
        "INSERT INTO sales.orders VALUES (1, 2, 'FR', 2.5, '{b}', null), "
        "(2L, 3, null, 1, 'x', struct(1 AS id, 'y' AS t))"
    )
    lake.sql("INSERT INTO sales.orders (country, id) SELECT upper(country), max(id) FROM sales.kept GROUP BY country")
    lake.sql("INSERT INTO sales.orders BY NAME SELECT 5 AS T, id FROM news WHERE id = 9")
    check_rows(
        lake,
        spark,
        """SELECT 1L AS id, 2 AS t, 'FR' AS country, 2.5D AS `select`, '{b}' AS `odd-name`,
                  cast(null AS STRUCT<id: INT, t: STRING>)
           UNION ALL SELECT 2, 3, null, 1, 'x', struct(1 AS id, 'y' AS t)
           UNION ALL SELECT max(id), null, upper(country), null, null, null FROM plain GROUP BY country
           UNION ALL SELECT 9, 5, null, null, null, null""",
    )


def test_insert_overwrite(lake: pt.Lake, orders: pt.Table, spark: SparkSession) -> None:
    """One partition keeps some of its rows, one keeps all, and others are not in the rows."""
    lake.sql(
        r"INSERT OVERWRITE sales.orders "
        r"SELECT * FROM sales.orders WHERE country = 'it\'s' AND id > 5 OR country IS NULL"
    )
    check_rows(lake, spark, r"SELECT * FROM plain WHERE NOT country <=> 'it\'s' OR id > 5")
    assert ROWS.filter((pc.field("country") == "it's") & (pc.field("id") <= 5)).num_rows > 0


SELECTS = [
    "SELECT * FROM {orders}",
    "SELECT {orders}.id, kept.country FROM {orders} WHERE {orders}.country = 'FR'",
    "SELECT o.id, n.id FROM {orders} o LEFT JOIN news n ON o.id = n.id WHERE o.country = 'FR' AND n.id IS NULL",
    "SELECT o.id, n.id FROM news n LEFT JOIN {orders} o ON o.id = n.id WHERE o.country = 'FR' OR o.id IS NULL",
    "SELECT n.id FROM news n LEFT JOIN {orders} o ON o.id = n.id AND o.t = 2 WHERE o.country IS NULL",
    "SELECT a.id, b.id FROM {orders} a JOIN {orders} b ON a.t = b.t WHERE a.country = 'FR' AND b.country = 'DE'",
    "WITH kept AS (SELECT id + 100 AS id, t FROM {orders}) SELECT * FROM kept WHERE id > 105 AND t = 1",
    "SELECT id FROM news WHERE id IN (SELECT o.id FROM {orders} o WHERE o.country = news.country OR o.t = 1)",
    "SELECT country, count(*), max('{{x}}') FROM {orders} WHERE t BETWEEN 1 AND 3 GROUP BY country HAVING count(*) > 0",
    "SELECT id FROM {orders} WHERE country = 'FR' UNION ALL SELECT id FROM news WHERE country = 'DE'",
    "SELECT x.id FROM (SELECT * FROM {orders} WHERE s.id = 2) x FULL JOIN news ON x.id = news.id WHERE news.id IS NULL",
    "SELECT g.n FROM given g JOIN {orders} o ON g.n = o.id WHERE o.country IN ('FR', 'DE')",
]


@pytest.mark.parametrize("text", SELECTS)
def test_select(lake: pt.Lake, views: None, spark: SparkSession, text: str) -> None:
    rows = lake.sql(text.format(orders="sales.kept"), given=GIVEN.to_pandas())
    plain_text = text.format(orders="plain").replace("kept.", "plain.").replace("given g", "given_view g")
    assert sorted_rows(rows) == sorted_rows(spark.sql(plain_text))
    # Spark's own catalog.listTables() fails where plans are interpreted.
    assert not [row.tableName for row in spark.sql("SHOW TABLES").collect() if row.tableName.startswith("_pyspark")]


def test_files_are_pruned_if_that_is_sound(lake: pt.Lake, spark: SparkSession) -> None:
    def file_count(text: str) -> int:
        rows = lake.sql(text)
        return len(rows.inputFiles())  # type: ignore[union-attr] # a frame

    total = file_count("SELECT * FROM sales.kept")
    assert file_count("SELECT * FROM sales.kept WHERE country = 'FR'") < total
    self_join = "SELECT * FROM sales.kept a JOIN sales.kept b ON a.id = b.id WHERE a.country = 'FR'"
    assert file_count(f"{self_join} AND b.country = 'FR'") < file_count(self_join) == total
    with with_time_zone(spark, "Asia/Tokyo"):
        assert file_count("SELECT * FROM sales.kept WHERE country = 'FR'") < total


REFUSED = {
    "DELETE FROM sales.nothing": (pt.TableMissing, "nothing"),
    "DELETE FROM `sales.kept`": (pt.TableError, "can't contain a dot"),
    "DELETE FROM `a b`": (pt.TableError, "not a table name"),
    "DELETE FROM sales.kept WHERE id IN (SELECT id FROM sales.kept)": (pt.PredicateError, "subquery"),
    "DELETE FROM sales.kept o WHERE kept.id = 1": (pt.PredicateError, "there is no 'kept.id'"),
    "DELETE FROM sales.kept WHERE nothing = 1": (pt.PredicateError, "nothing"),
    "DELETE FROM sales.kept WHERE count(id) = 1": (pt.PredicateError, "Spark can't analyse the expression"),
    "UPDATE sales.kept SET nothing = 1": (pt.PredicateError, "no column 'nothing'"),
    "UPDATE sales.kept SET s.id = 1": (pt.PredicateError, "inside of a column"),
    "UPDATE sales.kept SET t = 1, T = 2": (pt.PredicateError, "set twice"),
    "UPDATE sales.kept SET t = nothing": (pt.PredicateError, "Spark can't analyse the expression"),
    "UPDATE sales.kept SET t = (SELECT max(t) FROM sales.kept)": (pt.PredicateError, "subquery"),
    "UPDATE sales.kept SET id = null WHERE id = 1": (pt.ConstraintError, "may not be null"),
    "INSERT INTO sales.kept VALUES (1, 2)": (pt.SchemaError, "2 values for 6 columns"),
    "INSERT INTO sales.kept (id, id) VALUES (1, 2)": (pt.SchemaError, "listed twice"),
    "INSERT INTO sales.kept (id, nothing) VALUES (1, 2)": (pt.PredicateError, "no column 'nothing'"),
    "INSERT INTO sales.kept (id, t) VALUES (1, 'x')": (pt.SchemaError, "cast it"),
    "INSERT INTO sales.kept (id, t) VALUES (1, 1.5)": (pt.ConstraintError, "does not fit int"),
    "INSERT INTO sales.kept (id, t) VALUES (1, 3000000000)": (pt.ConstraintError, "does not fit int"),
    "INSERT INTO sales.kept (t) VALUES (1)": (pt.SchemaError, "'id' is missing"),
    "INSERT INTO sales.kept BY NAME SELECT 1 AS id, 2 AS nothing": (pt.SchemaError, "nothing"),
    "SELECT * FROM sales.nothing": (pt.PredicateError, "nothing"),
    "SELECT nothing FROM sales.kept": (pt.PredicateError, "nothing"),
    "SELECT * FROM sales.kept VERSION AS OF 1": (pt.PredicateError, "as it is now"),
    "MERGE INTO sales.kept o USING nothing n ON o.id = n.id WHEN MATCHED THEN DELETE": (pt.PredicateError, "nothing"),
    "MERGE INTO sales.kept o USING news o ON o.id = 1 WHEN MATCHED THEN DELETE": (pt.PredicateError, "more than one"),
    "MERGE INTO sales.kept o USING news n ON id = 1 WHEN MATCHED THEN DELETE": (pt.PredicateError, "more than one"),
    "MERGE INTO sales.kept o USING news n ON t.id = s.id WHEN MATCHED THEN DELETE": (pt.PredicateError, "'t.id'"),
    "MERGE INTO sales.kept o USING news n ON o.id = n.id WHEN NOT MATCHED THEN INSERT (id) VALUES (o.id)":
        (pt.PredicateError, "there is no 'o.id'"),
    "MERGE INTO sales.kept o USING news n ON o.id = n.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = n.t":
        (pt.PredicateError, "there is no 'n.t'"),
    "MERGE INTO sales.kept o USING (SELECT id FROM news) n ON o.id = n.id WHEN MATCHED THEN UPDATE SET *":
        (pt.PredicateError, "the source has no column 't'"),
    "MERGE INTO sales.kept o USING (SELECT 8L i UNION ALL SELECT 8L) n ON o.id = n.i WHEN MATCHED AND true THEN DELETE":
        (pt.ConstraintError, "more than one|twice"),
    "MERGE INTO sales.kept o USING news n ON o.id = n.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE":
        (pt.TableError, "only the last"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_refused_statement_changes_nothing(lake: pt.Lake, views: None, text: str) -> None:
    table = lake.table("sales.kept")
    before = table.version
    error, problem = REFUSED[text]
    with pytest.raises(error, match=problem):
        lake.sql(text)
    assert table.version == before


def test_times_are_in_the_time_zone_of_the_session(tmp_path: Path, spark: SparkSession) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.sql("CREATE TABLE events (ts TIMESTAMP, day DATE, n INT) USING iceberg PARTITIONED BY (days(ts))")
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    lake.table("events").append(pa.table({"ts": [moment], "day": [date(2025, 1, 1)], "n": pa.array([1], pa.int32())}))
    with with_time_zone(spark, "Asia/Tokyo"):
        assert lake.sql("DELETE FROM events WHERE ts < '2025-01-01 09:00:00'").version is None
        assert lake.sql("SELECT * FROM events WHERE ts >= '2025-01-01 09:00:00'").count() == 1  # type: ignore[union-attr]
        assert lake.sql("SELECT * FROM events WHERE ts > '2025-01-01 09:00:00'").count() == 0  # type: ignore[union-attr]
        lake.sql("UPDATE events SET n = 2 WHERE hour(ts) = 9 AND day = TIMESTAMP '2025-01-01 00:00:00'")
        assert lake.sql("SELECT n FROM events").collect()[0].n == 2  # type: ignore[union-attr]
        lake.sql("DELETE FROM events WHERE ts < '2025-01-01 09:00:01'")
    assert lake.table("events").read().count() == 0


def test_generated_columns_need_not_be_given(tmp_path: Path, spark: SparkSession) -> None:
    lake = pt.Lake(str(tmp_path))
    lake.sql("CREATE TABLE d (id INT, ts TIMESTAMP) USING delta PARTITIONED BY (days(ts))")
    lake.sql("INSERT INTO d VALUES (1, TIMESTAMP '2025-01-01 05:00:00'), (2, null)")
    lake.sql("MERGE INTO d USING (SELECT id + 1 AS id, ts FROM d) n ON d.id = n.id "
             "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    rows = lake.sql("SELECT id, ts_day FROM d")
    assert sorted_rows(rows) == [(1, date(2025, 1, 1)), (2, date(2025, 1, 1)), (3, None)]
