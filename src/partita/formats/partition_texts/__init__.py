"""Partition values as texts and as folders, as Spark writes them in Delta's log and in plain folders.

```text
typed values                       {"region": "US/East"}
   │ 1 validation.py               names and types against the schema
   │ 2 serialization.py            "US/East"                 add.partitionValues
   │ 3 hive.py                     region=US%2FEast          the directory
   │ 4 uri.py                      region=US%252FEast        add.path
   ▼
deserialization.py is the inverse    from partitionValues to typed values; arrow.py for columns of them
spark.py                             stages 1 and 2 as Spark Columns
```

`tests/vectors/delta_partition_values.json` is the numbered table of cases; the tests cite its rows. In a Delta table
the directory is for people, and readers go by the log. A plain folder of Parquet files has nothing but the directory
(`formats/parquet/values.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partita.arrow.schema import to_schema
from partita.formats.partition_texts.deserialization import parse_partition
from partita.formats.partition_texts.hive import partition_directory
from partita.formats.partition_texts.serialization import directory_text, partition_text
from partita.formats.partition_texts.uri import encode_uri
from partita.formats.partition_texts.validation import time_zone_rules, validate_partition_values

__all__ = ["EncodedPartition", "encode_partition", "parse_partition"]


@dataclass(frozen=True, slots=True)
class EncodedPartition:
    """A partition in its three forms.

    `values` is `add.partitionValues`: None for null, and for the empty string and empty bytes, which Delta can't
    distinguish from null. `directory` is the folder on disk, `path` its URI-encoded form in `add.path`.
    """

    directory: str
    path: str
    values: Mapping[str, str | None]


def encode_partition(values: Mapping[str, object], schema: object, *, time_zone: str = "UTC") -> EncodedPartition:
    """Encode typed partition values, by column, in the forms of Delta's log and of the file system.

    `schema` has the partition columns in order; names are matched without regard to case and take the schema's
    spelling. A timestamp is an aware datetime, or a naive one in `time_zone`; dates and timestamps that Python has no
    object for are ints, from 1970. The directory shows timestamps in `time_zone`, as Spark does in its session's.
    Raises `PartitionValueError` for a value that doesn't fit its column.
    """
    zone = time_zone_rules(time_zone)
    physical_values = validate_partition_values(values, to_schema(schema), zone)
    texts = {column.name: partition_text(plain, column) for column, plain in physical_values}
    directory_texts = [(column.name, directory_text(plain, column, zone)) for column, plain in physical_values]
    directory = partition_directory(directory_texts)
    return EncodedPartition(directory, encode_uri(directory), texts)
