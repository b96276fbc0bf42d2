"""The canonical JSON of nested values (see `partita.algebra.hashing`), as Spark Columns.

Spark's `to_json` leaves nulls out, escapes other characters and keeps the order of maps, so the text is made here.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from partita.algebra.types import (
    BYTES,
    FLOATS,
    INTEGERS,
    NESTED,
    DecimalType,
    Kind,
    ListType,
    LogicalType,
    MapType,
    StructType,
)  # fmt: skip
from partita.errors import SchemaError
from partita.spark.base64 import base64url
from partita.spark.decimals import decimal_text
from partita.spark.instants import OUTSIDE, date_text, time_text, timestamp_ntz_text, timestamp_text


def canonical_json(column: Column, type_: LogicalType) -> Column:
    """The text of a nested value; null of null."""
    if isinstance(type_, StructType):
        members = sorted(type_.fields, key=lambda f: f.name)
        texts = [(json.dumps(f.name, ensure_ascii=False), _member(column.getField(f.name), f.type)) for f in members]
        pieces = [piece for name, text in texts for piece in (F.lit(","), F.lit(f"{name}:"), text)][1:]
        return F.when(column.isNotNull(), F.concat(F.lit("{"), *pieces, F.lit("}")))
    if isinstance(type_, ListType):
        element = type_.element
        texts_of = F.transform(column, lambda item: _member(item, element))
        return F.concat(F.lit("["), F.array_join(texts_of, ","), F.lit("]"))
    if isinstance(type_, MapType):
        return _map_text(column, type_)
    text = scalar_text(column, type_)
    return text if type_.kind in INTEGERS or type_.kind is Kind.BOOLEAN else _quoted(text)


def scalar_text(column: Column, type_: LogicalType) -> Column:
    """The text of a value that is not nested, before quotes and escapes."""
    if isinstance(type_, DecimalType):
        return decimal_text(column, type_.scale)
    rule = _TEXTS.get(type_.kind)
    if rule is None:
        raise SchemaError(f"a value of type {type_} has no canonical text")
    return rule(column)


def _member(column: Column, type_: LogicalType) -> Column:
    if type_.kind is Kind.NULL:
        return F.lit("null")
    return F.coalesce(canonical_json(column, type_), F.lit("null"))


def _map_text(column: Column, type_: MapType) -> Column:
    if type_.key.kind in NESTED:
        raise SchemaError(f"a key of type {type_.key} has no canonical text: in JSON a key is text")
    entries = F.transform(
        F.map_entries(column),
        lambda entry: F.struct(
            scalar_text(entry.getField("key"), type_.key).alias("name"),
            _member(entry.getField("value"), type_.value).alias("text"),
        ),
    )
    members = F.transform(
        F.array_sort(entries),
        lambda entry: F.concat(_quoted(entry.getField("name")), F.lit(":"), entry.getField("text")),
    )
    names = F.transform(entries, lambda entry: entry.getField("name"))
    text = F.concat(F.lit("{"), F.array_join(members, ","), F.lit("}"))
    twice = F.size(F.array_distinct(names)) < F.size(names)
    return F.when(twice, F.raise_error(F.lit("a map with one key twice has no canonical text"))).otherwise(text)


_ESCAPED = r'[\x00-\x1f"\\]'


def _quoted(text: Column) -> Column:
    """A JSON string; only what JSON makes one escape is escaped, as Python's `json` does it."""
    characters = ["\\", '"', *map(chr, range(0x20))]
    pairs = [F.struct(F.lit(c).alias("plain"), F.lit(json.dumps(c)[1:-1]).alias("escaped")) for c in characters]
    escaped = F.aggregate(
        F.array(*pairs), text, lambda done, pair: F.replace(done, pair.getField("plain"), pair.getField("escaped"))
    )
    return F.concat(F.lit('"'), F.when(text.rlike(_ESCAPED), escaped).otherwise(text), F.lit('"'))


def _float_text(column: Column) -> Column:
    number = column.cast("double")
    # Java's %a is the canonical text but for -0.0; of null it makes the text `null`.
    return F.when(number == F.lit(0.0), F.lit("0x0.0p0")).when(number.isNotNull(), F.format_string("%a", number))


def _as_text(column: Column) -> Column:
    return column.cast("string")


_TEXTS: dict[Kind, Callable[[Column], Column]] = {
    **dict.fromkeys({Kind.BOOLEAN, *INTEGERS}, _as_text),
    **dict.fromkeys(FLOATS, _float_text),
    Kind.STRING: lambda c: c,
    **dict.fromkeys(BYTES, base64url),
    Kind.DATE: lambda c: date_text(c, OUTSIDE),
    Kind.TIME: time_text,
    Kind.TIMESTAMP: lambda c: timestamp_text(c, OUTSIDE),
    Kind.TIMESTAMP_NTZ: lambda c: timestamp_ntz_text(c, OUTSIDE),
}
