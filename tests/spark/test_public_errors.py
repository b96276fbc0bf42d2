"""What Spark, Arrow and pandas refuse is an error of Partita's that says what to do."""

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
from partita.spark import session
from partita.spark.object_stores import missing_file_system
from partita.spark.rows import translated
from tests.house.public_calls import FEW_WRONG, methods
from tests.house.worlds import DAMAGES, ROWS, make_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("delta", "iceberg", "lance")
ON_SPARK = ("append", "delete", "merge", "overwrite", "overwrite_partitions", "read", "read_partitions",
            "replace_partitions", "rewrite", "update")  # fmt: skip


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that nothing is done to."""
    folder = tmp_path_factory.mktemp("spark-world") / "lake"
    folder.mkdir()
    make_world(folder)
    return Path(shutil.copytree(folder, folder.with_name("backup")))


@pytest.fixture
def lake(backup: Path) -> pt.Lake:
    """A copy of it at its own place, to be broken."""
    place = backup.with_name("lake")
    shutil.rmtree(place)
    return pt.Lake(str(shutil.copytree(backup, place)))


def check(call: object, **given: object) -> None:
    """A call succeeds, or raises a `PartitaError`."""
    try:
        call.make(**given)  # type: ignore[attr-defined] # a call
    except PartitaError as error:
        if not str(error):
            raise


@pytest.mark.usefixtures("spark")
def test_wrong_arguments_of_what_runs_on_spark(lake: pt.Lake) -> None:
    for call in methods(lake.table("sales.delta")):
        if call.name.partition(".")[2] in ON_SPARK:
            for parameter in call.parameters:
                for wrong in FEW_WRONG:
                    check(call, **{parameter.name: wrong})


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("name", FORMATS)
def test_changes_of_a_table_with_a_damaged_data_file(lake: pt.Lake, name: str, damage: str) -> None:
    table = lake.table(f"sales.{name}")
    for file in sorted(Path(lake.uri, "sales", name).rglob("*")):
        is_data = (file.suffix == ".parquet" and "_delta_log" not in str(file)) or "eu.lance/data" in str(file)
        if is_data and file.is_file():
            DAMAGES[damage](file)
    update = pt.when_matched().update()
    changes: list[Callable[[], object]] = [
        partial(table.delete, "id = 1"),
        partial(table.merge, ROWS, "t.id = s.id", update, pt.when_not_matched().insert()),
        partial(table.update, {"id": "id + 1"}),
        table.rewrite,
    ]
    refused = []
    for change in changes:
        try:
            change()
        except PartitaError as error:
            assert ("region=eu" if name == "lance" else ".parquet") in str(error)  # noqa: PT017 - or it succeeds
            refused.append(change)
    assert len(refused) >= 2


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("values", [[1, "x"], [1, b"x"], [object(), None], [{"a": 1}, 2], [2**70, 1]])
def test_a_column_of_pandas_with_several_types(lake: pt.Lake, values: list[object]) -> None:
    with pytest.raises(SchemaError, match="column 'id' of the pandas DataFrame can't become one of a table"):
        lake.table("sales.delta").append(pd.DataFrame({"id": pd.Series(values, dtype="object"), "region": "eu"}))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("form", ["delta", "iceberg", "lance"])
def test_rows_with_a_column_twice(lake: pt.Lake, form: str) -> None:
    arrow = pa.table([[1], ["eu"], [2]], names=["id", "region", "id"])
    pandas = pd.DataFrame([[1, "eu", 2]], columns=["id", "region", "id"])
    table = lake.table(f"sales.{form}")
    for rows in (arrow, pandas, session().sql("SELECT 1L AS id, 'eu' AS region, 2L AS ID")):
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
    with pytest.raises(StorageError, match=r"spark\.jars\.packages") as caught, translated():
        spark.read.schema("a int").parquet(f"{scheme}://bucket@account.example.com/table/a.parquet").count()
    assert package in str(caught.value)


def test_the_package_of_an_object_store_by_what_hadoop_says() -> None:
    said = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    assert "hadoop-aws:3." in str(missing_file_system(said))
    assert "no file system for swift" in str(missing_file_system('No FileSystem for scheme "swift"'))
    assert missing_file_system("a job was cancelled") is None
