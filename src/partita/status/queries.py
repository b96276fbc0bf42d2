"""Status queries: the status of selected partitions as of a moment.

```text
open_status_reader   read the ledger: asset catalog, status rows as of now
StatusReader.select_assets
    create_selected_partitions     rows and expected partitions of the selected assets and keys
    create_upstream_staleness      upstreams that changed
    create_running_partitions      open attempts
    create_staleness_facts         deadlines and code versions
    status_view_sql                all of it joined: the status view
StatusReader.rows, .count_rows, .state_counts, ...    queries over the status view
```

A problem of one asset, such as a definition that this version can't read, is reported for it; the others are answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from partita.algebra.key import PartitionKey
from partita.algebra.key_text import KeyValue
from partita.algebra.mappings import FunctionMapping
from partita.errors import DefinitionError, StatusError, UnknownAsset
from partita.status.asset_catalog import AssetCatalog, read_asset_catalog
from partita.status.definitions import AssetDefinition
from partita.status.duckdb_engine import create_view, fetch_arrow, fetch_rows, open_connection
from partita.status.duckdb_sql import Sql, all_of, comma_separated, sql
from partita.status.events import validate_timestamp
from partita.status.ledger import Ledger, LedgerFiles
from partita.status.lineage import LineageEdge, asset_condition, edge_closure, upstream_edges
from partita.status.relations import ALL_STATUS_ROWS, SELECTED_ROWS, STATUS_ROWS, STATUS_VIEW, UPSTREAM_STALENESS
from partita.status.selected_partitions import (
    QueryInputs,
    create_expected_partitions,
    create_running_partitions,
    create_selected_partitions,
    dynamic_dimension_values,
)
from partita.status.staleness_facts import create_staleness_facts
from partita.status.states import STATE_FILTERS
from partita.status.status_table import StatusTable, StoredStatus
from partita.status.status_view import STATUS_COLUMNS, state_counts_sql, status_view_sql
from partita.status.upstream_staleness import (
    add_swept_staleness,
    add_transitive_staleness,
    create_upstream_staleness,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from partita.algebra.predicate import UnboundPredicate

MISSING_FUNCTION_REASON = "an upstream is mapped by a function that this process doesn't have"
"""Why the staleness of an asset without a recorded problem can't be computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusQuery:
    """What is asked: assets (all where None), a moment, a predicate, keys; and whether staleness is transitive.

    `mapping_functions` are the mappings that this process has registered, by asset and upstream. If the
    staleness of an asset can't be computed, that is an error where the asset is asked for by name; among all assets, or
    with `allow_unknown`, its staleness is unknown.
    """

    assets: Sequence[str] | None = None
    now: datetime | None = None
    where: UnboundPredicate | None = None
    keys: Sequence[str] | None = None
    transitive: bool = False
    mapping_functions: Mapping[tuple[str, str], FunctionMapping] | None = None
    allow_unknown: bool = False


def open_status_reader(
    ledger: Ledger, table: StatusTable, query: StatusQuery, *, create_table: bool = False
) -> StatusReader:
    """Read the ledger and the status table, and return a reader of what the query selects; close it when done.

    Without a `now` in the query, that is the moment at which the ledger is read; later events don't count.
    `create_table` is for a sweep: it creates the status table and counts every event.
    """
    connection = open_connection()
    files = ledger.files()
    now = datetime.now(UTC) if query.now is None else validate_timestamp("now", query.now)
    until = None if create_table else now
    catalog = read_asset_catalog(connection, ledger, files, until)
    stored_status = table.open_stored_status(files, create=create_table)
    table.create_status_rows(connection, files, stored_status, until)
    reader = StatusReader(QueryInputs(connection, ledger, files, catalog, now), query, stored_status)
    reader.select_assets(query.assets, query.keys)
    return reader


class StatusReader:
    """Answers a status query from the relations of one connection; `open_status_reader` opens it."""

    def __init__(self, inputs: QueryInputs, query: StatusQuery, stored_status: StoredStatus) -> None:
        self.query = query
        self.stored_status = stored_status
        self.assets: tuple[str, ...] = ()
        """The selected assets."""
        self.problems: dict[str, str] = {}
        """Why the staleness of assets can't be computed, by name."""
        self._inputs = inputs
        self._failed_mappings: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection that has the relations of `partita.status.relations`."""
        return self._inputs.connection

    @property
    def ledger_files(self) -> LedgerFiles:
        """The files of the ledger that the answers come from."""
        return self._inputs.ledger_files

    @property
    def catalog(self) -> AssetCatalog:
        """The definitions of assets as of `now`."""
        return self._inputs.catalog

    @property
    def now(self) -> datetime:
        """The moment as of which the query is answered."""
        return self._inputs.now

    def select_assets(self, assets: Sequence[str] | None, keys: Sequence[str] | None = None) -> None:
        """Select other partitions, and create the status view for them from the same events.

        Without `keys`, all partitions of the assets are selected. Raises `UnknownAsset` for a name that nothing was
        recorded of.
        """
        self.query = replace(self.query, assets=assets, keys=keys)
        for asset in assets or ():
            if asset not in self.known_assets:
                raise UnknownAsset(asset, self.known_assets)
        self.assets = self.known_assets if assets is None else tuple(dict.fromkeys(assets))
        self._create_status_view()

    def rows(self, columns: Sequence[str] = STATUS_COLUMNS, conditions: Sequence[Sql] = ()) -> pa.Table:
        """Return the rows that meet all conditions, ordered by asset and key; each column is SQL."""
        return fetch_arrow(self.connection, _select_sql(columns, conditions))

    def row_values(self, columns: Sequence[str], conditions: Sequence[Sql] = ()) -> list[tuple[Any, ...]]:
        """Return the rows as Python values; select a timestamp as microseconds, by `epoch_us`."""
        return fetch_rows(self.connection, _select_sql(columns, conditions))

    def count_rows(self, condition: Sql) -> int:
        """Return how many rows meet a condition."""
        select = sql("SELECT count(*) FROM {view} WHERE {condition}", view=STATUS_VIEW, condition=condition)
        count: int = fetch_rows(self.connection, select)[0][0]
        return count

    def state_counts(self) -> pa.Table:
        """Return how many partitions of each asset match each state filter."""
        return fetch_arrow(self.connection, state_counts_sql())

    def upstream_changes(self) -> pa.Table:
        """Return every upstream partition that makes a selected one stale, the earliest first."""
        select = sql("SELECT * FROM {rows} ORDER BY since, by_asset, by_partition", rows=UPSTREAM_STALENESS)
        return fetch_arrow(self.connection, select)

    def unknown_reasons(self, condition: Sql = STATE_FILTERS["unknown"]) -> dict[str, str]:
        """Return why the staleness of assets can't be computed, for assets with rows that meet a condition, by name."""
        select = "SELECT DISTINCT asset_key FROM {view} WHERE {condition} ORDER BY 1"
        rows = fetch_rows(self.connection, sql(select, view=STATUS_VIEW, condition=condition))
        return {asset: self.problems.get(asset, MISSING_FUNCTION_REASON) for (asset,) in rows}

    def dynamic_values(self, asset: str) -> dict[str, list[KeyValue]]:
        """Return the values of an asset's dynamic dimensions; none where it has no definition."""
        return {
            name: [PartitionKey.parse(f"{name}={text}")[name] for text in texts]
            for definition in self._active_definitions([asset])
            for name, texts in dynamic_dimension_values(self.connection, self.catalog, definition).items()
        }

    def create_future_partitions(self, view: Sql, asset: str, end_times: Mapping[str, datetime]) -> None:
        """Create a view of the keys that an asset expects once the time windows up to `end_times` are over."""
        definitions = [
            (definition, dynamic_dimension_values(self.connection, self.catalog, definition))
            for definition in self._active_definitions([asset])
        ]
        create_expected_partitions(self.connection, view, definitions, self.now, end_times)

    def upstream_edges(self, asset: str) -> list[LineageEdge]:
        """Return the edges of an asset to its upstreams; none where it is not registered, or retired."""
        return self._upstream_edges(self._active_definitions([asset]))

    def definitions(self) -> dict[str, AssetDefinition]:
        """Return the usable definitions of all assets that aren't retired, by name.

        An asset whose mapping function fails is included: evaluating its edges reports the failure.
        """
        unusable_assets = self.problems.keys() - self._failed_mappings
        definitions = self._active_definitions(self.catalog.histories)
        return {definition.asset: definition for definition in definitions if definition.asset not in unusable_assets}

    @cached_property
    def known_assets(self) -> tuple[str, ...]:
        """Every asset that was registered, or that has events."""
        name_rows = fetch_rows(self.connection, sql("SELECT DISTINCT asset_key FROM {rows}", rows=ALL_STATUS_ROWS))
        return tuple(sorted({*(name for (name,) in name_rows), *self.catalog.histories}))

    @property
    def _is_strict(self) -> bool:
        return self.query.assets is not None and not self.query.allow_unknown

    def _active_definitions(self, assets: Iterable[str]) -> list[AssetDefinition]:
        """Return the definitions of the assets that are registered, readable and not retired."""
        definitions = []
        for asset in assets:
            if asset in self.catalog.retired_assets:
                continue
            try:
                definition = self.catalog.definition(asset)
            except DefinitionError as error:
                self._record_problem(asset, error)
            else:
                definitions += [] if definition is None else [definition]
        return definitions

    def _record_problem(self, asset: str, error: DefinitionError) -> None:
        """Record why staleness can't be computed; raise the error instead if the asset was asked for by name."""
        if self._is_strict and asset in self.assets:
            raise error
        self.problems[asset] = str(error)

    def _upstream_edges(self, definitions: Sequence[AssetDefinition]) -> list[LineageEdge]:
        functions = self.query.mapping_functions or {}
        return [
            edge
            for definition in definitions
            for edge in upstream_edges(definition, self.catalog.definition, functions, self._record_problem)
        ]

    def _create_status_view(self) -> None:
        """Create the status view of the selected assets and all relations that it is made from."""
        inputs, query = self._inputs, self.query
        definitions = self._active_definitions(self.assets)
        key_filter = create_selected_partitions(inputs, self.assets, definitions, query.where, query.keys)
        edges = self._upstream_edges(definitions)
        if self._is_strict:
            self._check_swept_staleness({edge.asset for edge in edges if not edge.can_evaluate_mapping})
        if query.transitive:
            active = self._active_definitions(self.catalog.histories)
            edges_by_asset = {definition.asset: self._upstream_edges([definition]) for definition in active}
            edges = edge_closure([edge.asset for edge in edges], edges_by_asset, self._record_problem)
        unmapped_assets = {edge.asset for edge in edges if not edge.can_evaluate_mapping}
        evaluable_edges = [edge for edge in edges if edge.can_evaluate_mapping]
        rows = STATUS_ROWS if query.transitive else SELECTED_ROWS
        for edge, error in create_upstream_staleness(inputs, evaluable_edges, rows):
            self._record_problem(edge.asset, error)
            self._failed_mappings.add(edge.asset)
            evaluable_edges.remove(edge)
        add_swept_staleness(self.connection, unmapped_assets)
        create_running_partitions(inputs, self.assets, key_filter)
        assets_with_edges = sorted({edge.asset for edge in edges} | set(self.assets))
        facts = create_staleness_facts(inputs, self._active_definitions(assets_with_edges))
        if query.transitive:
            add_transitive_staleness(self.connection, evaluable_edges, facts, self.now)
        view = status_view_sql(facts, self.now, unmapped_assets, self.problems)
        create_view(self.connection, STATUS_VIEW, view)

    def _check_swept_staleness(self, assets: set[str]) -> None:
        """Raise `StatusError` for an asset whose staleness can't be computed here, and that no sweep stored."""
        for asset in sorted(assets):
            unswept_rows = sql(
                "SELECT count(*) FROM {rows} "
                "WHERE {is_asset} AND last_materialization_at IS NOT NULL AND swept_at IS NULL",
                rows=SELECTED_ROWS,
                is_asset=asset_condition(asset),
            )
            if fetch_rows(self.connection, unswept_rows)[0][0]:
                raise StatusError(
                    f"the upstreams of {asset!r} are mapped by a function that this process doesn't have; register the "
                    "asset here, or run `lake.sweep()` where it is registered"
                )


def _select_sql(columns: Sequence[str], conditions: Sequence[Sql]) -> Sql:
    return sql(
        "SELECT {columns} FROM {view} WHERE {condition} ORDER BY asset_key, partition_key",
        columns=comma_separated(map(Sql, columns)),
        view=STATUS_VIEW,
        condition=all_of(conditions),
    )
