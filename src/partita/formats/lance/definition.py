"""The columns and the partitioning of a Lance table, as the root namespace defines them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from partita.algebra.schema import Schema
from partita.algebra.spec import PartitionSpec
from partita.algebra.spec_text import parse_spec
from partita.arrow.schema import to_schema
from partita.formats.lance.schema_json import schema_from_json

UNPARTITIONED_LEAF_NAME = "data"
"""The name of the only leaf of a table without partition fields."""


@dataclass(frozen=True, slots=True)
class LanceTableDefinition:
    """The columns in Arrow's types and in Partita's, and the partition spec."""

    arrow_schema: pa.Schema
    schema: Schema
    spec: PartitionSpec

    @property
    def omitted_columns(self) -> frozenset[str]:
        """The columns that leaves don't store because their names hold them: identity fields, unless all are."""
        sources = {f.source for f in self.spec.fields if f.transform.is_identity}
        names = {name for name in self.arrow_schema.names if name in sources}
        return frozenset() if len(names) == len(self.arrow_schema) else frozenset(names)

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns that leaves store."""
        return pa.schema([f for f in self.arrow_schema if f.name not in self.omitted_columns])


@lru_cache(maxsize=64)
def table_definition(schema: str, partition_columns: str) -> LanceTableDefinition:
    """Parse the properties of the root namespace."""
    arrow = schema_from_json(schema)
    logical = to_schema(arrow)
    return LanceTableDefinition(arrow, logical, parse_spec(partition_columns, logical, "lance"))
