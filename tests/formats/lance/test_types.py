"""Arrow types without an equivalent in Spark are written and read back correctly, or refused by name."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from partita.formats.lance.namespace import SCHEMA_PROPERTY, set_namespace_properties
from partita.formats.lance.schema_json import schema_to_json
from tests.formats.lance.tables import create_lance_table, table_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NANOS = pa.array([1_735_718_400_000_000_001], pa.int64())
WHOLE = pa.array([1_735_718_400_000_001_000], pa.int64())


@pytest.mark.parametrize(
    "type_",
    [
        pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.struct([("a", pa.timestamp("ns"))]),
        pa.list_(pa.timestamp("ns")), pa.map_(pa.string(), pa.timestamp("ns")), pa.decimal256(50, 2),
        pa.decimal128(5, -2), pa.uuid(), pa.null(), pa.duration("us"), pa.dictionary(pa.int32(), pa.string()),
        pa.string_view(), pa.binary_view(), pa.month_day_nano_interval(), pa.list_(pa.list_(pa.uuid(), 2)),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_that_spark_has_none_for_is_refused_before_anything_is_made(tmp_path: Path, type_: pa.DataType) -> None:
    with pytest.raises(pt.SchemaError, match="column 'x"):
        create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("x", type_)]), [])
    assert not list(tmp_path.iterdir())
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64())]), [])
    with pytest.raises(pt.SchemaError, match="column 'x"):
        table.add_column(pa.field("x", type_))


ODD: dict[str, pa.Array] = {
    "u8": pa.array([255], pa.uint8()), "u16": pa.array([65535], pa.uint16()), "u32": pa.array([2**32 - 1], pa.uint32()),
    "u64": pa.array([2**64 - 1], pa.uint64()), "f16": pa.array([np.float16(1.5)], pa.float16()),
    "v16": pa.FixedSizeListArray.from_arrays(pa.array([np.float16(1.5), np.float16(2)], pa.float16()), 2),
    "ls": pa.array(["a"], pa.large_string()), "lb": pa.array([b"a"], pa.large_binary()),
    "ll": pa.array([[1]], pa.large_list(pa.int32())), "d64": pa.array([date(2025, 1, 1)], pa.date64()),
    "f3": pa.array([b"abc"], pa.binary(3)), "ms": pa.array([1], pa.timestamp("ms", "Europe/Berlin")),
    "dec": pa.array([1], pa.decimal256(20, 2)),
}  # fmt: skip


def test_types_that_spark_has_wider_ones_for_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(ODD)
    table = create_lance_table(tmp_path, rows.schema, [pt.bucket("u32", 4)])
    table.append(rows)
    [path] = table.plan().files["path"].to_pylist()
    assert lance.dataset(f"{table.uri}/{path}").to_table().equals(rows)
    read = table.read("u8 > 3 AND u32 >= 0 AND ls = 'a'").toArrow().to_pylist()
    assert [{**read[0], "u64": int(read[0]["u64"])}] == rows.to_pylist()


def test_rows_in_types_of_arrows_own_are_appended(spark: SparkSession, tmp_path: Path) -> None:
    table = create_lance_table(
        tmp_path, pa.schema([("s", pa.string()), ("b", pa.binary()), ("ts", pa.timestamp("us"))]), ["s"]
    )
    coded = pa.array(["x"]).dictionary_encode()
    table.append(pa.table({"s": coded, "b": pa.array([b"y"], pa.binary_view()), "ts": WHOLE.cast(pa.timestamp("ns"))}))
    assert [(r["s"], bytes(r["b"]), r["ts"].microsecond) for r in table.read().collect()] == [("x", b"y", 1)]
    with pytest.raises(pt.SchemaError, match=r"'ts'.*would lose data"):
        table.append(pa.table({"s": ["x"], "ts": NANOS.cast(pa.timestamp("ns"))}))
    assert table.read().count() == 1


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns")], ids=str)
def test_nanoseconds_of_other_writers_are_never_truncated(
    spark: SparkSession, tmp_path: Path, type_: pa.DataType
) -> None:
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64())]), [])
    root = table_store(table).current_version().root
    properties = {**table_store(table).current_version().properties}
    for at, numbers in enumerate((WHOLE, NANOS)):
        day = pa.array([n % 86_400_000_000_000 for n in numbers.to_pylist()], pa.int64())
        values = (day if pa.types.is_time(type_) else numbers).cast(type_)
        theirs = pa.table({"id": pa.array([at]), "x": values})
        lance.write_dataset(theirs, f"{table.uri}/data.lance", mode="append" if at else "create")
        set_namespace_properties(root, {**properties, SCHEMA_PROPERTY: schema_to_json(theirs.schema)})
        table.repair()
        assert table.read(columns=["id"]).count() == at + 1
        if pa.types.is_time(type_):
            continue  # Spark has the type only where it is switched on
        if at:
            with pytest.raises(Exception, match="would lose data"):
                table.read().toArrow()
        else:
            assert table.read().toArrow()["x"][0].as_py().microsecond == 1


def test_vectors_of_half_floats_are_searched(tmp_path: Path) -> None:
    from tests.formats.lance.tables import commit_rows

    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float16(), 2))]), [])
    numbers = pa.array(np.array([0, 0, 1, 1, 5, 5], np.float16))
    rows: Any = pa.table({"id": [0, 1, 2], "v": pa.FixedSizeListArray.from_arrays(numbers, 2)})
    commit_rows(table, rows)
    assert table.search([1.0, 1.25], "v", 2)["id"].to_pylist() == [1, 0]
