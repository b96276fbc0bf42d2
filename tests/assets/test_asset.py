"""`@asset`: the definitions that it makes, and the arguments that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import partita as pt
from partita.status.definitions import AssetDefinition, Upstream, definition_from_json


def test_an_asset_is_its_function_with_a_definition() -> None:
    @pt.asset(table="sales.daily", partitions=pt.daily("date", start="2025-01-01"), code_version="3")
    def daily_sales(number: int) -> int:
        return number + 1

    assert daily_sales(1) == 2
    assert (daily_sales.name, daily_sales.table) == ("daily_sales", "sales.daily")
    assert daily_sales.definition.partitions.names == ("date",)
    assert repr(daily_sales) == "<Asset daily_sales>"


def test_upstreams_are_assets_or_names_with_or_without_a_mapping() -> None:
    orders = pt.asset(name="orders")(print)
    mapping = pt.window_offset("date", -1)
    sales = pt.asset(name="sales", upstream=[orders, "rates", (pt.asset(name="raw")(print), mapping)])(print)
    assert sales.definition.upstreams == (Upstream("orders"), Upstream("rates"), Upstream("raw", mapping))


@pytest.mark.parametrize(
    "arguments",
    [
        {"freshness": timedelta(0)},
        {"freshness": "daily"},
        {"freshness": timedelta.max},
        {"partitions": "daily"},
        {"code_version": 3},
        {"upstream": ["sales"]},
        {"upstream": ["a", "a"]},
        {"upstream": [7]},
        {"upstream": [("a", "same")]},
        {"name": ""},
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(pt.DefinitionError):
        pt.asset(**({"name": "sales"} | arguments))(print)


DEFINITIONS = [
    AssetDefinition("a"),
    AssetDefinition("a", pt.daily("d", start="2025-01-01", end="2025-02-01", time_zone="Asia/Tokyo"), code_version="1"),
    AssetDefinition("a", pt.hourly("h", start="2025-01-01T05:00", offset=timedelta(minutes=30)), table="s.t"),
    AssetDefinition("a", pt.weekly("w", start="2025-01-01") * pt.monthly("m", start="2025-01-01") * pt.dynamic("x")),
    AssetDefinition("a", pt.static("s", ["é,=", 1, True, None])),
    AssetDefinition("a", upstreams=(Upstream("b"), Upstream("c", pt.all_partitions()))),
    AssetDefinition("a", upstreams=(Upstream("b", pt.window_offset("d", -6, 0)), Upstream("c", pt.mapped_by(len)))),  # type: ignore[arg-type] # any function
    AssetDefinition("a", freshness=pt.asset(name="x", freshness=timedelta(hours=26))(print).definition.freshness),
    AssetDefinition("a", freshness=pt.cron("0 9 * * mon-fri", time_zone="Europe/Berlin", lag=timedelta(hours=1))),
]


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_a_definition_survives_its_text(definition: AssetDefinition) -> None:
    assert definition_from_json("a", definition.code_version, definition.to_json()) == definition


@pytest.mark.parametrize(
    "text",
    [
        '{"partitions": [{"dimension": "d", "spiral": 1}], "upstreams": [], "freshness": null}',
        '{"partitions": [], "upstreams": [{"asset": "b", "mapping": "spiral"}], "freshness": null}',
        '{"partitions": [], "upstreams": [], "freshness": {"spiral": 1}}',
    ],
)
def test_a_definition_of_a_newer_version_is_refused_by_name(text: str) -> None:
    with pytest.raises(pt.DefinitionError, match="version of Partita"):
        definition_from_json("a", None, text)


@pytest.mark.parametrize(
    "create",
    [
        lambda: pt.cron("0 9 * * *", lag=timedelta.max),
        lambda: pt.cron("0 9 * * *", lag=5),  # type: ignore[arg-type] # what is refused
        lambda: pt.daily("d", start=None),  # type: ignore[arg-type] # the same
        lambda: pt.daily("d", start="2025-01-01", offset=5),  # type: ignore[arg-type] # the same
        lambda: pt.window_offset("d", "x"),  # type: ignore[arg-type] # the same
    ],
)
def test_invalid_parts_of_a_definition_are_refused(create: Callable[[], object]) -> None:
    with pytest.raises(pt.DefinitionError):
        create()
