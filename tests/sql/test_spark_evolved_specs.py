"""Statements on an Iceberg table with two specs have the same result as the API, and as a plain copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.formats.operations.write_operation import ChangeResult
from tests.cli.terminal import in_process_runner
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    added_spec_ids,
    agreed_rows,
    jvm_session,
    live_files,
    live_spec_ids,
    roll_back,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAMES = ("sales.orders", "sales.twin")


def orders(first: int, count: int, *, plus: int = 0) -> pa.Table:
    """Orders of three countries, one of them null."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "country": pa.array([["FR", "DE", None][id_ % 3] for id_ in ids], pa.string()),
            "amount": pa.array([None if id_ % 7 == 0 else id_ + plus for id_ in ids], pa.int32()),
        }
    )


class EvolvedTables:
    """Two tables by country, then by country and bucket: statements change one, the API changes the other."""

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

    def begin(self, spark: SparkSession) -> EvolvedTables:
        """Roll both tables back to their first version."""
        for table, version in zip((self.table, self.twin), self.base, strict=True):
            roll_back(table, version)
            assert set(live_spec_ids(table, DATA_CONTENT)) == {0, 1}
        self.copy = ReferenceTable(spark, orders(0, 24))
        return self

    def check_equal(self) -> None:
        """Check that both tables have the rows of the copy, and the same files with the same specs."""
        assert agreed_rows(self.table, self.jvm) == sorted_rows(self.twin.read()) == self.copy.rows
        for table in (self.table, self.twin):
            assert (
                set(live_spec_ids(table, DATA_CONTENT)) == set(live_spec_ids(table, POSITION_DELETES_CONTENT)) == {0, 1}
            )
            assert set(added_spec_ids(table, DATA_CONTENT)) <= {1}
        assert file_layout(self.table) == file_layout(self.twin)


def file_layout(table: pt.Table) -> list[str]:
    """Return the content, spec, partition and row count of each file."""
    return sorted(repr((f.content, f.spec_id, f.partition, f.file.record_count)) for f in live_files(table))


@pytest.fixture(scope="module")
def created_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EvolvedTables:
    return EvolvedTables(spark, tmp_path_factory.mktemp("lake"))


@pytest.fixture
def evolved_tables(spark: SparkSession, created_tables: EvolvedTables) -> EvolvedTables:
    return created_tables.begin(spark)


def test_delete(evolved_tables: EvolvedTables) -> None:
    result = evolved_tables.lake.sql("DELETE FROM sales.orders AS o WHERE o.amount % 5 = 1 OR o.id IN (3, 15, 17)")
    where = "amount % 5 = 1 or id in (3, 15, 17)"
    assert isinstance(result, ChangeResult)
    assert result.counts == evolved_tables.twin.delete(where).counts
    evolved_tables.copy.delete(where)
    evolved_tables.check_equal()


def test_update(evolved_tables: EvolvedTables) -> None:
    """Assignments read the old values, and some rows move to another partition."""
    evolved_tables.lake.sql(
        "UPDATE sales.orders o SET o.amount = CAST(o.id * 100 AS INT), country = concat(o.country, o.amount) "
        "WHERE o.id % 6 = 1 OR (country IS NULL AND id IN (5, 20))"
    )
    values = {"amount": "cast(id * 100 as int)", "country": "concat(country, amount)"}
    where = "id % 6 = 1 or (country is null and id in (5, 20))"
    evolved_tables.twin.update(values, where)
    evolved_tables.copy.update(values, where)
    evolved_tables.check_equal()


def test_merge(evolved_tables: EvolvedTables) -> None:
    source = orders(9, 18, plus=50)
    evolved_tables.lake.sql(
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
    evolved_tables.twin.merge(source, on, *clauses)
    evolved_tables.copy.merge(source, on, *clauses)
    evolved_tables.check_equal()


STARS = """
    MERGE INTO sales.orders USING news ON orders.id = news.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


@pytest.mark.long
def test_merge_of_all_columns(evolved_tables: EvolvedTables) -> None:
    """Columns are matched by name in any order, and columns that the table lacks are ignored."""
    source = orders(10, 4, plus=50).append_column("other", pa.array([1, 2, 3, 4]))
    source = pa.concat_tables([source, orders(30, 2).append_column("other", pa.array([5, 6]))])
    source = source.select(["other", "amount", "country", "id"])
    evolved_tables.lake.sql(STARS, news=source)
    table_columns = source.select(["id", "country", "amount"])
    clauses = [pt.when_matched().update(), pt.when_not_matched().insert()]
    evolved_tables.twin.merge(table_columns, "t.id = s.id", *clauses)
    evolved_tables.copy.merge(table_columns, "t.id = s.id", *clauses)
    evolved_tables.check_equal()


def test_statements_in_sequence(evolved_tables: EvolvedTables) -> None:
    """Each statement changes the result of the one before, in files and delete files of both specs."""
    source = orders(8, 8, plus=7)
    evolved_tables.lake.sql("DELETE FROM sales.orders WHERE id % 4 = 0")
    evolved_tables.lake.sql("UPDATE sales.orders SET amount = amount * 2 WHERE id % 3 = 1")
    evolved_tables.lake.sql(STARS, news=source)
    evolved_tables.lake.sql("DELETE FROM sales.orders WHERE amount > 40")
    for table in (evolved_tables.twin, evolved_tables.copy):
        table.delete("id % 4 = 0")
        table.update({"amount": "amount * 2"}, "id % 3 = 1")
        table.merge(source, "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert())
        table.delete("amount > 40")
    evolved_tables.check_equal()


@pytest.mark.long
def test_merge_by_the_command_line(
    evolved_tables: EvolvedTables, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partita = in_process_runner(monkeypatch, capsys)
    statement = """
        MERGE INTO sales.orders o
        USING (SELECT * FROM VALUES (1L, 'gone'), (13L, 'gone'), (2L, 'IT'), (14L, 'IT'), (40L, 'IT') AS v(id, c)) n
        ON o.id = n.id
        WHEN MATCHED AND n.c = 'gone' THEN DELETE
        WHEN MATCHED THEN UPDATE SET country = n.c
        WHEN NOT MATCHED THEN INSERT (id, country) VALUES (n.id, n.c)
    """
    folder = evolved_tables.lake.uri.removeprefix("file://")
    process = partita("sql", "--lake", folder, "--json", "-", stdin=statement)
    assert (process.code, process.err) == (0, "")
    counts = json.loads(process.out)["counts"]
    assert (counts["rows_deleted"], counts["rows_updated"], counts["rows_inserted"]) == (2, 2, 1)
    source = pa.table({"id": pa.array([1, 13, 2, 14, 40], pa.int64()), "c": ["gone", "gone", "IT", "IT", "IT"]})
    clauses = [
        pt.when_matched("s.c = 'gone'").delete(),
        pt.when_matched().update({"country": "s.c"}),
        pt.when_not_matched().insert({"id": "s.id", "country": "s.c"}),
    ]
    for table in (evolved_tables.twin, evolved_tables.copy):
        table.merge(source, "t.id = s.id", *clauses)
    evolved_tables.check_equal()
