"""A change on a partial table version does the same as on the whole one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from partita.algebra.partition_functions import bucket, identity
from partita.algebra.schema import Schema
from partita.arrow.distinct_rows import distinct_rows
from partita.formats.file_plan import plan_files
from partita.formats.iceberg.delete_file_index import partition_groups
from partita.formats.iceberg.snapshot_change import _dangling_delete_files
from partita.formats.iceberg.state import IcebergTableVersion, current_table_version, table_version_without_files
from partita.formats.partition_selection import PartitionSelection
from tests.formats.iceberg.handwritten_snapshots import added_entry, commit_snapshot, data_file, new_table

SCHEMA = Schema.of({"id": "long", "country": "string"})
PREDICATES = ("country = 'c3'", "country > 'c5'", "country IS NULL", "country IN ('c1', 'c8') OR id = 5", "id < 0",
              "NOT country = 'c2'", "true", "false")  # fmt: skip
COUNTRIES = [None, *(f"c{number}" for number in range(9))]


def random_state(folder: Path, seed: int) -> tuple[IcebergTableVersion, IcebergTableVersion]:
    """Create a random table of files and deletes in manifests; return it without files, and with all."""
    random = Random(seed)  # noqa: S311 - the same each time
    table = new_table(folder, SCHEMA, [identity("country"), bucket("id", 3)])
    for number in range(5):
        for value in random.sample(COUNTRIES, number % 3 + 1):
            names = [f"{number}-{value}-{index}" for index in range(4)]
            commit_snapshot(table, (0, [added_entry(data_file(name, value, random.randrange(3))) for name in names]))
    for number in range(4):
        partition = random.choice(COUNTRIES), random.randrange(3)
        content = 1 if seed % 2 else random.choice([1, 2])
        ids = [1] if content == 2 else None
        commit_snapshot(
            table, (0, [added_entry(data_file(f"d{number}", *partition, content=content, equality_ids=ids))])
        )
    return table_version_without_files(table), current_table_version(table)


def paths(state: IcebergTableVersion, file_indices: np.ndarray) -> list[str]:
    return sorted(state.files["path"].take(pa.array(file_indices)).to_pylist())


@pytest.mark.slow(reason="a change of each kind of table, twice")
@pytest.mark.parametrize("seed", range(6))
def test_a_part_is_enough_for_a_change(tmp_path: Path, seed: int) -> None:
    empty, every = random_state(tmp_path, seed)
    assert (empty.files.num_rows, empty.version) == (0, every.version)
    parts = 0
    for where in PREDICATES:
        part = empty.with_files_for(where)
        parts += part.is_partial
        plans = plan_files(part, where), plan_files(every, where)
        assert paths(part, plans[0].file_indices) == paths(every, plans[1].file_indices)
        _check_same(part, plans[0].file_indices, every, plans[1].file_indices)
        values = distinct_rows(every.partitions.take(pa.array(plans[1].file_indices)).select(["country", "id_bucket"]))
        chosen = PartitionSelection(every.spec.fields, values)
        part = empty.with_files_for(chosen)
        ours, theirs = (chosen.matching_indices(state.spec_history, state.partitions)[0] for state in (part, every))
        assert paths(part, ours) == paths(every, theirs)
        _check_same(part, ours, every, theirs)
    assert parts


def _check_same(part: IcebergTableVersion, ours: np.ndarray, every: IcebergTableVersion, theirs: np.ndarray) -> None:
    """Check that all files of the partitions are there, with the same delete files."""
    answers = []
    for state, file_indices in ((part, ours), (every, theirs)):
        groups = partition_groups(state.data_entries)
        answers.append(paths(state, np.flatnonzero(np.isin(groups, groups[file_indices]))))
    assert answers[0] == answers[1]
    # With all files, deletes that apply to nothing at all go too; a part can't tell that of other partitions.
    assert _dangling_delete_files(part, ours) <= _dangling_delete_files(every, theirs)
    used = set(part.delete_entries["path"].take(part.delete_index(ours)["delete"]).to_pylist())
    assert _dangling_delete_files(part, ours) & used == _dangling_delete_files(every, theirs) & used
