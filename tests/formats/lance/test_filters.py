"""Lance filters keep every row that matches in Spark, for every type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import partita as pt
from partita.algebra.predicate_text import parse_predicate
from partita.formats.lance.filters import exact_filters, may_match_filters
from tests.formats.lance.tables import commit_rows, create_lance_table, table_store

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = [datetime(2025, 1, 1, hour, tzinfo=UTC) for hour in range(0, 24, 4)]
MOMENTS += [datetime(2025, 1, 1, 7, 59, 59, tzinfo=UTC), datetime(1960, 3, 1, tzinfo=UTC)]


def matching_ids(table: pt.Table, where: str, filters: Any) -> list[int]:
    """Return the ids of the rows that the filter of the only leaf keeps."""
    store = table_store(table)
    state = store.current_version()
    places = np.arange(1)
    [text] = filters(state, places, parse_predicate(where, state.schema))
    rows = state.leaf(0).open().to_table(filter=text)
    return sorted(rows["id"].to_pylist())


@pytest.mark.slow(reason="a table for each unit and zone")
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "+00:00", "Europe/Berlin", "America/New_York", "+02:00"])
def test_moments_in_every_unit_and_zone(tmp_path: Path, unit: str, zone: str | None) -> None:
    size = {"s": 1, "ms": 1000, "us": 1_000_000}[unit]
    numbers = [int(moment.timestamp()) * size for moment in MOMENTS]
    stamps = pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("ts", stamps.type)]), [])
    commit_rows(table, pa.table({"id": range(len(MOMENTS)), "ts": stamps}))
    ending = "" if zone is None else "Z"
    for text in ("2025-01-01T08:00:00", "2025-01-01T07:59:59.9995", "1960-03-01T00:00:00", "0001-01-01T00:00:00"):
        given = datetime.fromisoformat(text).replace(tzinfo=UTC)
        for op, holds in (("<", lt), ("<=", le), ("=", eq), (">", gt), (">=", ge)):
            where = f"ts {op} '{text}{ending}'"
            wanted = [at for at, moment in enumerate(MOMENTS) if holds(moment, given)]
            if given.microsecond == 0 or unit == "us":
                assert matching_ids(table, where, exact_filters) == wanted, where
            else:
                assert set(matching_ids(table, where, may_match_filters)) >= set(wanted), where


@pytest.mark.slow(reason="a table for each type")
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.uint8(), [0, 1, 255]), (pa.uint16(), [0, 1, 65535]), (pa.uint32(), [0, 1, 2**32 - 1]),
        (pa.uint64(), [0, 1, 2**63]), (pa.int8(), [-128, 1, 127]), (pa.int64(), [-(2**62), 1, 2**63 - 1]),
    ],
    ids=str,
)  # fmt: skip
def test_numbers_beyond_what_a_column_holds(tmp_path: Path, type_: pa.DataType, values: list[int]) -> None:
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("n", type_)]), [])
    commit_rows(table, pa.table({"id": range(4), "n": pa.array([*values, None], type_)}))
    for literal in (-1, -(2**40), 300, 2**40, 1):
        for where, holds in (
            (f"n > {literal}", lambda n, v: n > v), (f"n <= {literal}", lambda n, v: n <= v),
            (f"n != {literal}", lambda n, v: n != v), (f"n IN ({literal}, 1)", lambda n, v: n in (v, 1)),
            (f"NOT (n = {literal})", lambda n, v: n != v),
        ):  # fmt: skip
            wanted = [at for at, n in enumerate(values) if holds(n, literal)]
            assert set(matching_ids(table, where, may_match_filters)) >= set(wanted), where
            if type_ != pa.uint64() and literal in (-1, 1):
                assert matching_ids(table, where, exact_filters) == wanted, where


def test_a_moment_finer_than_the_column_is_refused_where_nobody_filters_again(tmp_path: Path) -> None:
    table = create_lance_table(tmp_path, pa.schema([("id", pa.int64()), ("ts", pa.timestamp("s", "UTC"))]), [])
    moment = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=1)
    commit_rows(table, pa.table({"id": [1], "ts": pa.array([moment], pa.timestamp("s", "UTC"))}))
    with pytest.raises(pt.PredicateError, match=r"timestamp\[s, tz=UTC\]"):
        matching_ids(table, "ts < '2025-01-01T00:00:00.5Z'", exact_filters)
