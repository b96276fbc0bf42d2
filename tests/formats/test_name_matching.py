"""Names of columns find what Spark finds by them: in any case, or the exact ones in a case-sensitive session."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import partita as pt
from tests.spark.frames import session_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SETTING = "spark.sql.caseSensitive"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]})


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    with session_settings(spark, {SETTING: "true"}):
        yield


@pytest.mark.usefixtures("case_sensitive")
@pytest.mark.parametrize("form", ["delta", "iceberg", "lance"])
def test_a_case_sensitive_session_takes_exact_names_alone(form: str, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    table = lake.create_table("a.t", ROWS.schema, format=form, partition_by=["p"])
    table.append(ROWS)
    version = table.version
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: table.read("ID = 1"),
        "residual": lambda: table.read("ID % 2 = 1"),
        "col": lambda: table.read(pt.col("ID") == 1),
        "columns": lambda: table.read(columns=["ID"]),
        "plan": lambda: table.plan("P = 'a'"),
        "partitions": lambda: table.partitions("P = 'a'"),
        "delete": lambda: table.delete("P = 'a'"),
        "update": lambda: table.update({"id": "id + 1"}, "ID = 1"),
        "set": lambda: table.update({"ID": "id + 1"}),
        "overwrite": lambda: table.overwrite(ROWS.slice(0, 1), "P = 'a'"),
        "merge": lambda: table.merge(ROWS, "t.id = s.id", pt.when_matched().update({"ID": "s.id"})),
        "sql delete": lambda: lake.sql("DELETE FROM a.t WHERE P = 'a'"),
        "sql update": lambda: lake.sql("UPDATE a.t SET ID = 1"),
        "sql insert": lambda: lake.sql("INSERT INTO a.t (ID, p) VALUES (1L, 'a')"),
    }
    for name, call in calls.items():
        with pytest.raises(pt.PartitaError, match=r"[Cc]olumn.*'(id|p)'|its columns are: id, p"):
            pytest.fail(f"{name}: {call()}")
    assert table.version == version
    assert table.read("id = 1", columns=["id"]).collect() == [(1,)]
    assert table.update({"id": "id + 10"}, "id = 1 AND p = 'a'").counts["rows_updated"] == 1


@pytest.fixture
def twins(tmp_path: Path) -> pt.Table:
    """A table with columns that differ by case alone, which pyiceberg makes."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = SqlCatalog("c", **properties)
    catalog.create_namespace("a")
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64())])
    made = catalog.create_table("a.twins", schema)
    for number in (1, 2):
        made.append(pa.table([[number], [-number]], schema=schema))
    return pt.open_table("a.twins", catalog={"name": "c", **properties}, format="iceberg")


def test_an_exact_name_is_meant_where_no_session_judges(twins: pt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("partita.spark.session"), "running_session", lambda: None)
    assert [twins.plan(where).files.num_rows for where in ("a = 1", "A = 1", "A = -1")] == [1, 0, 1]
    assert [f.type.kind.value for f in map(twins.schema.find_field, "aA")] == ["long", "long"]


def test_a_session_tells_columns_apart_as_spark_does(twins: pt.Table, spark: SparkSession) -> None:
    with pytest.raises(pt.PredicateError, match="ambiguous: it could be a or A"):
        twins.plan("a = 1")
    with session_settings(spark, {SETTING: "true"}):
        assert twins.plan("a = 1").files.num_rows == 1
        assert twins.read("a = 1").collect() == [(1, -1)]
        assert twins.read("A = -2", columns=["A"]).collect() == [(-2,)]
