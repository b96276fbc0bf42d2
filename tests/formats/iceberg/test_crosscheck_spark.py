"""One table, two engines: the JVM's Iceberg runtime and Partita change it in turn, over one SQLite catalog."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import partita as pt
from partita.errors import UnsupportedFeature
from tests.formats.delta.tables import sorted_rows
from tests.formats.iceberg.reference_table import ReferenceTable
from tests.formats.iceberg.tables import (
    DATA_CONTENT,
    POSITION_DELETES_CONTENT,
    added_spec_ids,
    agreed_rows,
    assert_unchanged,
    check_layout,
    jvm_session,
    live_files,
    live_spec_ids,
    pyiceberg_table,
    read_with_jvm,
    read_with_pyiceberg,
    read_with_strict_reader,
)
from tests.formats.iceberg.test_evolution import SCHEMA, orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "partita.sales.orders"
MARKED = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))
COLUMNS = "id bigint, region string, ts timestamp, amount int, note string"


class TwoEngines:
    """A session whose catalog is the lake's, the lake, and a plain copy of the table's rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake = pt.Lake(str(folder))
        self.jvm = jvm_session(spark, folder)
        self.copy = ReferenceTable(spark, orders(0, 0))

    @property
    def table(self) -> pt.Table:
        return self.lake.table("sales.orders")

    def sql(self, text: str) -> list[Any]:
        return self.jvm.sql(text.format(t=NAME)).collect()

    def insert(self, rows: pa.Table) -> None:
        """Insert rows with the JVM runtime."""
        self.jvm.createDataFrame(rows).writeTo(NAME).append()
        self.copy.append(rows)

    def append(self, rows: pa.Table) -> None:
        """Append rows with Partita."""
        self.table.append(rows)
        self.copy.append(rows)

    def delete(self, where: str, *, by_jvm: bool) -> None:
        if by_jvm:
            self.sql(f"delete from {{t}} where {where}")  # noqa: S608 - the test's own
        else:
            self.table.delete(where)
        self.copy.delete(where)

    def update(self, values: dict[str, str], where: str, *, by_jvm: bool) -> None:
        if by_jvm:
            setting = ", ".join(f"{name} = {sql}" for name, sql in values.items())
            self.sql(f"update {{t}} set {setting} where {where}")  # noqa: S608 - the same
        else:
            self.table.update(values, where)
        self.copy.update(values, where)

    def merge(self, source: pa.Table, *, by_jvm: bool) -> None:
        on = "t.id = s.id and t.region <=> s.region"
        clauses = [
            pt.when_matched("s.amount is null").delete(),
            pt.when_matched().update({"amount": "s.amount + t.amount", "ts": "s.ts"}),
            pt.when_not_matched().insert(),
        ]
        if by_jvm:
            self.jvm.createDataFrame(source).createOrReplaceTempView("updates")
            self.sql(
                f"merge into {{t}} t using updates s on {on} when matched and s.amount is null then delete "
                "when matched then update set amount = s.amount + t.amount, ts = s.ts when not matched then insert *"
            )
        else:
            self.table.merge(source, on, *clauses)
        self.copy.merge(source, on, *clauses)

    def check_all_readers(self) -> None:
        """Check that each engine, pyiceberg and the strict reader find the rows of the copy."""
        check_layout(self.table, piled=True)
        truth = self.copy.rows
        assert sorted_rows(self.table.read()) == truth, "Partita"
        assert sorted_rows(read_with_jvm(self.jvm, self.table)) == truth, "the JVM"
        assert sorted_rows(read_with_pyiceberg(self.table)) == truth, "pyiceberg"
        assert sorted_rows(read_with_strict_reader(self.table)) == truth, "the strict reader"

    def listing_of_jvm(self) -> list[tuple[int, int]]:
        """Return content and spec of each live file, from the metadata tables of the JVM runtime."""
        files = self.sql("select content, spec_id from {t}.files")
        return sorted((row.content, row.spec_id) for row in files)

    def listing(self) -> list[tuple[int, int]]:
        return sorted((file.content, file.spec_id) for file in live_files(self.table))


@pytest.fixture
def engines(spark: SparkSession, tmp_path: Path) -> TwoEngines:
    return TwoEngines(spark, tmp_path)


# `test_evolution.py` compares copies on write with the JVM's runtime too.
@pytest.mark.parametrize("mode", ["merge-on-read", pytest.param("copy-on-write", marks=pytest.mark.long)])
def test_spark_creates_partita_modifies(engines: TwoEngines, mode: str) -> None:
    engines.sql("create namespace partita.sales")
    engines.sql(
        f"create table {{t}} ({COLUMNS}) using iceberg partitioned by (days(ts)) "
        f"tblproperties ({MARKED.replace('merge-on-read', mode)})"
    )
    engines.insert(orders(0, 18))
    engines.delete("id in (1, 2)", by_jvm=True)
    engines.sql("alter table {t} add partition field region")
    engines.insert(orders(18, 18))
    engines.delete("id in (20, 3)", by_jvm=True)
    assert agreed_rows(engines.table, piled=True) == engines.copy.rows
    # Partita's turn.
    engines.delete("amount % 4 = 2", by_jvm=False)
    engines.update({"region": "note", "note": "region"}, "id % 7 = 0", by_jvm=False)
    engines.merge(orders(10, 30), by_jvm=False)
    engines.check_all_readers()
    assert set(added_spec_ids(engines.table, DATA_CONTENT)) == {1}
    assert engines.listing() == engines.listing_of_jvm()
    if mode == "merge-on-read":
        assert set(live_spec_ids(engines.table, POSITION_DELETES_CONTENT)) == {0, 1}
        assert set(live_spec_ids(engines.table, DATA_CONTENT)) == {0, 1}
    # The JVM's again, which finds Partita's deletes.
    engines.sql("alter table {t} drop partition field days(ts)")
    engines.sql("alter table {t} add partition field bucket(2, id)")
    engines.delete("id % 6 = 5", by_jvm=True)
    engines.update({"amount": "amount + 1"}, "region is null", by_jvm=True)
    engines.merge(orders(35, 10), by_jvm=True)
    engines.delete("id % 5 = 4", by_jvm=False)
    engines.check_all_readers()


def test_partita_creates_spark_reads(engines: TwoEngines) -> None:
    table = engines.lake.create_table("sales.orders", SCHEMA, format="iceberg", partition_by=[pt.day("ts")])
    engines.append(orders(0, 18))
    table.evolve(add=["region"])
    engines.append(orders(18, 18))
    engines.delete("amount % 4 = 2", by_jvm=False)
    engines.update({"amount": "amount + 1", "region": "'apac'"}, "id % 6 = 2", by_jvm=False)
    table.evolve(drop=["ts_day"], add=[pt.bucket("id", 3)])
    engines.merge(orders(30, 10), by_jvm=False)
    engines.check_all_readers()
    assert engines.listing() == engines.listing_of_jvm()
    manifests = engines.sql("select content, partition_spec_id, length from {t}.manifests")
    loaded = pyiceberg_table(table)
    snapshot = loaded.current_snapshot()
    assert snapshot is not None
    assert sorted((row.content, row.partition_spec_id, row.length) for row in manifests) == sorted(
        (int(m.content), m.partition_spec_id, m.manifest_length) for m in snapshot.manifests(loaded.io)
    )
    operations = engines.sql("select operation from {t}.snapshots order by committed_at")
    assert [row.operation for row in operations] == ["append", "append", "delete", "overwrite", "overwrite"]
    # What the JVM does to it, whole and in part, is found again.
    engines.delete("id % 6 = 5", by_jvm=True)
    engines.merge(orders(35, 10), by_jvm=True)
    assert sorted_rows(engines.table.read()) == engines.copy.rows
    engines.sql("call partita.system.rewrite_position_delete_files('sales.orders')")
    assert sorted_rows(engines.table.read()) == engines.copy.rows
    engines.sql("call partita.system.rewrite_manifests('sales.orders')")
    engines.delete("id % 7 = 2", by_jvm=False)
    engines.check_all_readers()
    engines.sql(
        "call partita.system.rewrite_data_files(table => 'sales.orders', options => map('rewrite-all', 'true'))"
    )
    assert sorted_rows(engines.table.read()) == engines.copy.rows
    engines.update({"note": "region"}, "id % 5 = 1", by_jvm=False)
    engines.sql("call partita.system.expire_snapshots(table => 'sales.orders', older_than => timestamp '2100-01-01')")
    engines.check_all_readers()


# --- types

TYPES: dict[str, tuple[str, list[Any]]] = {
    "boolean": ("boolean", [True, False, None]),
    "int": ("int", [-(2**31), 0, 2**31 - 1, None]),
    "bigint": ("long", [-(2**63), 0, 2**63 - 1, None]),
    "float": ("float", [0.5, float("nan"), float("inf"), -1.25, None]),
    "double": ("double", [0.1, float("nan"), float("-inf"), 1e300, None]),
    "decimal(9,2)": ("decimal(9,2)", [Decimal("-0.01"), Decimal("0.00"), Decimal("9999999.99"), None]),
    "decimal(38,10)": ("decimal(38,10)", [Decimal("-1.5"), Decimal("9999999999999999999999999999.9999999999"), None]),
    "date": ("date", [date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None]),
    "timestamp": (
        "timestamp",
        [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2025, 11, 2, 9, 30, tzinfo=UTC), None],
    ),
    "timestamp_ntz": (
        "timestamp_ntz",
        [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2025, 3, 30, 2, 30), None],  # noqa: DTZ001
    ),
    "string": (
        "string",
        ["", "null", "a=b/c%2F", "é\u0301 日本 \U0001f600", "__HIVE_DEFAULT_PARTITION__", "' \"", None],
    ),
    "binary": ("binary", [b"", b"\x00\xff\xfe", b"null", None]),
}  # fmt: skip


CHANGED = ("float", "double", "decimal(38,10)", "timestamp_ntz", "string", "binary")
"""The types of which rows are changed too; the others have no values that are odd."""


def tuples(table: pt.Table) -> list[Any]:
    return sorted((file.partition for file in live_files(table)), key=repr)


def rows_of_every_type() -> pa.Table:
    """A row for each value of each type; its other columns have the first value of theirs."""
    from partita.algebra.type_text import parse_type
    from partita.arrow.schema import to_arrow_type

    first_values = [values[0] for _, values in TYPES.values()]
    rows = [first_values]
    for index, (_, values) in enumerate(TYPES.values()):
        rows += [[*first_values[:index], value, *first_values[index + 1 :]] for value in values[1:]]
    columns: dict[str, pa.Array] = {"id": pa.array(range(len(rows)), pa.int64())}
    for index, (type_, _) in enumerate(TYPES.values()):
        columns[f"v{index}"] = pa.array([row[index] for row in rows], to_arrow_type(parse_type(type_)))
    return pa.table(columns)


def test_values_of_every_type_as_partitions(spark: SparkSession, engines: TwoEngines) -> None:
    """The types partition a table of each engine by itself, and then of the other; both find the same by value."""
    engines.sql("create namespace partita.db")
    source = rows_of_every_type()
    names = source.column_names[1:]
    ours = engines.lake.create_table(
        "db.ours",
        pt.Schema.of({"id": "long", **{name: type_ for name, (type_, _) in zip(names, TYPES.values(), strict=True)}}),
        format="iceberg",
        partition_by=names,
    )
    ours.append(source)
    columns = ", ".join(["id bigint", *(f"{name} {sql}" for name, sql in zip(names, TYPES, strict=True))])
    engines.sql(
        f"create table partita.db.theirs ({columns}) using iceberg partitioned by ({', '.join(names)}) "
        f"tblproperties ({MARKED})"
    )
    engines.jvm.createDataFrame(source, columns).writeTo("partita.db.theirs").append()
    theirs = engines.lake.table("db.theirs")
    truth = sorted_rows(source)
    for table in (ours, theirs):
        assert sorted_rows(table.read()) == truth, table.name
        assert sorted_rows(read_with_jvm(engines.jvm, table)) == truth, table.name
        check_layout(table)
    assert tuples(ours) == tuples(theirs)
    theirs.evolve(add=[pt.bucket("id", 2)])
    theirs.append(source)
    remaining = truth
    for index, sql in enumerate(TYPES):
        if sql in CHANGED:
            assert theirs.delete(f"v{index} is null").counts["rows_deleted"] == 2, sql
            remaining = [row for row in remaining if row[index + 1] is not None]
    # The partition of the first row has its values of all types.
    assert theirs.overwrite_partitions(source.slice(0, 1)).counts["rows_inserted"] == 1
    assert (
        sorted_rows(theirs.read())
        == sorted_rows(read_with_jvm(engines.jvm, theirs))
        == sorted([*remaining, *(row for row in remaining if row[0] != 0)], key=repr)
    )


# --- what others may do to a table that Partita then reads


def test_columns_are_found_by_their_ids(engines: TwoEngines) -> None:
    engines.sql("create namespace partita.sales")
    engines.sql(
        "create table {t} (id int, a string, f float, m decimal(5, 2), s struct<x: int, y: string>, l array<int>) "
        f"using iceberg partitioned by (bucket(2, id)) tblproperties ({MARKED})"
    )
    engines.sql(
        "insert into {t} values (1, 'one', 0.5, 1.25, struct(1, 'y'), array(1, 2)), (2, 'two', 1.5, 2.5, null, null)"
    )
    for change in (
        "rename column a to b", "add column a long after id", "alter column id type bigint",
        "alter column f type double", "alter column m type decimal(9, 2)", "alter column s.x type bigint",
        "add column s.z string", "rename column s.y to w", "alter column m first", "add partition field a",
        "drop partition field bucket(2, id)",
    ):  # fmt: skip
        engines.sql(f"alter table {{t}} {change}")
    engines.sql(
        "insert into {t} select 9.75, 3, 30, 'three', 2.5, struct(cast(5000000000 as bigint), 'w', 'z'), array(3)"
    )
    table = engines.table

    def check_all_readers() -> None:
        rows = sorted_rows(table.read())
        assert rows == sorted_rows(read_with_jvm(engines.jvm, table))
        assert rows == sorted_rows(read_with_pyiceberg(table))

    check_all_readers()
    assert list(table.schema.names) == ["m", "id", "a", "b", "f", "s", "l"]
    assert sorted_rows(table.read("b = 'two'", columns=["b", "a", "s"])) == [("two", None, None)]
    assert sorted_rows(table.read("f < 1", columns=["id"])) == [(1,)]
    table.update(
        {"a": "id * 10000000000", "b": "concat(b, '!')", "s": "named_struct('x', id, 'w', b, 'z', b)"}, "id < 3"
    )
    assert sorted(row[2] for row in sorted_rows(table.read())) == [30, 10000000000, 20000000000]
    table.delete("a = 10000000000")
    check_all_readers()
    engines.sql("alter table {t} drop column b")
    engines.sql("alter table {t} add column b string")
    assert {row[-1] for row in sorted_rows(table.read())} == {None}
    table.update({"b": "'again'"}, "id = 2")
    check_all_readers()


def test_version_3_is_read_with_its_deletion_vectors_and_not_written(engines: TwoEngines) -> None:
    engines.sql("create namespace partita.sales")
    engines.sql(
        f"create table {{t}} ({COLUMNS}) using iceberg partitioned by (days(ts)) "
        f"tblproperties ('format-version' = '2', {MARKED})"
    )
    engines.insert(orders(0, 18))
    engines.delete("id in (1, 2)", by_jvm=True)
    engines.sql("alter table {t} set tblproperties ('format-version' = '3')")
    engines.sql("alter table {t} add partition field region")
    engines.insert(orders(18, 18))
    engines.delete("id % 4 = 2", by_jvm=True)
    engines.delete("id % 4 = 3", by_jvm=True)
    table = engines.table
    formats = {
        str(file.file.file_format).rpartition(".")[2].upper() for file in live_files(table, POSITION_DELETES_CONTENT)
    }
    assert "PUFFIN" in formats
    assert sorted_rows(table.read()) == sorted_rows(read_with_jvm(engines.jvm, table)) == engines.copy.rows
    assert sorted_rows(table.read("region = 'us'", columns=["id"])) == sorted(
        ((row[0],) for row in engines.copy.rows if row[1] == "us"), key=repr
    )
    for change in (
        lambda: table.append(orders(50, 1)), lambda: table.delete("id = 5"), lambda: table.update({"note": "''"}),
        lambda: table.evolve(drop=["region"]), lambda: table.overwrite_partitions(orders(50, 1)),
        lambda: table.merge(orders(5, 1), "t.id = s.id", pt.when_matched().delete()),
    ):  # fmt: skip
        with assert_unchanged(table), pytest.raises(UnsupportedFeature, match="3"):
            change()


def test_a_file_of_deletes_goes_on_after_the_jvm_merges_manifests(engines: TwoEngines) -> None:
    table = engines.lake.create_table(
        "sales.orders", SCHEMA, format="iceberg", partition_by=["region"],
        properties={"commit.manifest.min-count-to-merge": "2"},
    )  # fmt: skip
    for first in range(0, 12, 3):
        engines.append(orders(first, 3))
        engines.delete(f"id = {first + 1}", by_jvm=False)
        if first == 3:
            table.evolve(add=[pt.month("ts")])
    engines.insert(orders(50, 3))
    engines.append(orders(60, 3))
    engines.check_all_readers()
    assert agreed_rows(table, engines.jvm) == engines.copy.rows


def test_spark_refuses_a_row_that_matches_twice_too(spark: SparkSession, tmp_path: Path) -> None:
    """Whichever clause applies; `tests/conformance/test_merge.py` has the same merge by Partita."""
    engines = TwoEngines(spark, tmp_path)
    engines.lake.create_table("sales.orders", SCHEMA, format="iceberg", partition_by=["region"]).append(orders(0, 2))
    twice = pa.table({"id": [1, 1], "k": pa.array([1, 2], pa.int32())})
    engines.jvm.createDataFrame(twice).createOrReplaceTempView("twice")
    with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
        engines.sql(
            "MERGE INTO {t} t USING twice s ON t.id = s.id WHEN MATCHED AND s.k = 1 THEN UPDATE SET amount = s.k"
        )
