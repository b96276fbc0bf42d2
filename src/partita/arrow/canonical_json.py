"""Canonical JSON of nested values (`partita.algebra.hashing`) over arrays: each parent joins its children's texts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.types import INTEGERS, NESTED, Kind, ListType, LogicalType, MapType, StructType
from partita.arrow.buffers import Array, Ints, Runs, null_mask, offsets_of, one_array
from partita.arrow.scalar_text import join, scalar_texts
from partita.arrow.schema import to_logical
from partita.errors import PartitionsError, SchemaError


def json_texts(array: Array, type_: LogicalType) -> Array:
    """The canonical JSON of every value, as `large_string` without nulls: a null is the text `null`."""
    whole = one_array(array)
    if pa.types.is_null(whole.type):
        return pa.repeat(_text("null"), len(whole))
    if type_.kind in NESTED and to_logical(whole.type).kind is not type_.kind:
        raise PartitionsError(f"an Arrow array of {whole.type} does not hold values of type {type_}")
    if isinstance(type_, StructType):
        texts = _structs(whole, type_)
    elif isinstance(type_, ListType):
        texts = _lists(whole, type_)
    elif isinstance(type_, MapType):
        texts = _maps(whole, type_)
    elif type_.kind in INTEGERS or type_.kind is Kind.BOOLEAN:
        texts = scalar_texts(whole, type_)
    else:
        texts = quoted(scalar_texts(whole, type_))
    return pc.if_else(pc.is_valid(whole), texts, _text("null")) if whole.null_count else texts


def quoted(texts: Array) -> Array:
    """The texts as JSON strings, as `json.dumps(text, ensure_ascii=False)` writes them; null stays null."""
    return join('"', _escaped(texts), '"')


def _structs(array: Array, type_: StructType) -> Array:
    members = sorted(type_.fields, key=lambda field: field.name)
    if not members:
        return pa.repeat(_text("{}"), len(array))
    if len({field.name for field in members}) < len(members):
        raise SchemaError("a struct with one name twice has no canonical text")
    parts: list[object] = []
    for field in members:
        parts += [f"{',' if parts else '{'}{json.dumps(field.name, ensure_ascii=False)}:"]
        parts += [json_texts(_child(array, field.name), field.type)]
    return join(*parts, "}")


def _child(array: Array, name: str) -> Array:
    """The field of that name, null in every row where the array has none."""
    at = array.type.get_field_index(name)
    return array.field(at) if at >= 0 else pa.nulls(len(array))


def _lists(array: Array, type_: ListType) -> Array:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return _joined("[", json_texts(array.flatten(), type_.element), lengths.astype(np.int64), "]")


def _maps(array: Array, type_: MapType) -> Array:
    entry = pa.struct([pa.field("key", array.type.key_type, nullable=False), pa.field("value", array.type.item_type)])
    lists = pc.cast(array, pa.list_(entry))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = lists.flatten()
    keys = scalar_texts(one_array(entries.field(0)), type_.key)
    values = json_texts(entries.field(1), type_.value)
    rows = np.repeat(np.arange(len(array)), lengths)
    order = pc.sort_indices(pa.table({"row": rows, "key": keys}), [("row", "ascending"), ("key", "ascending")])
    keys, values = keys.take(order), values.take(order)
    if len(keys) > 1 and pc.any(pc.and_(pc.equal(keys[1:], keys[:-1]), pa.array(rows[1:] == rows[:-1]))).as_py():
        raise SchemaError("a map with one key twice has no canonical text")
    return _joined("{", join(quoted(keys), ":", values), lengths, "}")


def _joined(opening: str, texts: Array, lengths: Ints, closing: str) -> Array:
    """The texts in groups of those lengths, with commas between them, in brackets."""
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), texts)
    return join(opening, pc.binary_join(lists, _text(",")), closing)


_ESCAPES = {octet: json.dumps(chr(octet))[1:-1].encode() for octet in [*range(0x20), ord('"'), ord("\\")]}
_WIDTHS = np.ones(256, np.int64)
_WIDTHS[list(_ESCAPES)] = [len(escape) for escape in _ESCAPES.values()]


def _escaped(texts: Array) -> Array:
    runs = Runs.of(texts)
    special = _WIDTHS[runs.octets] > 1
    if not special.any():
        return texts
    starts = offsets_of(_WIDTHS[runs.octets])
    octets = np.empty(int(starts[-1]), np.uint8)
    octets[starts[:-1][~special]] = runs.octets[~special]
    for octet in np.unique(runs.octets[special]):
        escape = np.frombuffer(_ESCAPES[int(octet)], np.uint8)
        octets[starts[:-1][runs.octets == octet][:, None] + np.arange(len(escape))] = escape
    return Runs(octets, starts[runs.offsets]).to_array(pa.large_string(), null_mask(texts))


def _text(text: str) -> object:
    return pa.scalar(text, pa.large_string())
