"""Asset definitions: partitions, upstreams and freshness of an asset, as a value and as the JSON of an event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from partita.algebra.freshness import FreshnessPolicy, freshness_from_document
from partita.algebra.mappings import PartitionMapping as UpstreamMapping
from partita.algebra.mappings import SameKeyMapping, mapping_from_document
from partita.algebra.partition_sets import UNPARTITIONED, PartitionSet, partition_set_from_document
from partita.errors import DefinitionError, PartitaError, value_repr
from partita.untrusted_input import parse_json_object, translate_read_errors


@dataclass(frozen=True, slots=True)
class Upstream:
    """An upstream asset, and the mapping to its partitions."""

    asset: str
    mapping: UpstreamMapping = SameKeyMapping()  # noqa: RUF009 - a frozen value


@dataclass(frozen=True, slots=True)
class AssetDefinition:
    """An asset as `@asset` or `register` defined it; a source is a table that others write.

    Raises `DefinitionError` where the name is empty, or an upstream is the asset itself or named twice.
    """

    asset: str
    partitions: PartitionSet = UNPARTITIONED
    upstreams: tuple[Upstream, ...] = ()
    freshness: FreshnessPolicy | None = None
    code_version: str | None = None
    table: str | None = None
    is_source: bool = False
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.asset, str) or not self.asset:
            raise DefinitionError(f"an asset's name must be a non-empty string, not {value_repr(self.asset)}")
        names = [upstream.asset for upstream in self.upstreams]
        if self.asset in names:
            raise DefinitionError(f"the asset {self.asset!r} can't be its own upstream")
        if len(set(names)) < len(names):
            raise DefinitionError(f"the asset {self.asset!r} names an upstream twice")

    def to_json(self) -> str:
        """Return the definition as JSON; equal definitions have equal texts."""
        document: dict[str, Any] = {
            "partitions": self.partitions.document(),
            "upstreams": [{"asset": u.asset, **u.mapping.document()} for u in self.upstreams],
            "freshness": None if self.freshness is None else self.freshness.document(),
            "table": self.table,
        }
        if self.is_source:
            document["source"] = True
        if self.tags:
            document["tags"] = list(self.tags)
        return json.dumps(document, sort_keys=True)


@lru_cache(512)
def definition_from_json(asset: str, code_version: str | None, text: str) -> AssetDefinition:
    """Parse the JSON of a definition; raise `DefinitionError` where this version can't read it."""
    try:
        with translate_read_errors("the JSON of it", DefinitionError):
            document = parse_json_object(text)
            return AssetDefinition(
                asset,
                partition_set_from_document(document["partitions"]),
                tuple(Upstream(u["asset"], mapping_from_document(u)) for u in document["upstreams"]),
                freshness_from_document(document["freshness"]),
                code_version,
                document.get("table"),
                document.get("source", False),
                tuple(document.get("tags", ())),
            )
    except PartitaError as error:
        raise DefinitionError(f"the definition of {asset!r} can't be read: {error}") from None


def find_cycle(upstreams: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return assets that are upstream of each other, with the first again at the end; empty where there is no cycle."""
    acyclic_assets: set[str] = set()

    def visit_asset(asset: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if asset in path:
            return (*path[path.index(asset) :], asset)
        cycle: tuple[str, ...] = ()
        if asset not in acyclic_assets:
            cycle = next(filter(None, (visit_asset(u, (*path, asset)) for u in upstreams.get(asset, ()))), ())
            acyclic_assets.add(asset)
        return cycle

    return next(filter(None, (visit_asset(asset, ()) for asset in upstreams)), ())


@dataclass(frozen=True, slots=True)
class RecordedDefinition:
    """A definition as the ledger has it."""

    asset: str
    code_version: str | None
    definition_json: str
    recorded_at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class DefinitionHistory:
    """The definitions of one asset, ordered by time and event id."""

    records: tuple[RecordedDefinition, ...]

    @property
    def current_definition(self) -> AssetDefinition:
        """The definition that was recorded last."""
        last = self.records[-1]
        return definition_from_json(last.asset, last.code_version, last.definition_json)

    def is_current(self, definition: AssetDefinition) -> bool:
        """Return whether the definition equals the one that was recorded last."""
        last = self.records[-1]
        return (last.code_version, last.definition_json) == (definition.code_version, definition.to_json())

    def outdated_code_versions(self) -> dict[str, datetime]:
        """Return the earlier code versions, each with the moment since which it is outdated.

        That is the time of the first definition with another version after the last one with it.
        """
        since: dict[str, datetime] = {}
        for before, after in pairwise(self.records):
            if before.code_version is not None and before.code_version != after.code_version:
                since[before.code_version] = after.recorded_at
        since.pop(self.records[-1].code_version or "", None)
        return since
