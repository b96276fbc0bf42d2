"""Partition values of a plain folder: they are nothing but the names of its folders.

```text
country=US%2FEast/day=2025-01-15   the folders of a data file
   │ folder_texts                  ("country", "US/East"), ("day", "2025-01-15"); null is __HIVE_DEFAULT_PARTITION__
   │ inferred_type                 string, date: unless the table's definition says the types
   ▼ typed_partitions              typed columns
```

A column has the first of these types of which all its values are the usual text, so that a value written again has the
same text, and strings otherwise:

| type | texts |
|---|---|
| int, long, decimal(38,0) | digits without a leading zero: `007` and `+7` make the column a string |
| date | `2025-01-15` |
| timestamp_ntz | `2025-01-15 10:30:00`, with up to six digits of a fraction |
| timestamp | `2025-01-15T10:30:00.000000Z`: without a zone, a text doesn't say which moment it is |
| double | `1.5`, `1.0E10`, and not whole numbers among them |

Spark infers the same types except that it reads `007` as 7, a timestamp in the session's time zone, and fractions
whose text isn't the usual one, such as `1.50`, as doubles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Field,
    LogicalType,
    TypeKind,
    decimal_type,
)
from partita.errors import PartitionValueError
from partita.formats.partition_texts import parse_partition
from partita.formats.partition_texts.arrow import typed_column
from partita.formats.partition_texts.hive import MAX_NAME_BYTES, NULL_DIRECTORY, directory_segment, unescape_name
from partita.formats.partition_texts.serialization import directory_text, partition_text
from partita.formats.partition_texts.uri import decode_uri
from partita.formats.partition_texts.validation import PARTITION_KINDS, validate_partition_values

PARTITION_TEXT_KINDS = PARTITION_KINDS - {TypeKind.BINARY}
"""The types of columns that can partition a folder: each value has one text, which all readers understand alike."""


def folder_texts(folder: str) -> tuple[tuple[str, str | None], ...] | None:
    """Return the columns and texts in the path of a folder; None if its partition folders are not the outermost ones.

    Folders without `=` may follow the partition folders.
    """
    segments = folder.split("/") if folder else []
    depth = next((index for index, segment in enumerate(segments) if "=" not in segment), len(segments))
    if any("=" in segment for segment in segments[depth:]):
        return None
    return tuple(_segment_text(segment) for segment in segments[:depth])


def _segment_text(segment: str) -> tuple[str, str | None]:
    name, _, text = segment.partition("=")
    return _unescape(name), None if text == NULL_DIRECTORY else _unescape(text)


def _unescape(text: str) -> str:
    """Decode percent escapes: those of UTF-8, as pyarrow and DuckDB write them, and Hive's, which are ASCII."""
    try:
        return decode_uri(text)
    except UnicodeDecodeError:
        return unescape_name(text)


def inferred_type(texts: pa.Array) -> LogicalType:
    """Return the type of a partition column by its distinct texts, as the head of this module says."""
    distinct = texts.unique().drop_null()
    if not len(distinct):
        return STRING
    if pc.all(pc.match_substring_regex(distinct, "^(0|-?[1-9][0-9]{0,37})$")).as_py():
        numbers = [int(text) for text in distinct.to_pylist()]
        largest = max(*numbers, -1 - min(numbers))
        return INT if largest < 2**31 else LONG if largest < 2**63 else decimal_type(38, 0)
    for pattern, type_ in _INFERRED_TYPES.items():
        if pc.all(pc.match_substring_regex(distinct, pattern)).as_py():
            field = Field("text", type_)
            return type_ if all(_can_round_trip(text, field) for text in distinct.to_pylist()) else STRING
    return STRING


_INFERRED_TYPES: Mapping[str, LogicalType] = {
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$": DATE,
    "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+$": TIMESTAMP_NTZ,
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$": TIMESTAMP,
    r"^-?[0-9]+\.[0-9]+(E-?[0-9]+)?$": DOUBLE,
}


def _can_round_trip(text: str, field: Field) -> bool:
    try:
        value = parse_partition({field.name: text}, Schema((field,)))[field.name]
    except PartitionValueError:
        return False
    return text == _folder_text(value, field)


def _folder_text(value: object, field: Field) -> str | None:
    """Return the text of a value: Spark's, but with its zone for a timestamp, which Spark shows in the session's."""
    is_moment = field.type.kind is TypeKind.TIMESTAMP
    return partition_text(value, field) if is_moment else directory_text(value, field, UTC)


def typed_partitions(fields: Sequence[Field], texts: Sequence[pa.Array], row_count: int) -> pa.Table:
    """Return a typed column for each partition column; raise `PartitionValueError` for a text that is no value of it.

    An empty text is itself in a column of strings, and no value of another type.
    """
    columns = [_typed_texts(field, array) for field, array in zip(fields, texts, strict=True)]
    types = [(field.name, column.type) for field, column in zip(fields, columns, strict=True)]
    # From structs, because only this way a table without columns keeps its number of rows.
    rows = pa.Array.from_buffers(pa.struct(types), row_count, [None], children=columns)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])


def _typed_texts(field: Field, texts: pa.Array) -> pa.Array:
    if field.type.kind is TypeKind.STRING:
        return texts
    if pc.any(pc.equal(texts, "")).as_py():
        raise PartitionValueError(field.name, str(field.type), "the text ''")
    if field.type.kind is TypeKind.TIMESTAMP:
        zoneless = texts.filter(pc.invert(pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$")))
        if len(zoneless):
            raise PartitionValueError(field.name, "a timestamp with its time zone", f"the text {zoneless[0].as_py()!r}")
    return typed_column(texts, field)


def partition_folder(texts: Sequence[str | None], fields: Sequence[Field]) -> str:
    """Return the path of the folder of a partition, given the texts that `partition_texts.spark` makes of its values.

    Raises `PartitionValueError` if a name is too long for a file system.
    """
    schema = Schema(tuple(fields))
    values = parse_partition(dict(zip(schema.names, texts, strict=True)), schema)
    segments = []
    for field, value in validate_partition_values(values, schema, UTC):
        segment = _VISIBLE_START.sub(_percent_escape, directory_segment(field.name, _folder_text(value, field)))
        if len(segment.encode()) > MAX_NAME_BYTES:
            expectation = f"a value whose folder has a name of at most {MAX_NAME_BYTES} bytes"
            raise PartitionValueError(field.name, expectation, f"{len(segment.encode())} bytes")
        segments.append(segment)
    return "/".join(segments)


_VISIBLE_START = re.compile(r"^[._]")
"""Readers would ignore a folder whose name begins so, some of them even if it has a `=`."""


def _percent_escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def is_hidden(path: str) -> bool:
    """Return whether readers ignore a file, as Spark does.

    It or a folder above it begins with `.`, or with `_` and isn't `_c=1`, or Hadoop is copying the file.
    """
    return _HIDDEN_SEGMENT.search(path) is not None


_HIDDEN_SEGMENT = re.compile(r"(^|/)(\.|_[^/=]*(/|$))|\._COPYING_$")
