"""The asset catalog: which assets are defined, how, and which values their dynamic dimensions have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import canonical_value_text
from partita.status.definitions import AssetDefinition, DefinitionHistory, RecordedDefinition
from partita.status.duckdb_engine import fetch_rows, timestamp_from_micros
from partita.status.duckdb_sql import sql
from partita.status.events import CATALOG_EVENT_KINDS, EventKind
from partita.status.relations import CATALOG_EVENTS

if TYPE_CHECKING:
    import duckdb

    from partita.status.ledger import Ledger, LedgerFiles

_EARLIEST_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DynamicValueChange:
    """The last change of a value of a dynamic dimension: whether it was added or removed, and when."""

    is_added: bool
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class AssetCatalog:
    """The definition histories of all assets, and the values of dynamic dimensions by asset, dimension and value.

    `retired_assets` are no longer made; their downstream assets still use their last definition.
    """

    histories: Mapping[str, DefinitionHistory] = field(default_factory=dict)
    dynamic_values: Mapping[tuple[str, str], Mapping[str, DynamicValueChange]] = field(default_factory=dict)
    retired_assets: frozenset[str] = frozenset()

    def definition(self, asset: str) -> AssetDefinition | None:
        """Return the current definition of an asset, None where it was never registered.

        Raises `DefinitionError` where this version of Partita can't read it.
        """
        history = self.histories.get(asset)
        return None if history is None else history.current_definition


def read_asset_catalog(
    connection: duckdb.DuckDBPyConnection, ledger: Ledger, files: LedgerFiles, now: datetime | None = None
) -> AssetCatalog:
    """Read the catalog from the events in some files of the ledger, as of `now` where it is given.

    An asset without a definition at that time has its first one, as if it had been registered from the start.
    """
    ledger.create_view(connection, CATALOG_EVENTS, files.files_of(*CATALOG_EVENT_KINDS))
    rows = fetch_rows(
        connection,
        sql(
            "SELECT kind, asset_key, partition_key, code_version, definition, epoch_us(occurred_at), event_id "
            "FROM {events} ORDER BY occurred_at, event_id",
            events=CATALOG_EVENTS,
        ),
    )
    records: dict[str, list[RecordedDefinition]] = {}
    dynamic_values: dict[tuple[str, str], dict[str, DynamicValueChange]] = {}
    retired_assets: set[str] = set()
    for kind, asset, key, version, definition, micros, event_id in rows:
        occurred_at = timestamp_from_micros(micros)
        if kind == EventKind.DEFINED:
            record = RecordedDefinition(asset, version, definition, occurred_at, event_id)
            records.setdefault(asset, []).append(record)
        if now is not None and occurred_at > now:
            continue
        if kind == EventKind.DEFINED:
            retired_assets.discard(asset)
        elif kind == EventKind.RETIRED:
            retired_assets.add(asset)
        else:
            change = DynamicValueChange(kind == EventKind.ADDED, occurred_at)
            for dimension, value in PartitionKey.parse(key).items():
                dynamic_values.setdefault((asset, dimension), {})[canonical_value_text(value)] = change
    if now is not None:
        records = {asset: _records_as_of(asset_records, now) for asset, asset_records in records.items()}
    histories = {asset: DefinitionHistory(tuple(asset_records)) for asset, asset_records in records.items()}
    return AssetCatalog(histories, dynamic_values, frozenset(retired_assets))


def _records_as_of(records: list[RecordedDefinition], now: datetime) -> list[RecordedDefinition]:
    past = [record for record in records if record.recorded_at <= now]
    return past or [replace(records[0], recorded_at=_EARLIEST_TIME)]
