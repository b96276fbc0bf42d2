"""CREATE TABLE and ALTER TABLE ... PARTITION FIELD, without Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import partita as pt

if TYPE_CHECKING:
    from pathlib import Path

CREATE = """
CREATE TABLE IF NOT EXISTS sales.orders (
  id BIGINT NOT NULL, ts TIMESTAMP, name STRING, `odd name` DECIMAL(10, 2),
  items ARRAY<STRUCT<sku: STRING, n: MAP<STRING, INT>>>
) USING iceberg
PARTITIONED BY (days(ts), bucket(16, id) AS shard, truncate(4, name), `odd name`)
TBLPROPERTIES ('format-version' = '2', write.merge.mode = 'merge-on-read', 'it\\'s' = 5)
"""


@pytest.fixture
def lake(tmp_path: Path) -> pt.Lake:
    return pt.Lake(str(tmp_path))


def test_a_table_is_created(lake: pt.Lake) -> None:
    table = lake.sql(CREATE)
    assert isinstance(table, pt.Table)
    assert str(table.spec) == "day(ts), bucket(16, id) AS shard, truncate(4, name), `odd name`"
    assert [(f.name, str(f.type), f.nullable) for f in table.schema] == [
        ("id", "long", False),
        ("ts", "timestamp", True),
        ("name", "string", True),
        ("odd name", "decimal(10,2)", True),
        ("items", "list<struct<sku:string,n:map<string,int>>>", True),
    ]
    again = lake.sql(CREATE)
    assert isinstance(again, pt.Table)
    assert again.uri == table.uri
    with pytest.raises(pt.TableExists):
        lake.sql("CREATE TABLE sales.orders (id INT) USING delta")


def test_a_delta_table_is_created(lake: pt.Lake) -> None:
    table = lake.sql("CREATE TABLE d (id INT, ts TIMESTAMP) USING DELTA PARTITIONED BY (days(ts), id)")
    assert isinstance(table, pt.Table)
    assert [f.name for f in table.spec.fields] == ["ts_day", "id"]


@pytest.mark.slow(reason="many random inputs")
def test_partition_fields_evolve(lake: pt.Lake) -> None:
    lake.sql(CREATE)

    def spec(change: str) -> str:
        table = lake.sql(f"ALTER TABLE sales.orders {change}")
        assert isinstance(table, pt.Table)
        return str(table.spec)

    assert spec("DROP PARTITION FIELD `odd name`") == "day(ts), bucket(16, id) AS shard, truncate(4, name)"
    assert spec("DROP PARTITION FIELD truncate(4, NAME)") == "day(ts), bucket(16, id) AS shard"
    assert spec("REPLACE PARTITION FIELD TS_DAY WITH hours(ts)") == "bucket(16, id) AS shard, hour(ts)"
    assert spec("REPLACE PARTITION FIELD shard WITH bucket(16, id) AS part") == "bucket(16, id) AS part, hour(ts)"
    assert (
        spec("REPLACE PARTITION FIELD bucket(16, id) WITH bucket(16, id) AS part") == "bucket(16, id) AS part, hour(ts)"
    )
    assert spec("ADD PARTITION FIELD name AS initial") == "bucket(16, id) AS part, hour(ts), name AS initial"
    assert spec("DROP PARTITION FIELD name") == "bucket(16, id) AS part, hour(ts)"
    assert len(lake.table("sales.orders").specs) == 6


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("ALTER TABLE sales.orders DROP PARTITION FIELD nothing", pt.SpecError, "no partition field nothing"),
        ("ALTER TABLE sales.orders DROP PARTITION FIELD bucket(8, id)", pt.SpecError, "no partition field bucket"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD days(ts), id", pt.SpecError, "one partition field at a time"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD days(nothing)", pt.PartitaError, "nothing"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD days(name)", pt.TransformError, "day"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD weeks(ts)", pt.SpecFormatError, "weeks"),
        ("ALTER TABLE sales.orders ADD PARTITION FIELD days(ts) AS again", pt.PartitaError, "twice"),
        ("ALTER TABLE sales.others ADD PARTITION FIELD id", pt.TableMissing, "others"),
        ("ALTER TABLE `../orders` ADD PARTITION FIELD id", pt.TableError, "not a table name"),
        ("CREATE TABLE a.b (x INT) USING orc", pt.TableError, "orc"),
        ("CREATE TABLE a.b (x INTERVAL) USING delta", pt.SchemaError, "INTERVAL"),
        ("CREATE TABLE a.b (x INT) USING delta PARTITIONED BY (bucket(4, x))", pt.PartitaError, "bucket"),
        ("CREATE TABLE a.b (x INT) USING iceberg PARTITIONED BY (y)", pt.PartitaError, "y"),
        ("CREATE TABLE `a b`.c (x INT) USING iceberg", pt.TableError, "not a table name"),
    ],
)
def test_a_refused_statement_changes_no_spec(lake: pt.Lake, text: str, error: type[Exception], problem: str) -> None:
    lake.sql(CREATE)
    before = lake.table("sales.orders").specs
    with pytest.raises(error, match=problem):
        lake.sql(text)
    assert lake.table("sales.orders").specs == before


def test_ddl_needs_no_spark(lake: pt.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    lake.sql(CREATE)
    lake.sql("ALTER TABLE sales.orders ADD PARTITION FIELD name")
