"""The columns of a Delta table: logical and physical names, generated columns, and the schema of a new table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa

from partita.algebra.calendar import HOUR
from partita.algebra.schema import Schema, check_distinct_names
from partita.algebra.spark_json import CHAR_VARCHAR_KEY, schema_from_json, schema_to_json
from partita.algebra.transforms import (
    DayTransform,
    HourTransform,
    MonthTransform,
    PartitionFunction,
    Transform,
    TruncateTransform,
    YearTransform,
)
from partita.algebra.type_text import parse_type
from partita.algebra.types import DATE, INT, STRING, CharType, Field, LogicalType, StructType, TypeKind
from partita.arrow.schema import to_arrow_type
from partita.errors import SchemaError, SpecError, TableError
from partita.formats.column_partitioning import not_a_column_error
from partita.formats.delta.log import DeltaMetadata, column_mapping_mode
from partita.formats.field_ids import SPARK_FIELD_ID
from partita.formats.partition_texts.validation import PARTITION_KINDS

GENERATION_EXPRESSION = "delta.generationExpression"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_COLUMN_ID = "delta.columnMapping.id"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column that is made from another by a partition function."""

    name: str
    transform: Transform
    source: str


def physical_schema(metadata: DeltaMetadata) -> Json:
    """Return the schema with the physical names at every depth, and in `id` mode with Parquet's field ids."""
    mode = column_mapping_mode(metadata)
    return metadata.schema_json if mode == "none" else _physical_struct(metadata.schema_json, with_ids=mode == "id")


def stored_arrow_schema(metadata: DeltaMetadata) -> pa.Schema:
    """Return the Arrow schema of data files: all columns but the partition columns.

    All columns are nullable in files; the table checks what may not be null.
    """
    is_mapped = column_mapping_mode(metadata) != "none"
    names = (field["name"] for field in metadata.schema_json["fields"])
    fields = (
        _physical_struct(metadata.schema_json, with_ids=True)["fields"] if is_mapped else metadata.schema_json["fields"]
    )
    stored_fields = [field for name, field in zip(names, fields, strict=True) if name not in metadata.partition_columns]
    return pa.schema([_arrow_field(field) for field in stored_fields])


def _arrow_field(field: Json) -> pa.Field:
    number = (field.get("metadata") or {}).get(SPARK_FIELD_ID)
    ids = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(field["name"], _arrow_type(field), metadata=ids)


def _arrow_type(field: Json) -> pa.DataType:
    type_ = field["type"]
    if isinstance(type_, str):
        if type_.startswith("string"):
            return pa.string()  # of any collation
        return to_arrow_type(schema_from_json({"type": "struct", "fields": [field]}).fields[0].type)
    if type_["type"] == "struct":
        return pa.struct([_arrow_field(inner) for inner in type_["fields"]])
    if type_["type"] == "array":
        return pa.list_(_arrow_type({"name": "element", "type": type_["elementType"]}))
    key, value = ({"name": name, "type": type_[f"{name}Type"]} for name in ("key", "value"))
    return pa.map_(_arrow_type(key), _arrow_type(value))


def length_limited_columns(metadata: DeltaMetadata) -> dict[str, LogicalType]:
    """Return the type of each column that contains CHAR(n) or VARCHAR(n); raise `TableError` if it can't be parsed."""
    types = {}
    for field in metadata.schema_json["fields"]:
        text = (field.get("metadata") or {}).get(CHAR_VARCHAR_KEY)
        if text is None:
            continue
        try:
            types[field["name"]] = parse_type(str(text))
        except SchemaError as error:
            raise TableError(
                f"column {field['name']!r} limits the length of its texts in a way that Partita can't read, so the "
                f"table is not written ({error}); write to it with delta-spark"
            ) from error
    return types


def text_length_metadata(metadata: DeltaMetadata) -> dict[str, Json]:
    """Return the field metadata of each column that contains CHAR(n) or VARCHAR(n), which tells Spark the lengths."""
    return {name: {CHAR_VARCHAR_KEY: text} for name, text in _field_property(metadata, CHAR_VARCHAR_KEY).items()}


def _is_char_field(field: Json) -> bool:
    return isinstance(schema_from_json({"type": "struct", "fields": [field]}).fields[0].type, CharType)


def generation_expressions(metadata: DeltaMetadata) -> dict[str, str]:
    """Return the SQL expression of each generated column."""
    return _field_property(metadata, GENERATION_EXPRESSION)


def _field_property(metadata: DeltaMetadata, key: str) -> dict[str, str]:
    """Return a property of the fields' metadata by column, for the columns that have it."""
    values = {f["name"]: (f.get("metadata") or {}).get(key) for f in metadata.schema_json["fields"]}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _GenerationExpression:
    """The SQL of a generated column that delta-spark prunes by, as Partita writes it and as others may write it.

    In `pattern`, names ignore case and patterns of dates don't.
    """

    sql: str
    pattern: re.Pattern[str]
    result_type: LogicalType
    source_types: frozenset[str]


def _generation_expression(
    sql: str, pattern: str, result_type: LogicalType, *source_types: str
) -> _GenerationExpression:
    return _GenerationExpression(sql, re.compile(pattern), result_type, frozenset(source_types))


_SOURCE_PATTERN = r"\(\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))\s*"
_GENERATION_EXPRESSIONS: Mapping[type[Transform], _GenerationExpression] = {
    YearTransform: _generation_expression(
        "YEAR({})", rf"(?i:YEAR){_SOURCE_PATTERN}\)", INT, "date", "timestamp"
    ),
    MonthTransform: _generation_expression(
        "DATE_FORMAT({}, 'yyyy-MM')",
        rf"(?i:DATE_FORMAT){_SOURCE_PATTERN},\s*'yyyy-MM'\s*\)",
        STRING, "date", "timestamp",
    ),
    DayTransform: _generation_expression(
        "CAST({} AS DATE)", rf"(?i:CAST){_SOURCE_PATTERN}(?i:AS\s+DATE)\s*\)", DATE, "date", "timestamp"
    ),
    HourTransform: _generation_expression(
        "DATE_FORMAT({}, 'yyyy-MM-dd-HH')",
        rf"(?i:DATE_FORMAT){_SOURCE_PATTERN},\s*'yyyy-MM-dd-HH'\s*\)",
        STRING, "timestamp",
    ),
    TruncateTransform: _generation_expression(
        "SUBSTRING({}, 0, {})",
        rf"(?i:SUBSTRING|SUBSTR){_SOURCE_PATTERN},\s*[01]\s*,\s*(?P<parameter>\d+)\s*\)",
        STRING, "string",
    ),
}  # fmt: skip


def can_be_generated(transform: Transform) -> bool:
    """Return whether a Delta table can compute a transform in a generated column that delta-spark prunes by."""
    return type(transform) in _GENERATION_EXPRESSIONS


def known_generated_columns(metadata: DeltaMetadata) -> list[GeneratedColumn]:
    """Return the generated columns that Partita can compute and prune by itself."""
    fields = {f["name"].casefold(): f for f in metadata.schema_json["fields"]}
    columns = []
    for name, text in generation_expressions(metadata).items():
        for transform, expression in _GENERATION_EXPRESSIONS.items():
            match = expression.pattern.fullmatch(text.strip())
            if match is None:
                continue
            source_name = match["plain"] or match["quoted"].replace("``", "`")
            source = fields.get(source_name.casefold())
            # Writers generate from a CHAR column with or without its trailing spaces.
            if source is None or _is_char_field(source):
                continue
            if source["type"] in expression.source_types:
                arguments = [int(match["parameter"])] if transform.parameter_name is not None else []
                columns.append(GeneratedColumn(name, transform(*arguments), source["name"]))
    return columns


def new_table_schema(
    schema: Schema, functions: Iterable[PartitionFunction], *, is_mapped: bool
) -> tuple[Json, list[str]]:
    """Return the schema of a new table as JSON, with a generated column for each function; and its partition columns.

    Raises `SchemaError` for a column name and `SpecError` for a function that Delta can't have.
    """
    _check_column_names(schema.fields, is_mapped=is_mapped)
    document: dict[str, Any] = cast("dict[str, Any]", schema_to_json(schema))
    partitions = []
    for function in functions:
        source = schema.find_field(function.source)
        if function.transform.is_identity:
            _check_partitionable(source)
            partitions.append(source.name)
            continue
        document["fields"].append(_generated_field(function, source, schema))
        partitions.append(function.name)
    if len({name.casefold() for name in partitions}) < len(partitions):
        raise SpecError(f"a column is partitioned by twice: {', '.join(partitions)}")
    if len(partitions) == len(document["fields"]):
        raise SpecError("a Delta table needs a column that it is not partitioned by")
    return (_assign_column_mapping(document) if is_mapped else document), partitions


_PLAIN_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


_INVALID_NAME_CHARACTERS = frozenset(" ,;{}()\n\t=")
"""Characters that Delta refuses in physical column names."""


def _check_column_names(fields: Sequence[Field], *, is_mapped: bool) -> None:
    """Raise `SchemaError` for names that Delta refuses, or that differ only in case."""
    check_distinct_names(field.name for field in fields)
    for field in fields:
        invalid_characters = "".join(sorted(_INVALID_NAME_CHARACTERS & set(field.name)))
        if invalid_characters and not is_mapped:
            raise SchemaError(
                f"column {field.name!r} has {invalid_characters!r} in its name, which Delta takes only with the "
                "property delta.columnMapping.mode='name'"
            )
        if isinstance(field.type, StructType):
            _check_column_names(field.type.fields, is_mapped=is_mapped)


def _check_partitionable(column: Field) -> None:
    if column.type.kind not in PARTITION_KINDS:
        raise SpecError(f"column {column.name!r} of type {column.type} can't partition a Delta table")


def _generated_field(function: PartitionFunction, source: Field, schema: Schema) -> dict[str, Any]:
    transform = function.transform
    expression = _GENERATION_EXPRESSIONS.get(type(transform))
    is_calendar = transform.time_unit is not None
    if expression is None or (not is_calendar and source.type.kind is not TypeKind.STRING):
        raise not_a_column_error("Delta", function)
    if is_calendar and source.type.kind not in (TypeKind.DATE, TypeKind.TIMESTAMP):
        raise SpecError(f"{function} needs a date or a timestamp, and {source.name!r} is {source.type}")
    if transform.time_unit == HOUR and source.type.kind is TypeKind.DATE:
        raise SpecError(f"{function}: a date has no hour")
    if any(function.name.casefold() == column_name.casefold() for column_name in schema.names):
        raise SpecError(f"partition column {function.name!r} has the name of another; give it another")
    quoted_name = source.name if _PLAIN_IDENTIFIER.fullmatch(source.name) else f"`{source.name.replace('`', '``')}`"
    text = expression.sql.format(quoted_name, transform.parameter)
    field_schema = Schema((Field(function.name, expression.result_type),))
    schema_json = cast("dict[str, Any]", schema_to_json(field_schema))
    return {**schema_json["fields"][0], "metadata": {GENERATION_EXPRESSION: text}}


def _physical_struct(struct: Json, *, with_ids: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": [_physical_field(f, with_ids=with_ids) for f in struct["fields"]]}


def _physical_field(field: Json, *, with_ids: bool) -> dict[str, Any]:
    logical = field.get("metadata") or {}
    metadata = {SPARK_FIELD_ID: logical[_COLUMN_ID]} if with_ids and _COLUMN_ID in logical else {}
    metadata |= {key: value for key, value in logical.items() if key.startswith("__")}
    return {
        "name": logical.get(_PHYSICAL_NAME, field["name"]),
        "type": _physical_type(field["type"], with_ids=with_ids),
        "nullable": field.get("nullable", True),
        "metadata": metadata,
    }


def _physical_type(type_: Any, *, with_ids: bool) -> Any:
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return _physical_struct(type_, with_ids=with_ids)
    inner = {
        key: _physical_type(type_[key], with_ids=with_ids)
        for key in ("elementType", "keyType", "valueType")
        if key in type_
    }
    return {**type_, **inner}


def _assign_column_mapping(document: dict[str, Any]) -> dict[str, Any]:
    """Give each field of a schema, at every depth, a column id and a random physical name."""
    for number, field in enumerate(_all_fields(document), 1):
        field["metadata"] = {**(field.get("metadata") or {}), _COLUMN_ID: number, _PHYSICAL_NAME: f"col-{uuid4()}"}
    return document


def max_column_id(document: Json) -> int:
    """Return the greatest column id of a schema; 0 if it has none."""
    return max(((field.get("metadata") or {}).get(_COLUMN_ID, 0) for field in _all_fields(document)), default=0)


def _all_fields(node: Any) -> Iterator[dict[str, Any]]:
    """Return every field of a type, at every depth, each before those inside it."""
    if isinstance(node, str):
        return
    for field in node.get("fields", ()):
        yield field
        yield from _all_fields(field["type"])
    for key in ("elementType", "keyType", "valueType"):
        yield from _all_fields(node.get(key, ""))
