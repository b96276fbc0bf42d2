"""Tables with column mapping by id: columns are found by field id, whatever the files call them."""

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
from tests.formats.delta.tables import by_delta_spark, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def mapped(spark: SparkSession, tmp_path: Path) -> pt.Table:
    """A table of delta-spark's."""
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


def stored_otherwise(table: pt.Table, rename: Callable[[pa.Field], pa.Field]) -> None:
    """Replace each data file by one with other names for the same columns, in a commit of our own."""
    log = Path(table.uri, "_delta_log")
    last = max(int(path.stem) for path in log.glob("*.json"))
    actions = [json.loads(line) for line in (log / f"{last:020}.json").read_text().splitlines()]
    changes = []
    for add in (action["add"] for action in actions if "add" in action):
        file = Path(table.uri, add["path"])
        found = pq.read_table(file)
        moved = file.with_name(f"moved-{file.name}")
        fields = [rename(field) for field in found.schema]
        arrays = [under(found[at].combine_chunks(), field.type) for at, field in enumerate(fields)]
        pq.write_table(pa.table(arrays, schema=pa.schema(fields)), moved)
        path = f"{Path(add['path']).parent}/{moved.name}"
        changes.append({"remove": {"path": add["path"], "dataChange": True, "partitionValues": add["partitionValues"]}})
        changes.append({"add": {**add, "path": path, "size": moved.stat().st_size, "stats": None}})
    (log / f"{last + 1:020}.json").write_text("\n".join(map(json.dumps, changes)))


def under(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The array with other names inside."""
    if not pa.types.is_struct(type_):
        return array
    inner = [array.field(at) for at in range(type_.num_fields)]
    return pa.StructArray.from_arrays(inner, fields=list(type_), mask=array.is_null())


def renamed(field: pa.Field) -> pa.Field:
    """A field with other names at every depth, and the same ids.

    Names that nested fields swap are too much for delta-spark: Spark takes the type from the name.
    """
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([inner.with_name(f"moved {inner.name}") for inner in type_])
    number = field.metadata[b"PARQUET:field_id"].decode()
    return pa.field(f"c {int(number) + 1}", type_, metadata=field.metadata)


def test_names_of_others(spark: SparkSession, mapped: pt.Table) -> None:
    before = rows(mapped.read())
    assert before == rows(by_delta_spark(spark, mapped))
    stored_otherwise(mapped, renamed)
    assert rows(mapped.read()) == before == rows(by_delta_spark(spark, mapped))
    assert rows(mapped.read("a = 'b'", columns=["id", "s"])) == [(2, None)]
    mapped.append(pa.table({"id": [4], "a": ["d"], "s": [{"x": 4, "y": "four"}], "p": ["p"]}))
    assert mapped.update({"a": "concat(a, '!')"}, "id < 3").counts["rows_updated"] == 2
    assert mapped.delete("id = 2").counts["rows_deleted"] == 1
    left = [(1, "a!", *before[0][2:]), before[2], (4, "d", (("x", 4), ("y", "four")), "p")]
    assert rows(mapped.read()) == left == rows(by_delta_spark(spark, mapped))


def test_files_without_ids_are_refused(mapped: pt.Table) -> None:
    stored_otherwise(mapped, lambda field: field.remove_metadata())
    with pytest.raises(UnsupportedFeature, match="without field ids"):
        mapped.read()
