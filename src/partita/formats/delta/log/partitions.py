"""The partition values of files as typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.types import INTEGERS, CharType, Field
from partita.arrow.buffers import one_array
from partita.arrow.schema import to_arrow
from partita.errors import PartitionValueError, UnknownColumn
from partita.formats.delta.values.parsing import parse_partition


def typed_partitions(
    files: pa.Table,
    schema: Schema,
    partition_columns: Sequence[str],
    physical: Mapping[str, str],
    *,
    time_zone: str = "UTC",
) -> pa.Table:
    """One row for each of `Snapshot.files`, with a typed column for each partition column, under the schema's name.

    `physical` are the names in `partition_values`, by the schema's. `time_zone` is that of timestamps without a zone,
    which older writers left. Each distinct text is parsed once; one that says no value is refused.
    """
    values = one_array(files["partition_values"])
    columns = [
        _typed(pc.struct_field(values, physical.get(name, name)), _field(schema, name), time_zone)
        for name in partition_columns
    ]
    types = [(name, column.type) for name, column in zip(partition_columns, columns, strict=True)]
    # From structs, for a table of no columns keeps its number of rows that way alone.
    rows = pa.Array.from_buffers(pa.struct(types), len(values), [None], children=columns)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])


def _field(schema: Schema, name: str) -> Field:
    for field in schema:
        if field.name == name:
            return field
    raise UnknownColumn(name, schema.names)


def _typed(texts: pa.Array, field: Field, time_zone: str) -> pa.Array:
    encoded = texts.dictionary_encode()
    numbers = _whole_numbers(encoded.dictionary, field)
    if numbers is not None:
        return numbers.take(encoded.indices)
    distinct = [_parsed(text, field, time_zone) for text in encoded.dictionary.to_pylist()]
    try:
        return pa.array(distinct, to_arrow(field.type)).take(encoded.indices)
    except (pa.ArrowException, OverflowError) as error:
        raise PartitionValueError(field.name, f"a value that Arrow's {field.type} holds", str(error)) from error


def _whole_numbers(texts: pa.Array, field: Field) -> pa.Array | None:
    """The texts as integers, all at once; None where one has to be looked at for itself."""
    if field.type.kind not in INTEGERS or not pc.all(pc.match_substring_regex(texts, "^-?[0-9]{1,18}$")).as_py():
        return None
    try:
        return texts.cast(pa.int64()).cast(to_arrow(field.type))
    except pa.ArrowException:
        return None


def _parsed(text: str, field: Field, time_zone: str) -> object:
    value = parse_partition({field.name: text}, Schema((field,)), time_zone=time_zone)[field.name]
    # The log has values of CHAR columns with or without the spaces that they are read with.
    return value.ljust(field.type.length) if isinstance(field.type, CharType) and isinstance(value, str) else value
