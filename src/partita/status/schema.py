"""The columns of the status table: those of the status document, then our own. New columns go to the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

KEY_COLUMNS = ("tenant_id", "workspace_id", "asset_key", "partition_key")
PARTITION_STATUS_COLUMNS = (
    *KEY_COLUMNS, "last_materialization_run_id", "last_materialization_at", "last_materialization_code_version",
    "last_attempt_run_id", "last_attempt_at", "last_attempt_outcome", "stale_since", "stale_reason_code",
    "partition_values", "row_version",
)  # fmt: skip
SWEEP_COLUMNS = ("stale_since", "stale_reason_code", "stale_reasons", "swept_at")
"""What a sweep fills in; a fold clears it where a partition was materialized again."""


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """The columns of a status row that come from one event: the first or last one by `order_columns`."""

    name: str
    order_columns: tuple[str, ...]
    carried_columns: tuple[str, ...] = ()
    is_earliest: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the group."""
        return (*self.order_columns, *self.carried_columns)


LAST_MATERIALIZATION = ColumnGroup(
    "materialization",
    ("last_materialization_at", "last_materialization_event_id"),
    (
        "last_materialization_run_id", "last_materialization_attempt", "last_materialization_code_version",
        "last_materialization_rows", "last_materialization_files", "last_materialization_bytes",
        "last_materialization_table_version", "last_materialization_started_at",
    ),
)  # fmt: skip
LAST_ATTEMPT = ColumnGroup(
    "attempt",
    ("last_attempt_at", "last_attempt_event_id"),
    (
        "last_attempt_run_id",
        "last_attempt_number",
        "last_attempt_outcome",
        "last_attempt_error",
        "last_attempt_started_at",
    ),
)
LAST_START = ColumnGroup(
    "start",
    ("last_start_at", "last_start_finished", "last_start_event_id", "last_start_run_id", "last_start_attempt"),
)
"""The attempt that began last, of those whose start is known. The end of an attempt precedes its own start event."""
FIRST_MATERIALIZATION = ColumnGroup("first", ("first_materialization_at",), is_earliest=True)
LAST_WIPE = ColumnGroup("wipe", ("wiped_at", "wiped_event_id"))
COLUMN_GROUPS = (LAST_MATERIALIZATION, LAST_ATTEMPT, LAST_START, FIRST_MATERIALIZATION, LAST_WIPE)


def status_column_names() -> tuple[str, ...]:
    """Return the columns of the status table, in order."""
    return (*PARTITION_STATUS_COLUMNS, *added_column_names(), "stale_reasons", "swept_at", *_APPENDED_COLUMNS)


def added_column_names() -> tuple[str, ...]:
    """Return the columns of the groups that the status document doesn't have, but for those appended later."""
    return tuple(
        c for group in COLUMN_GROUPS for c in group.columns if c not in (*PARTITION_STATUS_COLUMNS, *_APPENDED_COLUMNS)
    )


_APPENDED_COLUMNS = ("last_materialization_started_at",)
"""Columns that later versions added: they stand at the end, not with their group."""


def status_schema() -> pa.Schema:
    """Return the Arrow schema of the status table."""
    import pyarrow as pa

    required_columns = (*KEY_COLUMNS, "row_version")
    return pa.schema(
        [pa.field(name, _arrow_type(name), nullable=name not in required_columns) for name in status_column_names()]
    )


def status_duckdb_types() -> dict[str, str]:
    """Return the columns of the status table and their types in DuckDB."""
    return {name: _duckdb_type(name) for name in status_column_names()}


def conform_to_status_schema(rows: pa.Table) -> pa.Table:
    """Cast rows to the status schema; a missing column becomes null."""
    import pyarrow as pa

    schema = status_schema()
    columns = [
        rows[f.name].cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _arrow_type(name: str) -> pa.DataType:
    import pyarrow as pa

    return {
        "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
        "VARCHAR[]": pa.list_(pa.string()),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "VARCHAR": pa.string(),
    }[_duckdb_type(name)]


def _duckdb_type(name: str) -> str:
    if name == "partition_values":
        return "MAP(VARCHAR, VARCHAR)"
    if name == "stale_reasons":
        return "VARCHAR[]"
    if name == "last_start_finished":
        return "BOOLEAN"
    if name.endswith("_at") or name == "stale_since":
        return "TIMESTAMPTZ"
    if name.endswith(("_attempt", "_number")):
        return "INTEGER"
    return "BIGINT" if name.endswith(("_rows", "_files", "_bytes", "_table_version")) else "VARCHAR"
