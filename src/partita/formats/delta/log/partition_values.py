"""The partition values of files: structs of texts as the log has them, and typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.types import Field
from partita.arrow.buffers import dense_array
from partita.errors import UnknownColumn
from partita.formats.partition_texts.arrow import typed_column


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
        typed_column(pc.struct_field(values, physical.get(name, name)), _schema_field(schema, name), time_zone)
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
