"""`@asset`: a function that makes the partitions of a table, with what Partita must know of it; and `source`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as NamedValues
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from partita.algebra.freshness import Freshness, as_freshness
from partita.algebra.mappings import AllPartitions, MappedBy, Mapping, SameKey, WindowOffset
from partita.algebra.partition_sets import NOT_PARTITIONED, PartitionSet
from partita.algebra.transforms import PartitionFunction
from partita.assets.fingerprint import fingerprint
from partita.errors import DefinitionError, value_repr
from partita.formats import FORMATS
from partita.formats.arguments import fields_of
from partita.status.definitions import Definition, Upstream


@dataclass(frozen=True, slots=True)
class Making:
    """How the table of an asset is made where there is none yet.

    Without `partition_by`, its dimensions are columns; without a `schema`, it has that of the first rows.
    """

    format: str = "delta"
    partition_by: tuple[PartitionFunction | str, ...] | None = None
    properties: NamedValues[str, str] = field(default_factory=dict)
    schema: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Asset:
    """An asset: its definition, and the function that makes partitions of it, which can be called as itself.

    `place` is the file and the line where it was defined. A source has no function.
    """

    definition: Definition
    function: Callable[..., Any] | None = None
    retries: int = 0
    making: Making = field(default_factory=Making)
    place: str = ""

    @property
    def name(self) -> str:
        """The asset's name, which is its id in keys, events and status."""
        return self.definition.asset

    @property
    def table(self) -> str | None:
        """The name of the table that it writes."""
        return self.definition.table

    @property
    def is_source(self) -> bool:
        """Whether others write it."""
        return self.definition.source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise DefinitionError(f"{self.name!r} is a source: others write it, and there is nothing to call")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{'Source' if self.is_source else 'Asset'} {self.name}>"


UpstreamGiven: TypeAlias = "Asset | str | tuple[Asset | str, Mapping]"


def asset(  # noqa: PLR0913 - what there is to define
    *,
    table: str | None = None,
    partitions: PartitionSet | None = None,
    upstream: Sequence[UpstreamGiven] = (),
    freshness: timedelta | Freshness | None = None,
    code_version: str | None = None,
    name: str | None = None,
    retries: int = 0,
    tags: Sequence[str] = (),
    format: str = "delta",  # noqa: A002 - as create_table calls it
    partition_by: Sequence[PartitionFunction | str] | None = None,
    properties: NamedValues[str, str] | None = None,
    schema: object = None,
) -> Callable[[Callable[..., Any]], Asset]:
    """Make an asset of a function; its name is the function's unless one is given.

    `upstream` has assets, or their names, alone or in a pair with a mapping: `(orders, window_offset("date", -1))`.
    `freshness` is a timedelta, the longest time between materializations, or `cron(...)`. Without a `code_version`, it
    is a fingerprint of the function and what it closes over. `retries` is how often a partition that fails is tried
    again. `format`, `partition_by`, `properties` and `schema` are for the table where there is none yet; it is
    partitioned by the asset's dimensions, and has the columns of the first rows, unless it is said otherwise.
    """
    _check(partitions, code_version, retries)
    upstreams = _upstreams(upstream)
    labels = _tags(tags)
    settings = _properties(properties)
    if format not in FORMATS:
        raise DefinitionError(f"there is no format {value_repr(format)}; there is {', '.join(FORMATS)}")
    by = None if partition_by is None else tuple(fields_of(partition_by, "partition_by"))
    making = Making(format, by, settings, schema)

    def made(function: Callable[..., Any]) -> Asset:
        if not callable(function):
            raise DefinitionError(f"@asset is for functions, not {value_repr(function)}")
        definition = Definition(
            getattr(function, "__name__", "") if name is None else name,
            NOT_PARTITIONED if partitions is None else partitions,
            upstreams,
            as_freshness(freshness),
            fingerprint(function) if code_version is None else code_version,
            table,
            tags=labels,
        )
        return Asset(definition, function, retries, making, _place_of(function))

    return made


def source(
    table: str,
    *,
    partitions: PartitionSet | None = None,
    freshness: timedelta | Freshness | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
) -> Asset:
    """A table that others write, as an upstream: its name is the table's unless one is given.

    What they commit is found in the table's own log by `lake.observe`, `lake.plan` and `lake.status`.
    """
    _check(partitions, None, 0)
    if not isinstance(table, str) or not table:
        raise DefinitionError(f"a source is the name of a table, not {value_repr(table)}")
    definition = Definition(
        table if name is None else name,
        NOT_PARTITIONED if partitions is None else partitions,
        freshness=as_freshness(freshness),
        table=table,
        source=True,
        tags=_tags(tags),
    )
    caller = inspect.stack(0)[1]
    return Asset(definition, place=f"{caller.filename}:{caller.lineno}")


def _check(partitions: object, code_version: object, retries: object) -> None:
    if partitions is not None and not isinstance(partitions, PartitionSet):
        raise DefinitionError(f"partitions are made by daily, static and the like, not {value_repr(partitions)}")
    if code_version is not None and not isinstance(code_version, str):
        raise DefinitionError(f"a code version is text, not {value_repr(code_version)}; write it in quotes")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise DefinitionError(f"retries are counted by a whole number from 0 on, not {value_repr(retries)}")


def _tags(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DefinitionError(f"tags are a list of words, not {value_repr(given)}")
    for tag in given:
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise DefinitionError(f"{value_repr(tag)} is no tag; use letters, digits, _, - and dots")
    return tuple(sorted(set(given)))


_TAG = re.compile(r"\w[\w.-]*")


def _properties(given: NamedValues[str, str] | None) -> dict[str, str]:
    known = {} if given is None else given
    if not isinstance(known, NamedValues) or not all(isinstance(text, str) for pair in known.items() for text in pair):
        raise DefinitionError(f"properties are texts by name, not {value_repr(given)}")
    return dict(known)


def _upstreams(given: Sequence[UpstreamGiven]) -> tuple[Upstream, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DefinitionError(f"upstream is a list of assets, not {value_repr(given)}")
    return tuple(map(_upstream, given))


def _upstream(given: UpstreamGiven) -> Upstream:
    if isinstance(given, tuple) and len(given) != 2:
        raise DefinitionError(f"an upstream with a mapping is a pair, not {value_repr(given)}")
    which, mapping = given if isinstance(given, tuple) else (given, SameKey())
    if not isinstance(mapping, SameKey | WindowOffset | AllPartitions | MappedBy):
        raise DefinitionError(f"{mapping!r} is no mapping; use same_key, window_offset, all_partitions or mapped_by")
    if isinstance(which, Asset):
        return Upstream(which.name, mapping)
    if isinstance(which, str) and which:
        return Upstream(which, mapping)
    raise DefinitionError(f"an upstream is an asset or its name, not {value_repr(which)}")


def _place_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
