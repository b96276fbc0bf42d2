"""Status: which partitions are missing, stale or failed, and why (seed 002).

| file | what it is about |
|---|---|
| `events` | what happened, as values and as rows of the ledger |
| `ledger`, `delta` | the Delta table that they are appended to |
| `rows`, `fold` | the status rows that they fold to |
| `snapshot`, `folding` | the Delta table of folded rows, and the tail that it doesn't hold yet |
| `definitions`, `catalog`, `expected` | what assets are, and which partitions they should have |
| `links`, `staleness`, `spread` | which partitions are stale, since when and why |
| `running` | which are being made |
| `display`, `board`, `query`, `why`, `shown` | what is answered |
| `recording`, `workspace` | the ways in |
"""

from partita.status.display import DisplayStatus, compute_display_status
from partita.status.events import Event, Outcome
from partita.status.fold import fold, merge
from partita.status.staleness import Reason

__all__ = ["DisplayStatus", "Event", "Outcome", "Reason", "compute_display_status", "fold", "merge"]
