"""`@asset`, which turns a function that makes partitions of a table into an asset, and `source`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as NamedValues
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from partita.algebra.freshness import FreshnessPolicy, to_freshness_policy
from partita.algebra.mappings import (
    AllPartitionsMapping,
    FunctionMapping,
    PartitionMapping,
    SameKeyMapping,
    WindowOffsetMapping,
)
from partita.algebra.partition_sets import UNPARTITIONED, PartitionSet
from partita.algebra.transforms import PartitionFunction
from partita.assets.fingerprint import fingerprint
from partita.errors import DefinitionError, value_repr
from partita.formats.arguments import partition_fields_of
from partita.formats.registry import FORMATS
from partita.status.definitions import AssetDefinition, Upstream


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How the table of an asset is created if it doesn't exist.

    Without `partition_by`, it is partitioned by the asset's dimensions as columns; without a `schema`, it has that of
    the first rows.
    """

    format: str = "delta"
    partition_by: tuple[PartitionFunction | str, ...] | None = None
    properties: NamedValues[str, str] = field(default_factory=dict)
    schema: object = None


@dataclass(frozen=True, slots=True, eq=False)
class Asset:
    """An asset: its definition, and the function that makes its partitions. Calling the asset calls the function.

    `asset` and `source` make one; a source has no function.

    Attributes:
        definition: what is recorded of the asset: name, partitions, upstreams, freshness policy, code version, table.
        function: the function; None for a source.
        retries: how many times a partition that fails alone is tried again.
        table_options: how the table is created if it doesn't exist.
        definition_location: the file and the line of the definition.
    """

    definition: AssetDefinition
    function: Callable[..., Any] | None = None
    retries: int = 0
    table_options: TableOptions = field(default_factory=TableOptions)
    definition_location: str = ""

    @property
    def name(self) -> str:
        """The asset's name, which identifies it in partition ids, events and status."""
        return self.definition.asset

    @property
    def table(self) -> str | None:
        """The name of the table that the asset writes, or that the source is."""
        return self.definition.table

    @property
    def is_source(self) -> bool:
        """Whether it is a source, which others write."""
        return self.definition.is_source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise DefinitionError(f"{self.name!r} is a source: others write it, and there is nothing to call")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{'Source' if self.is_source else 'Asset'} {self.name}>"


UpstreamLike: TypeAlias = "Asset | str | tuple[Asset | str, PartitionMapping]"


def asset(  # noqa: PLR0913 - the fields of a definition
    *,
    table: str | None = None,
    partitions: PartitionSet | None = None,
    upstream: Sequence[UpstreamLike] = (),
    freshness: timedelta | FreshnessPolicy | None = None,
    code_version: str | None = None,
    name: str | None = None,
    retries: int = 0,
    tags: Sequence[str] = (),
    format: str = "delta",  # noqa: A002 - as create_table calls it
    partition_by: Sequence[PartitionFunction | str] | None = None,
    properties: NamedValues[str, str] | None = None,
    schema: object = None,
) -> Callable[[Callable[..., Any]], Asset]:
    """Return a decorator that turns a function into an asset.

    ```python
    @pt.asset(table="sales.daily", partitions=pt.daily("date", start="2025-01-01"), upstream=[orders])
    def daily_sales(ctx):
        return ctx.read(orders).groupBy("date").count()
    ```

    The function is called with an `AssetContext` and returns the rows of all requested keys: a Spark DataFrame, an
    Arrow table or a pandas DataFrame. Rows of other partitions are an error. A key without rows is materialized and
    empty.

    The asset's dimensions are partition fields of its table: days, weeks and months are a date column, hours a
    timestamp column, other values a column of their type. In Iceberg tables `day`, `month` and `hour` of a timestamp
    can hold time windows in UTC.

    Args:
        table: the name of the table that the asset writes; None for an asset that is only recorded.
        partitions: the partitions that the asset should have; None for an asset without partitions.
        upstream: assets or their names, alone or in a pair with a mapping: `(orders, pt.window_offset("date", -1))`.
            The default mapping is `same_key()`.
        freshness: the longest time between materializations as a timedelta, or `cron(...)`.
        code_version: the version of the code; by default a fingerprint of the function and what it closes over.
        name: the name of the asset; by default that of the function.
        retries: how many times a partition that fails alone is tried again.
        tags: words to select assets by, as in `lake.plan(select="tag:nightly")`.
        format: the format of the table if it is created.
        partition_by: the partition fields of the table if it is created; by default the asset's dimensions as columns.
        properties: the properties of the table if it is created.
        schema: the schema of the table if it is created; by default that of the first rows. An Arrow schema holds what
            Spark's types don't, such as the size of vectors.

    Raises:
        DefinitionError: an argument is invalid.
    """
    _check_arguments(partitions, code_version, retries)
    upstreams = _upstreams_from(upstream)
    tag_names = _checked_tags(tags)
    table_properties = _checked_properties(properties)
    if format not in FORMATS:
        raise DefinitionError(f"unknown format {value_repr(format)}; the formats are {', '.join(FORMATS)}")
    partition_fields = None if partition_by is None else tuple(partition_fields_of(partition_by, "partition_by"))
    table_options = TableOptions(format, partition_fields, table_properties, schema)

    def decorate_function(function: Callable[..., Any]) -> Asset:
        if not callable(function):
            raise DefinitionError(f"@asset is for functions, not {value_repr(function)}")
        definition = AssetDefinition(
            getattr(function, "__name__", "") if name is None else name,
            UNPARTITIONED if partitions is None else partitions,
            upstreams,
            to_freshness_policy(freshness),
            fingerprint(function) if code_version is None else code_version,
            table,
            tags=tag_names,
        )
        return Asset(definition, function, retries, table_options, _definition_location(function))

    return decorate_function


def source(
    table: str,
    *,
    partitions: PartitionSet | None = None,
    freshness: timedelta | FreshnessPolicy | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
) -> Asset:
    """Return a table that others write, for use as an upstream.

    `lake.observe`, `lake.plan`, `lake.status` and `lake.why` find what others commit to it in the table's own log.

    Args:
        table: the name of the table.
        partitions: the partitions that the table should have; None for a source without partitions.
        freshness: the longest time between commits as a timedelta, or `cron(...)`.
        name: the name of the source; by default that of the table.
        tags: words to select assets by.
    """
    _check_arguments(partitions, None, 0)
    if not isinstance(table, str) or not table:
        raise DefinitionError(f"a source takes the name of a table, not {value_repr(table)}")
    definition = AssetDefinition(
        table if name is None else name,
        UNPARTITIONED if partitions is None else partitions,
        freshness=to_freshness_policy(freshness),
        table=table,
        is_source=True,
        tags=_checked_tags(tags),
    )
    caller = inspect.stack(0)[1]
    return Asset(definition, definition_location=f"{caller.filename}:{caller.lineno}")


def _check_arguments(partitions: object, code_version: object, retries: object) -> None:
    if partitions is not None and not isinstance(partitions, PartitionSet):
        raise DefinitionError(f"partitions are made by daily, static and the like, not {value_repr(partitions)}")
    if code_version is not None and not isinstance(code_version, str):
        raise DefinitionError(f"a code version is a string, not {value_repr(code_version)}; write it in quotes")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise DefinitionError(f"retries must be a non-negative integer, not {value_repr(retries)}")


def _checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise DefinitionError(f"tags are a list of words, not {value_repr(tags)}")
    for tag in tags:
        if not isinstance(tag, str) or not _TAG_PATTERN.fullmatch(tag):
            raise DefinitionError(f"{value_repr(tag)} is not a tag; use letters, digits, _, - and dots")
    return tuple(sorted(set(tags)))


_TAG_PATTERN = re.compile(r"\w[\w.-]*")


def _checked_properties(properties: NamedValues[str, str] | None) -> dict[str, str]:
    property_map = {} if properties is None else properties
    if not isinstance(property_map, NamedValues) or not all(
        isinstance(t, str) for pair in property_map.items() for t in pair
    ):
        raise DefinitionError(f"properties map names to strings, not {value_repr(properties)}")
    return dict(property_map)


def _upstreams_from(upstreams: Sequence[UpstreamLike]) -> tuple[Upstream, ...]:
    if isinstance(upstreams, str) or not isinstance(upstreams, Iterable):
        raise DefinitionError(f"upstream is a list of assets, not {value_repr(upstreams)}")
    return tuple(map(_upstream_from, upstreams))


def _upstream_from(upstream: UpstreamLike) -> Upstream:
    if isinstance(upstream, tuple) and len(upstream) != 2:
        raise DefinitionError(f"an upstream with a mapping is a pair, not {value_repr(upstream)}")
    asset_or_name, mapping = upstream if isinstance(upstream, tuple) else (upstream, SameKeyMapping())
    if not isinstance(mapping, SameKeyMapping | WindowOffsetMapping | AllPartitionsMapping | FunctionMapping):
        raise DefinitionError(f"{mapping!r} is not a mapping; use same_key, window_offset, all_partitions or mapped_by")
    if isinstance(asset_or_name, Asset):
        return Upstream(asset_or_name.name, mapping)
    if isinstance(asset_or_name, str) and asset_or_name:
        return Upstream(asset_or_name, mapping)
    raise DefinitionError(f"an upstream is an asset or its name, not {value_repr(asset_or_name)}")


def _definition_location(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
