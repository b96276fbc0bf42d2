"""Create a Lance table: its root namespace, and the first entry of its log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pyarrow as pa

from partita.algebra.schema import check_distinct_names
from partita.algebra.spec import PartitionSpec
from partita.algebra.spec_text import spec_to_json
from partita.algebra.transforms import PartitionFunction
from partita.arrow.schema import to_arrow_type, to_schema
from partita.errors import SchemaError, SpecError, TableExists, value_repr
from partita.formats.lance.columns import check_column_name, check_column_type
from partita.formats.lance.log import LanceLog, LanceLogOperation, WriteOutcome
from partita.formats.lance.namespace import (
    IS_PARTITIONED_PROPERTY,
    PARTITION_COLUMNS_PROPERTY,
    SCHEMA_PROPERTY,
    create_root_namespace,
)
from partita.formats.lance.schema_json import schema_to_json
from partita.storage import Storage


def create_table(
    storage: Storage, schema: object, functions: Sequence[PartitionFunction | str], properties: Mapping[str, str]
) -> None:
    """Create a table; raise `TableExists` if the folder has one.

    An Arrow schema is kept as it is, so that vectors keep their size; any other is converted to Arrow's types.
    """
    arrow = arrow_schema(schema)
    spec = PartitionSpec.of(functions, to_schema(arrow), "lance")
    nested_sources = [f.source for f in spec.fields if f.source not in arrow.names]
    if nested_sources:
        raise SpecError(f"{nested_sources[0]} is inside a struct; a Lance table is partitioned by whole columns")
    _check_properties(properties)
    log = LanceLog(storage)
    if log.write_outcome(0) is not None:
        raise TableExists(storage.uri)
    table_properties = {
        IS_PARTITIONED_PROPERTY: "true",
        PARTITION_COLUMNS_PROPERTY: spec_to_json(spec),
        SCHEMA_PROPERTY: schema_to_json(arrow),
    }
    create_root_namespace(storage, {**properties, **table_properties})
    log.end_write(WriteOutcome(0, is_finished=True, operation=LanceLogOperation.CREATE, at=time.time_ns() // 1_000_000))


def _check_properties(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if name in (IS_PARTITIONED_PROPERTY, PARTITION_COLUMNS_PROPERTY, SCHEMA_PROPERTY):
            raise SpecError(
                f"the property {name} is set by Partita, from the columns and the partitioning; leave it out"
            )
        if name.startswith(_RESERVED_PROPERTY_PREFIXES):
            raise SpecError(
                f"unknown property {name}; properties of your own can't begin with lance.partitioning. or partita."
            )
        if not isinstance(value, str):
            raise SpecError(f"the property {name} must be a string, not {value_repr(value)}")


_RESERVED_PROPERTY_PREFIXES = ("lance.partitioning.", "partita.")


def arrow_schema(schema: object) -> pa.Schema:
    """Return a schema in Arrow's types; raise `SchemaError` for columns that a Lance table can't have.

    Names that differ only in case are refused, since Spark can't distinguish them.
    """
    if isinstance(schema, pa.Schema):
        arrow = schema.remove_metadata()
    else:
        arrow = pa.schema([pa.field(f.name, to_arrow_type(f.type), f.nullable) for f in to_schema(schema)])
    check_distinct_names(arrow.names)
    if not len(arrow):
        raise SchemaError("a table needs at least one column")
    for field in arrow:
        check_column_name(field.name)
        check_column_type(field.name, field.type)
    return arrow
