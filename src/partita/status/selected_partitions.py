"""The partitions that a query selects: those with status rows, those that definitions expect, and those that run now.

**Running** partitions have attempts that started and have not ended, by the events themselves. An end ends the attempt
with its run and number that began before it; so two attempts at once are two, and an attempt that starts again under
its old name runs again. Clocks differ: an end that is dated before every start of its run and number ends the first of
them. An attempt without a run (its run id is its own event id) is ended by any later end without a run. This is a query
over the set of events, so their order, repetition and split don't matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from partita.algebra.key_text import canonical_value_text
from partita.algebra.partition_sets import Dimension, DynamicDimension, StaticDimension
from partita.status.asset_catalog import AssetCatalog
from partita.status.definitions import AssetDefinition
from partita.status.duckdb_engine import (
    VARCHAR,
    create_table,
    create_temp_table,
    create_view,
    fetch_arrow,
    fetch_rows,
    timestamp_from_micros,
)
from partita.status.duckdb_sql import Sql, comma_separated, empty_select, names, sql, union_all
from partita.status.events import FINISHED_KINDS, EventKind
from partita.status.ledger import Ledger, LedgerFiles
from partita.status.lineage import asset_condition, dimension_value_sql
from partita.status.relations import (
    ASSET_ROWS,
    ATTEMPT_EVENTS,
    EXPECTED_PARTITIONS,
    RUNNING_PARTITIONS,
    SELECTED_EXPECTED,
    SELECTED_KEYS,
    SELECTED_PARTITIONS,
    SELECTED_ROWS,
    STATUS_ROWS,
)
from partita.status.schema import KEY_COLUMNS, status_column_names

if TYPE_CHECKING:
    import duckdb

    from partita.algebra.predicate import UnboundPredicate

DynamicValues: TypeAlias = Mapping[str, Sequence[str]]
"""The tagged values of an asset's dynamic dimensions, by dimension."""


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """What the relations of a status query are created from; `connection` has `STATUS_ROWS` already."""

    connection: duckdb.DuckDBPyConnection
    ledger: Ledger
    ledger_files: LedgerFiles
    catalog: AssetCatalog
    now: datetime


def create_selected_partitions(
    inputs: QueryInputs,
    assets: Sequence[str],
    definitions: Sequence[AssetDefinition],
    where: UnboundPredicate | None,
    keys: Sequence[str] | None,
) -> Sql:
    """Create `SELECTED_ROWS` and `SELECTED_PARTITIONS`: what the assets have and expect, of the keys of a query.

    `definitions` are those of the assets. Returns the join that keeps the selected keys, to narrow other relations by.
    """
    connection = inputs.connection
    is_selected = sql("asset_key IN ({assets})", assets=assets)
    create_view(connection, ASSET_ROWS, sql("SELECT * FROM {rows} WHERE {c}", rows=STATUS_ROWS, c=is_selected))
    definition_values = [(d, dynamic_dimension_values(connection, inputs.catalog, d)) for d in definitions]
    create_expected_partitions(connection, EXPECTED_PARTITIONS, definition_values, inputs.now)
    key_filter = _create_key_filter(connection, where, keys)
    for relation, source in ((SELECTED_ROWS, ASSET_ROWS), (SELECTED_EXPECTED, EXPECTED_PARTITIONS)):
        create_view(connection, relation, sql("SELECT * FROM {source} {filter}", source=source, filter=key_filter))
    computed_columns = (*KEY_COLUMNS, "partition_values")
    create_view(
        connection,
        SELECTED_PARTITIONS,
        sql(
            """
            SELECT {tenant} AS tenant_id, {workspace} AS workspace_id, asset_key, partition_key, {columns},
                   CASE WHEN asset_key IN ({defined}) THEN e.is_expected IS NOT NULL END AS expected
            FROM {rows} AS r FULL JOIN (SELECT *, true AS is_expected FROM {expected}) AS e
            USING (asset_key, partition_key)
            """,
            tenant=inputs.ledger.tenant,
            workspace=inputs.ledger.workspace,
            columns=names((c for c in status_column_names() if c not in computed_columns), relation="r"),
            defined=sorted({*(d.asset for d in definitions), *inputs.catalog.retired_assets}),
            rows=SELECTED_ROWS,
            expected=SELECTED_EXPECTED,
        ),
    )
    return key_filter


def _create_key_filter(
    connection: duckdb.DuckDBPyConnection, where: UnboundPredicate | None, keys: Sequence[str] | None
) -> Sql:
    """Create `SELECTED_KEYS` where a query has a predicate or keys; return the join that applies it, else nothing."""
    if where is None and keys is None:
        return Sql()
    if where is not None:
        # Importing the pruning of tables takes longer than most queries.
        from partita.status.key_predicates import select_matching_keys

        all_keys = fetch_arrow(
            connection,
            sql(
                "SELECT DISTINCT partition_key FROM "
                "(SELECT partition_key FROM {rows} UNION ALL SELECT partition_key FROM {expected})",
                rows=ASSET_ROWS,
                expected=EXPECTED_PARTITIONS,
            ),
        )
        matches = select_matching_keys(all_keys["partition_key"].combine_chunks(), where).to_pylist()
        keys = matches if keys is None else sorted(set(keys) & set(matches))
    create_temp_table(connection, SELECTED_KEYS, {"partition_key": VARCHAR}, [(key,) for key in keys or ()])
    return sql("SEMI JOIN {keys} USING (partition_key)", keys=SELECTED_KEYS)


# --- Expected partitions ---


def create_expected_partitions(
    connection: duckdb.DuckDBPyConnection,
    view: Sql,
    definitions: Sequence[tuple[AssetDefinition, DynamicValues]],
    now: datetime,
    end_times: Mapping[str, datetime] | None = None,
) -> None:
    """Create a view of `asset_key` and `partition_key`: what the definitions expect at `now`.

    `end_times` replace `now` for some dimensions.
    """
    values_table = Sql(f"{view}_values")
    values: list[tuple[str, str, str]] = []
    selects = [empty_select((("asset_key", VARCHAR), ("partition_key", VARCHAR)))]
    for definition, dynamic_values in definitions:
        dimensions = definition.partitions.dimensions
        for dimension in dimensions:
            end_time = (end_times or {}).get(dimension.name, now)
            texts = _dimension_values(dimension, end_time, dynamic_values)
            values += [(definition.asset, dimension.name, f"{dimension.name}={text}") for text in texts]
        selects.append(_product_sql(values_table, definition.asset, [d.name for d in dimensions]))
    columns = {"asset_key": VARCHAR, "dimension": VARCHAR, "text": VARCHAR}
    create_temp_table(connection, values_table, columns, values)
    create_view(connection, view, union_all(selects))


def _product_sql(values_table: Sql, asset: str, dimensions: Sequence[str]) -> Sql:
    """Return the select of the keys of every combination of the dimensions' values."""
    if not dimensions:
        return sql("SELECT {asset}, ''", asset=asset)
    sources = [
        sql(
            "(SELECT text FROM {values} WHERE asset_key = {asset} AND dimension = {dimension}) AS {alias}",
            values=values_table,
            asset=asset,
            dimension=dimension,
            alias=Sql(f"d{i}"),
        )
        for i, dimension in enumerate(dimensions)
    ]
    key = Sql(" || ',' || ".join(f"d{i}.text" for i in range(len(dimensions))))
    return sql("SELECT {asset}, {key} FROM {sources}", asset=asset, key=key, sources=comma_separated(sources))


def _dimension_values(dimension: Dimension, now: datetime, dynamic_values: DynamicValues) -> Sequence[str]:
    """Return the tagged values of a dimension."""
    if isinstance(dimension, StaticDimension):
        return [canonical_value_text(value) for value in dimension.values]
    if isinstance(dimension, DynamicDimension):
        return dynamic_values.get(dimension.name, ())
    windows = dimension.expected_ordinals(now)
    return [
        canonical_value_text(dimension.key_value(ordinal)) for ordinal in windows if not dimension.is_empty(ordinal)
    ]


def dynamic_dimension_values(
    connection: duckdb.DuckDBPyConnection, catalog: AssetCatalog, definition: AssetDefinition
) -> dict[str, list[str]]:
    """Return the tagged values of an asset's dynamic dimensions: those added, or attempted since they were removed."""
    values_by_dimension: dict[str, list[str]] = {}
    for dimension in definition.partitions.dimensions:
        if not isinstance(dimension, DynamicDimension):
            continue
        changes = catalog.dynamic_values.get((definition.asset, dimension.name), {})
        attempt_rows = fetch_rows(
            connection,
            sql(
                "SELECT {value}, epoch_us(max(greatest(last_attempt_at, last_start_at))) AS last_at "
                "FROM {rows} WHERE {is_asset} GROUP BY 1 HAVING last_at IS NOT NULL",
                value=dimension_value_sql(Sql("partition_key"), dimension.name),
                rows=STATUS_ROWS,
                is_asset=asset_condition(definition.asset),
            ),
        )
        values = {value for value, change in changes.items() if change.is_added}
        values |= {
            value
            for value, micros in attempt_rows
            if value and (value not in changes or timestamp_from_micros(micros) > changes[value].changed_at)
        }
        values_by_dimension[dimension.name] = sorted(values)
    return values_by_dimension


# --- Running partitions ---


def create_running_partitions(inputs: QueryInputs, assets: Sequence[str], key_filter: Sql) -> None:
    """Create `RUNNING_PARTITIONS` as of `now`. Where nobody records starts, no file is read for it."""
    connection, files = inputs.connection, inputs.ledger_files
    if not files.files_of(EventKind.STARTED):
        columns = (
            ("asset_key", VARCHAR),
            ("partition_key", VARCHAR),
            ("running_since", "TIMESTAMPTZ"),
            ("running_run_id", VARCHAR),
            ("open_run_ids", "VARCHAR[]"),
        )
        create_table(connection, RUNNING_PARTITIONS, empty_select(columns))
        return
    attempt_files = files.files_of(EventKind.STARTED, *FINISHED_KINDS)
    inputs.ledger.create_view(connection, ATTEMPT_EVENTS, attempt_files, until=inputs.now)
    events = sql(
        "(SELECT * FROM {events} {filter} WHERE asset_key IN ({assets}))",
        events=ATTEMPT_EVENTS,
        filter=key_filter,
        assets=assets,
    )
    create_table(connection, RUNNING_PARTITIONS, open_attempts_sql(events))


def open_attempts_sql(events: Sql) -> Sql:
    """Return the select of the partitions with open attempts, from a relation of starts and ends.

    `running_since` and `running_run_id` are those of the attempt that began last.
    """
    return sql(
        """
        WITH not_ended AS MATERIALIZED (
            SELECT s.* FROM (SELECT {columns}, run_id, event_id FROM {events} WHERE kind = {started}) AS s
            ANTI JOIN (SELECT {columns} FROM {events} WHERE kind IN ({finished})) AS e
              ON e.asset_key = s.asset_key AND e.partition_key = s.partition_key AND e.run = s.run
             AND e.attempt = s.attempt AND e.occurred_at >= s.occurred_at
        ), ended_early AS (
            SELECT {attempt}, min(occurred_at) FILTER (kind = {started}) AS occurred_at
            FROM (SELECT {columns}, kind FROM {events} WHERE run_id <> event_id)
            SEMI JOIN not_ended USING ({attempt}) GROUP BY ALL HAVING count(*) FILTER (kind IN ({finished})) > 0
        )
        SELECT asset_key, partition_key, max(occurred_at) AS running_since,
               arg_max(run_id, (occurred_at, event_id)) AS running_run_id,
               list(DISTINCT run_id) AS open_run_ids
        FROM not_ended ANTI JOIN ended_early USING ({attempt}, occurred_at) GROUP BY asset_key, partition_key
        """,
        columns=Sql(
            "asset_key, partition_key, CASE WHEN run_id = event_id THEN '' ELSE run_id END AS run, attempt, occurred_at"
        ),
        attempt=Sql("asset_key, partition_key, run, attempt"),
        events=events,
        started=EventKind.STARTED,
        finished=FINISHED_KINDS,
    )
