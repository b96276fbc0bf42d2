"""The relations of DuckDB that a status query is answered from, in the order in which they are created.

```text
ledger files ── tail ──┐
status table ─ stored ─┴─> ALL_STATUS_ROWS ─(as of now)─> STATUS_ROWS ─┐
definitions ─> EXPECTED_PARTITIONS ────────────────────────────────────┴─> SELECTED_PARTITIONS ─┐
staleness: FRESHNESS_DEADLINES, UPSTREAM_STALENESS, CURRENT_CODE, OUTDATED_CODE; RUNNING_PARTITIONS ┴─> STATUS_VIEW
```
"""

from __future__ import annotations

from partita.status.duckdb_sql import Sql

# The catalog (asset_catalog.py).
CATALOG_EVENTS = Sql("catalog_events")
"""The events that define assets and the values of dynamic dimensions."""

# Status rows (status_table.py).
STORED_ROWS = Sql("stored_rows")
"""The rows of the status table that belong to the workspace."""
TAIL_EVENTS = Sql("tail_events")
"""The events of partitions that the status table doesn't hold yet."""
TAIL_ROWS = Sql("tail_rows")
"""The status rows that the tail folds to."""
NUMBERED_ROWS = Sql("numbered_rows")
"""The tail's rows and the stored rows of the same partitions, with a column `position`."""
MERGED_ROWS = Sql("merged_rows")
"""One row for each partition of the tail: stored row and tail row merged."""
ALL_STATUS_ROWS = Sql("all_status_rows")
"""The status rows of the workspace as of all events."""
LATER_KEYS = Sql("later_keys")
"""The keys of partitions that have events after `now`."""
PAST_EVENTS = Sql("past_events")
"""The events of partitions, from which rows as of `now` are folded."""
PAST_ROWS = Sql("past_rows")
"""The rows of the partitions in `LATER_KEYS`, as of `now`."""
STATUS_ROWS = Sql("status_rows")
"""The status rows of the workspace as of `now`."""

# The partitions that a query selects (selected_partitions.py).
ASSET_ROWS = Sql("asset_rows")
"""The rows of `STATUS_ROWS` that belong to the selected assets."""
EXPECTED_PARTITIONS = Sql("expected_partitions")
"""What the definitions of the selected assets expect: asset_key and partition_key."""
SELECTED_KEYS = Sql("selected_keys")
"""The partition keys that pass the query's predicate and list of keys; only where it has one of them."""
SELECTED_ROWS = Sql("selected_rows")
"""The rows of `ASSET_ROWS` with selected keys."""
SELECTED_EXPECTED = Sql("selected_expected")
"""The rows of `EXPECTED_PARTITIONS` with selected keys."""
SELECTED_PARTITIONS = Sql("selected_partitions")
"""`SELECTED_ROWS` and `SELECTED_EXPECTED` joined, with a column `expected`: null where no definition judges it."""
ATTEMPT_EVENTS = Sql("attempt_events")
"""The starts and ends of attempts."""
RUNNING_PARTITIONS = Sql("running_partitions")
"""The partitions with an open attempt: asset_key, partition_key, running_since, running_run_id, and `open_run_ids`, the
runs of all its open attempts."""

# Staleness (staleness_facts.py, upstream_staleness.py).
SUCCESS_EVENTS = Sql("success_events")
"""The succeeded attempts up to `now`."""
FRESHNESS_DEADLINES = Sql("freshness_deadlines")
"""For each asset with a cron policy: the deadline of what was materialized by `up_to`, and after the one before it."""
CURRENT_CODE = Sql("current_code")
"""The current code version of each asset, and when the asset was first defined."""
OUTDATED_CODE = Sql("outdated_code")
"""The earlier code versions of each asset, and since when each is outdated."""
UPSTREAM_STALENESS = Sql("upstream_staleness")
"""The partitions whose upstreams changed: asset_key, partition_key, since, the upstream (by_asset, by_partition), the
root of a transitive chain (root_asset, root_partition), and origin, the moment since which the upstream is as it is. A
row that comes from a sweep has no by_asset."""
CHANGED_UPSTREAMS = Sql("changed_upstreams")
"""Pairs of partitions with the same key where the upstream changed after the downstream partition read it."""
STALE_PARTITIONS = Sql("stale_partitions")
"""Partitions that are stale and may make others stale, for transitive queries."""

STATUS_VIEW = Sql("status_view")
"""Every selected partition with its full status."""
