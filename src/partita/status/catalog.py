"""The catalog: which assets there are, how they were defined, and which values their dynamic dimensions have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.status.definitions import Definition, Seen, Timeline
from partita.status.engine import fetch, instant
from partita.status.events import ADDED, DEFINED, OF_CATALOG

if TYPE_CHECKING:
    import duckdb

    from partita.status.ledger import Files, Ledger


@dataclass(frozen=True, slots=True)
class Member:
    """Whether a value of a dynamic dimension was added or removed last, and when."""

    added: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Catalog:
    """The definitions of assets, and the members of dynamic dimensions by asset, dimension and tagged value."""

    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    members: Mapping[tuple[str, str], Mapping[str, Member]] = field(default_factory=dict)

    def definition(self, asset: str) -> Definition | None:
        """The current definition of an asset; None where none was registered."""
        timeline = self.timelines.get(asset)
        return None if timeline is None else timeline.current


def read_catalog(
    connection: duckdb.DuckDBPyConnection, ledger: Ledger, files: Files, now: datetime | None = None
) -> Catalog:
    """The catalog of events in these files, up to `now` where it is given."""
    ledger.view(connection, "catalog_events", files.of(*OF_CATALOG))
    until = "" if now is None else f"WHERE occurred_at <= {instant(now)}"
    rows = fetch(
        connection,
        "SELECT kind, asset_key, partition_key, code_version, definition, occurred_at, event_id "  # noqa: S608
        f"FROM catalog_events {until} ORDER BY occurred_at, event_id",
    )
    seen: dict[str, list[Seen]] = {}
    members: dict[tuple[str, str], dict[str, Member]] = {}
    for kind, asset, key, version, definition, at, event_id in zip(*(c.to_pylist() for c in rows.columns), strict=True):
        if kind == DEFINED:
            seen.setdefault(asset, []).append(Seen(asset, version, definition, at, event_id))
        else:
            for name, value in PartitionKey.parse(key).items():
                members.setdefault((asset, name), {})[tagged(value)] = Member(kind == ADDED, at)
    return Catalog({asset: Timeline(tuple(found)) for asset, found in seen.items()}, members)
