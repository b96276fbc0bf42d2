"""The demo's Delta table: the orders appended, some deleted, some changed, and what is left checked by counting."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import partita as pt
from partita.cli.demo_step import Step

DataFrame: TypeAlias = Any
"""Spark's own; only partita.spark may import it, for a type too."""

OLD = "ts < '2025-01-08'"
CHEAP = "country = 'JP' AND price < 1"


@dataclass(frozen=True, slots=True)
class Version:
    """One change of the table: what was done, and what it counted."""

    number: int
    done: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Changed:
    """The table's versions, and its rows at the end beside those that there should be."""

    versions: tuple[Version, ...]
    rows: int
    expected: int


def change_orders(orders: DataFrame, step: Step) -> Changed:
    """Put the orders into a Delta table in a folder that is gone afterwards, and change it."""
    with tempfile.TemporaryDirectory(prefix="partita-demo-") as folder:
        lake = pt.Lake(folder)
        with step("appending the orders to a Delta table by day(ts), country"):
            by = [pt.day("ts"), pt.identity("country")]
            table = lake.create_table("sales.orders", orders.schema, format="delta", partition_by=by)
            versions = [_version("append", table.append(orders))]
        with step(f"deleting where {OLD}"):
            versions.append(_version(f"delete where {OLD}", table.delete(OLD)))
        with step(f"doubling the price where {CHEAP}"):
            versions.append(_version(f"update where {CHEAP}", table.update({"price": "price * 2"}, where=CHEAP)))
        with step("counting what is left"):
            rows = table.read().count()
            expected = orders.where(f"NOT ({OLD})").count()
    return Changed(tuple(versions), rows, expected)


def _version(done: str, outcome: Any) -> Version:
    return Version(outcome.version or 0, done, outcome.counts)
