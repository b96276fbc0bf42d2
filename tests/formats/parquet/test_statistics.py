"""Bounds from footers, and that pruning by them never loses a row."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import partita as pt
from partita.formats.parquet import footers
from partita.formats.parquet.commit import FolderFile
from partita.formats.parquet.footers import Footer
from partita.storage import Storage
from tests.formats.parquet.folders import bounds_of, open_folder, write_file

ROW = pa.schema(
    [
        ("i", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("ms")), ("dec", pa.decimal128(20, 2)), ("b", pa.bool_()), ("u", pa.uint32()),
    ]
)  # fmt: skip
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
MOMENTS = st.datetimes(datetime(1500, 1, 1), datetime(2100, 1, 1)).map(lambda m: m.replace(microsecond=0))  # noqa: DTZ001
VALUES = {
    "i": st.integers(-3, 3),
    "s": st.one_of(TEXTS, st.sampled_from(["a" * 70, "é" * 40, "\uffff", "\U0010ffff" * 20])),
    "f": st.floats(allow_infinity=True, allow_nan=True),
    "d": st.dates(date(1400, 1, 1)),
    "ts": MOMENTS.map(lambda m: m.replace(tzinfo=UTC)),
    "ntz": MOMENTS,
    "dec": st.decimals(-5, 5, places=2),
    "b": st.booleans(),
    "u": st.integers(0, 2**32 - 1),
}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
P_VALUES = st.sampled_from([None, "1", "2", "a b/c", "ü"])
OPERATORS = ["<", "<=", "=", "!=", ">", ">="]


def is_true(value: Any, operator: str, bound: Any) -> bool:
    """Return what Spark says: NaN is equal to itself and the greatest."""
    if value is None:
        return False

    def rank(number: Any) -> Any:
        return (number != number, 0 if number != number else number) if isinstance(number, float) else number  # noqa: PLR0124

    a, b = rank(value), rank(bound)
    truths = {"<": a < b, "<=": a <= b, "=": a == b, "!=": a != b, ">": a > b, ">=": a >= b}
    return bool(truths[operator])


@pytest.mark.slow(reason="many random files")
@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.tuples(P_VALUES, st.lists(ROWS, min_size=1, max_size=4)), min_size=1, max_size=4))
def test_pruning_loses_no_row(data: st.DataObject, files: list[tuple[str | None, list[dict[str, Any]]]]) -> None:
    from partita.algebra.types import STRING, Field
    from partita.formats.parquet.values import partition_folder

    name = data.draw(st.sampled_from(list(VALUES)))
    operator, bound = data.draw(st.sampled_from(OPERATORS)), data.draw(VALUES[name])
    partition = data.draw(P_VALUES)
    column = pt.col(name)
    predicate = {
        "<": column < bound, "<=": column <= bound, "=": column == bound, "!=": column != bound, ">": column > bound,
        ">=": column >= bound,
    }[operator]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for number, (p, rows) in enumerate(files):
            file = Path(folder) / partition_folder([p], [Field("p", STRING)]) / f"{number}.parquet"
            file.parent.mkdir(exist_ok=True)
            statistics = data.draw(st.sampled_from([True, False, ["i", "s"]]))
            pq.write_table(pa.Table.from_pylist(rows, ROW), file, row_group_size=2, write_statistics=statistics)
        table = open_folder(Path(folder))
        kept = set(table.plan(predicate).files["path"].to_pylist())
        plan = table.plan(predicate)
        must = {
            path for path, whole in zip(plan.files["path"].to_pylist(), plan.must_match.tolist(), strict=True) if whole
        }
        paths = [
            f"{partition_folder([p], [Field('p', STRING)])}/{number}.parquet" for number, (p, _) in enumerate(files)
        ]
        for path in paths:
            stored = pq.read_table(Path(folder) / path, partitioning=None).to_pylist()
            matches = [is_true(row[name], operator, bound) for row in stored]
            assert not any(matches) or path in kept, (predicate, stored)
            assert all(matches) or path not in must, (predicate, stored)
        if partition is not None and str(table.schema.find_field("p").type) == "string":
            expected = {path for path, (p, _) in zip(paths, files, strict=True) if p == partition}
            assert set(table.plan(pt.col("p") == partition).files["path"].to_pylist()) == expected


def test_bounds_of_each_kind(tmp_path: Path) -> None:
    rows = [
        dict.fromkeys(ROW.names),
        {"i": 1, "s": "b", "f": 1.0, "d": date(1500, 1, 1), "ts": datetime(2024, 1, 1, tzinfo=UTC),
         "dec": Decimal("1.25"), "ntz": datetime(1500, 1, 1), "b": False, "u": 2**32 - 1},  # noqa: DTZ001
        {"i": -1, "s": "a", "f": float("nan"), "d": date(2000, 1, 1), "ts": datetime(1500, 1, 1, tzinfo=UTC),
         "dec": Decimal("-1.25"), "ntz": datetime(2000, 1, 1), "b": True, "u": 0},  # noqa: DTZ001
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, ROW), tmp_path / "a.parquet", row_group_size=1)
    for name in ROW.names:
        bounds = bounds_of(tmp_path, name)
        assert (bounds["null_count"], bounds["row_count"]) == ([1], [3])
        if name != "f":
            values: list[Any] = sorted((row[name] for row in rows[1:]), key=lambda value: value)
            assert (bounds["lower"], bounds["upper"]) == (values[:1], values[1:])


def test_a_row_group_without_bounds_leaves_none_for_the_file(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("f", pa.float64()), ("i", pa.int32())])) as writer:
        writer.write_table(pa.table({"f": [float("nan")], "i": pa.array([1], pa.int32())}))
        writer.write_table(pa.table({"f": [1.0], "i": pa.array([None], pa.int32())}))
    assert bounds_of(tmp_path, "f")["lower"] == [None]
    bounds = bounds_of(tmp_path, "i")
    assert bounds["lower"] == bounds["upper"] == [1]


def test_old_timestamps_and_the_old_calendar_have_no_bounds(tmp_path: Path) -> None:
    times = pa.array([datetime(1500, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    pq.write_table(pa.table({"t": times}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert str(open_folder(tmp_path).schema.find_field("t").type) == "timestamp"
    assert bounds_of(tmp_path, "t")["lower"] == [None]
    for key, value in ((b"org.apache.spark.version", b"2.4.8"), (b"org.apache.spark.legacyDateTime", b"")):
        days = pa.table({"d": [date(1500, 1, 1)], "i": [1]}).replace_schema_metadata({key: value})
        pq.write_table(days, tmp_path / "a.parquet")
        assert bounds_of(tmp_path, "d")["lower"] == [None]
        assert bounds_of(tmp_path, "i")["lower"] == [1]


def test_values_beyond_pythons_calendar_have_no_bounds(tmp_path: Path) -> None:
    write_file(tmp_path / "a.parquet", d=pa.array([-1_000_000, 0], pa.int32()).cast(pa.date32()))
    assert bounds_of(tmp_path, "d")["lower"] == [None]
    assert open_folder(tmp_path).plan("d < DATE '0001-01-01'").files.num_rows == 1


def test_no_footer_is_read_for_partitions_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        write_file(tmp_path / f"p={number}" / "a.parquet", number, id=[number])
    read: list[str] = []
    real = footers._read_footer

    def count_reads(storage: Storage, file: FolderFile) -> Footer:
        read.append(file.path)
        return real(storage, file)

    monkeypatch.setattr(footers, "_read_footer", count_reads)
    table = open_folder(tmp_path)
    assert len(read) == footers.SCHEMA_FOOTERS
    assert table.plan("p < 10").file_indices.size == 10
    assert len(read) == footers.SCHEMA_FOOTERS
    assert table.plan("id = 3 AND p < 10").files["path"].to_pylist() == ["p=3/a.parquet"]
    assert len(set(read)) == len(read) <= footers.SCHEMA_FOOTERS + 10
