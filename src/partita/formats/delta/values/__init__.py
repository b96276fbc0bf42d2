"""The partition values of a Delta table, from typed values to the log and back (seed 003).

```text
typed values                       {"region": "US/East"}
   │ 1 validation.py               names and types against the schema
   │ 2 serialization.py            "US/East"                 add.partitionValues
   │ 3 hive.py                     region=US%2FEast          the directory
   │ 4 uri.py                      region=US%252FEast        add.path
   ▼
parsing.py goes the way back       from partitionValues to typed values, from add.path to the directory
```

`tests/vectors/delta_partition_values.json` is the numbered table of cases; the tests cite its rows. The directory is
for people: readers go by `add.path` and `partitionValues`, so a value is never told from a directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partita.arrow.schema import to_schema
from partita.formats.delta.values.hive import directory
from partita.formats.delta.values.parsing import parse_partition
from partita.formats.delta.values.serialization import directory_text, serialized
from partita.formats.delta.values.uri import uri_encoded
from partita.formats.delta.values.validation import validated, zone_of

__all__ = ["EncodedPartition", "encode_partition", "parse_partition"]


@dataclass(frozen=True, slots=True)
class EncodedPartition:
    """A partition in its three forms.

    `values` is `add.partitionValues`, None for null and for what Delta can't tell from it: the empty string and empty
    bytes. `directory` is the folder on disk, and `path` the same as `add.path` writes it.
    """

    directory: str
    path: str
    values: Mapping[str, str | None]


def encode_partition(values: Mapping[str, object], schema: object, *, time_zone: str = "UTC") -> EncodedPartition:
    """The partition of these typed values, by column, in the forms that Delta's log and the file system hold.

    `schema` has the partition columns, in their order; a name is found without regard to case and takes the schema's
    spelling. A timestamp is an aware datetime, or a naive one in `time_zone`; dates and timestamps that Python has no
    object for are ints, from 1970. The directory shows timestamps in `time_zone`, as Spark does in its session's.
    """
    zone = zone_of(time_zone)
    plains = validated(values, to_schema(schema), zone)
    texts = {column.name: serialized(plain, column) for column, plain in plains}
    shown = [(column.name, directory_text(plain, column, zone)) for column, plain in plains]
    path = directory(shown)
    return EncodedPartition(path, uri_encoded(path), texts)
