"""The log of a Delta table, without a JVM.

```text
_delta_log/                            names and bytes, through partita.storage
   │ segment.py                        which checkpoint and which commits make up a version
   │ checkpoints.py, commit_files.py   their actions: files as Arrow tables, the others as dicts
   │ paths.py                          the canonical form of a file's path
   │ replay.py                         the last action of each file counts
   ▼
snapshot.py                            protocol, metadata and files of one version
   │ protocol.py                       whether Partita may read or write the table
   │ partition_values.py               partition values of its files as typed columns
```

`delta_log.py` is the entry point. Section names in the docstrings are those of Delta's PROTOCOL.md.
"""

from partita.formats.delta.log.commit_files import DeltaCommit
from partita.formats.delta.log.delta_log import DeltaLog
from partita.formats.delta.log.partition_values import (
    partition_value_structs,
    select_partition_values,
    typed_partitions,
)
from partita.formats.delta.log.paths import TableRoot, is_absolute
from partita.formats.delta.log.protocol import (
    check_readable,
    check_writable,
    has_known_features,
    is_append_only,
    isolation_level,
)
from partita.formats.delta.log.snapshot import (
    DeltaMetadata,
    DeltaProtocol,
    DeltaSnapshot,
    column_mapping_mode,
    physical_names,
    physical_partition_names,
)

__all__ = [
    "DeltaCommit",
    "DeltaLog",
    "DeltaMetadata",
    "DeltaProtocol",
    "DeltaSnapshot",
    "TableRoot",
    "check_readable",
    "check_writable",
    "column_mapping_mode",
    "has_known_features",
    "is_absolute",
    "is_append_only",
    "isolation_level",
    "partition_value_structs",
    "physical_names",
    "physical_partition_names",
    "select_partition_values",
    "typed_partitions",
]
