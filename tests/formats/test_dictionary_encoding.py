"""Which columns of a data file get a dictionary."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partita.formats.dictionary_encoding import dictionary_columns
from partita.formats.parquet_files import ParquetSink
from partita.storage import Storage

SIZE = 5_000
REPEATED = {
    "number": pa.array([at % 7 for at in range(SIZE)]),
    "text": pa.array([f"city-{at % 300}" for at in range(SIZE)]),
    "empty": pa.array([""] * SIZE),
    "amount": pa.array([Decimal(at % 50) / 100 for at in range(SIZE)], pa.decimal128(12, 2)),
    "long": pa.array([Decimal(at % 50) for at in range(SIZE)], pa.decimal128(38, 0)),
    "fixed": pa.array([b"1234567890123456"] * SIZE, pa.binary(16)),
    "nothing": pa.nulls(SIZE, pa.int64()),
    "mostly_null": pa.array([None if at % 9 else at % 4 for at in range(SIZE)]),
    "nan": pa.array([float("nan") if at % 2 else -0.0 for at in range(SIZE)]),
}
DISTINCT = {
    "id": pa.array(range(SIZE)),
    "code": pa.array([str(uuid4()) for _ in range(SIZE)]),
    "octets": pa.array([b"%d" % at for at in range(SIZE)]),
    "price": pa.array([Decimal(at) / 100 for at in range(SIZE)], pa.decimal128(12, 2)),
    "uuid": pa.array([uuid4().bytes for _ in range(SIZE)], pa.uuid()),
    "at": pa.array(range(SIZE), pa.timestamp("us", "UTC")),
}
INSIDE = {
    "list": pa.array([[1, 2]] * SIZE),
    "map": pa.array([[("a", {"x": 1})]] * SIZE, pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
    "struct": pa.array([{"in": [{"z": at}]} for at in range(SIZE)]),
}


def test_columns_with_repeated_values_get_a_dictionary_and_others_dont() -> None:
    assert dictionary_columns(pa.table(REPEATED | DISTINCT)) == list(REPEATED)


def test_few_rows_say_too_little() -> None:
    """They may be the first piece of a large file; one row would take every column's dictionary away."""
    assert dictionary_columns(pa.table(DISTINCT).slice(0, 4_095)) == list(DISTINCT)


def test_nested_columns_get_a_dictionary_by_their_path_in_the_file(tmp_path: Path) -> None:
    told = dictionary_columns(pa.table(INSIDE))
    assert told == _dictionary_columns(tmp_path, pa.table(INSIDE)) == _paths(tmp_path)


def test_the_files_own_word_is_the_same(tmp_path: Path) -> None:
    rows = pa.table(REPEATED | DISTINCT | INSIDE)
    assert _dictionary_columns(tmp_path, rows) == dictionary_columns(rows)
    assert pq.read_table(tmp_path / "f.parquet").cast(rows.schema)["code"].equals(rows["code"])


def test_later_rows_dont_change_the_choice_of_the_first_ones(tmp_path: Path) -> None:
    first = pa.table({"id": range(SIZE)})
    sink = ParquetSink(Storage.from_uri(tmp_path), "f.parquet", first.schema, lambda _: "")
    sink.write(first)
    sink.write(pa.table({"id": [1] * SIZE}))
    assert sink.close()["rows"] == 2 * SIZE
    assert pq.read_table(tmp_path / "f.parquet")["id"].to_pylist() == [*range(SIZE), *[1] * SIZE]


@pytest.mark.parametrize("rows", [None, pa.table({"id": pa.array([], pa.int64())})])
def test_a_file_without_rows_is_one(tmp_path: Path, rows: pa.Table | None) -> None:
    schema = pa.schema([("id", pa.int64())])
    sink = ParquetSink(Storage.from_uri(tmp_path), "f.parquet", schema, lambda _: "")
    if rows is not None:
        sink.write(rows)
    assert sink.close()["rows"] == 0
    assert pq.read_table(tmp_path / "f.parquet").equals(schema.empty_table())


def _dictionary_columns(folder: Path, rows: pa.Table) -> list[str]:
    """The columns that have a dictionary in a file of those rows."""
    sink = ParquetSink(Storage.from_uri(folder), "f.parquet", rows.schema, lambda _: "")
    sink.write(rows)
    sink.close()
    group = pq.ParquetFile(folder / "f.parquet").metadata.row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    return [c.path_in_schema for c in columns if "RLE_DICTIONARY" in c.encodings]


def _paths(folder: Path) -> list[str]:
    schema = pq.ParquetFile(folder / "f.parquet").schema
    return [schema.column(at).path for at in range(len(schema))]
