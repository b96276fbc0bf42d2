"""Statements on an Iceberg table of two specs, held to the same done by the API and on a plain copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.on_spark.job import Outcome
from tests.cli.terminal import run_here
from tests.formats.delta.tables import rows
from tests.formats.iceberg.plain_copy import PlainCopy
from tests.formats.iceberg.tables import DATA, POSITIONS, added_specs, agreed, jvm_session, listed, roll_back, specs_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAMES = ("sales.orders", "sales.twin")


def orders(first: int, count: int, *, plus: int = 0) -> pa.Table:
    """Orders of three countries, one of them null."""
    every = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "country": pa.array([["FR", "DE", None][at % 3] for at in every], pa.string()),
            "amount": pa.array([None if at % 7 == 0 else at + plus for at in every], pa.int32()),
        }
    )


class Evolved:
    """Two tables by country, then by country and bucket: one that statements change, one that the API does."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake = pt.Lake(str(folder))
        self.jvm = jvm_session(spark, folder)
        for name in NAMES:
            self.lake.sql(f"CREATE TABLE {name} (id BIGINT, country STRING, amount INT) "
                          "USING iceberg PARTITIONED BY (country)")  # fmt: skip
            self.lake.sql(f"INSERT INTO {name} SELECT * FROM given", given=orders(0, 12))  # noqa: S608
            self.lake.sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(2, id)")
            self.lake.sql(f"INSERT INTO {name} SELECT * FROM given", given=orders(12, 12))  # noqa: S608
        self.table, self.twin = map(self.lake.table, NAMES)
        self.base = [self.table.version, self.twin.version]

    def begin(self, spark: SparkSession) -> Evolved:
        """The tables as they were made."""
        for table, version in zip((self.table, self.twin), self.base, strict=True):
            roll_back(table, version)
            assert set(specs_of(table, DATA)) == {0, 1}
        self.copy = PlainCopy(spark, orders(0, 24))
        return self

    def same(self) -> None:
        """The rows are those of the copy and of the twin, and so are the files, each of the spec that it should be."""
        assert agreed(self.table, self.jvm) == rows(self.twin.read()) == self.copy.rows
        for table in (self.table, self.twin):
            assert set(specs_of(table, DATA)) == set(specs_of(table, POSITIONS)) == {0, 1}
            assert set(added_specs(table, DATA)) <= {1}
        assert laid_out(self.table) == laid_out(self.twin)


def laid_out(table: pt.Table) -> list[str]:
    """What each file is of, and how much it holds."""
    return sorted(repr((f.content, f.spec_id, f.partition, f.file.record_count)) for f in listed(table))


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Evolved:
    return Evolved(spark, tmp_path_factory.mktemp("lake"))


@pytest.fixture
def evolved(spark: SparkSession, made: Evolved) -> Evolved:
    return made.begin(spark)


def test_delete(evolved: Evolved) -> None:
    done = evolved.lake.sql("DELETE FROM sales.orders AS o WHERE o.amount % 5 = 1 OR o.id IN (3, 15, 17)")
    where = "amount % 5 = 1 or id in (3, 15, 17)"
    assert isinstance(done, Outcome)
    assert done.counts == evolved.twin.delete(where).counts
    evolved.copy.delete(where)
    evolved.same()


def test_update(evolved: Evolved) -> None:
    """Both sides are of before it, and some rows move to another partition."""
    evolved.lake.sql(
        "UPDATE sales.orders o SET o.amount = CAST(o.id * 100 AS INT), country = concat(o.country, o.amount) "
        "WHERE o.id % 6 = 1 OR (country IS NULL AND id IN (5, 20))"
    )
    values = {"amount": "cast(id * 100 as int)", "country": "concat(country, amount)"}
    where = "id % 6 = 1 or (country is null and id in (5, 20))"
    evolved.twin.update(values, where)
    evolved.copy.update(values, where)
    evolved.same()


def test_merge(evolved: Evolved) -> None:
    source = orders(9, 18, plus=50)
    evolved.lake.sql(
        """
        MERGE INTO sales.orders AS o USING news AS n ON o.id = n.id AND o.country <=> n.country
        WHEN MATCHED AND n.id % 5 = 0 THEN DELETE
        WHEN MATCHED AND n.id % 2 = 0 THEN UPDATE SET amount = o.amount + n.amount, country = 'IT'
        WHEN NOT MATCHED AND n.id > 24 THEN INSERT (id, country) VALUES (n.id, n.country)
        WHEN NOT MATCHED BY SOURCE AND o.id < 3 THEN UPDATE SET amount = -1
        """,
        news=source,
    )
    clauses = [
        pt.when_matched("s.id % 5 = 0").delete(),
        pt.when_matched("s.id % 2 = 0").update({"amount": "t.amount + s.amount", "country": "'IT'"}),
        pt.when_not_matched("s.id > 24").insert({"id": "s.id", "country": "s.country"}),
        pt.when_not_matched_by_source("t.id < 3").update({"amount": "-1"}),
    ]
    on = "t.id = s.id and t.country <=> s.country"
    evolved.twin.merge(source, on, *clauses)
    evolved.copy.merge(source, on, *clauses)
    evolved.same()


STARS = """
    MERGE INTO sales.orders USING news ON orders.id = news.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


def test_merge_of_all_columns(evolved: Evolved) -> None:
    """By name, whatever their order, and without what the table doesn't have."""
    source = orders(10, 4, plus=50).append_column("other", pa.array([1, 2, 3, 4]))
    source = pa.concat_tables([source, orders(30, 2).append_column("other", pa.array([5, 6]))])
    source = source.select(["other", "amount", "country", "id"])
    evolved.lake.sql(STARS, news=source)
    known = source.select(["id", "country", "amount"])
    clauses = [pt.when_matched().update(), pt.when_not_matched().insert()]
    evolved.twin.merge(known, "t.id = s.id", *clauses)
    evolved.copy.merge(known, "t.id = s.id", *clauses)
    evolved.same()


def test_one_after_another(evolved: Evolved) -> None:
    """Each on what the one before left, in files of both specs, with deletes of both."""
    source = orders(8, 8, plus=7)
    evolved.lake.sql("DELETE FROM sales.orders WHERE id % 4 = 0")
    evolved.lake.sql("UPDATE sales.orders SET amount = amount * 2 WHERE id % 3 = 1")
    evolved.lake.sql(STARS, news=source)
    evolved.lake.sql("DELETE FROM sales.orders WHERE amount > 40")
    for each in (evolved.twin, evolved.copy):
        each.delete("id % 4 = 0")
        each.update({"amount": "amount * 2"}, "id % 3 = 1")
        each.merge(source, "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert())
        each.delete("amount > 40")
    evolved.same()


def test_merge_by_the_command_line(
    evolved: Evolved, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partita = run_here(monkeypatch, capsys)
    statement = """
        MERGE INTO sales.orders o
        USING (SELECT * FROM VALUES (1L, 'gone'), (13L, 'gone'), (2L, 'IT'), (14L, 'IT'), (40L, 'IT') AS v(id, c)) n
        ON o.id = n.id
        WHEN MATCHED AND n.c = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET country = n.c
        WHEN NOT MATCHED THEN INSERT (id, country) VALUES (n.id, n.c)
    """
    folder = evolved.lake.uri.removeprefix("file://")
    done = partita("sql", "--lake", folder, "--json", "-", stdin=statement)
    assert (done.code, done.err) == (0, "")
    counts = json.loads(done.out)["counts"]
    assert (counts["rows_deleted"], counts["rows_updated"], counts["rows_inserted"]) == (2, 2, 1)
    source = pa.table({"id": pa.array([1, 13, 2, 14, 40], pa.int64()), "c": ["gone", "gone", "IT", "IT", "IT"]})
    clauses = [
        pt.when_matched("s.c = 'gone'").delete(),
        pt.when_matched().update({"country": "s.c"}),
        pt.when_not_matched().insert({"id": "s.id", "country": "s.c"}),
    ]
    for each in (evolved.twin, evolved.copy):
        each.merge(source, "t.id = s.id", *clauses)
    evolved.same()
