"""A Delta table's columns as its log has them: names for people, names in files, and those made from others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa

from partita.algebra.schema import Schema, check_distinct
from partita.algebra.spark_json import TEXT_LENGTHS, schema_from_json, schema_to_json
from partita.algebra.spec import FIRST_FIELD_ID, PartitionField, PartitionSpec
from partita.algebra.transforms import Family, PartitionFunction, Transform
from partita.algebra.type_text import parse_type
from partita.algebra.types import DATE, INT, STRING, CharType, Field, Kind, LogicalType, StructType
from partita.arrow.schema import to_arrow
from partita.errors import SchemaError, SpecError, TableError
from partita.formats.delta.log import Metadata, column_mapping_mode
from partita.formats.delta.values.validation import PARTITIONABLE
from partita.formats.field_ids import SPARK_FIELD_ID

GENERATION = "delta.generationExpression"
_PHYSICAL = "delta.columnMapping.physicalName"
_ID = "delta.columnMapping.id"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Generated:
    """A column that is made from another by a function that Partita knows; `width` is that of a truncate."""

    name: str
    function: str
    source: str
    width: int = 0


def physical_schema(metadata: Metadata) -> Json:
    """The schema with the names that files have, at every depth, and in `id` mode with Parquet's field ids."""
    mode = column_mapping_mode(metadata)
    return metadata.schema if mode == "none" else _physical_struct(metadata.schema, with_ids=mode == "id")


def stored_arrow(metadata: Metadata) -> pa.Schema:
    """The columns that files hold, which are all but the partition's, as Arrow writes them.

    Every column may be null in a file, for what may not is the table's to say.
    """
    mapped = column_mapping_mode(metadata) != "none"
    names = (field["name"] for field in metadata.schema["fields"])
    fields = _physical_struct(metadata.schema, with_ids=True)["fields"] if mapped else metadata.schema["fields"]
    kept = [field for name, field in zip(names, fields, strict=True) if name not in metadata.partition_columns]
    return pa.schema([_arrow_field(field) for field in kept])


def _arrow_field(field: Json) -> pa.Field:
    number = (field.get("metadata") or {}).get(SPARK_FIELD_ID)
    ids = None if number is None else {"PARQUET:field_id": str(number)}
    return pa.field(field["name"], _arrow_type(field), metadata=ids)


def _arrow_type(field: Json) -> pa.DataType:
    type_ = field["type"]
    if isinstance(type_, str):
        if type_.startswith("string"):
            return pa.string()  # whatever its collation
        return to_arrow(schema_from_json({"type": "struct", "fields": [field]}).fields[0].type)
    if type_["type"] == "struct":
        return pa.struct([_arrow_field(inner) for inner in type_["fields"]])
    if type_["type"] == "array":
        return pa.list_(_arrow_type({"name": "element", "type": type_["elementType"]}))
    key, value = ({"name": name, "type": type_[f"{name}Type"]} for name in ("key", "value"))
    return pa.map_(_arrow_type(key), _arrow_type(value))


def limited_columns(metadata: Metadata) -> dict[str, LogicalType]:
    """The type of each column that has CHAR(n) or VARCHAR(n) in it; one that can't be read is a `TableError`."""
    found = {}
    for field in metadata.schema["fields"]:
        text = (field.get("metadata") or {}).get(TEXT_LENGTHS)
        if text is None:
            continue
        try:
            found[field["name"]] = parse_type(str(text))
        except SchemaError as error:
            raise TableError(
                f"column {field['name']!r} limits the length of its texts in a way that Partita can't read, so the "
                f"table is not written ({error}); write to it with delta-spark"
            ) from error
    return found


def length_metadata(metadata: Metadata) -> dict[str, Json]:
    """The metadata that tells Spark the lengths of texts, of each column that has any."""
    given = {f["name"]: (f.get("metadata") or {}).get(TEXT_LENGTHS) for f in metadata.schema["fields"]}
    return {name: {TEXT_LENGTHS: text} for name, text in given.items() if text is not None}


def _is_char(field: Json) -> bool:
    return isinstance(schema_from_json({"type": "struct", "fields": [field]}).fields[0].type, CharType)


def generated_columns(metadata: Metadata) -> dict[str, str]:
    """The SQL of each column that is made from others."""
    given = {f["name"]: (f.get("metadata") or {}).get(GENERATION) for f in metadata.schema["fields"]}
    return {name: text for name, text in given.items() if text is not None}


_FORMS: Mapping[str, str] = {
    "year": "YEAR({})",
    "month": "DATE_FORMAT({}, 'yyyy-MM')",
    "day": "CAST({} AS DATE)",
    "hour": "DATE_FORMAT({}, 'yyyy-MM-dd-HH')",
    "truncate": "SUBSTRING({}, 0, {})",
}
"""The SQL of the functions that delta-spark prunes by."""
_TYPES: Mapping[str, LogicalType] = {"year": INT, "month": STRING, "day": DATE, "hour": STRING, "truncate": STRING}
_SOURCE = r"\(\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))\s*"
_PATTERNS = {
    "year": re.compile(rf"(?i:YEAR){_SOURCE}\)"),
    "month": re.compile(rf"(?i:DATE_FORMAT){_SOURCE},\s*'yyyy-MM'\s*\)"),
    "day": re.compile(rf"(?i:CAST){_SOURCE}(?i:AS\s+DATE)\s*\)"),
    "hour": re.compile(rf"(?i:DATE_FORMAT){_SOURCE},\s*'yyyy-MM-dd-HH'\s*\)"),
    "truncate": re.compile(rf"(?i:SUBSTRING|SUBSTR){_SOURCE},\s*[01]\s*,\s*(?P<width>\d+)\s*\)"),
}
"""The same as others may write them; names ignore case, and patterns of dates don't."""
_TAKES = {"hour": {"timestamp"}, "truncate": {"string"}}


def known_generated(metadata: Metadata) -> list[Generated]:
    """Those generated columns that Partita can fill and prune by on its own."""
    fields = {f["name"].casefold(): f for f in metadata.schema["fields"]}
    found = []
    for name, text in generated_columns(metadata).items():
        for function, pattern in _PATTERNS.items():
            match = pattern.fullmatch(text.strip())
            if match is None:
                continue
            written = match["plain"] or match["quoted"].replace("``", "`")
            source = fields.get(written.casefold())
            # What a CHAR column generates may be made of its values with or without the spaces behind them.
            if source is None or _is_char(source):
                continue
            if source["type"] in _TAKES.get(function, {"date", "timestamp"}):
                width = int(match["width"]) if function == "truncate" else 0
                found.append(Generated(name, function, source["name"], width))
    return found


def created_schema(schema: Schema, functions: Iterable[PartitionFunction], *, mapped: bool) -> tuple[Json, list[str]]:
    """The schema's JSON of a new table, with a generated column for each function, and its partition columns."""
    _check_names(schema.fields, mapped=mapped)
    document: dict[str, Any] = cast("dict[str, Any]", schema_to_json(schema))
    partitions = []
    for function in functions:
        source = schema.find(function.source)
        if function.transform.name == "identity":
            _check_partitionable(source)
            partitions.append(source.name)
            continue
        document["fields"].append(_generated_field(function, source, schema))
        partitions.append(function.name)
    if len({name.casefold() for name in partitions}) < len(partitions):
        raise SpecError(f"a column is partitioned by twice: {', '.join(partitions)}")
    if len(partitions) == len(document["fields"]):
        raise SpecError("a Delta table needs a column that it is not partitioned by")
    return (_numbered(document) if mapped else document), partitions


def column_spec(names: Iterable[str], schema: Schema) -> PartitionSpec:
    """Delta partitions by columns, of more types than the other formats do."""
    columns = enumerate((schema.find(name) for name in names), FIRST_FIELD_ID)
    return PartitionSpec(
        0, tuple(PartitionField(c.name, c.name, Transform("identity"), at, c.type) for at, c in columns), Family.ICEBERG
    )


_WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")


_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")
"""What Delta refuses in the names of files' columns."""


def _check_names(fields: Sequence[Field], *, mapped: bool) -> None:
    """Names that Delta refuses, or that Spark can't tell apart."""
    check_distinct(field.name for field in fields)
    for field in fields:
        odd = "".join(sorted(_NEEDS_MAPPING & set(field.name)))
        if odd and not mapped:
            raise SchemaError(
                f"column {field.name!r} has {odd!r} in its name, which Delta takes only with the property "
                "delta.columnMapping.mode='name'"
            )
        if isinstance(field.type, StructType):
            _check_names(field.type.fields, mapped=mapped)


def _check_partitionable(column: Field) -> None:
    if column.type.kind not in PARTITIONABLE:
        raise SpecError(f"column {column.name!r} of type {column.type} can't partition a Delta table")


def _generated_field(function: PartitionFunction, source: Field, schema: Schema) -> dict[str, Any]:
    name = function.transform.name
    if name not in _FORMS or (name == "truncate" and source.type.kind is not Kind.STRING):
        raise SpecError(
            f"Delta partitions by columns, and has no {function}; add a column that holds it and partition by that, "
            "or use format='iceberg' or 'lance'"
        )
    if name != "truncate" and source.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise SpecError(f"{function} needs a date or a timestamp, and {source.name!r} is {source.type}")
    if name == "hour" and source.type.kind is Kind.DATE:
        raise SpecError(f"{function}: a date has no hour")
    if any(function.name.casefold() == other.casefold() for other in schema.names):
        raise SpecError(f"partition column {function.name!r} has the name of another; give it another")
    quoted = source.name if _WORD.fullmatch(source.name) else f"`{source.name.replace('`', '``')}`"
    text = _FORMS[name].format(quoted, *([function.transform.width] if name == "truncate" else []))
    made = cast("dict[str, Any]", schema_to_json(Schema((Field(function.name, _TYPES[name]),))))["fields"][0]
    return {**made, "metadata": {GENERATION: text}}


def _physical_struct(struct: Json, *, with_ids: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": [_physical_field(f, with_ids=with_ids) for f in struct["fields"]]}


def _physical_field(field: Json, *, with_ids: bool) -> dict[str, Any]:
    given = field.get("metadata") or {}
    metadata = {SPARK_FIELD_ID: given[_ID]} if with_ids and _ID in given else {}
    metadata |= {key: value for key, value in given.items() if key.startswith("__")}
    return {
        "name": given.get(_PHYSICAL, field["name"]),
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


def _numbered(document: dict[str, Any]) -> dict[str, Any]:
    """The schema with an id and a random physical name for each field, at every depth."""
    for number, field in enumerate(_fields(document), 1):
        field["metadata"] = {**(field.get("metadata") or {}), _ID: number, _PHYSICAL: f"col-{uuid4()}"}
    return document


def greatest_id(document: Json) -> int:
    """The greatest column id of a schema; 0 where it has none."""
    return max(((field.get("metadata") or {}).get(_ID, 0) for field in _fields(document)), default=0)


def _fields(node: Any) -> Iterator[dict[str, Any]]:
    """Every field of a type, at every depth, each before those inside it."""
    if isinstance(node, str):
        return
    for field in node.get("fields", ()):
        yield field
        yield from _fields(field["type"])
    for key in ("elementType", "keyType", "valueType"):
        yield from _fields(node.get(key, ""))
