"""Changes of structs and lists with required fields keep the values, and refuse nulls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import ConstraintError
from tests.formats.delta.tables import sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POINT = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("name", pa.string())])
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("s", POINT), ("items", pa.list_(POINT))])


def test_changes_of_rows_with_required_fields_inside(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "p": "a", "s": {"x": 1, "name": None}, "items": [{"x": 1, "name": "i"}]},
        {"id": 2, "p": "a", "s": None, "items": None},
    ]
    table = pt.Lake(str(tmp_path)).create_table("t.t", SCHEMA, format="lance", partition_by=["p"])
    table.append(pa.Table.from_pylist(rows, SCHEMA))
    table.update({"s": "named_struct('x', id, 'name', p)"}, "id = 2")
    new = pa.Table.from_pylist([{**rows[1], "id": 1, "p": "b"}, {**rows[0], "id": 3}], SCHEMA)
    table.merge(new, "t.id = s.id", pt.when_matched().update(), pt.when_not_matched().insert())
    expected = [
        {**rows[1], "id": 1, "p": "b"}, {**rows[1], "s": {"x": 2, "name": "a"}}, {**rows[0], "id": 3}
    ]  # fmt: skip
    assert sorted_rows(table.read()) == sorted_rows(pa.Table.from_pylist(expected, SCHEMA))
    version = table.version
    with pytest.raises(ConstraintError, match=r"column 's\.x' may not be null"):
        table.update({"s": "named_struct('x', nullif(id, 2), 'name', p)"})
    with pytest.raises(ConstraintError, match=r"column 'items\.element\.x' may not be null"):
        table.update({"items": "array(named_struct('x', nullif(id, 2), 'name', p))"})
    assert table.version == version
