"""The log of a Delta table, without a JVM.

```text
_delta_log/                        names and bytes, through partita.storage
   │ segment.py                    which checkpoint and which commits make a version
   │ checkpoints.py, commits.py    their actions; files as Arrow tables, the rest as dicts
   │ paths.py                      one form for all spellings of a file's path
   │ replay.py                     the newest action of each file wins
   ▼
snapshot.py                        protocol, metadata and the files of one version
   │ protocol.py                   whether Partita may read or write that table
   │ partitions.py, statistics.py  what its files say of their rows, typed
```

`log.py` is the way in. Section names in the docstrings are those of Delta's PROTOCOL.md.
"""

from partita.formats.delta.log.checkpoints import structs
from partita.formats.delta.log.commits import Commit
from partita.formats.delta.log.log import DeltaLog
from partita.formats.delta.log.partitions import typed_partitions
from partita.formats.delta.log.paths import TableRoot, is_absolute
from partita.formats.delta.log.protocol import (
    check_readable,
    check_writable,
    has_known_features,
    is_append_only,
    isolation,
)
from partita.formats.delta.log.snapshot import Metadata, Protocol, Snapshot, column_mapping_mode, physical_names
from partita.formats.delta.log.statistics import file_statistics, row_counts

__all__ = [
    "Commit",
    "DeltaLog",
    "Metadata",
    "Protocol",
    "Snapshot",
    "TableRoot",
    "check_readable",
    "check_writable",
    "column_mapping_mode",
    "file_statistics",
    "has_known_features",
    "is_absolute",
    "is_append_only",
    "isolation",
    "physical_names",
    "row_counts",
    "structs",
    "typed_partitions",
]
