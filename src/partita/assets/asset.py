"""`@asset`: a function that makes the partitions of a table, with what Partita must know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from partita.algebra.freshness import Freshness, as_freshness
from partita.algebra.mappings import AllPartitions, MappedBy, Mapping, SameKey, WindowOffset
from partita.algebra.partition_sets import NOT_PARTITIONED, PartitionSet
from partita.errors import DefinitionError
from partita.status.definitions import Definition, Upstream


@dataclass(frozen=True, slots=True, eq=False)
class Asset:
    """An asset: its definition, and the function that makes partitions of it, which can be called as itself."""

    definition: Definition
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The asset's name, which is its id in keys, events and status."""
        return self.definition.asset

    @property
    def table(self) -> str | None:
        """The name of the table that it writes."""
        return self.definition.table

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Asset {self.name}>"


UpstreamGiven: TypeAlias = "Asset | str | tuple[Asset | str, Mapping]"


def asset(  # noqa: PLR0913 - what there is to define
    *,
    table: str | None = None,
    partitions: PartitionSet | None = None,
    upstream: Sequence[UpstreamGiven] = (),
    freshness: timedelta | Freshness | None = None,
    code_version: str | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Asset]:
    """Make an asset of a function; its name is the function's unless one is given.

    `upstream` has assets, or their names, alone or in a pair with a mapping: `(orders, window_offset("date", -1))`.
    `freshness` is a timedelta, the longest time between materializations, or `cron(...)`.
    """
    if partitions is not None and not isinstance(partitions, PartitionSet):
        raise DefinitionError(f"partitions are made by daily, static and the like, not {partitions!r}")
    if code_version is not None and not isinstance(code_version, str):
        raise DefinitionError(f"a code version is text, not {code_version!r}; write it in quotes")
    upstreams = tuple(map(_upstream, upstream))

    def made(function: Callable[..., Any]) -> Asset:
        definition = Definition(
            getattr(function, "__name__", "") if name is None else name,
            NOT_PARTITIONED if partitions is None else partitions,
            upstreams,
            as_freshness(freshness),
            code_version,
            table,
        )
        return Asset(definition, function)

    return made


def _upstream(given: UpstreamGiven) -> Upstream:
    which, mapping = given if isinstance(given, tuple) else (given, SameKey())
    if not isinstance(mapping, SameKey | WindowOffset | AllPartitions | MappedBy):
        raise DefinitionError(f"{mapping!r} is no mapping; use same_key, window_offset, all_partitions or mapped_by")
    if isinstance(which, Asset):
        return Upstream(which.name, mapping)
    if isinstance(which, str) and which:
        return Upstream(which, mapping)
    raise DefinitionError(f"an upstream is an asset or its name, not {which!r}")
