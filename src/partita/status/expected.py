"""The partitions that assets should have, as a relation of canonical keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from partita.algebra.key_text import tagged
from partita.algebra.partition_sets import Dimension, Dynamic, Static
from partita.status.definitions import Definition
from partita.status.engine import TEXT, make_table, quoted

if TYPE_CHECKING:
    import duckdb

Members: TypeAlias = Mapping[str, Sequence[str]]
"""The tagged values of an asset's dynamic dimensions, by dimension."""


def make_expected(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    given: Sequence[tuple[Definition, Members]],
    now: datetime,
    until: Mapping[str, datetime] | None = None,
) -> None:
    """Make a relation of `asset_key` and `partition_key`: what the definitions expect at `now`.

    `until` has other moments by dimension.
    """
    texts: list[tuple[str, str, str]] = []
    parts = ["SELECT NULL::VARCHAR AS asset_key, NULL::VARCHAR AS partition_key WHERE false"]
    for definition, members in given:
        asset, dimensions = definition.asset, definition.partitions.dimensions
        for dimension in dimensions:
            values = _values(dimension, (until or {}).get(dimension.dimension, now), members)
            texts += [(asset, dimension.dimension, f"{dimension.dimension}={value}") for value in values]
        sources = [
            f"(SELECT text FROM {name}_texts WHERE asset_key = {quoted(asset)} AND dimension = {quoted(d.dimension)}) "  # noqa: S608
            f"AS d{at}"
            for at, d in enumerate(dimensions)
        ]
        key = " || ',' || ".join(f"d{at}.text" for at in range(len(dimensions))) or "''"
        source = f" FROM {', '.join(sources)}" if sources else ""
        parts.append(f"SELECT {quoted(asset)}, {key}{source}")
    make_table(connection, f"{name}_texts", {"asset_key": TEXT, "dimension": TEXT, "text": TEXT}, texts)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {' UNION ALL '.join(parts)}")


def _values(dimension: Dimension, now: datetime, members: Members) -> Sequence[str]:
    """The tagged values of a dimension."""
    if isinstance(dimension, Static):
        return [tagged(value) for value in dimension.values]
    if isinstance(dimension, Dynamic):
        return members.get(dimension.dimension, ())
    windows = dimension.expected(now)
    return [tagged(dimension.value(ordinal)) for ordinal in windows if not dimension.is_empty(ordinal)]
