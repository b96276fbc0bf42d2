"""A change on a part of a table's files does what it does on all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from partita.algebra.functions import bucket, identity
from partita.algebra.schema import Schema
from partita.arrow.groups import distinct
from partita.formats.chosen import Chosen
from partita.formats.iceberg.deletes import partition_groups
from partita.formats.iceberg.state import IcebergState, state_of, state_without_files
from partita.formats.iceberg.store import _without_files
from partita.formats.plan import make_plan
from tests.formats.iceberg.written import added, file_of, new_table, snapshot

SCHEMA = Schema.of({"id": "long", "country": "string"})
PREDICATES = ("country = 'c3'", "country > 'c5'", "country IS NULL", "country IN ('c1', 'c8') OR id = 5", "id < 0",
              "NOT country = 'c2'", "true", "false")  # fmt: skip
COUNTRIES = [None, *(f"c{number}" for number in range(9))]


def random_state(folder: Path, seed: int) -> tuple[IcebergState, IcebergState]:
    """A table of files and deletes in manifests by chance: without files, and with all."""
    random = Random(seed)  # noqa: S311 - the same each time
    table = new_table(folder, SCHEMA, [identity("country"), bucket("id", 3)])
    for number in range(5):
        for value in random.sample(COUNTRIES, number % 3 + 1):
            names = [f"{number}-{value}-{at}" for at in range(4)]
            snapshot(table, (0, [added(file_of(name, value, random.randrange(3))) for name in names]))
    for number in range(4):
        partition = random.choice(COUNTRIES), random.randrange(3)
        content = 1 if seed % 2 else random.choice([1, 2])
        ids = [1] if content == 2 else None
        snapshot(table, (0, [added(file_of(f"d{number}", *partition, content=content, equality_ids=ids))]))
    return state_without_files(table), state_of(table)


def paths(state: IcebergState, places: np.ndarray) -> list[str]:
    return sorted(state.files["path"].take(pa.array(places)).to_pylist())


@pytest.mark.parametrize("seed", range(6))
def test_a_part_is_enough_for_a_change(tmp_path: Path, seed: int) -> None:
    empty, every = random_state(tmp_path, seed)
    assert (empty.files.num_rows, empty.version) == (0, every.version)
    parts = 0
    for where in PREDICATES:
        part = empty.with_files_for(where)
        parts += part.is_part
        plans = make_plan(part, where), make_plan(every, where)
        assert paths(part, plans[0].kept) == paths(every, plans[1].kept)
        _check_same(part, plans[0].kept, every, plans[1].kept)
        values = distinct(every.partitions.take(pa.array(plans[1].kept)).select(["country", "id_bucket"]))
        chosen = Chosen(every.spec.fields, values)
        part = empty.with_files_for(chosen)
        ours, theirs = (chosen.places(state.specs, state.partitions)[0] for state in (part, every))
        assert paths(part, ours) == paths(every, theirs)
        _check_same(part, ours, every, theirs)
    assert parts


def _check_same(part: IcebergState, ours: np.ndarray, every: IcebergState, theirs: np.ndarray) -> None:
    """All files of the partitions are there, and the delete files that go with these files are the same."""
    found = []
    for state, places in ((part, ours), (every, theirs)):
        groups = partition_groups(state.entries)
        found.append(paths(state, np.flatnonzero(np.isin(groups, groups[places]))))
    assert found[0] == found[1]
    # With all files, deletes that apply to nothing at all go too; a part can't tell that of other partitions.
    assert _without_files(part, ours) <= _without_files(every, theirs)
    used = set(part.deletes["path"].take(part.delete_index(ours)["delete"]).to_pylist())
    assert _without_files(part, ours) & used == _without_files(every, theirs) & used
