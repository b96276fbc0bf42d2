"""The canonical JSON of nested values (see `partita.algebra.hashing`), as Spark Columns.

Spark's `to_json` omits nulls, escapes other characters and keeps the order of maps, so the text is built here.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.types import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    DecimalType,
    ListType,
    LogicalType,
    MapType,
    StructType,
    TypeKind,
)  # fmt: skip
from partita.errors import SchemaError
from partita.spark.base64url import base64url
from partita.spark.datetimes import OUTSIDE_YEARS_PROBLEM, date_text, time_text, timestamp_ntz_text, timestamp_text
from partita.spark.decimals import decimal_text


def canonical_json(column: Column, type_: LogicalType) -> Column:
    """Return the canonical JSON of a value; null for null."""
    if isinstance(type_, StructType):
        members = sorted(type_.fields, key=lambda f: f.name)
        texts = [
            (json.dumps(f.name, ensure_ascii=False), _member_text(column.getField(f.name), f.type)) for f in members
        ]
        pieces = [piece for name, text in texts for piece in (F.lit(","), F.lit(f"{name}:"), text)][1:]
        return F.when(column.isNotNull(), F.concat(F.lit("{"), *pieces, F.lit("}")))
    if isinstance(type_, ListType):
        element = type_.element
        element_texts = F.transform(column, lambda item: _member_text(item, element))
        return F.concat(F.lit("["), F.array_join(element_texts, ","), F.lit("]"))
    if isinstance(type_, MapType):
        return _map_text(column, type_)
    text = scalar_text(column, type_)
    return text if type_.kind in INTEGER_KINDS or type_.kind is TypeKind.BOOLEAN else _json_string(text)


def scalar_text(column: Column, type_: LogicalType) -> Column:
    """Return the text of a value that is not nested, without quotes and escapes."""
    if isinstance(type_, DecimalType):
        return decimal_text(column, type_.scale)
    rule = _SCALAR_TEXT_RULES.get(type_.kind)
    if rule is None:
        raise SchemaError(f"a value of type {type_} has no canonical text")
    return rule(column)


def _member_text(column: Column, type_: LogicalType) -> Column:
    if type_.kind is TypeKind.NULL:
        return F.lit("null")
    return F.coalesce(canonical_json(column, type_), F.lit("null"))


def _map_text(column: Column, type_: MapType) -> Column:
    if type_.key.kind in NESTED_KINDS:
        raise SchemaError(f"a key of type {type_.key} has no canonical text: in JSON a key is text")
    entries = F.transform(
        F.map_entries(column),
        lambda entry: F.struct(
            scalar_text(entry.getField("key"), type_.key).alias("name"),
            _member_text(entry.getField("value"), type_.value).alias("text"),
        ),
    )
    members = F.transform(
        F.array_sort(entries),
        lambda entry: F.concat(_json_string(entry.getField("name")), F.lit(":"), entry.getField("text")),
    )
    names = F.transform(entries, lambda entry: entry.getField("name"))
    text = F.concat(F.lit("{"), F.array_join(members, ","), F.lit("}"))
    has_duplicates = F.size(F.array_distinct(names)) < F.size(names)
    return F.when(has_duplicates, F.raise_error(F.lit("a map with a duplicate key has no canonical text"))).otherwise(
        text
    )


_ESCAPED_CHARACTERS = r'[\x00-\x1f"\\]'


def _json_string(text: Column) -> Column:
    """Return a JSON string that escapes only what JSON requires, as Python's `json` does."""
    characters = ["\\", '"', *map(chr, range(0x20))]
    pairs = [F.struct(F.lit(c).alias("plain"), F.lit(json.dumps(c)[1:-1]).alias("escaped")) for c in characters]
    escaped_text = F.aggregate(
        F.array(*pairs), text, lambda result, pair: F.replace(result, pair.getField("plain"), pair.getField("escaped"))
    )
    return F.concat(F.lit('"'), F.when(text.rlike(_ESCAPED_CHARACTERS), escaped_text).otherwise(text), F.lit('"'))


def _float_text(column: Column) -> Column:
    number = column.cast("double")
    # Java's %a is the canonical text except for -0.0; null would become the text `null`.
    return F.when(number == F.lit(0.0), F.lit("0x0.0p0")).when(number.isNotNull(), F.format_string("%a", number))


def _cast_to_string(column: Column) -> Column:
    return column.cast("string")


_SCALAR_TEXT_RULES: dict[TypeKind, Callable[[Column], Column]] = {
    **dict.fromkeys({TypeKind.BOOLEAN, *INTEGER_KINDS}, _cast_to_string),
    **dict.fromkeys(FLOAT_KINDS, _float_text),
    TypeKind.STRING: lambda c: c,
    **dict.fromkeys(BINARY_KINDS, base64url),
    TypeKind.DATE: lambda c: date_text(c, OUTSIDE_YEARS_PROBLEM),
    TypeKind.TIME: time_text,
    TypeKind.TIMESTAMP: lambda c: timestamp_text(c, OUTSIDE_YEARS_PROBLEM),
    TypeKind.TIMESTAMP_NTZ: lambda c: timestamp_ntz_text(c, OUTSIDE_YEARS_PROBLEM),
}
