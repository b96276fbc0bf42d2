"""Lineage: which partitions of an upstream each partition of an asset is made from, for all partitions at once.

A lineage edge groups the upstream's partitions by the dimensions that both assets have, and maps each downstream
partition to the groups that it is made from. Where both assets have the same dimensions over the same time windows, the
group is the partition key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import canonical_value_text
from partita.algebra.mappings import (
    AllPartitionsMapping,
    FunctionMapping,
    PartitionMapping,
    SameKeyMapping,
    WindowOffsetMapping,
    upstream_keys,
    upstream_windows,
)
from partita.algebra.partition_sets import Dimension
from partita.algebra.time_windows import TimeWindows
from partita.errors import DefinitionError
from partita.status.definitions import AssetDefinition, Upstream
from partita.status.duckdb_engine import VARCHAR, create_temp_table, create_view, fetch_rows
from partita.status.duckdb_sql import Sql, comma_separated, sql

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """An asset, one of its upstreams, and the mapping between their partitions."""

    asset: str
    upstream: str
    downstream_definition: AssetDefinition
    upstream_definition: AssetDefinition | None
    mapping: PartitionMapping

    @property
    def is_same_key(self) -> bool:
        """Whether each partition is made from exactly the upstream partition with the same key."""
        if not isinstance(self.mapping, SameKeyMapping):
            return False
        if self.upstream_definition is None:
            return True
        downstream, upstream = self.downstream_definition.partitions, self.upstream_definition.partitions
        return downstream.names == upstream.names and all(
            map(_has_same_values, downstream.dimensions, upstream.dimensions)
        )

    @property
    def can_evaluate_mapping(self) -> bool:
        """Whether this process can evaluate the mapping; a function only where the asset was registered."""
        return not isinstance(self.mapping, FunctionMapping) or self.mapping.function is not None


@dataclass(frozen=True, slots=True)
class EdgeGroups:
    """The two relations of an edge, each with the columns `partition_key` and `grouped`."""

    downstream: Sql
    upstream: Sql


def lineage_edge(
    downstream_definition: AssetDefinition,
    upstream: Upstream,
    upstream_definition: AssetDefinition | None,
    mapping: PartitionMapping,
) -> LineageEdge:
    """Return the edge of an asset to one of its upstreams.

    Raises `DefinitionError` for a mapping by windows where one of the two has no such time windows.
    """
    if isinstance(mapping, WindowOffsetMapping):
        for definition in (downstream_definition, upstream_definition):
            dimension = None if definition is None else definition.partitions.find_dimension(mapping.dimension)
            if definition is not None and not isinstance(dimension, TimeWindows):
                raise DefinitionError(
                    f"{downstream_definition.asset!r} is mapped to {upstream.asset!r} by windows of "
                    f"{mapping.dimension!r}, and {definition.asset!r} has no time windows of that name"
                )
        if upstream_definition is None:
            raise DefinitionError(
                f"{downstream_definition.asset!r} is mapped to windows of {upstream.asset!r}, which is not registered; "
                "register it first"
            )
    return LineageEdge(downstream_definition.asset, upstream.asset, downstream_definition, upstream_definition, mapping)


def upstream_edges(
    definition: AssetDefinition,
    find_definition: Callable[[str], AssetDefinition | None],
    mapping_functions: Mapping[tuple[str, str], FunctionMapping],
    report_problem: Callable[[str, DefinitionError], None],
) -> list[LineageEdge]:
    """Return the edges of an asset to its upstreams, with the functions that this process has registered.

    An edge that can't be used is left out and reported with the asset's name.
    """
    edges = []
    for upstream in definition.upstreams:
        mapping = upstream.mapping
        if isinstance(mapping, FunctionMapping):
            registered_mapping = mapping_functions.get((definition.asset, upstream.asset))
            mapping = (
                registered_mapping
                if registered_mapping is not None and registered_mapping.name == mapping.name
                else mapping
            )
        try:
            edges.append(lineage_edge(definition, upstream, find_definition(upstream.asset), mapping))
        except DefinitionError as error:
            report_problem(definition.asset, error)
    return edges


def edge_closure(
    assets: Iterable[str],
    edges_by_asset: Mapping[str, Sequence[LineageEdge]],
    report_problem: Callable[[str, DefinitionError], None],
) -> list[LineageEdge]:
    """Return the edges of some assets and of everything upstream of them, upstream edges first; report cycles."""
    sorted_edges: list[LineageEdge] = []
    finished_assets: set[str] = set()

    def visit_asset(asset: str, path: tuple[str, ...]) -> None:
        if asset in path:
            cycle = (*path[path.index(asset) :], asset)
            report_problem(asset, DefinitionError(f"assets are upstream of each other: {' <- '.join(cycle)}"))
        elif asset not in finished_assets:
            for edge in edges_by_asset.get(asset, ()):
                visit_asset(edge.upstream, (*path, asset))
            finished_assets.add(asset)
            sorted_edges.extend(edges_by_asset.get(asset, ()))

    for asset in assets:
        visit_asset(asset, ())
    return sorted_edges


def create_edge_groups(
    connection: duckdb.DuckDBPyConnection, prefix: str, edge: LineageEdge, downstream: Sql, upstream: Sql
) -> EdgeGroups:
    """Create the two relations that group the partitions of an edge, with names that begin with `prefix`.

    `downstream` and `upstream` are relations with the `partition_key` of both assets' partitions.
    """
    groups = EdgeGroups(Sql(f"{prefix}_downstream_groups"), Sql(f"{prefix}_upstream_groups"))
    if isinstance(edge.mapping, FunctionMapping):
        _create_function_groups(connection, groups.downstream, edge.mapping, downstream)
        create_view(connection, groups.upstream, _own_groups_sql(upstream))
    elif edge.is_same_key:
        create_view(connection, groups.downstream, _own_groups_sql(downstream))
        create_view(connection, groups.upstream, _own_groups_sql(upstream))
    else:
        _create_dimension_groups(connection, prefix, edge, groups, downstream, upstream)
    return groups


def _own_groups_sql(keys: Sql) -> Sql:
    """Return the select in which each partition is a group of its own."""
    return sql("SELECT partition_key, partition_key AS grouped FROM {keys}", keys=keys)


def _create_dimension_groups(  # noqa: PLR0913, PLR0917 - both sides of an edge
    connection: duckdb.DuckDBPyConnection,
    prefix: str,
    edge: LineageEdge,
    groups: EdgeGroups,
    downstream: Sql,
    upstream: Sql,
) -> None:
    """Group by the values of the shared dimensions; time windows of the asset are mapped to those of the upstream."""
    dimension_pairs = shared_dimensions(edge)
    values, joins = [], []
    for i, (dimension, upstream_dimension) in enumerate(dimension_pairs):
        value = dimension_value_sql(Sql("keys.partition_key"), dimension.name)
        if (
            isinstance(dimension, TimeWindows)
            and isinstance(upstream_dimension, TimeWindows)
            and _is_window_mapped(edge, dimension, upstream_dimension)
        ):
            window_map = Sql(f"{prefix}_windows_{i}")
            _create_window_map(connection, window_map, edge, dimension, upstream_dimension, downstream)
            joins.append(sql("JOIN {map} ON {map}.downstream_value = {value}", map=window_map, value=value))
            values.append(sql("{map}.upstream_value", map=window_map))
        else:
            values.append(value)
    create_view(
        connection,
        groups.downstream,
        sql(
            "SELECT keys.partition_key, {grouped} AS grouped FROM {keys} AS keys {joins}",
            grouped=_concat_sql(values),
            keys=downstream,
            joins=Sql(" ".join(joins)),
        ),
    )
    create_view(
        connection,
        groups.upstream,
        sql(
            "SELECT partition_key, {grouped} AS grouped FROM {keys}",
            grouped=_concat_sql(
                [dimension_value_sql(Sql("partition_key"), dimension.name) for _, dimension in dimension_pairs]
            ),
            keys=upstream,
        ),
    )


def dimension_value_sql(key: Sql, dimension: str) -> Sql:
    """Return the tagged value of a dimension in a canonical key; empty where the key doesn't have the dimension."""
    return sql("regexp_extract({key}, {pattern}, 1)", key=key, pattern=f"(?:^|,){dimension}=([^,]*)")


def _concat_sql(texts: Sequence[Sql]) -> Sql:
    return sql("concat_ws(',', {texts})", texts=comma_separated(texts)) if texts else Sql("''")


def shared_dimensions(edge: LineageEdge) -> list[tuple[Dimension, Dimension]]:
    """Return the dimensions that both assets have, by name; none where all partitions of the upstream count."""
    if isinstance(edge.mapping, AllPartitionsMapping) or edge.upstream_definition is None:
        return []
    pairs = [
        (edge.downstream_definition.partitions.find_dimension(dimension.name), dimension)
        for dimension in edge.upstream_definition.partitions.dimensions
    ]
    return [(downstream, upstream) for downstream, upstream in pairs if downstream is not None]


def _has_same_values(downstream: Dimension, upstream: Dimension) -> bool:
    """Return whether a value of one dimension is a value of the other, as far as time windows go."""
    if isinstance(downstream, TimeWindows) and isinstance(upstream, TimeWindows):
        return downstream.grid == upstream.grid
    return isinstance(downstream, TimeWindows) == isinstance(upstream, TimeWindows)


def _is_window_mapped(edge: LineageEdge, downstream: TimeWindows, upstream: TimeWindows) -> bool:
    is_shifted = isinstance(edge.mapping, WindowOffsetMapping) and edge.mapping.dimension == downstream.name
    return is_shifted or downstream.grid != upstream.grid


def _create_window_map(  # noqa: PLR0913, PLR0917 - both sides of an edge
    connection: duckdb.DuckDBPyConnection,
    table: Sql,
    edge: LineageEdge,
    downstream: TimeWindows,
    upstream: TimeWindows,
    downstream_keys: Sql,
) -> None:
    dimension = downstream.name
    value = dimension_value_sql(Sql("partition_key"), dimension)
    pairs: list[tuple[str, str]] = []
    for (text,) in fetch_rows(connection, sql("SELECT DISTINCT {v} FROM {keys}", v=value, keys=downstream_keys)):
        ordinal = downstream.ordinal_of(PartitionKey.parse(f"{dimension}={text}")[dimension]) if text else None
        if ordinal is not None:
            # No key holds a window outside of the years 1 to 9999.
            with suppress(ValueError, OverflowError):
                windows = upstream_windows(edge.mapping, downstream, upstream, ordinal)
                pairs.extend((text, canonical_value_text(upstream.key_value(window))) for window in windows)
    create_temp_table(connection, table, {"downstream_value": VARCHAR, "upstream_value": VARCHAR}, pairs)


def _create_function_groups(
    connection: duckdb.DuckDBPyConnection, table: Sql, mapping: FunctionMapping, downstream_keys: Sql
) -> None:
    rows = fetch_rows(connection, sql("SELECT DISTINCT partition_key FROM {keys}", keys=downstream_keys))
    pairs = [(key, str(upstream)) for (key,) in rows for upstream in upstream_keys(mapping, PartitionKey.parse(key))]
    create_temp_table(connection, table, {"partition_key": VARCHAR, "grouped": VARCHAR}, pairs)


def asset_condition(asset: str) -> Sql:
    """Return the condition that a row belongs to an asset."""
    return sql("asset_key = {asset}", asset=asset)
