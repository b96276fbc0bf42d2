"""What a manifest list says of partitions."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from partita.formats.iceberg.manifests.entries import read_manifest_entries
from partita.formats.iceberg.manifests.partition_summaries import may_contain_partition, partition_summaries
from partita.formats.iceberg.snapshot_change import SnapshotChange
from partita.formats.iceberg.specs import partition_type
from tests.formats.iceberg.snapshot_tables import (
    append_files,
    commit_change,
    current_manifests,
    data_file,
    delete_file,
    manifest_list,
    new_table,
    partition_spec,
    table_ids,
)

Case = tuple[PrimitiveType, list[Any], bytes | None, bytes | None, bool, bool]


PARTITIONS: list[Case] = [
    (StringType(), ["b", "a", "é", None], b"a", "é".encode(), True, False),
    (StringType(), ["x" * 40, "y" * 40], b"x" * 40, b"y" * 40, False, False),
    (StringType(), [None], None, None, True, False),
    (IntegerType(), [5, -5], struct.pack("<i", -5), struct.pack("<i", 5), False, False),
    (DoubleType(), [math.nan, 1.5, -2.5], struct.pack("<d", -2.5), struct.pack("<d", 1.5), False, True),
    (DoubleType(), [math.nan, None], None, None, True, True),
    (DoubleType(), [0.0, -0.0], struct.pack("<d", -0.0), struct.pack("<d", 0.0), False, False),
    (DoubleType(), [-0.0, 0.0], struct.pack("<d", -0.0), struct.pack("<d", 0.0), False, False),
    (FloatType(), [-0.0, 0.5], struct.pack("<f", -0.0), struct.pack("<f", 0.5), False, False),
    (DecimalType(9, 2), [Decimal("1.00"), Decimal("-1.28")], b"\x80", b"\x64", False, False),
    (UUIDType(), [UUID(int=2), UUID(int=1)], UUID(int=1).bytes, UUID(int=2).bytes, False, False),
    (BinaryType(), [b"\xff", b"\x00"], b"\x00", b"\xff", False, False),
    (BooleanType(), [True, False], b"\x00", b"\x01", False, False),
    (DateType(), [1, -1], struct.pack("<i", -1), struct.pack("<i", 1), False, False),
    (TimestamptzType(), [1, -1], struct.pack("<q", -1), struct.pack("<q", 1), False, False),
]


@pytest.mark.parametrize("case", PARTITIONS)
def test_partitions_are_summarised(tmp_path: Path, case: Case) -> None:
    type_, values, lower, upper, null, nan = case
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", type_))
    table = new_table(tmp_path, schema, partition_spec((2, "identity", "p")))
    append_files(table, *(data_file(table, [{"id": index}], partition=[value]) for index, value in enumerate(values)))
    [manifest] = manifest_list(table)
    [summary] = manifest["partitions"]
    assert summary == {"contains_null": null, "contains_nan": nan, "lower_bound": lower, "upper_bound": upper}
    struct_type = partition_type(table.metadata, table.spec())
    summaries = partition_summaries(struct_type, [Record(value) for value in values])
    assert all(may_contain_partition(summaries, struct_type, Record(value)) for value in values)
    read = [entry.data_file.partition[0] for entry in read_manifest_entries(table.io, current_manifests(table)[0])]
    assert sorted(map(comparable, read)) == sorted(map(comparable, values))


def comparable(value: Any) -> str:
    return repr(getattr(value, "bytes", value))


def test_summaries_rule_partitions_out(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    type_ = partition_type(table.metadata, table.spec())
    summaries = partition_summaries(type_, [Record("b"), Record("d")])
    may_contain = {
        value: may_contain_partition(summaries, type_, Record(value)) for value in ("a", "b", "c", "d", "e", None)
    }
    assert may_contain == {"a": False, "b": True, "c": True, "d": True, "e": False, None: False}
    assert may_contain_partition(None, type_, Record("a"))


def test_summaries_of_a_narrower_type_are_read(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", IntegerType()))
    table = new_table(tmp_path, schema, partition_spec((2, "identity", "p")))
    file = data_file(table, [{"id": 1, "p": 7}, {"id": 2, "p": 7}])
    append_files(table, file)
    with table.update_schema() as update:
        update.update_column("p", LongType())
    commit_change(table, SnapshotChange("row_delta", [delete_file(table, {file.file_path: [0]}, file)]))
    assert table_ids(table) == [2]
