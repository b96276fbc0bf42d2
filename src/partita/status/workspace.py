"""The status of one workspace: its ledger, its status table, and the queries that they answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from partita.algebra.key import PartitionKey
from partita.algebra.key_label import key_label
from partita.algebra.mappings import FunctionMapping
from partita.algebra.partition_sets import DynamicDimension
from partita.errors import DefinitionError, StatusError, StorageError, UnknownAsset, value_repr
from partita.status.attempts import PartitionKeyLike, key_list, key_text
from partita.status.definitions import AssetDefinition, find_cycle
from partita.status.delta_tables import TableLocation
from partita.status.duckdb_sql import Sql, any_of, sql
from partita.status.events import PARTITION_EVENT_KINDS, Event, EventKind, event_schema
from partita.status.ledger import Ledger, LedgerFiles

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from partita.algebra.predicate import UnboundPredicate
    from partita.status.asset_catalog import AssetCatalog
    from partita.status.explanation import StatusExplanation
    from partita.status.queries import StatusReader
    from partita.status.status_table import StatusTable
    from partita.status.table_refresh import FoldResult


class NamedAsset(Protocol):
    """An object with a name, as assets have."""

    @property
    def name(self) -> str: ...


AssetRef: TypeAlias = str | NamedAsset
"""An asset or its name."""

_NAME_PATTERN = re.compile(r"\w[\w.-]*")
METADATA_FOLDER = "_partita"
ADOPTED_FOLDER = "adopted"
"""The folder beside those of the tenants in which a lake lists the tables that it adopted."""


class Workspace:
    """The status of one tenant's workspace in a lake; `uri` and `options` are those of the lake's storage.

    Each workspace has its own folder, and every row and every query also names the tenant and the workspace. Raises
    `StatusError` for a name that can't be a folder.
    """

    def __init__(self, uri: str, options: Mapping[str, str], tenant: str, workspace: str) -> None:
        for noun, name in (("tenant", tenant), ("workspace", workspace)):
            if not isinstance(name, str) or not _NAME_PATTERN.fullmatch(name):
                raise StatusError(f"{value_repr(name)} can't be a {noun}'s name; use letters, digits, _, - and dots")
        if tenant == ADOPTED_FOLDER:
            raise StatusError(f"{tenant!r} can't be a tenant's name: the lake lists its adopted tables in that folder")
        self.folder = f"{METADATA_FOLDER}/{tenant}/{workspace}"
        """The folder of the workspace, relative to the lake."""
        self.ledger = Ledger(TableLocation(f"{uri}/{self.folder}/ledger", options), tenant, workspace)
        self._status_location = TableLocation(f"{uri}/{self.folder}/status", options)
        self._mapping_functions: dict[tuple[str, str], FunctionMapping] = {}
        self._dimension_names: dict[str, tuple[str, ...] | None] = {}

    @property
    def status_table(self) -> StatusTable:
        """The status table."""
        from partita.status.status_table import StatusTable

        return StatusTable(self._status_location, self.ledger)

    def register(self, definitions: Iterable[AssetDefinition]) -> list[str]:
        """Record the definitions that changed and return their assets. Mapping functions stay in this process.

        Raises `DefinitionError` where assets would be upstream of each other.
        """
        definition_list = list(definitions)
        catalog = self._read_catalog()
        histories = catalog.histories
        _check_cycles(catalog, definition_list)
        active = histories.keys() - catalog.retired_assets
        changed_definitions = [
            d for d in definition_list if d.asset not in active or not histories[d.asset].is_current(d)
        ]
        self.ledger.append_events(
            Event(
                kind=EventKind.DEFINED,
                tenant_id=self.ledger.tenant,
                workspace_id=self.ledger.workspace,
                asset_key=definition.asset,
                code_version=definition.code_version,
                definition=definition.to_json(),
            )
            for definition in changed_definitions
        )
        for definition in definition_list:
            self._dimension_names[definition.asset] = definition.partitions.names
            for upstream in definition.upstreams:
                if isinstance(upstream.mapping, FunctionMapping):
                    self._mapping_functions[definition.asset, upstream.asset] = upstream.mapping
        return [d.asset for d in changed_definitions]

    def retire(self, asset: str) -> None:
        """Record that an asset is no longer made; raise `UnknownAsset` where it was never registered."""
        catalog = self._read_catalog()
        if asset not in catalog.histories:
            raise UnknownAsset(asset, tuple(sorted(catalog.histories)))
        tenant, workspace = self.ledger.tenant, self.ledger.workspace
        event = Event(kind=EventKind.RETIRED, tenant_id=tenant, workspace_id=workspace, asset_key=asset)
        self.ledger.append_events([event])

    def definition(self, asset: str) -> AssetDefinition | None:
        """Return the current definition of an asset; None where it was never registered."""
        return self._read_catalog().definition(asset)

    def code_version(self, asset: AssetRef) -> str | None:
        """Return the code version of an asset: that of its definition, or the one that was registered last."""
        definition = getattr(asset, "definition", None)
        if isinstance(definition, AssetDefinition):
            return definition.code_version
        history = self._read_catalog().histories.get(asset_name(asset))
        return None if history is None else history.records[-1].code_version

    def check_keys(self, asset: str, keys: Iterable[str]) -> None:
        """Raise `StatusError` for canonical keys with other dimensions than those of a registered asset.

        Dimensions are cached, as recording must be quick; they are read again before a key is refused.
        """
        keys_by_dimensions = {_dimension_names(key): key for key in keys}
        if asset in self._dimension_names and self._has_dimensions(asset, keys_by_dimensions):
            return
        self._dimension_names[asset] = self._read_dimension_names(asset)
        if not self._has_dimensions(asset, keys_by_dimensions):
            names = self._dimension_names[asset] or ()
            key = next(key for dimensions, key in keys_by_dimensions.items() if dimensions != names)
            label = key_label(key, empty="without dimensions")
            raise StatusError(f"{asset!r} has no partition {label}; its dimensions are: {', '.join(names) or 'none'}")

    def _has_dimensions(self, asset: str, dimension_sets: Iterable[tuple[str, ...]]) -> bool:
        names = self._dimension_names[asset]
        return names is None or set(dimension_sets) <= {names}

    def _read_dimension_names(self, asset: str) -> tuple[str, ...] | None:
        catalog = self._read_catalog()
        # A definition that this version can't read doesn't restrict keys.
        with suppress(DefinitionError):
            definition = None if asset in catalog.retired_assets else catalog.definition(asset)
            return None if definition is None else definition.partitions.names
        return None

    def check_dynamic_values(self, asset: str, keys: PartitionKeyLike | Sequence[PartitionKeyLike]) -> None:
        """Raise `StatusError` for values of dimensions that aren't dynamic dimensions of an asset."""
        catalog = self._read_catalog()
        definition = catalog.definition(asset)
        if definition is None:
            raise UnknownAsset(asset, tuple(sorted(catalog.histories)))
        dynamic_names = [d.name for d in definition.partitions.dimensions if isinstance(d, DynamicDimension)]
        for key in key_list(keys):
            names = tuple(PartitionKey.parse(key_text(key)))
            other_name = next((name for name in names if name not in dynamic_names), None)
            if other_name is not None or not names:
                problem = (
                    "the key has no dimension" if other_name is None else f"{other_name!r} is not a dynamic dimension"
                )
                raise StatusError(
                    f"asset {asset!r}: {problem}; its dynamic dimensions: {', '.join(dynamic_names) or 'none'}"
                )

    def open_reader(self, **query: Any) -> StatusReader:
        """Open a reader of what a query selects; the arguments are those of `StatusQuery`. Close it when done."""
        from partita.status.queries import StatusQuery, open_status_reader

        status_query = StatusQuery(mapping_functions=self._mapping_functions, **query)
        return open_status_reader(self.ledger, self.status_table, status_query)

    def status(  # noqa: PLR0913 - the filters of a status query
        self,
        assets: AssetRef | Sequence[AssetRef] | None,
        where: UnboundPredicate | None,
        now: datetime | None,
        *,
        state: str | Sequence[str],
        reason: str | Sequence[str],
        transitive: bool,
    ) -> pa.Table:
        """Return the status rows that match one of the states and one of the reasons, where these are given."""
        from partita.status.states import STATE_FILTERS, StaleReason

        conditions = []
        if state:
            names = _canonical_names("state", state, list(STATE_FILTERS))
            conditions.append(any_of(STATE_FILTERS[name] for name in names))
        if reason:
            codes = _canonical_names("reason", reason, [r.value for r in StaleReason])
            conditions.append(any_of(sql("list_contains(stale_reasons, {code})", code=code) for code in codes))
        with self.open_reader(assets=asset_names(assets), where=where, now=now, transitive=transitive) as reader:
            return reader.rows(conditions=conditions)

    def state_counts(
        self, assets: AssetRef | Sequence[AssetRef] | None, where: UnboundPredicate | None, now: datetime | None
    ) -> pa.Table:
        """Return how many partitions of each asset match each state filter."""
        with self.open_reader(assets=asset_names(assets), where=where, now=now) as reader:
            return reader.state_counts()

    def explain(self, asset: str, key: PartitionKeyLike, now: datetime | None) -> StatusExplanation:
        """Return the chain of causes of a partition."""
        from partita.status.explanation import explain_status

        with self.open_reader(assets=[asset], keys=[key_text(key)], now=now, allow_unknown=True) as reader:
            return explain_status(asset, PartitionKey.parse(key_text(key)), reader)

    def history(self, asset: str, key: PartitionKeyLike) -> pa.Table:
        """Return the events of a partition in order, each once; none where nothing was recorded of it.

        Raises `UnknownAsset` where nothing was recorded of the asset.
        """
        from partita.status.duckdb_engine import fetch_arrow, open_connection

        events = Sql("events")
        with open_connection() as connection:
            self.ledger.create_view(connection, events, self.ledger.files().files_of(*PARTITION_EVENT_KINDS))
            select = sql(
                # An event counts once by run, attempt and kind; a wipe has no run, and counts by its id.
                """
                SELECT * FROM {events} WHERE asset_key = {asset} AND partition_key = {key}
                QUALIFY row_number() OVER (
                    PARTITION BY coalesce(run_id, event_id), attempt, kind ORDER BY occurred_at DESC, event_id DESC
                ) = 1
                ORDER BY occurred_at, event_id
                """,
                events=events,
                asset=asset,
                key=key_text(key),
            )
            rows = fetch_arrow(connection, select, event_schema())
            if not rows.num_rows:
                self._check_asset_exists(connection, events, asset)
            return rows

    def _check_asset_exists(self, connection: duckdb.DuckDBPyConnection, events: Sql, asset: str) -> None:
        """Raise `UnknownAsset` for an asset that was never registered and has no events."""
        from partita.status.duckdb_engine import fetch_rows

        rows = fetch_rows(connection, sql("SELECT DISTINCT asset_key FROM {events}", events=events))
        known_assets = {name for (name,) in rows} | set(self._read_catalog().histories)
        if asset not in known_assets:
            raise UnknownAsset(asset, tuple(sorted(known_assets)))

    def fold(self, fold_files: Callable[[LedgerFiles], pa.Table] | None = None) -> FoldResult:
        """Bring the status table up to the ledger's newest version; `fold_files` folds all events by another engine."""
        from partita.status.table_refresh import fold_ledger

        return fold_ledger(self.ledger, self.status_table, fold_files)

    def sweep(self) -> FoldResult:
        """Fold, and store with each row since when and why it is stale now."""
        from partita.status.queries import StatusQuery
        from partita.status.table_refresh import sweep_staleness

        return sweep_staleness(
            self.ledger, self.status_table, StatusQuery(mapping_functions=self._mapping_functions, allow_unknown=True)
        )

    def export_status(self, file: str, now: datetime | None = None) -> int:
        """Write `partition_status.parquet` with the columns of the status document; return the number of rows.

        Assets whose staleness can't be computed look current in the file; a warning names them.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from partita.status.schema import PARTITION_STATUS_COLUMNS, status_schema
        from partita.status.table_refresh import warn_unknown_staleness

        is_recorded = Sql("row_version IS NOT NULL")
        with self.open_reader(now=now) as reader:
            rows = reader.rows(PARTITION_STATUS_COLUMNS, [is_recorded])
            is_unknown = sql("staleness = 'unknown' AND {is_recorded}", is_recorded=is_recorded)
            warn_unknown_staleness(reader, is_unknown, "the file can't say whether it is stale")
        try:
            pq.write_table(
                rows.cast(pa.schema([status_schema().field(name) for name in PARTITION_STATUS_COLUMNS])), file
            )
        except (OSError, TypeError, ValueError) as error:
            raise StorageError(f"{value_repr(file)} can't be written: {error}") from error
        return int(rows.num_rows)

    def _read_catalog(self) -> AssetCatalog:
        from partita.status.asset_catalog import read_asset_catalog
        from partita.status.duckdb_engine import open_connection

        with open_connection() as connection:
            return read_asset_catalog(connection, self.ledger, self.ledger.files())


def _dimension_names(key: str) -> tuple[str, ...]:
    """Return the names of the dimensions of a canonical key."""
    return tuple(part.partition("=")[0] for part in key.split(",")) if key else ()


def _check_cycles(catalog: AssetCatalog, definitions: Iterable[AssetDefinition]) -> None:
    upstreams: dict[str, list[str]] = {}
    for asset in sorted(set(catalog.histories) - catalog.retired_assets):
        # A definition that this version can't read is not checked.
        with suppress(DefinitionError):
            upstreams[asset] = [u.asset for u in getattr(catalog.definition(asset), "upstreams", ())]
    upstreams |= {definition.asset: [u.asset for u in definition.upstreams] for definition in definitions}
    cycle = find_cycle(upstreams)
    if cycle:
        raise DefinitionError(f"assets can't be upstream of each other: {' <- '.join(cycle)}")


def asset_name(asset: AssetRef) -> str:
    """Return the name of an asset; raise `StatusError` for anything else."""
    name = getattr(asset, "name", asset)
    if not isinstance(name, str):
        raise StatusError(f"an asset must be an Asset or its name, not {value_repr(asset)}")
    return name


def asset_names(assets: AssetRef | Sequence[AssetRef] | None) -> list[str] | None:
    """Return the names of one asset or of several; None means all."""
    if assets is None:
        return None
    if isinstance(assets, str) or hasattr(assets, "name") or not isinstance(assets, Iterable):
        return [asset_name(assets)]
    return [asset_name(asset) for asset in assets]


def _canonical_names(noun: str, words: str | Sequence[str], choices: Sequence[str]) -> list[str]:
    """Return words in the spelling of the choices; raise `StatusError` for one that isn't among them."""
    spellings = {choice.lower(): choice for choice in choices}
    word_list = list(words) if isinstance(words, Iterable) and not isinstance(words, str) else [words]
    for word in word_list:
        if not isinstance(word, str) or word.lower() not in spellings:
            raise StatusError(f"unknown {noun} {value_repr(word)}; choose from: {', '.join(choices)}")
    return [spellings[word.lower()] for word in word_list]
