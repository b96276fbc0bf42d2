"""What isn't what a call takes is refused as ours, by its name, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import partita as pt

SCHEMA = pa.schema([("id", pa.int64()), ("ab", pa.string()), ("a", pa.string()), ("b", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> pt.Table:
    return pt.Lake(str(tmp_path)).create_table("t", SCHEMA, format="iceberg", partition_by=["ab"])


CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda t: t.evolve(add="ab"), r"add is a list .* not \'ab\'"),
    (lambda t: t.evolve(add=pt.identity("a")), r"add is a list .* not .*a of type PartitionFunction"),
    (lambda t: t.evolve(add=None), "add is a list .* not None"),
    (lambda t: t.evolve(add=[5]), "add has columns and partition functions.* not 5"),
    (lambda t: t.evolve(drop="ab"), "drop is a list"),
    (lambda t: t.evolve(drop=[b"ab"]), "drop has columns and partition functions"),
    (lambda t: t.evolve(rename=["ab"]), "rename takes a dictionary by names"),
    (lambda t: t.evolve(rename={"ab": 5}), "rename takes a name for 'ab', not 5"),
    (lambda t: t.update(["id"]), "update takes a dictionary by names"),
    (lambda t: t.update({5: "1"}), "update takes a dictionary by names"),
    (lambda t: t.remove_orphans(5), "older_than is a timedelta"),
    (lambda t: t.remove_orphans(timedelta(days=-1)), "older_than is a timedelta from zero on"),
    (lambda t: t.expire_snapshots(5), "older_than is a timedelta"),
    (lambda t: t.expire_snapshots(timedelta(days=-1)), "older_than is a timedelta from zero on"),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_table_is_not_called_so(table: pt.Table, call: Callable[[Any], object], said: str) -> None:
    before = table.spec
    with pytest.raises(pt.PartitaError, match=said):
        call(table)
    assert table.spec == before


@pytest.mark.parametrize("form", ["delta", "iceberg", "lance"])
@pytest.mark.parametrize("given", ["ab", pt.identity("ab"), [5], 5])
def test_partition_by_is_a_list(tmp_path: Path, form: str, given: Any) -> None:
    lake = pt.Lake(str(tmp_path))
    with pytest.raises(pt.SpecError, match="partition_by"):
        lake.create_table("t", SCHEMA, format=form, partition_by=given)
    assert list(lake.tables()) == []


@pytest.mark.parametrize("given", ["ab", "day(ts)", pt.identity("ab"), [5], [None], 5])
def test_so_is_that_of_an_asset(given: Any) -> None:
    with pytest.raises(pt.SpecError, match="partition_by"):
        pt.asset(name="t", table="t", partition_by=given)(print)


def test_a_catalog_is_a_mapping_of_properties() -> None:
    catalog: Any = "ice"
    with pytest.raises(pt.TableError, match="say which, as in"):
        pt.open_table("db.t", catalog=catalog, format="iceberg")


@pytest.mark.parametrize("given", ["a=i:1", [("a", 1)], 5])
def test_a_key_is_not_made_of_that(given: Any) -> None:
    with pytest.raises(pt.KeyValueError, match="by name or as a mapping"):
        pt.PartitionKey.of(given)
