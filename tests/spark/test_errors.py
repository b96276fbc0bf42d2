"""Errors of Spark, Arrow and pandas become errors of Partita that name the way out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

import partita as pt
from partita.errors import PartitaError, SchemaError, StorageError
from partita.spark import spark_session
from partita.spark.errors import missing_file_system_hint, translate_spark_errors
from tests.house.public_calls import FEW_INVALID_ARGUMENTS, public_methods
from tests.house.sample_lake import FILE_DAMAGES, ROWS, create_sample_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("delta", "iceberg", "lance")
SPARK_OPERATIONS = ("append", "delete", "merge", "overwrite", "overwrite_partitions", "read", "read_partitions",
            "replace_partitions", "rewrite", "update")  # fmt: skip


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a lake that no test changes."""
    folder = tmp_path_factory.mktemp("spark-world") / "lake"
    folder.mkdir()
    create_sample_lake(folder)
    return Path(shutil.copytree(folder, folder.with_name("backup")))


@pytest.fixture
def lake(backup: Path) -> pt.Lake:
    """Restore the lake from the backup, for a test to damage."""
    folder = backup.with_name("lake")
    shutil.rmtree(folder)
    return pt.Lake(str(shutil.copytree(backup, folder)))


def check_call(call: object, **arguments: object) -> None:
    """Check that a call succeeds, or raises a `PartitaError` with a message."""
    try:
        call.make(**arguments)  # type: ignore[attr-defined] # a call
    except PartitaError as error:
        if not str(error):
            raise


@pytest.mark.usefixtures("spark")
def test_invalid_arguments_of_operations_on_spark(lake: pt.Lake) -> None:
    for call in public_methods(lake.table("sales.delta")):
        if call.name.partition(".")[2] in SPARK_OPERATIONS:
            for parameter in call.parameters:
                for value in FEW_INVALID_ARGUMENTS:
                    check_call(call, **{parameter.name: value})


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, "cut") for name in FORMATS),
        ("delta", "missing"),
        *(pytest.param(name, "missing", marks=pytest.mark.long) for name in FORMATS if name != "delta"),
    ],
)
def test_changes_of_a_table_with_a_damaged_data_file(lake: pt.Lake, name: str, damage: str) -> None:
    table = lake.table(f"sales.{name}")
    for file in sorted(Path(lake.uri, "sales", name).rglob("*")):
        is_data = (file.suffix == ".parquet" and "_delta_log" not in str(file)) or "eu.lance/data" in str(file)
        if is_data and file.is_file():
            FILE_DAMAGES[damage](file)
    update = pt.when_matched().update()
    changes: list[Callable[[], object]] = [
        partial(table.delete, "id = 1"),
        partial(table.merge, ROWS, "t.id = s.id", update, pt.when_not_matched().insert()),
        partial(table.update, {"id": "id + 1"}),
        table.rewrite,
    ]
    failed = []
    for change in changes:
        try:
            change()
        except PartitaError as error:
            assert ("region=eu" if name == "lance" else ".parquet") in str(error)  # noqa: PT017 - or it succeeds
            failed.append(change)
    assert len(failed) >= 2


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("values", [[1, "x"], [1, b"x"], [object(), None], [{"a": 1}, 2], [2**70, 1]])
def test_a_column_of_pandas_with_several_types(lake: pt.Lake, values: list[object]) -> None:
    with pytest.raises(SchemaError, match="column 'id' of the pandas DataFrame can't be converted to Arrow"):
        lake.table("sales.delta").append(pd.DataFrame({"id": pd.Series(values, dtype="object"), "region": "eu"}))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("format_", FORMATS)
def test_rows_with_a_column_twice(lake: pt.Lake, format_: str) -> None:
    arrow = pa.table([[1], ["eu"], [2]], names=["id", "region", "id"])
    pandas = pd.DataFrame([[1, "eu", 2]], columns=["id", "region", "id"])
    table = lake.table(f"sales.{format_}")
    for rows in (arrow, pandas, spark_session().sql("SELECT 1L AS id, 'eu' AS region, 2L AS ID")):
        changes: tuple[Callable[[], object], ...] = (
            partial(table.append, rows),
            partial(table.overwrite, rows, "region = 'eu'"),
            partial(table.overwrite_partitions, rows),
            partial(table.merge, rows, "t.region = s.region", pt.when_matched().update()),
            partial(table.merge, rows, "t.region = s.region", pt.when_not_matched().insert()),
        )
        for change in changes:
            with pytest.raises(SchemaError, match=r"column 'id' (twice|more than once)"):
                change()


@pytest.mark.parametrize(
    ("scheme", "package"),
    [
        ("s3a", "org.apache.hadoop:hadoop-aws:3."),
        ("abfss", "org.apache.hadoop:hadoop-azure:3."),
        ("gs", "gcs-connector"),
    ],
)
def test_an_object_store_that_spark_has_no_classes_for(spark: SparkSession, scheme: str, package: str) -> None:
    with pytest.raises(StorageError, match=r"spark\.jars\.packages") as caught, translate_spark_errors():
        spark.read.schema("a int").parquet(f"{scheme}://bucket@account.example.com/table/a.parquet").count()
    assert package in str(caught.value)


def test_the_package_of_an_object_store_comes_from_the_error_of_hadoop() -> None:
    message = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    assert "hadoop-aws:3." in str(missing_file_system_hint(message))
    assert "no file system for swift" in str(missing_file_system_hint('No FileSystem for scheme "swift"'))
    assert missing_file_system_hint("a job was cancelled") is None
