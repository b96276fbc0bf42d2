"""The facts of a partition itself that decide whether it is stale: deadlines and code versions.

| fact | what it is |
|---|---|
| `fresh_until` | the deadline of a freshness policy for a new materialization |
| `current_code_version` | the code version of the asset |
| `code_outdated_at` | since when the partition's code version is outdated; null where it was never defined |
| `code_defined_at` | when the asset was first defined |

`StaleReason` in `states.py` turns facts into reasons; `upstream_staleness.py` adds `upstream_changed_at`. A partition
that isn't materialized is missing, not stale. An unknown code version is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from partita.algebra.freshness import Deadline, MaximumLag
from partita.algebra.physical_values import datetime_to_micros
from partita.status.definitions import AssetDefinition, DefinitionHistory
from partita.status.duckdb_engine import TIMESTAMPTZ, VARCHAR, create_temp_table, fetch_rows, timestamp_from_micros
from partita.status.duckdb_sql import Sql, comma_separated, sql, tuple_of
from partita.status.lineage import asset_condition
from partita.status.relations import CURRENT_CODE, FRESHNESS_DEADLINES, OUTDATED_CODE, STATUS_ROWS
from partita.status.selected_partitions import QueryInputs

if TYPE_CHECKING:
    import duckdb

_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StalenessFacts:
    """Joins to a relation of status rows called `base`, and the select list of the facts that they bring."""

    joins: Sql
    columns: Sql


def create_staleness_facts(inputs: QueryInputs, definitions: Sequence[AssetDefinition]) -> StalenessFacts:
    """Create the relations of deadlines and code versions; return how their facts are joined to status rows."""
    histories = {definition.asset: inputs.catalog.histories[definition.asset] for definition in definitions}
    freshness = _create_freshness_deadlines(inputs.connection, definitions, inputs.now)
    code = _create_code_versions(inputs.connection, histories)
    return StalenessFacts(Sql(f"{freshness.joins} {code.joins}"), comma_separated((freshness.columns, code.columns)))


def _create_freshness_deadlines(
    connection: duckdb.DuckDBPyConnection, definitions: Iterable[AssetDefinition], now: datetime
) -> StalenessFacts:
    """Create `FRESHNESS_DEADLINES`; return how `fresh_until` is joined."""
    lags: list[Sql] = []
    deadlines: list[tuple[str, int, int]] = []
    for definition in definitions:
        if isinstance(definition.freshness, MaximumLag):
            lags.append(tuple_of(definition.asset, definition.freshness.lag // timedelta(microseconds=1)))
        elif isinstance(definition.freshness, Deadline):
            pairs = {
                pair
                for first, last in _materialization_spans(connection, definition.asset)
                for pair in definition.freshness.deadlines(first, last, now)
            }
            deadlines += [(definition.asset, up_to, deadline) for up_to, deadline in pairs]
    joins, moments = [], []
    if lags:
        join = "LEFT JOIN (VALUES {lags}) AS lags(asset_key, lag) ON lags.asset_key = base.asset_key"
        joins.append(sql(join, lags=lags))
        moments.append(Sql("make_timestamptz(epoch_us(base.last_materialization_at) + lags.lag)"))
    if deadlines:
        columns = {"asset_key": VARCHAR, "up_to": TIMESTAMPTZ, "deadline": TIMESTAMPTZ}
        create_temp_table(connection, FRESHNESS_DEADLINES, columns, deadlines)
        join = (
            "ASOF LEFT JOIN {deadlines} AS deadlines ON deadlines.asset_key = base.asset_key "
            "AND base.last_materialization_at <= deadlines.up_to"
        )
        joins.append(sql(join, deadlines=FRESHNESS_DEADLINES))
        moments.append(Sql("deadlines.deadline"))
    moment = sql("coalesce({moments})", moments=comma_separated(moments)) if moments else Sql("NULL::TIMESTAMPTZ")
    return StalenessFacts(Sql(" ".join(joins)), sql("{moment} AS fresh_until", moment=moment))


def _materialization_spans(connection: duckdb.DuckDBPyConnection, asset: str) -> Iterator[tuple[datetime, datetime]]:
    """Yield the spans of consecutive days on which partitions of an asset were materialized last."""
    days = fetch_rows(
        connection,
        sql(
            "SELECT DISTINCT epoch_us(date_trunc('day', last_materialization_at)) AS day "
            "FROM {rows} WHERE {is_asset} AND last_materialization_at IS NOT NULL ORDER BY day",
            rows=STATUS_ROWS,
            is_asset=asset_condition(asset),
        ),
    )
    first = end = None
    for (micros,) in days:
        day = timestamp_from_micros(micros)
        if first is None or end is None or day > end:
            if first is not None and end is not None:
                yield first, end
            first = day
        end = min(day, _LAST_DAY) + timedelta(days=1)
    if first is not None and end is not None:
        yield first, end


def _create_code_versions(
    connection: duckdb.DuckDBPyConnection, histories: Mapping[str, DefinitionHistory]
) -> StalenessFacts:
    """Create `CURRENT_CODE` and `OUTDATED_CODE`; return how the facts of code versions are joined."""
    versioned_histories = {asset: h for asset, h in histories.items() if h.records[-1].code_version is not None}
    if not versioned_histories:
        columns = "NULL::VARCHAR AS current_code_version, NULL::TIMESTAMPTZ AS code_defined_at, "
        return StalenessFacts(Sql(), Sql(f"{columns}NULL::TIMESTAMPTZ AS code_outdated_at"))
    current_versions = [
        (asset, h.records[-1].code_version, datetime_to_micros(h.records[0].recorded_at))
        for asset, h in versioned_histories.items()
    ]
    outdated_versions = [
        (asset, version, datetime_to_micros(outdated_at))
        for asset, h in versioned_histories.items()
        for version, outdated_at in h.outdated_code_versions().items()
    ]
    create_temp_table(
        connection,
        CURRENT_CODE,
        {"asset_key": VARCHAR, "version": VARCHAR, "defined_at": TIMESTAMPTZ},
        current_versions,
    )
    create_temp_table(
        connection,
        OUTDATED_CODE,
        {"asset_key": VARCHAR, "version": VARCHAR, "outdated_at": TIMESTAMPTZ},
        outdated_versions,
    )
    joins = sql(
        """LEFT JOIN {current} AS current_code ON current_code.asset_key = base.asset_key
        LEFT JOIN {outdated} AS outdated_code ON outdated_code.asset_key = base.asset_key
        AND outdated_code.version = base.last_materialization_code_version""",
        current=CURRENT_CODE,
        outdated=OUTDATED_CODE,
    )
    columns = "current_code.version AS current_code_version, current_code.defined_at AS code_defined_at, "
    return StalenessFacts(joins, Sql(f"{columns}outdated_code.outdated_at AS code_outdated_at"))
