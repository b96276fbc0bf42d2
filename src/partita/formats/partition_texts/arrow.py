"""Columns of partition texts as typed Arrow arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from partita.algebra.schema import Schema
from partita.algebra.types import INTEGER_KINDS, CharType, Field
from partita.arrow.schema import to_arrow_type
from partita.errors import PartitionValueError
from partita.formats.partition_texts.deserialization import parse_partition


def typed_column(texts: pa.Array, field: Field, time_zone: str = "UTC") -> pa.Array:
    """Parse the texts of a partition column; each distinct text is parsed once.

    `time_zone` is that of timestamps without a zone. Raises `PartitionValueError` for a text that is not a value of the
    column.
    """
    encoded_texts = texts.dictionary_encode()
    numbers = _integer_values(encoded_texts.dictionary, field)
    if numbers is not None:
        return numbers.take(encoded_texts.indices)
    distinct = [_parse_value(text, field, time_zone) for text in encoded_texts.dictionary.to_pylist()]
    try:
        return pa.array(distinct, to_arrow_type(field.type)).take(encoded_texts.indices)
    except (pa.ArrowException, OverflowError) as error:
        raise PartitionValueError(field.name, f"a value that Arrow's {field.type} holds", str(error)) from error


def _integer_values(texts: pa.Array, field: Field) -> pa.Array | None:
    """Cast all texts to integers at once; None if one of them needs `_parse_value`."""
    if field.type.kind not in INTEGER_KINDS or not pc.all(pc.match_substring_regex(texts, "^-?[0-9]{1,18}$")).as_py():
        return None
    try:
        return texts.cast(pa.int64()).cast(to_arrow_type(field.type))
    except pa.ArrowException:
        return None


def _parse_value(text: str, field: Field, time_zone: str) -> object:
    value = parse_partition({field.name: text}, Schema((field,)), time_zone=time_zone)[field.name]
    # The log has values of CHAR columns with or without their trailing spaces; readers see them with spaces.
    return value.ljust(field.type.length) if isinstance(field.type, CharType) and isinstance(value, str) else value
