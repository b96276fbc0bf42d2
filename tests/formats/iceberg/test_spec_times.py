"""Since when a table has each of its specs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import partita as pt
from partita.lake import Lake

SCHEMA = pt.Schema.of({"id": "long", "day": "date", "region": "string", "shop": "string"})


def evolved(lake: Lake, **properties: str) -> pt.Table:
    """A table with three specs, each a metadata file later than the one before."""
    table = lake.create_table("sales", SCHEMA, format="iceberg", partition_by=["day"], properties=properties)
    table.evolve(add=["region"])
    table.evolve(add=["shop"])
    return table


def test_each_spec_has_the_moment_that_it_came(lake: Lake) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    times = evolved(lake).spec_times
    assert list(times) == [0, 1, 2]
    assert before <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)


def test_a_spec_that_was_there_before_all_that_is_known_has_none(lake: Lake) -> None:
    table = evolved(lake, **{"write.metadata.previous-versions-max": "1"})
    assert list(table.spec_times) == [2]


def test_metadata_that_is_gone_tells_nothing(lake: Lake) -> None:
    table = evolved(lake)
    newest = max(Path(table.uri.removeprefix("file://"), "metadata").glob("*.metadata.json"))
    for file in newest.parent.glob("*.metadata.json"):
        if file != newest:
            file.unlink()
    assert table.spec_times == {}


@pytest.mark.parametrize("form", ["delta", "lance"])
def test_what_has_one_spec_for_life_tells_nothing(lake: Lake, form: str) -> None:
    table = lake.create_table("sales", SCHEMA, format=form, partition_by=["day"])
    assert table.spec_times == {}
