"""With column mapping by id, columns are found by field id, whatever their names in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partita as pt
from partita.errors import UnsupportedFeature
from tests.formats.delta.tables import RowTuples, read_with_delta_spark, rows_by_name, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def mapped_table(spark: SparkSession, tmp_path: Path) -> pt.Table:
    """A table of delta-spark with column mapping by id."""
    folder = tmp_path / "db" / "t"
    spark.sql(
        f"CREATE TABLE delta.`{folder}` (id BIGINT, a STRING, s STRUCT<x: BIGINT, y: STRING>, p STRING) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
    )
    spark.sql(
        f"INSERT INTO delta.`{folder}` VALUES (1, 'a', named_struct('x', 1, 'y', 'y'), 'p'), "  # noqa: S608 - ours
        "(2, 'b', null, 'p'), (3, null, named_struct('x', 3, 'y', null), 'q')"
    )
    return pt.Lake(str(tmp_path)).table("db.t")


def rewrite_columns(table: pt.Table, rename: Callable[[pa.Field], pa.Field]) -> None:
    """Replace each data file by one with other names of the same columns, in a commit of Partita."""
    log = Path(table.uri, "_delta_log")
    last = max(int(path.stem) for path in log.glob("*.json"))
    actions = [json.loads(line) for line in (log / f"{last:020}.json").read_text().splitlines()]
    changes = []
    for add in (action["add"] for action in actions if "add" in action):
        file = Path(table.uri, add["path"])
        rows = pq.read_table(file)
        moved = file.with_name(f"moved-{file.name}")
        fields = [rename(field) for field in rows.schema]
        arrays = [cast_struct(rows[index].combine_chunks(), field.type) for index, field in enumerate(fields)]
        pq.write_table(pa.table(arrays, schema=pa.schema(fields)), moved)
        path = f"{Path(add['path']).parent}/{moved.name}"
        changes.append({"remove": {"path": add["path"], "dataChange": True, "partitionValues": add["partitionValues"]}})
        changes.append({"add": {**add, "path": path, "size": moved.stat().st_size, "stats": None}})
    (log / f"{last + 1:020}.json").write_text("\n".join(map(json.dumps, changes)))


def cast_struct(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast a nested array to a type with other field names."""
    if not pa.types.is_struct(type_):
        return array
    inner = [array.field(index) for index in range(type_.num_fields)]
    return pa.StructArray.from_arrays(inner, fields=list(type_), mask=array.is_null())


def rename_field(field: pa.Field) -> pa.Field:
    """Return a field with other names at every depth, and the same ids.

    Names that nested fields swap are too much for delta-spark: Spark takes the type from the name.
    """
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([inner.with_name(f"moved {inner.name}") for inner in type_])
    number = field.metadata[b"PARQUET:field_id"].decode()
    return pa.field(f"c {int(number) + 1}", type_, metadata=field.metadata)


def rows_of_both(spark: SparkSession, table: pt.Table) -> RowTuples:
    """Return the rows, which are the same to Partita and to delta-spark."""
    rows = rows_by_name({"ours": table.read(), "theirs": read_with_delta_spark(spark, table)})
    assert rows["ours"] == rows["theirs"]
    return rows["ours"]


def test_names_of_others(spark: SparkSession, mapped_table: pt.Table) -> None:
    before = rows_of_both(spark, mapped_table)
    rewrite_columns(mapped_table, rename_field)
    assert rows_of_both(spark, mapped_table) == before
    assert sorted_rows(mapped_table.read("a = 'b'", columns=["id", "s"])) == [(2, None)]
    mapped_table.append(pa.table({"id": [4], "a": ["d"], "s": [{"x": 4, "y": "four"}], "p": ["p"]}))
    assert mapped_table.update({"a": "concat(a, '!')"}, "id < 3").counts["rows_updated"] == 2
    assert mapped_table.delete("id = 2").counts["rows_deleted"] == 1
    remaining = [(1, "a!", *before[0][2:]), before[2], (4, "d", (("x", 4), ("y", "four")), "p")]
    assert rows_of_both(spark, mapped_table) == remaining


def test_files_without_ids_are_refused(mapped_table: pt.Table) -> None:
    rewrite_columns(mapped_table, lambda field: field.remove_metadata())
    with pytest.raises(UnsupportedFeature, match="without field ids"):
        mapped_table.read()
