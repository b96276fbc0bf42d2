"""Which delete files apply: held to the specification's rules, one pair at a time, and to pyiceberg's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.functions import identity, void
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.errors import TableError
from partita.formats.iceberg import deletes as room
from partita.formats.iceberg.deletes import PATH_COLUMN, applicable, referenced
from partita.formats.iceberg.manifests import ENTRIES, PARTITION
from partita.formats.iceberg.state import state_of
from tests.formats.iceberg.written import added, file_of, new_table, snapshot

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
    """Entries of these rows, all else null."""
    partition = [(f"{PARTITION}p", pa.string()), (f"{PARTITION}x", pa.float64()), (f"{PARTITION}p_null", pa.string())]
    return pa.Table.from_pylist(rows, pa.schema([*ENTRIES, *(pa.field(*f) for f in partition)]))


def row(path: str, partition: tuple[int, str | None, float | None], sequence: int, **more: Any) -> dict[str, Any]:
    """An entry."""
    return {
        "path": path, "spec_id": partition[0], f"{PARTITION}p": partition[1], f"{PARTITION}x": partition[2],
        "sequence_number": sequence, "content": 0, "format": "PARQUET", **more,
    }  # fmt: skip


def applies(data: dict[str, Any], delete: dict[str, Any]) -> bool:
    """The specification's rules for one pair; another partition than that of the file pointed into is a TableError."""
    same = all(repr(data[n]) == repr(delete[n]) for n in ("spec_id", f"{PARTITION}p", f"{PARTITION}x"))
    if delete["content"] == 2:
        in_reach = same or delete["spec_id"] in (2, 3)
        return bool(in_reach and data["sequence_number"] < delete["sequence_number"])
    low, high = dict(delete["lower_bounds"] or []), dict(delete["upper_bounds"] or [])
    first, last = (b.get(PATH_COLUMN, b"").decode() or None for b in (low, high))
    one = delete["referenced_data_file"] or (first if first == last else None)
    if data["sequence_number"] > delete["sequence_number"]:
        return False
    if one is not None:
        if data["path"] == one and not same:
            raise TableError("another partition")
        return bool(data["path"] == one)
    within = (first is None or first <= data["path"]) and (last is None or data["path"] <= last)
    return same and within


def expected(data: list[dict[str, Any]], deletes: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """All pairs by those rules, without position deletes where there is a vector."""
    pairs = [(a, b) for a, one in enumerate(data) for b, two in enumerate(deletes) if applies(one, two)]
    vectors = {a for a, b in pairs if deletes[b]["format"].lower() == "puffin"}
    return [
        (a, b)
        for a, b in pairs
        if a not in vectors or deletes[b]["content"] == 2 or deletes[b]["format"].lower() == "puffin"
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
    data = [row(*one) for one in given_data]
    deletes = []
    for at, one in enumerate(given_deletes):
        ends = {
            name: None if one[end] is None else [(PATH_COLUMN, one[end].encode())]
            for name, end in (("lower_bounds", "low"), ("upper_bounds", "high"))
        }
        more = {"content": one["content"], "referenced_data_file": one["to"], "format": one.get("format", "PARQUET")}
        deletes.append(row(f"delete {at}", where[at], sequences[at], **more, **ends))
    if not data or not deletes:
        assert len(applicable(table_of(data), table_of(deletes), SPECS)[0]) == 0
        return
    try:
        wanted = expected(data, deletes)
    except TableError:
        with pytest.raises(TableError, match="another spec or partition"):
            applicable(table_of(data), table_of(deletes), SPECS)
        return
    left, right = applicable(table_of(data), table_of(deletes), SPECS)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == wanted


def test_many_candidates_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST", 7)
    data = [row(f"f{at}", PARTITIONS[0], at % 3) for at in range(20)]
    deletes = [row(f"d{at}", PARTITIONS[0], at, content=1 + at % 2) for at in range(5)]
    left, right = applicable(table_of(data), table_of(deletes), SPECS)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == expected(
        [{**d, "lower_bounds": None, "upper_bounds": None, "referenced_data_file": None} for d in data],
        [{**d, "lower_bounds": None, "upper_bounds": None, "referenced_data_file": None} for d in deletes],
    )


def test_the_one_file_that_deletes_point_into() -> None:
    def ends(low: str, high: str) -> dict[str, Any]:
        return {"lower_bounds": [(PATH_COLUMN, low.encode())], "upper_bounds": [(PATH_COLUMN, high.encode())]}

    deletes = table_of(
        [
            row("named", PARTITIONS[0], 1, content=1, referenced_data_file="x"),
            row("same", PARTITIONS[0], 1, content=1, **ends("y", "y")),
            row("range", PARTITIONS[0], 1, content=1, **ends("x", "y")),
            row("none", PARTITIONS[0], 1, content=1),
            row("equality", PARTITIONS[0], 1, content=2, **ends("y", "y")),
        ]
    )
    assert referenced(deletes).to_pylist() == ["x", "y", None, None, None]


def test_bounds_that_are_no_text_rule_nothing_out() -> None:
    broken = {"lower_bounds": [(PATH_COLUMN, b"\xff")], "upper_bounds": [(PATH_COLUMN, b"\xff")]}
    delete = table_of([row("d", PARTITIONS[0], 1, content=1, **broken)])
    assert applicable(table_of([row("f", PARTITIONS[0], 1)]), delete, SPECS)[0].tolist() == [0]


def test_pairs_are_those_of_pyiceberg(tmp_path: Path) -> None:
    table = new_table(tmp_path, Schema.of({"id": "long", "country": "string"}), [identity("country")])

    def point(low: str, high: str) -> dict[str, Any]:
        return {"lower_bounds": {PATH_COLUMN: low.encode()}, "upper_bounds": {PATH_COLUMN: high.encode()}}

    snapshot(table, (0, [added(file_of(path, "US")) for path in "abc"] + [added(file_of("x", None))]))
    snapshot(
        table,
        (0, [added(file_of("one", "US", content=1, **point("b", "b")))]),
        (0, [added(file_of("range", "US", content=1, **point("a", "b")))]),
        (0, [added(file_of("all", "US", content=1))]),
        (0, [added(file_of("null", None, content=1))]),
    )
    snapshot(table, (0, [added(file_of("new", "US"))]))
    snapshot(table, (0, [added(file_of("late", "US", content=1))]))
    state = state_of(table)
    paths, deletes = state.files["path"].to_pylist(), state.deletes["path"].to_pylist()
    pairs = state.delete_index(np.arange(len(paths))[::-1]).to_pylist()
    found: dict[str, set[str]] = {path: set() for path in paths}
    for pair in pairs:
        found[paths[pair["place"]]].add(deletes[pair["delete"]])
    assert found == {t.file.file_path: {d.file_path for d in t.delete_files} for t in table.scan().plan_files()}
    assert found["b"] == {"one", "range", "all", "late"}
    assert [p["place"] for p in pairs] == sorted((p["place"] for p in pairs), reverse=True)
    assert state.row_counts(np.arange(len(paths))).null_count == 5
