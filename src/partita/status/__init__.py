"""Status: which partitions are missing, stale or failed, and why.

| file | what it holds |
|---|---|
| `events` | events, as values and as rows of the ledger |
| `ledger`, `delta_tables` | the Delta table that events are appended to |
| `attempts` | recording of attempts, wipes and values of dynamic dimensions |
| `schema`, `fold`, `spark` | the columns of status rows, and the fold of events into them, in DuckDB and on Spark |
| `status_table`, `table_refresh` | the Delta table of folded rows, the tail it doesn't hold yet, folds and sweeps |
| `definitions`, `asset_catalog` | the definitions of assets |
| `states` | the states of a partition and the reasons for staleness: the only place that defines them |
| `relations` | the names of the relations of a query, and how they build on each other |
| `selected_partitions` | the partitions that a query selects: recorded, expected and running |
| `lineage`, `upstream_staleness`, `staleness_facts` | since when each partition is stale, and why |
| `status_view`, `queries`, `explanation` | the answers: status rows, counts, and `why` |
| `workspace` | all of it for one workspace of a lake |
| `duckdb_sql`, `duckdb_engine`, `text`, `key_predicates` | composed SQL, connections, text for people, key predicates |
"""

from partita.status.events import Event, Outcome
from partita.status.fold import fold_events, merge_status_rows
from partita.status.states import DisplayStatus, StaleReason, compute_display_status

__all__ = [
    "DisplayStatus",
    "Event",
    "Outcome",
    "StaleReason",
    "compute_display_status",
    "fold_events",
    "merge_status_rows",
]
