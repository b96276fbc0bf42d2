"""Partition sets: products of dimensions, and invalid definitions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

import partita as pt
from partita.algebra.time_windows import TimeWindows


def test_dimensions_stand_by_name_in_a_product_of_any_order() -> None:
    days, regions, shards = pt.daily("date", start="2025-01-01"), pt.static("region", ["us"]), pt.dynamic("shard")
    assert (shards * regions * days).names == ("date", "region", "shard")
    assert shards * regions * days == days * (regions * shards)
    assert (shards * days).find_dimension("region") is None


def test_a_start_with_a_zone_is_taken_to_the_zone_of_the_windows() -> None:
    start = datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=-5)))
    (hours,) = pt.hourly("ts", start=start, time_zone="Europe/Berlin").dimensions
    assert isinstance(hours, TimeWindows)
    assert hours.start == datetime(2025, 1, 1, 6)  # noqa: DTZ001 - in Berlin


@pytest.mark.parametrize(
    "make",
    [
        lambda: pt.daily("date", start="2025-13-01"),
        lambda: pt.daily("date", start="2025-01-02", end="2025-01-01"),
        lambda: pt.daily("date", start="2025-01-01", time_zone="Nowhere"),
        lambda: pt.static("region", "us"),
        lambda: pt.static("region", ["us", "us"]),
        lambda: pt.static("a", [1]) * pt.dynamic("a"),
        lambda: pt.window_offset("date", 1, 0),
        lambda: pt.mapped_by("name"),  # type: ignore[arg-type] # what is refused
        lambda: pt.cron("0 9 * * *", lag=timedelta(hours=-1)),
    ],
)
def test_invalid_partition_sets_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(pt.DefinitionError):
        make()


def test_values_and_names_are_those_of_keys() -> None:
    with pytest.raises(pt.KeyValueError):
        pt.static("Region", ["us"])
    with pytest.raises(pt.KeyValueError):
        pt.static("price", [1.5])
    assert pt.static("flag", [1, True, "1"]).names == ("flag",)
