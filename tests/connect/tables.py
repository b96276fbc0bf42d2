"""Runs under Spark Connect (see `run_in_connect`): a Delta table, written, changed and read."""

from __future__ import annotations

import tempfile

import partita as pt
from partita.spark import session


def main() -> None:
    spark = session()
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
        table.merge(
            source,
            "t.id = s.id",
            pt.when_matched("s.id = 0").delete(),
            pt.when_matched().update({"price": "s.price"}),
            pt.when_not_matched().insert(),
        )
        rows = {row.id: (row.country, row.price) for row in table.read().collect()}
        assert len(rows) == 100 - 10 - 1 + 1, len(rows)
        assert 0 not in rows
        assert rows[1] == ("c1", 6.0), rows[1]
        assert rows[4] == ("c1", -1.0), rows[4]
        assert rows[99] == ("moved", 9.9), rows[99]
        assert rows[200] == (None, 7.0), rows[200]
        assert [row.id for row in table.read("ts < '1970-01-01T06:00:00Z'", ["id"]).orderBy("id").collect()] == [1, 2]
        print(f"{table.version} versions")  # noqa: T201 - read by the test


main()
