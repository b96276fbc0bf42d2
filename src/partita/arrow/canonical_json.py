"""Canonical JSON (see `partita.algebra.hashing`) over arrays: each nested array joins the texts of its children."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.types import INTEGER_KINDS, NESTED_KINDS, ListType, LogicalType, MapType, StructType, TypeKind
from partita.arrow.buffers import Array, BinaryBuffers, Ints, dense_array, null_mask, offsets_from_lengths
from partita.arrow.scalar_text import join_texts, scalar_texts
from partita.arrow.schema import to_logical_type
from partita.errors import PartitionsError, SchemaError


def json_texts(array: Array, type_: LogicalType) -> Array:
    """Return the canonical JSON of every value, as `large_string`; a null is the text `null`."""
    values = dense_array(array)
    if pa.types.is_null(values.type):
        return pa.repeat(_text_scalar("null"), len(values))
    if type_.kind in NESTED_KINDS and to_logical_type(values.type).kind is not type_.kind:
        raise PartitionsError(f"an Arrow array of {values.type} does not hold values of type {type_}")
    if isinstance(type_, StructType):
        texts = _struct_texts(values, type_)
    elif isinstance(type_, ListType):
        texts = _list_texts(values, type_)
    elif isinstance(type_, MapType):
        texts = _map_texts(values, type_)
    elif type_.kind in INTEGER_KINDS or type_.kind is TypeKind.BOOLEAN:
        texts = scalar_texts(values, type_)
    else:
        texts = quote_texts(scalar_texts(values, type_))
    return pc.if_else(pc.is_valid(values), texts, _text_scalar("null")) if values.null_count else texts


def quote_texts(texts: Array) -> Array:
    """Return JSON strings, as `json.dumps(text, ensure_ascii=False)` writes them; null stays null."""
    return join_texts('"', _escape_texts(texts), '"')


def _struct_texts(array: Array, type_: StructType) -> Array:
    members = sorted(type_.fields, key=lambda field: field.name)
    if not members:
        return pa.repeat(_text_scalar("{}"), len(array))
    if len({field.name for field in members}) < len(members):
        raise SchemaError("a struct with a duplicate name has no canonical text")
    parts: list[object] = []
    for field in members:
        parts += [f"{',' if parts else '{'}{json.dumps(field.name, ensure_ascii=False)}:"]
        parts += [json_texts(_struct_field(array, field.name), field.type)]
    return join_texts(*parts, "}")


def _struct_field(array: Array, name: str) -> Array:
    """Return the field with the given name; all nulls if the array has none."""
    index = array.type.get_field_index(name)
    return array.field(index) if index >= 0 else pa.nulls(len(array))


def _list_texts(array: Array, type_: ListType) -> Array:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return _join_list_texts("[", json_texts(array.flatten(), type_.element), lengths.astype(np.int64), "]")


def _map_texts(array: Array, type_: MapType) -> Array:
    entry = pa.struct([pa.field("key", array.type.key_type, nullable=False), pa.field("value", array.type.item_type)])
    lists = pc.cast(array, pa.list_(entry))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = lists.flatten()
    keys = scalar_texts(dense_array(entries.field(0)), type_.key)
    values = json_texts(entries.field(1), type_.value)
    rows = np.repeat(np.arange(len(array)), lengths)
    order = pc.sort_indices(pa.table({"row": rows, "key": keys}), [("row", "ascending"), ("key", "ascending")])
    keys, values = keys.take(order), values.take(order)
    if len(keys) > 1 and pc.any(pc.and_(pc.equal(keys[1:], keys[:-1]), pa.array(rows[1:] == rows[:-1]))).as_py():
        raise SchemaError("a map with a duplicate key has no canonical text")
    return _join_list_texts("{", join_texts(quote_texts(keys), ":", values), lengths, "}")


def _join_list_texts(opening: str, texts: Array, lengths: Ints, closing: str) -> Array:
    """Join groups of texts, of the given lengths, with commas and enclose them in brackets."""
    lists = pa.ListArray.from_arrays(pa.array(offsets_from_lengths(lengths), pa.int32()), texts)
    return join_texts(opening, pc.binary_join(lists, _text_scalar(",")), closing)


_ESCAPES = {octet: json.dumps(chr(octet))[1:-1].encode() for octet in [*range(0x20), ord('"'), ord("\\")]}
_ESCAPED_WIDTHS = np.ones(256, np.int64)
_ESCAPED_WIDTHS[list(_ESCAPES)] = [len(escape) for escape in _ESCAPES.values()]


def _escape_texts(texts: Array) -> Array:
    buffers = BinaryBuffers.from_array(texts)
    is_escaped = _ESCAPED_WIDTHS[buffers.octets] > 1
    if not is_escaped.any():
        return texts
    starts = offsets_from_lengths(_ESCAPED_WIDTHS[buffers.octets])
    octets = np.empty(int(starts[-1]), np.uint8)
    octets[starts[:-1][~is_escaped]] = buffers.octets[~is_escaped]
    for octet in np.unique(buffers.octets[is_escaped]):
        escape = np.frombuffer(_ESCAPES[int(octet)], np.uint8)
        octets[starts[:-1][buffers.octets == octet][:, None] + np.arange(len(escape))] = escape
    return BinaryBuffers(octets, starts[buffers.offsets]).to_array(pa.large_string(), null_mask(texts))


def _text_scalar(text: str) -> object:
    return pa.scalar(text, pa.large_string())
