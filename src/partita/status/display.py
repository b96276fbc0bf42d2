"""The status that people see, by the seed's rules; for one row, for a table, and as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, overload

from partita.errors import StatusError

if TYPE_CHECKING:
    import pyarrow as pa


class DisplayStatus(StrEnum):
    """The seed's four states of a partition."""

    NEVER_MATERIALIZED = "NEVER_MATERIALIZED"
    MATERIALIZED_BUT_LAST_ATTEMPT_FAILED = "MATERIALIZED_BUT_LAST_ATTEMPT_FAILED"
    STALE = "STALE"
    MATERIALIZED = "MATERIALIZED"


@overload
def compute_display_status(partition: Mapping[str, Any]) -> DisplayStatus: ...
@overload
def compute_display_status(partition: pa.Table) -> pa.Array: ...
def compute_display_status(partition: Any) -> Any:
    """The display status of a row, or of each row of an Arrow table (seed 002, "Display Status").

    Reads `last_materialization_at`, `last_attempt_outcome`, `last_attempt_at` and `stale_since`.
    """
    import pyarrow as pa

    names = partition if isinstance(partition, Mapping) else getattr(partition, "column_names", ())
    if not isinstance(partition, Mapping | pa.Table) or not set(_READ) <= set(names):
        raise StatusError(f"a status row, or an Arrow table of them, has the columns {', '.join(_READ)}")
    return _of_row(partition) if isinstance(partition, Mapping) else _of_table(partition)


_READ = ("last_materialization_at", "last_attempt_outcome", "last_attempt_at", "stale_since")


def _of_row(row: Mapping[str, Any]) -> DisplayStatus:
    materialized, attempted = row["last_materialization_at"], row["last_attempt_at"]
    if materialized is None:
        return DisplayStatus.NEVER_MATERIALIZED
    if row["last_attempt_outcome"] == "FAILED" and attempted is not None and attempted > materialized:
        return DisplayStatus.MATERIALIZED_BUT_LAST_ATTEMPT_FAILED
    return DisplayStatus.STALE if row["stale_since"] is not None else DisplayStatus.MATERIALIZED


def _of_table(table: pa.Table) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    failed = pc.and_kleene(
        pc.equal(table["last_attempt_outcome"], "FAILED"),
        pc.greater(table["last_attempt_at"], table["last_materialization_at"]),
    )
    cases = pc.make_struct(
        pc.is_null(table["last_materialization_at"]),
        pc.fill_null(failed, fill_value=False),
        pc.is_valid(table["stale_since"]),
    )
    found = pc.case_when(cases, *(pa.scalar(status.value) for status in DisplayStatus))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


DISPLAY_SQL = """CASE
    WHEN last_materialization_at IS NULL THEN 'NEVER_MATERIALIZED'
    WHEN last_attempt_outcome = 'FAILED' AND last_attempt_at > last_materialization_at
        THEN 'MATERIALIZED_BUT_LAST_ATTEMPT_FAILED'
    WHEN stale_since IS NOT NULL THEN 'STALE'
    ELSE 'MATERIALIZED'
END"""
_ALONE = "last_materialization_at IS NULL AND (wiped_at IS NULL OR last_attempt_at > wiped_at)"
_AFTER = f"(last_attempt_at > last_materialization_at OR ({_ALONE}))"
FAILED_SQL = f"coalesce(last_attempt_outcome = 'FAILED' AND {_ALONE}, false)"
"""Failed without ever succeeding."""
CANCELLED_SQL = f"coalesce(last_attempt_outcome = 'CANCELLED' AND {_AFTER}, false)"
