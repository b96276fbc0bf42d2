"""Specs against the schemas of others."""

from __future__ import annotations

from collections.abc import Sequence

from partita.algebra import spec_text
from partita.algebra.spec import PartitionSpec
from partita.arrow.schema import to_schema


def parse_spec(source: str | Sequence[object], schema: object, *, family: str, spec_id: int = 0) -> PartitionSpec:
    """The partition spec that a text says, each function checked against the type of its column.

    `source` is text such as `day(ts), bucket(16, user_id), truncate(3, name) AS letters, country`, or the JSON of
    `lance.partitioning.partition_columns`, as text or as a list. `schema` is an Arrow or Spark schema, or a mapping of
    names to types. `family` is "iceberg" or "lance".
    """
    return spec_text.parse_spec(source, to_schema(schema), family, spec_id)
