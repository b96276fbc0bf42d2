"""Names of columns, partition values and texts that mean something to a path, to SQL or to a format."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import partita as pt
from partita.errors import PartitaError
from partita.formats.capabilities import Operation
from tests.conformance.row_model import ROWS, Row, arrow_rows, read_rows, refusal_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HOSTILE_VALUES = [
    "it's", '"', "%", "a%2Fb", "a/b", "a=b", "ü 雪", "$x", "${x}", " ", "\\", "x" * 60, "\U0001f600", "..", ".", "a.b",
    "__HIVE_DEFAULT_PARTITION__x", "null", "NULL", "\n", "\t", "a:b", "a?b#c", "*", "[a]", "{}", ";--", "`", "A", "%20",
    "İ", "e\u0301", "é", "_x", "~",
]  # fmt: skip
HOSTILE_NAMES = [
    "it's", '"', "%", "ü雪", "a/b", "select", "1", "$", "_x", "UPPER", "key", "spec_id", "rows", "bytes", "files",
    "_metadata", "_pos", "a\\b", "n" * 100,
]  # fmt: skip
"""Names that every format takes."""
REFUSED_OR_TAKEN_NAMES = ["a b", "a.b", "a`b", "a,b;c{}()=", "\n\t", " "]
"""Names that a format refuses when the table is made, or that work."""


@pytest.mark.needs(Operation.APPEND)
def test_hostile_partition_values(table: pt.Table) -> None:
    model: list[Row] = [{"id": 100 + number, "p": text, "n": number} for number, text in enumerate(HOSTILE_VALUES)]
    table.append(arrow_rows(model))
    assert read_rows(table) == ROWS + model
    partitions = table.partitions()
    assert sorted(partitions["p"].to_pylist(), key=str) == sorted([*HOSTILE_VALUES, "a", "b", None], key=str)
    for row in model:
        plan = table.plan(pt.col("p") == row["p"])
        assert plan.files["rows"].to_pylist() == [1], row
    wanted = pa.table({"p": HOSTILE_VALUES[:8]})
    assert sorted(table.read_partitions(wanted, ["id"]).toArrow()["id"].to_pylist()) == list(range(100, 108))


@pytest.mark.needs(Operation.OVERWRITE_PARTITIONS)
def test_hostile_partition_values_are_overwritten(table: pt.Table) -> None:
    model: list[Row] = [{"id": 100 + number, "p": text, "n": number} for number, text in enumerate(HOSTILE_VALUES)]
    table.append(arrow_rows(model))
    table.overwrite_partitions(arrow_rows([row | {"n": -1} for row in model[::2]]))
    assert read_rows(table) == ROWS + [row | {"n": -1} if row["id"] % 2 == 0 else row for row in model]


def new_table(folder: Path, format_name: str, names: list[str]) -> pt.Table:
    """Make a table of text columns, partitioned by every other one."""
    schema = pt.Schema.of({"id": "long", **dict.fromkeys(names, "string")})
    return pt.Lake(str(folder)).create_table("t.t", schema, format=format_name, partition_by=names[::2])


def check_names(table: pt.Table, names: list[str]) -> None:
    """Check that rows go in and come out under their names."""
    values = {name: [f"v{number}", None] for number, name in enumerate(names)}
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), **values})
    table.append(rows)
    assert sorted(table.read().toArrow().to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()
    assert table.spec.names == tuple(names[::2])
    # Not every format knows the bounds of a file's data columns.
    pruned_names = names if table.plan("id = 1").files.num_rows == 1 else table.spec.names
    for name in names:
        planned_rows = table.plan(f"{quoted_name(name)} = '{values[name][0]}'").files["rows"].to_pylist()
        # A column with a dot in its name is not pruned by (ADR 7).
        is_pruned = name in pruned_names and "." not in name
        assert planned_rows == ([1] if is_pruned else [1, 1]), name
    conditions = [f"{quoted_name(name)} = '{value}'" for name, (value, _) in values.items()]
    assert table.read(" AND ".join(conditions), [names[0], "id"]).toArrow().to_pylist() == [{names[0]: "v0", "id": 1}]


def quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.needs(Operation.APPEND)
def test_hostile_names_of_columns(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    check_names(new_table(tmp_path, format_name, HOSTILE_NAMES), HOSTILE_NAMES)


@pytest.mark.needs(Operation.APPEND)
def test_other_names_of_columns_are_refused_or_work(format_name: str, spark: SparkSession, tmp_path: Path) -> None:
    taken = []
    for number, name in enumerate(REFUSED_OR_TAKEN_NAMES):
        folder = tmp_path / str(number)
        refusal = refusal_of(partial(new_table, folder, format_name, [name]))
        if refusal is None:
            taken.append(name)
        else:
            assert repr(name) in str(refusal), refusal
            assert pt.Lake(str(folder)).tables() == []
    if taken:
        check_names(new_table(tmp_path / "taken", format_name, taken), taken)


def test_names_that_no_table_has_are_refused(format_name: str, tmp_path: Path) -> None:
    lake = pt.Lake(str(tmp_path))
    for schema in (pa.schema([("a", pa.int64()), ("A", pa.int64())]), pa.schema([("a", pa.int64())] * 2)):
        with pytest.raises(PartitaError):
            lake.create_table("t.t", schema, format=format_name)
    with pytest.raises(PartitaError, match="''"):
        lake.create_table("t.t", pt.Schema.of({"id": "long", "": "string"}), format=format_name, partition_by=[""])
    assert lake.tables() == []
