"""The partition values of files: structs of texts as the log has them, and typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.types import INTEGER_KINDS, CharType, Field
from partita.arrow.buffers import dense_array
from partita.arrow.schema import to_arrow_type
from partita.errors import PartitionValueError, UnknownColumn
from partita.formats.delta.values.deserialization import parse_partition


def partition_value_structs(columns: Sequence[pa.Array], names: Sequence[str], row_count: int) -> pa.Array:
    """Build structs of partition texts; `row_count` is needed for a struct without fields."""
    type_ = pa.struct([(name, pa.string()) for name in names])
    return pa.Array.from_buffers(type_, row_count, [None], children=list(columns))


def select_partition_values(values: pa.Array, names: Sequence[str]) -> pa.Array:
    """Return structs of partition texts with the fields `names`; a field that they lack is null."""
    existing_names = {f.name for f in values.type}
    columns = [pc.struct_field(values, n) if n in existing_names else pa.nulls(len(values), pa.string()) for n in names]
    return partition_value_structs(columns, names, len(values))


def typed_partitions(
    files: pa.Table,
    schema: Schema,
    partition_columns: Sequence[str],
    physical: Mapping[str, str],
    *,
    time_zone: str = "UTC",
) -> pa.Table:
    """Return a typed column for each partition column, under its name in the schema, with a row for each file.

    `files` are those of a `DeltaSnapshot`. `physical` maps the names of the schema to those in `partition_values`.
    `time_zone` is that of timestamps without a zone, which older writers left. Each distinct text is parsed once; one
    that is not a value of the column raises `PartitionValueError`.
    """
    values = dense_array(files["partition_values"])
    columns = [
        _typed_column(pc.struct_field(values, physical.get(name, name)), _schema_field(schema, name), time_zone)
        for name in partition_columns
    ]
    types = [(name, column.type) for name, column in zip(partition_columns, columns, strict=True)]
    # From structs, because only this way a table without columns keeps its number of rows.
    rows = pa.Array.from_buffers(pa.struct(types), len(values), [None], children=columns)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])


def _schema_field(schema: Schema, name: str) -> Field:
    for field in schema:
        if field.name == name:
            return field
    raise UnknownColumn(name, schema.names)


def _typed_column(texts: pa.Array, field: Field, time_zone: str) -> pa.Array:
    encoded_texts = texts.dictionary_encode()
    numbers = _integer_values(encoded_texts.dictionary, field)
    if numbers is not None:
        return numbers.take(encoded_texts.indices)
    distinct = [_parse_value(text, field, time_zone) for text in encoded_texts.dictionary.to_pylist()]
    try:
        return pa.array(distinct, to_arrow_type(field.type)).take(encoded_texts.indices)
    except (pa.ArrowException, OverflowError) as error:
        raise PartitionValueError(field.name, f"a value that Arrow's {field.type} holds", str(error)) from error


def _integer_values(texts: pa.Array, field: Field) -> pa.Array | None:
    """Cast all texts to integers at once; None if one of them needs `_parse_value`."""
    if field.type.kind not in INTEGER_KINDS or not pc.all(pc.match_substring_regex(texts, "^-?[0-9]{1,18}$")).as_py():
        return None
    try:
        return texts.cast(pa.int64()).cast(to_arrow_type(field.type))
    except pa.ArrowException:
        return None


def _parse_value(text: str, field: Field, time_zone: str) -> object:
    value = parse_partition({field.name: text}, Schema((field,)), time_zone=time_zone)[field.name]
    # The log has values of CHAR columns with or without their trailing spaces; readers see them with spaces.
    return value.ljust(field.type.length) if isinstance(field.type, CharType) and isinstance(value, str) else value
