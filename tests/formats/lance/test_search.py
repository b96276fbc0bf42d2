"""A search over many leaves returns the same rows as brute force."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from tests.formats.lance.tables import commit_rows, create_lance_table, table_store

if TYPE_CHECKING:
    from pathlib import Path

    from partita.formats.lance.lance_table import LanceTable

SIZE = 8
SCHEMA = pa.schema(
    [("id", pa.int64()), ("country", pa.string()), ("price", pa.float64()), ("v", pa.list_(pa.float32(), SIZE))]
)
COUNTRIES = ["US", "FR", "CN", None]
VECTORS = np.random.default_rng(7).random((2000, SIZE), dtype=np.float32)
ASKED = VECTORS[17].tolist()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanceTable:
    table_ = create_lance_table(tmp_path_factory.mktemp("search"), SCHEMA, ["country", pt.bucket("id", 2)])
    commit_rows(table_, rows(0, 1500))
    commit_rows(table_, rows(1500, 2000))
    return table_


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[start:stop].ravel()), SIZE)
    countries = [COUNTRIES[n % 4] for n in numbers]
    return pa.table(
        [pa.array(numbers), pa.array(countries), pa.array([float(n) for n in numbers]), vectors], schema=SCHEMA
    )


def nearest_ids(row_ids: np.ndarray, k: int) -> list[int]:
    distances = ((VECTORS[row_ids] - np.array(ASKED, np.float32)) ** 2).sum(axis=1)
    return cast("list[int]", row_ids[np.argsort(distances)[:k]].tolist())


def test_the_nearest_of_all_leaves(table: LanceTable) -> None:
    nearest = table.search(ASKED, "v", 10)
    assert nearest["id"].to_pylist() == nearest_ids(np.arange(2000), 10)
    assert nearest.column_names == ["id", "country", "price", "v", "_distance"]
    assert nearest["country"].to_pylist() == [COUNTRIES[n % 4] for n in nearest["id"].to_pylist()]
    assert nearest["_distance"][0].as_py() == 0


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        ("country = 'FR'", lambda n: n % 4 == 1),
        ("country IS NULL", lambda n: n % 4 == 3),
        ("country = 'FR' OR id < 100", lambda n: n % 4 == 1 or n < 100),
        ("NOT (country = 'FR') AND price >= 1000", lambda n: n % 4 in (0, 2) and n >= 1000),
        ("id = 34", lambda n: n == 34),
        ("country = 'XX'", lambda n: n < 0),
    ],
)
def test_only_rows_that_match_count(table: LanceTable, where: str, keep: object) -> None:
    row_ids = np.array([n for n in range(2000) if keep(n)], np.int64)  # type: ignore[operator]
    nearest = table.search(ASKED, "v", 5, where, columns=["id"])
    assert nearest["id"].to_pylist() == nearest_ids(row_ids, 5)


def test_predicates_that_lance_cannot_evaluate_are_refused(table: LanceTable) -> None:
    with pytest.raises(pt.PredicateError, match="length"):
        table.search(ASKED, "v", 5, "length(country) > 1 AND id > 1")


@pytest.mark.parametrize(
    ("vector", "column", "k"), [([1.0], "v", 5), (ASKED, "price", 5), (ASKED, "v", 0)], ids=["size", "column", "k"]
)
def test_questions_that_make_no_sense_are_refused(table: LanceTable, vector: list[float], column: str, k: int) -> None:
    with pytest.raises(pt.SchemaError):
        table.search(vector, column, k)


@pytest.mark.slow(reason="many commits to a table")
def test_with_an_index_the_nearest_is_found_and_new_rows_are_too(tmp_path: Path) -> None:
    table_ = create_lance_table(tmp_path, SCHEMA, ["country"])
    commit_rows(table_, rows(0, 1500))
    assert table_.create_index("v") == {"leaves": 4, "indexed": 4}
    state = table_store(table_).current_version()
    assert [i.name for i in state.leaf(0).open().describe_indices()] == ["v_idx"]
    commit_rows(table_, rows(1500, 2000))
    nearest = table_.search(ASKED, "v", 10, columns=["id"], refine_factor=50, nprobes=100)
    assert nearest["id"].to_pylist() == nearest_ids(np.arange(2000), 10)
    assert any(n >= 1500 for n in nearest["id"].to_pylist())


def nearest_ids_by_cosine(row_ids: np.ndarray, k: int) -> list[int]:
    vectors, query = VECTORS[row_ids], np.array(ASKED, np.float32)
    distances = 1 - vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    return cast("list[int]", row_ids[np.argsort(distances)[:k]].tolist())


def test_leaves_without_an_index_are_asked_by_the_metric_of_those_that_have_one(tmp_path: Path) -> None:
    table_ = create_lance_table(tmp_path, SCHEMA, ["country"])
    commit_rows(table_, rows(0, 1500))
    assert table_.create_index("v", "country = 'FR'", metric="cosine") == {"leaves": 1, "indexed": 1}
    nearest = table_.search(ASKED, "v", 10, columns=["id"], refine_factor=50, nprobes=100)
    assert nearest["id"].to_pylist() == nearest_ids_by_cosine(np.arange(1500), 10)
    nearest = table_.search(ASKED, "v", 10, columns=["id"], metric="l2")
    assert nearest["id"].to_pylist() == nearest_ids(np.arange(1500), 10)


@pytest.mark.slow(reason="many commits to a table")
def test_indices_of_several_metrics_are_refused_unless_one_is_asked_for(tmp_path: Path) -> None:
    table_ = create_lance_table(tmp_path, SCHEMA, ["country"])
    commit_rows(table_, rows(0, 1500))
    table_.create_index("v", "country = 'FR'", metric="cosine")
    table_.create_index("v", "country = 'US'")
    with pytest.raises(pt.TableError, match=r"cosine in country=FR\.lance, l2 in country=US\.lance; choose one"):
        table_.search(ASKED, "v", 10)
    nearest = table_.search(ASKED, "v", 10, columns=["id"], metric="cosine", refine_factor=50, nprobes=100)
    assert nearest["id"].to_pylist() == nearest_ids_by_cosine(np.arange(1500), 10)
    nearest_row = table_.search(ASKED, "v", 1, "country = 'US'", refine_factor=50, nprobes=100)
    assert nearest_row["id"].to_pylist() == nearest_ids(np.arange(0, 1500, 4), 1)
