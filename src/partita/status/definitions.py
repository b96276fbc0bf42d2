"""Definitions: what an asset is made of and how fresh it should be, as a value and as the JSON of an event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

from partita.algebra.freshness import Freshness, freshness_of
from partita.algebra.mappings import Mapping as UpstreamMapping
from partita.algebra.mappings import SameKey, mapping_of
from partita.algebra.partition_sets import NOT_PARTITIONED, PartitionSet, partition_set_of
from partita.errors import DefinitionError, PartitaError, value_repr
from partita.untrusted import parse_json_object, reading


@dataclass(frozen=True, slots=True)
class Upstream:
    """An asset that another is made from, and which of its partitions."""

    asset: str
    mapping: UpstreamMapping = SameKey()  # noqa: RUF009 - a frozen value


@dataclass(frozen=True, slots=True)
class Definition:
    """An asset as `@asset` or `register` defined it; a `source` is a table that others write."""

    asset: str
    partitions: PartitionSet = NOT_PARTITIONED
    upstreams: tuple[Upstream, ...] = ()
    freshness: Freshness | None = None
    code_version: str | None = None
    table: str | None = None
    source: bool = False
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.asset, str) or not self.asset:
            raise DefinitionError(f"an asset's name is text and not empty, not {value_repr(self.asset)}")
        names = [upstream.asset for upstream in self.upstreams]
        if self.asset in names:
            raise DefinitionError(f"the asset {self.asset!r} can't be its own upstream")
        if len(set(names)) < len(names):
            raise DefinitionError(f"the asset {self.asset!r} names an upstream twice")

    def text(self) -> str:
        """The definition as JSON; equal definitions have equal texts."""
        document: dict[str, Any] = {
            "partitions": self.partitions.document(),
            "upstreams": [{"asset": u.asset, **u.mapping.document()} for u in self.upstreams],
            "freshness": None if self.freshness is None else self.freshness.document(),
            "table": self.table,
        }
        if self.source:
            document["source"] = True
        if self.tags:
            document["tags"] = list(self.tags)
        return json.dumps(document, sort_keys=True)


@lru_cache(512)
def definition_of(asset: str, code_version: str | None, text: str) -> Definition:
    """The definition whose `text` this is."""
    try:
        with reading("the JSON of it", DefinitionError):
            document = parse_json_object(text)
            return Definition(
                asset,
                partition_set_of(document["partitions"]),
                tuple(Upstream(u["asset"], mapping_of(u)) for u in document["upstreams"]),
                freshness_of(document["freshness"]),
                code_version,
                document.get("table"),
                document.get("source", False),
                tuple(document.get("tags", ())),
            )
    except PartitaError as error:
        raise DefinitionError(f"the definition of {asset!r} can't be read: {error}") from None


def find_cycle(upstreams: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Assets that are upstream of each other, the first again at the end; none where there are none."""
    done: set[str] = set()

    def visit(asset: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if asset in path:
            return (*path[path.index(asset) :], asset)
        found: tuple[str, ...] = ()
        if asset not in done:
            found = next(filter(None, (visit(u, (*path, asset)) for u in upstreams.get(asset, ()))), ())
            done.add(asset)
        return found

    return next(filter(None, (visit(asset, ()) for asset in upstreams)), ())


@dataclass(frozen=True, slots=True)
class Seen:
    """A definition as it was recorded, and when it was seen."""

    asset: str
    code_version: str | None
    text: str
    at: datetime
    event_id: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The definitions of one asset in the order in which they were seen, by time and event id."""

    seen: tuple[Seen, ...]

    @property
    def current(self) -> Definition:
        """The one that was seen last."""
        last = self.seen[-1]
        return definition_of(last.asset, last.code_version, last.text)

    def is_current(self, definition: Definition) -> bool:
        """Whether the definition is the one that was seen last."""
        last = self.seen[-1]
        return (last.code_version, last.text) == (definition.code_version, definition.text())

    def not_since(self) -> dict[str, datetime]:
        """For each code version that was once defined and is not current: since when it is not.

        That is when the first definition with another version came after the last one with it.
        """
        since: dict[str, datetime] = {}
        for before, after in pairwise(self.seen):
            if before.code_version is not None and before.code_version != after.code_version:
                since[before.code_version] = after.at
        since.pop(self.seen[-1].code_version or "", None)
        return since
