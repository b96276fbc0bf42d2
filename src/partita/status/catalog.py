"""The catalog: which assets there are, how they were defined, and which values their dynamic dimensions have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import tagged
from partita.status.definitions import Definition, Seen, Timeline
from partita.status.engine import listed, moment
from partita.status.events import ADDED, DEFINED, OF_CATALOG, RETIRED

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
    """The definitions of assets, and the members of dynamic dimensions by asset, dimension and tagged value.

    `retired` are assets that are no longer made; what is made from them still goes by their last definition.
    """

    timelines: Mapping[str, Timeline] = field(default_factory=dict)
    members: Mapping[tuple[str, str], Mapping[str, Member]] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()

    def definition(self, asset: str) -> Definition | None:
        """The current definition of an asset; None where none was registered."""
        timeline = self.timelines.get(asset)
        return None if timeline is None else timeline.current


def read_catalog(
    connection: duckdb.DuckDBPyConnection, ledger: Ledger, files: Files, now: datetime | None = None
) -> Catalog:
    """The catalog of events in these files, as of `now` where it is given.

    Of an asset that had no definition by then, its first counts as if it had always been there.
    """
    ledger.view(connection, "catalog_events", files.of(*OF_CATALOG))
    rows = listed(
        connection,
        "SELECT kind, asset_key, partition_key, code_version, definition, epoch_us(occurred_at), event_id "
        "FROM catalog_events ORDER BY occurred_at, event_id",
    )
    seen: dict[str, list[Seen]] = {}
    members: dict[tuple[str, str], dict[str, Member]] = {}
    retired: set[str] = set()
    for kind, asset, key, version, definition, micros, event_id in rows:
        at = moment(micros)
        if kind == DEFINED:
            seen.setdefault(asset, []).append(Seen(asset, version, definition, at, event_id))
        if now is not None and at > now:
            continue
        if kind == DEFINED:
            retired.discard(asset)
        elif kind == RETIRED:
            retired.add(asset)
        else:
            for name, value in PartitionKey.parse(key).items():
                members.setdefault((asset, name), {})[tagged(value)] = Member(kind == ADDED, at)
    if now is not None:
        seen = {asset: _as_of(found, now) for asset, found in seen.items()}
    return Catalog({asset: Timeline(tuple(found)) for asset, found in seen.items()}, members, frozenset(retired))


_ALWAYS = datetime.min.replace(tzinfo=UTC)


def _as_of(seen: list[Seen], now: datetime) -> list[Seen]:
    return [one for one in seen if one.at <= now] or [replace(seen[0], at=_ALWAYS)]
