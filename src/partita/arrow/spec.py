"""Specs against the schemas of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra import spec_text
from partita.algebra.spec import PartitionSpec, SpecHistory
from partita.arrow.buffers import Array
from partita.arrow.fields import column_of
from partita.arrow.schema import to_schema


def parse_spec(source: str | Sequence[object], schema: object, *, family: str, spec_id: int = 0) -> PartitionSpec:
    """The partition spec that a text says, each function checked against the type of its column.

    `source` is text such as `day(ts), bucket(16, user_id), truncate(3, name) AS letters, country`, or the JSON of
    `lance.partitioning.partition_columns`, as text or as a list. `schema` is an Arrow or Spark schema, or a mapping of
    names to types. `family` is "iceberg" or "lance".
    """
    return spec_text.parse_spec(source, to_schema(schema), family, spec_id)


def distinct_ids(ids: Array) -> list[int]:
    """The distinct ids of specs, in the order that they come; nearly every table has files of one."""
    values = ids.to_numpy(zero_copy_only=False)
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return cast("list[int]", pc.unique(ids).to_pylist())


def spec_columns(specs: SpecHistory, spec: PartitionSpec, partitions: pa.Table | pa.RecordBatch) -> pa.Table:
    """Partitions of one spec with the columns of its fields alone, under the fields' own names."""
    columns = {f.name: column_of(partitions, specs.column_name(spec, f)) for f in spec.fields}
    return pa.table(columns) if columns else pa.table({"spec_id": column_of(partitions, "spec_id")})
