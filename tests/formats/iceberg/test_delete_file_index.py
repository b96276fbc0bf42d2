"""Which delete files apply: checked against the specification's rules, one pair at a time, and against pyiceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.partition_functions import identity, void
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.errors import TableError
from partita.formats.iceberg import delete_file_index as room
from partita.formats.iceberg.delete_file_index import applicable_deletes, referenced_data_files
from partita.formats.iceberg.files import FILE_PATH_FIELD_ID
from partita.formats.iceberg.manifests import MANIFEST_ENTRY_SCHEMA, PARTITION_PREFIX
from partita.formats.iceberg.state import current_table_version
from tests.formats.iceberg.handwritten_snapshots import added_entry, commit_snapshot, data_file, new_table

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.of({"p": "string", "x": "double"})
SPECS = SpecHistory(
    SCHEMA,
    (
        PartitionSpec.of([identity("p")], SCHEMA, "iceberg", 0),
        PartitionSpec.of([identity("x")], SCHEMA, "iceberg", 1),
        PartitionSpec.of([], SCHEMA, "iceberg", 2),
        PartitionSpec.of([void("p")], SCHEMA, "iceberg", 3),
    ),
    0,
)
NAN = float("nan")
PARTITIONS: list[tuple[int, str | None, float | None]] = [
    (0, "a", None), (0, None, None), (1, None, 0.0), (1, None, -0.0), (1, None, NAN), (1, None, None), (2, None, None),
    (3, None, None),
]  # fmt: skip
PATHS = "abcde"

partitions = st.sampled_from(PARTITIONS)
numbers = st.integers(0, 3)
data_files = st.lists(st.tuples(st.sampled_from(PATHS), partitions, numbers), max_size=6, unique_by=lambda f: f[0])
bounds = st.none() | st.sampled_from(PATHS)
delete_files = st.lists(
    st.one_of(
        st.fixed_dictionaries({"content": st.just(1), "low": bounds, "high": bounds, "to": st.none()}),
        st.fixed_dictionaries(
            {"content": st.just(1), "low": st.none(), "high": st.none(), "to": st.sampled_from(PATHS),
             "format": st.sampled_from(["PARQUET", "PUFFIN", "puffin"])}
        ),
        st.fixed_dictionaries({"content": st.just(2), "low": st.none(), "high": st.none(), "to": st.none()}),
    ),
    max_size=6,
)  # fmt: skip


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Return entries of these rows, all other columns null."""
    partition = [
        (f"{PARTITION_PREFIX}p", pa.string()),
        (f"{PARTITION_PREFIX}x", pa.float64()),
        (f"{PARTITION_PREFIX}p_null", pa.string()),
    ]
    return pa.Table.from_pylist(rows, pa.schema([*MANIFEST_ENTRY_SCHEMA, *(pa.field(*f) for f in partition)]))


def row(path: str, partition: tuple[int, str | None, float | None], sequence: int, **more: Any) -> dict[str, Any]:
    """Return an entry as a row."""
    return {
        "path": path, "spec_id": partition[0], f"{PARTITION_PREFIX}p": partition[1],
        f"{PARTITION_PREFIX}x": partition[2], "sequence_number": sequence, "content": 0, "format": "PARQUET", **more,
    }  # fmt: skip


def applies(data: dict[str, Any], delete: dict[str, Any]) -> bool:
    """Apply the specification's rules to one pair; raise `TableError` for a delete file of another partition."""
    same = all(repr(data[n]) == repr(delete[n]) for n in ("spec_id", f"{PARTITION_PREFIX}p", f"{PARTITION_PREFIX}x"))
    if delete["content"] == 2:
        in_reach = same or delete["spec_id"] in (2, 3)
        return bool(in_reach and data["sequence_number"] < delete["sequence_number"])
    low, high = dict(delete["lower_bounds"] or []), dict(delete["upper_bounds"] or [])
    first, last = (b.get(FILE_PATH_FIELD_ID, b"").decode() or None for b in (low, high))
    referenced = delete["referenced_data_file"] or (first if first == last else None)
    if data["sequence_number"] > delete["sequence_number"]:
        return False
    if referenced is not None:
        if data["path"] == referenced and not same:
            raise TableError("another partition")
        return bool(data["path"] == referenced)
    within = (first is None or first <= data["path"]) and (last is None or data["path"] <= last)
    return same and within


def expected(data: list[dict[str, Any]], deletes: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return all pairs by those rules, without position deletes where there is a deletion vector."""
    pairs = [
        (data_index, delete_index)
        for data_index, data_row in enumerate(data)
        for delete_index, delete_row in enumerate(deletes)
        if applies(data_row, delete_row)
    ]
    vectors = {data_index for data_index, delete_index in pairs if deletes[delete_index]["format"].lower() == "puffin"}
    return [
        (data_index, delete_index)
        for data_index, delete_index in pairs
        if data_index not in vectors
        or deletes[delete_index]["content"] == 2
        or deletes[delete_index]["format"].lower() == "puffin"
    ]


@given(
    data_files, delete_files, st.lists(partitions, min_size=6, max_size=6), st.lists(numbers, min_size=6, max_size=6)
)
def test_pairs_are_those_of_the_specification(
    given_data: list[tuple[str, tuple[int, str | None, float | None], int]],
    given_deletes: list[dict[str, Any]],
    where: list[tuple[int, str | None, float | None]],
    sequences: list[int],
) -> None:
    data = [row(*delete) for delete in given_data]
    deletes = []
    for index, delete in enumerate(given_deletes):
        ends = {
            name: None if delete[end] is None else [(FILE_PATH_FIELD_ID, delete[end].encode())]
            for name, end in (("lower_bounds", "low"), ("upper_bounds", "high"))
        }
        more = {
            "content": delete["content"],
            "referenced_data_file": delete["to"],
            "format": delete.get("format", "PARQUET"),
        }
        deletes.append(row(f"delete {index}", where[index], sequences[index], **more, **ends))
    if not data or not deletes:
        assert len(applicable_deletes(table_of(data), table_of(deletes), SPECS)[0]) == 0
        return
    try:
        expected_pairs = expected(data, deletes)
    except TableError:
        with pytest.raises(TableError, match="another spec or partition"):
            applicable_deletes(table_of(data), table_of(deletes), SPECS)
        return
    data_indices, delete_indices = applicable_deletes(table_of(data), table_of(deletes), SPECS)
    assert list(zip(data_indices.tolist(), delete_indices.tolist(), strict=True)) == expected_pairs


def test_many_candidates_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MAX_CANDIDATES", 7)
    data = [row(f"f{index}", PARTITIONS[0], index % 3) for index in range(20)]
    deletes = [row(f"d{index}", PARTITIONS[0], index, content=1 + index % 2) for index in range(5)]
    data_indices, delete_indices = applicable_deletes(table_of(data), table_of(deletes), SPECS)
    assert list(zip(data_indices.tolist(), delete_indices.tolist(), strict=True)) == expected(
        [{**d, "lower_bounds": None, "upper_bounds": None, "referenced_data_file": None} for d in data],
        [{**d, "lower_bounds": None, "upper_bounds": None, "referenced_data_file": None} for d in deletes],
    )


def test_the_one_file_that_deletes_point_into() -> None:
    def ends(low: str, high: str) -> dict[str, Any]:
        return {
            "lower_bounds": [(FILE_PATH_FIELD_ID, low.encode())],
            "upper_bounds": [(FILE_PATH_FIELD_ID, high.encode())],
        }

    deletes = table_of(
        [
            row("named", PARTITIONS[0], 1, content=1, referenced_data_file="x"),
            row("same", PARTITIONS[0], 1, content=1, **ends("y", "y")),
            row("range", PARTITIONS[0], 1, content=1, **ends("x", "y")),
            row("none", PARTITIONS[0], 1, content=1),
            row("equality", PARTITIONS[0], 1, content=2, **ends("y", "y")),
        ]
    )
    assert referenced_data_files(deletes).to_pylist() == ["x", "y", None, None, None]


def test_bounds_that_are_no_text_rule_nothing_out() -> None:
    broken = {"lower_bounds": [(FILE_PATH_FIELD_ID, b"\xff")], "upper_bounds": [(FILE_PATH_FIELD_ID, b"\xff")]}
    delete = table_of([row("d", PARTITIONS[0], 1, content=1, **broken)])
    assert applicable_deletes(table_of([row("f", PARTITIONS[0], 1)]), delete, SPECS)[0].tolist() == [0]


@pytest.mark.slow(reason="many commits to a table")
def test_pairs_are_those_of_pyiceberg(tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"id": "long", "country": "string"}), [identity("country")])

    def point(low: str, high: str) -> dict[str, Any]:
        return {"lower_bounds": {FILE_PATH_FIELD_ID: low.encode()}, "upper_bounds": {FILE_PATH_FIELD_ID: high.encode()}}

    commit_snapshot(
        table, (0, [added_entry(data_file(path, "US")) for path in "abc"] + [added_entry(data_file("x", None))])
    )
    commit_snapshot(
        table,
        (0, [added_entry(data_file("one", "US", content=1, **point("b", "b")))]),
        (0, [added_entry(data_file("range", "US", content=1, **point("a", "b")))]),
        (0, [added_entry(data_file("all", "US", content=1))]),
        (0, [added_entry(data_file("null", None, content=1))]),
    )
    commit_snapshot(table, (0, [added_entry(data_file("new", "US"))]))
    commit_snapshot(table, (0, [added_entry(data_file("late", "US", content=1))]))
    state = current_table_version(table)
    paths, deletes = state.files["path"].to_pylist(), state.delete_entries["path"].to_pylist()
    pairs = state.delete_index(np.arange(len(paths))[::-1]).to_pylist()
    deletes_by_path: dict[str, set[str]] = {path: set() for path in paths}
    for pair in pairs:
        deletes_by_path[paths[pair["file"]]].add(deletes[pair["delete"]])
    assert deletes_by_path == {
        t.file.file_path: {d.file_path for d in t.delete_files} for t in table.scan().plan_files()
    }
    assert deletes_by_path["b"] == {"one", "range", "all", "late"}
    assert [p["file"] for p in pairs] == sorted((p["file"] for p in pairs), reverse=True)
    assert state.row_counts(np.arange(len(paths))).null_count == 5
