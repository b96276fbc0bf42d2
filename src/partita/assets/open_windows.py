"""Upstream partitions of time windows that are not over yet: partitions that read them wait.

An asset's definition expects only windows that are over. A partition that is made from an open window must wait for it,
so the planner groups the upstream's open windows together with its expected partitions.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import FunctionMapping, upstream_windows
from partita.algebra.time_windows import TimeWindows
from partita.status.duckdb_engine import VARCHAR, create_temp_table, fetch_rows
from partita.status.duckdb_sql import Sql, sql
from partita.status.lineage import EdgeGroups, LineageEdge, shared_dimensions

if TYPE_CHECKING:
    from partita.status.definitions import AssetDefinition
    from partita.status.queries import StatusReader


def create_open_windows(
    status_reader: StatusReader, relation: Sql, edge: LineageEdge, upstream_definition: AssetDefinition | None
) -> None:
    """Create a relation of the upstream's `partition_key`s in open windows that the asset's windows are made from.

    It is empty for an upstream without a usable definition, and for a mapping function, whose open windows
    `add_mapped_open_windows` finds.
    """
    now = status_reader.now
    end_times: dict[str, datetime] = {}
    has_dimensions = upstream_definition is not None and not isinstance(edge.mapping, FunctionMapping)
    for dimension, upstream_dimension in shared_dimensions(edge) if has_dimensions else ():
        if not isinstance(dimension, TimeWindows) or not isinstance(upstream_dimension, TimeWindows):
            continue
        ordinals = dimension.expected_ordinals(now)
        if ordinals:
            # Windows outside of the years 1 to 9999 are in no key.
            with suppress(ValueError, OverflowError):
                last = upstream_windows(edge.mapping, dimension, upstream_dimension, ordinals[-1])[-1]
                end_times[upstream_dimension.name] = max(now, upstream_dimension.window_start(last + 1))
    if any(end_time > now for end_time in end_times.values()):
        status_reader.create_future_partitions(relation, edge.upstream, end_times)
    else:
        create_temp_table(status_reader.connection, relation, {"partition_key": VARCHAR})


def add_mapped_open_windows(
    status_reader: StatusReader, relation: Sql, upstream_definition: AssetDefinition | None, groups: EdgeGroups
) -> None:
    """Insert into `relation` the partitions of open windows that a mapping function returned into `groups`."""
    dimensions = () if upstream_definition is None else upstream_definition.partitions.dimensions
    windows = [dimension for dimension in dimensions if isinstance(dimension, TimeWindows)]
    if not windows:
        return
    unexpected_keys = sql(
        "SELECT DISTINCT grouped FROM {downstream} WHERE grouped NOT IN (SELECT grouped FROM {upstream})",
        downstream=groups.downstream,
        upstream=groups.upstream,
    )
    for (text,) in fetch_rows(status_reader.connection, unexpected_keys):
        key = PartitionKey.parse(text)
        ordinals = [(dimension, dimension.ordinal_of(key.get(dimension.name))) for dimension in windows]
        if any(ordinal is not None and d.is_pending(ordinal, status_reader.now) for d, ordinal in ordinals):
            status_reader.connection.execute(sql("INSERT INTO {relation} VALUES ({key})", relation=relation, key=text))
