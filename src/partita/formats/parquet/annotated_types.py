"""Types of columns that pyarrow takes for their physical types; a rewrite would lose them for good.

| type | what pyarrow reads | where the footer says it |
|---|---|---|
| INTERVAL, UUID, GEOMETRY, GEOGRAPHY | bytes | the logical or the converted type of a leaf |
| VARIANT | a struct of bytes | the logical type of a group, which pyarrow has in the text of the schema alone |
| VARIANT and intervals of Spark | a struct of bytes, numbers | Spark's schema, in the properties of the file |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from partita.algebra.spark_json import schema_from_json
from partita.algebra.types import LogicalType, TypeKind, nested_types, other_type
from partita.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_LEAF_ANNOTATIONS = frozenset({"INTERVAL", "UUID", "GEOMETRY", "GEOGRAPHY"})
_SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_TYPES = ("variant", "interval")


def annotated_types(metadata: pq.FileMetaData, names: Sequence[str]) -> dict[str, LogicalType]:
    """Return the columns of a file, among all of their names, whose type or a nested type pyarrow doesn't tell."""
    types = _leaf_types(metadata, names)
    types |= {name: other_type("variant") for name in _variant_names(metadata, names)}
    return _spark_types(metadata.metadata or {}, names) | types


def _leaf_types(metadata: pq.FileMetaData, names: Sequence[str]) -> dict[str, LogicalType]:
    types: dict[str, LogicalType] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        annotations = {
            column.converted_type,
            column.logical_type.type,
            str(column.logical_type).partition("(")[0].upper(),
        }
        annotation = next(iter(annotations & _LEAF_ANNOTATIONS), None)
        if annotation is not None:
            name = next(name for name in names if f"{column.path}.".startswith(f"{name}."))
            types[name] = other_type(annotation.lower())
    return types


def _variant_names(metadata: pq.FileMetaData, names: Sequence[str]) -> set[str]:
    """Return the columns that are a VARIANT or have one in them, by the lines of the schema's text."""
    variant_names, index = set[str](), -1
    schema_text = str(metadata.schema)
    for line in schema_text.splitlines() if "(Variant(" in schema_text else ():
        index += line.startswith("  ") and line[2] not in " }"
        if "(Variant(" in line and line.endswith(") {"):
            variant_names.add(names[index])
    return variant_names


def _spark_types(properties: Mapping[bytes, bytes], names: Sequence[str]) -> dict[str, LogicalType]:
    types: dict[str, LogicalType] = {}
    schema_text = properties.get(_SPARK_SCHEMA_KEY, b"")
    # Parsing the schema of each file takes longer than reading its footer.
    if not any(name.encode() in schema_text for name in _SPARK_TYPES):
        return types
    with suppress(SchemaError, ValueError):
        for field in schema_from_json(json.loads(schema_text)):
            unknown_types = [type_ for type_ in nested_types(field.type) if type_.kind is TypeKind.OTHER]
            unread = next((type_ for type_ in unknown_types if str(type_).startswith(_SPARK_TYPES)), None)
            if unread is not None and field.name in names:
                types[field.name] = unread
    return types
