"""Links: which partitions of an upstream each partition of an asset is made from, for all of them at once.

A link puts the upstream's partitions into groups, by those of their dimensions that ours have too, and says which
groups each of ours is made from. Where both have the same dimensions over the same windows, the group is the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.algebra.mappings import (
    AllPartitions,
    MappedBy,
    Mapping,
    SameKey,
    WindowOffset,
    asked_upstream,
    upstream_windows,
)
from partita.algebra.partition_sets import Dimension
from partita.algebra.windows import Windows
from partita.errors import DefinitionError
from partita.status.definitions import Definition, Upstream
from partita.status.engine import TEXT, listed, make_table, quoted

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Link:
    """An asset, one of its upstreams, and the mapping between them."""

    asset: str
    upstream: str
    ours: Definition
    theirs: Definition | None
    mapping: Mapping

    @property
    def is_same_key(self) -> bool:
        """Whether each partition is made from the one with the same key and from no other."""
        if not isinstance(self.mapping, SameKey):
            return False
        if self.theirs is None:
            return True
        ours, theirs = self.ours.partitions, self.theirs.partitions
        return ours.names == theirs.names and all(map(_same_values, ours.dimensions, theirs.dimensions))

    @property
    def is_askable(self) -> bool:
        """Whether the mapping can be asked here; a function only where it was registered."""
        return not isinstance(self.mapping, MappedBy) or self.mapping.function is not None


def links_of(ours: Definition, upstream: Upstream, theirs: Definition | None, mapping: Mapping) -> Link:
    """The link of an asset to one of its upstreams; a mapping that the dimensions don't allow is refused."""
    if isinstance(mapping, WindowOffset):
        for definition in (ours, theirs):
            found = None if definition is None else definition.partitions.find(mapping.dimension)
            if definition is not None and not isinstance(found, Windows):
                raise DefinitionError(
                    f"{ours.asset!r} is mapped to {upstream.asset!r} by windows of {mapping.dimension!r}, "
                    f"and {definition.asset!r} has no time windows of that name"
                )
        if theirs is None:
            raise DefinitionError(
                f"{ours.asset!r} is mapped to windows of {upstream.asset!r}, which is not registered; register it first"
            )
    return Link(ours.asset, upstream.asset, ours, theirs, mapping)


def make_groups(connection: duckdb.DuckDBPyConnection, name: str, link: Link, ours: str, theirs: str) -> None:
    """Make two relations, `{name}_ours` and `{name}_theirs`, with `partition_key` and `grouped`.

    `ours` and `theirs` are relations with the keys of the two assets' partitions.
    """
    if isinstance(link.mapping, MappedBy):
        _group_by_function(connection, name, link.mapping, ours)
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {name}_theirs AS SELECT partition_key, partition_key AS grouped FROM {theirs}"  # noqa: S608
        )
        return
    shared = shared_dimensions(link)
    texts, joins = [], []
    for at, (here, there) in enumerate(shared):
        value = dimension_sql("keys.partition_key", here.dimension)
        if isinstance(here, Windows) and isinstance(there, Windows) and _is_mapped(link, here, there):
            _make_window_map(connection, f"{name}_map_{at}", link, here, there, ours)
            joins.append(f"JOIN {name}_map_{at} AS map_{at} ON map_{at}.ours = {value}")
            texts.append(f"map_{at}.theirs")
        else:
            texts.append(value)
    names = [there.dimension for _, there in shared]
    own = _joined(texts)
    other = _joined([dimension_sql("partition_key", n) for n in names])
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name}_ours AS SELECT keys.partition_key, {own} AS grouped "  # noqa: S608
        f"FROM {ours} AS keys {' '.join(joins)}"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {name}_theirs AS SELECT partition_key, {other} AS grouped FROM {theirs}"  # noqa: S608
    )


def dimension_sql(key: str, name: str) -> str:
    """The tagged value of a dimension in a canonical key; empty where the key doesn't have it."""
    return f"regexp_extract({key}, '(?:^|,){name}=([^,]*)', 1)"


def _joined(texts: Iterable[str]) -> str:
    return f"concat_ws(',', {', '.join(texts)})" if texts else "''"


def shared_dimensions(link: Link) -> list[tuple[Dimension, Dimension]]:
    """The dimensions that both have, by name; none where every partition of the upstream counts."""
    if isinstance(link.mapping, AllPartitions) or link.theirs is None:
        return []
    found = [(link.ours.partitions.find(there.dimension), there) for there in link.theirs.partitions.dimensions]
    return [(here, there) for here, there in found if here is not None]


def _same_values(here: Dimension, there: Dimension) -> bool:
    """Whether values of the one are values of the other, as far as time windows go."""
    if isinstance(here, Windows) and isinstance(there, Windows):
        return here.grid == there.grid
    return isinstance(here, Windows) == isinstance(there, Windows)


def _is_mapped(link: Link, here: Windows, there: Windows) -> bool:
    shifted = isinstance(link.mapping, WindowOffset) and link.mapping.dimension == here.dimension
    return shifted or here.grid != there.grid


def _make_window_map(  # noqa: PLR0913, PLR0917 - both sides of a link
    connection: duckdb.DuckDBPyConnection, name: str, link: Link, here: Windows, there: Windows, ours: str
) -> None:
    dimension = here.dimension
    values = f"SELECT DISTINCT {dimension_sql('partition_key', dimension)} FROM {ours}"  # noqa: S608 - our own names
    pairs: list[tuple[str, str]] = []
    for (text,) in listed(connection, values):
        ordinal = here.ordinal(PartitionKey.parse(f"{dimension}={text}")[dimension]) if text else None
        if ordinal is not None:
            # Windows outside of the years 1 to 9999 are in no key.
            with suppress(ValueError, OverflowError):
                windows = upstream_windows(link.mapping, here, there, ordinal)
                pairs.extend((text, tagged(there.value(window))) for window in windows)
    make_table(connection, name, {"ours": TEXT, "theirs": TEXT}, pairs)


def _group_by_function(connection: duckdb.DuckDBPyConnection, name: str, mapping: MappedBy, ours: str) -> None:
    keys = [key for (key,) in listed(connection, f"SELECT DISTINCT partition_key FROM {ours}")]  # noqa: S608 - our own
    pairs = [(key, str(theirs)) for key in keys for theirs in asked_upstream(mapping, PartitionKey.parse(key))]
    make_table(connection, f"{name}_ours", {"partition_key": TEXT, "grouped": TEXT}, pairs)


def in_asset(asset: str) -> str:
    """The condition that a row is of an asset."""
    return f"asset_key = {quoted(asset)}"
