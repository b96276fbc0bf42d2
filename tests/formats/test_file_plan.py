"""Files are judged by their partitions first; the answers are those of all that is known at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from partita.algebra.partition_functions import bucket, identity
from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.arrow import apply
from partita.arrow.prune import ColumnStatistics, prune
from partita.formats.file_plan import prune_files
from partita.formats.table_change import TableChange
from partita.formats.table_rows import TableRows
from partita.formats.table_version import TableVersion

SCHEMA = Schema.of({"id": "long", "p": "int", "n": "long"})
SPEC = PartitionSpec.of([bucket("id", 4), identity("p")], SCHEMA, "iceberg")
PARTS = ("id = {0}", "id IN ({0}, {1})", "p = {0}", "p < {1}", "n > {0}", "n <= {1}", "p IS NULL", "NOT n = {0}")
FILES = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), max_size=30
)


class PlannedVersion(TableVersion):
    """A version that is planned, and neither read nor written."""

    uri = "memory:"

    def has_transaction(self, transaction: tuple[str, int]) -> bool:
        raise NotImplementedError

    def commit(self, change: TableChange) -> int:
        raise NotImplementedError

    def written_partitions(self, written_files: pa.Table) -> pa.Table:
        raise NotImplementedError

    def discard_files(self, written_files: pa.Table) -> None:
        raise NotImplementedError

    def rows(self, operation: str = "read") -> TableRows:
        raise NotImplementedError


@given(
    FILES,
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3),
    st.sampled_from(["AND", "OR"]),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_partitions_first_changes_no_answer(
    files: list[tuple[int, int | None, int, int]], parts: list[str], word: str, numbers: tuple[int, int]
) -> None:
    where = f" {word} ".join(parts).format(*numbers)
    state, asked = _state(files)
    found = prune_files(state, where)
    statistics = state.statistics(["id", "p", "n"], None)
    expected = prune(where, schema=SCHEMA, spec=state.spec_history, partitions=state.partitions, statistics=statistics)
    assert found.may_match.equals(expected.may_match)
    assert found.must_match.equals(expected.must_match)
    assert found.reasons.is_null().equals(expected.may_match)
    by_partition = prune(where, schema=SCHEMA, spec=state.spec_history, partitions=state.partitions)
    doubtful = pc.and_not(by_partition.may_match, by_partition.must_match)
    if doubtful.true_count < len(files) and any(part[0] in "ip" for part in parts):
        places = np.flatnonzero(doubtful.to_numpy(zero_copy_only=False)).tolist()
        assert asked[:1] == ([places] if places else [None])


def _state(files: list[tuple[int, int | None, int, int]]) -> tuple[TableVersion, list[list[int] | None]]:
    """Files of one id each, with ends of `n`; and which places are asked for their statistics."""
    ids, ps, lows = (pa.array([file[at] for file in files], pa.int64()) for at in range(3))
    numbers = pa.array(np.zeros(len(files), np.int32))
    highs = pa.array([low + width for _, _, low, width in files], pa.int64())
    none, rows = pa.array([0] * len(files), pa.int64()), pa.array([10] * len(files), pa.int64())
    known = {"id": ColumnStatistics(ids, ids, none, rows), "n": ColumnStatistics(lows, highs, none, rows)}
    asked: list[list[int] | None] = []

    def statistics(columns: Any, places: np.ndarray | None) -> dict[str, ColumnStatistics]:
        asked.append(None if places is None else places.tolist())
        wanted = {name: said for name, said in known.items() if name in columns}
        return wanted if places is None else {n: s.take(pa.array(places)) for n, s in wanted.items()}

    fields = {SPEC.fields[0].name: apply(bucket("id", 4), ids, family="iceberg"), "p": ps.cast(pa.int32())}
    partitions = pa.table({**fields, "spec_id": numbers})
    paths = pa.array([str(at) for at in range(len(files))], pa.string())
    listed = pa.table({"path": paths, "spec_id": numbers, "bytes": none})
    history = SpecHistory.from_spec(SPEC, SCHEMA)
    state = PlannedVersion(1, SCHEMA, history, listed, partitions, statistics, lambda _: rows)
    return state, asked
