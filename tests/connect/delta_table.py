"""Write, change and read a Delta table over Spark Connect."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pyarrow as pa

import partita as pt
from partita.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_delta_table() -> None:
    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        schema = pt.Schema.of({"id": "long", "ts": "timestamp", "country": "string", "price": "double"})
        by = [pt.day("ts"), pt.identity("country")]
        table = pt.Lake(folder).create_table("orders", schema, format="delta", partition_by=by)
        table.append(
            spark.range(100).selectExpr(
                "id", "timestamp_seconds(id * 7200) AS ts", "concat('c', id % 3) AS country", "id / 10 AS price"
            )
        )
        table.delete("id % 10 = 7")
        table.update({"price": "-1"}, "country = 'c1' and id < 10")
        table.update({"country": "'moved'"}, "id = 99")
        source = spark.createDataFrame([(0, 5.0), (1, 6.0), (200, 7.0)], "id long, price double")
        merge_prices(table, source)
        rows = {row.id: (row.country, row.price) for row in table.read().collect()}
        assert len(rows) == 100 - 10 - 1 + 1, len(rows)
        assert 0 not in rows
        assert rows[1] == ("c1", 6.0), rows[1]
        assert rows[4] == ("c1", -1.0), rows[4]
        assert rows[99] == ("moved", 9.9), rows[99]
        assert rows[200] == (None, 7.0), rows[200]
        assert [row.id for row in table.read("ts < '1970-01-01T06:00:00Z'", ["id"]).orderBy("id").collect()] == [1, 2]
        check_char_columns(folder)
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        where = "ts < '1970-01-01 07:00:00' AND hour(ts) > 1"
        assert table.plan(where).time_zone == "Europe/Berlin"
        assert [row.id for row in table.read(where, ["id"]).orderBy("id").collect()] == [1, 2]
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        print(f"{table.version} versions")  # noqa: T201 - read by the test


def merge_prices(table: pt.Table, source: DataFrame) -> None:
    """Delete the row 0, give other rows that match a new price, and insert the rest."""
    table.merge(
        source,
        "t.id = s.id",
        pt.when_matched("s.id = 0").delete(),
        pt.when_matched().update({"price": "s.price"}),
        pt.when_not_matched().insert(),
    )


def check_char_columns(folder: str) -> None:
    """Check that CHAR columns are padded, compared and checked over Connect."""
    schema = pt.Schema.of({"id": "long", "c": "char(3)", "p": "char(2)"})
    table = pt.Lake(folder).create_table("codes", schema, format="delta", partition_by=["p"])
    table.append(pa.table({"id": [1, 2], "c": ["a", "b"], "p": ["D", "US"]}))
    assert [tuple(row) for row in table.read("p = 'D' AND concat(c, '') = 'a  '").collect()] == [(1, "a  ", "D ")]
    assert table.read().where("p = 'D' AND c = 'a'").count() == 1
    try:
        table.update({"c": "'long'"})
    except pt.ConstraintError as error:
        assert "CHAR(3)" in str(error), error  # noqa: PT017 - no test of pytest's
    else:
        raise AssertionError("a string that is too long was accepted")
