"""The rows of the status table: the seed's columns, then ours. Columns are only ever added, at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

KEY = ("tenant_id", "workspace_id", "asset_key", "partition_key")
SEED = (
    *KEY, "last_materialization_run_id", "last_materialization_at", "last_materialization_code_version",
    "last_attempt_run_id", "last_attempt_at", "last_attempt_outcome", "stale_since", "stale_reason_code",
    "partition_values", "row_version",
)  # fmt: skip
SWEPT = ("stale_since", "stale_reason_code", "stale_reasons", "swept_at")
"""What a sweep fills in; a fold clears it where a partition was materialized anew."""


@dataclass(frozen=True, slots=True)
class Role:
    """A part of a row that comes from one event: the one that is first or last in an order."""

    name: str
    order: tuple[str, ...]
    carried: tuple[str, ...] = ()
    first: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the part."""
        return (*self.order, *self.carried)


MATERIALIZATION = Role(
    "materialization",
    ("last_materialization_at", "last_materialization_event_id"),
    (
        "last_materialization_run_id", "last_materialization_attempt", "last_materialization_code_version",
        "last_materialization_rows", "last_materialization_files", "last_materialization_bytes",
        "last_materialization_table_version", "last_materialization_started_at",
    ),
)  # fmt: skip
ATTEMPT = Role(
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
START = Role(
    "start",
    ("last_start_at", "last_start_finished", "last_start_event_id", "last_start_run_id", "last_start_attempt"),
)
"""Of the attempts whose start is known, the one that began last. One that has ended counts before its own start."""
FIRST = Role("first", ("first_materialization_at",), first=True)
WIPE = Role("wipe", ("wiped_at", "wiped_event_id"))
ROLES = (MATERIALIZATION, ATTEMPT, START, FIRST, WIPE)


def row_names() -> tuple[str, ...]:
    """The columns of the status table, in order."""
    return (*SEED, *our_names(), "stale_reasons", "swept_at", *_LATER)


def our_names() -> tuple[str, ...]:
    """The columns that the parts of a row add to the seed's, but for those that came later."""
    return tuple(c for role in ROLES for c in role.columns if c not in (*SEED, *_LATER))


_LATER = ("last_materialization_started_at",)
"""Columns that came after others: they stand at the end, wherever their part stands."""


def row_schema() -> pa.Schema:
    """The columns of the status table and their types."""
    import pyarrow as pa

    required = (*KEY, "row_version")
    return pa.schema([pa.field(name, _type(name), nullable=name not in required) for name in row_names()])


def row_types() -> dict[str, str]:
    """The columns of the status table and their types in DuckDB."""
    return {name: _duckdb_type(name) for name in row_names()}


def completed(rows: pa.Table) -> pa.Table:
    """Rows in the columns and types of the status table; a column that they don't have is null."""
    import pyarrow as pa

    schema = row_schema()
    columns = [
        rows[f.name].cast(f.type) if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _type(name: str) -> pa.DataType:
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
