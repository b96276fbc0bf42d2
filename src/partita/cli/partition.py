"""Partitions and moments as people type them: `date=2025-01-15,region=us-east`, `2025-01-15T10:30:00Z`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.cli.dimension import key_of_words
from partita.errors import KeyFormatError, StatusError
from partita.status.shown import value_text

if TYPE_CHECKING:
    from partita.lake import Lake


def read_key(text: str, lake: Lake, asset: str) -> PartitionKey:
    """The key of canonical text, or of dimensions with commas between.

    The asset's partitions say the types of untyped values, where it is registered.
    """
    if not text:
        return PartitionKey.of()
    try:
        return PartitionKey.parse(text)
    except KeyFormatError:
        types = _types_of(lake, asset)
        return key_of_words(_typed(word, types) for word in text.split(","))


def read_moment(text: str) -> datetime:
    """A moment of ISO 8601; without a zone it is in UTC, and a date is its midnight."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise StatusError(f"{text!r} is no moment; write ISO 8601, as in 2025-01-15T10:30:00Z") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def key_words(text: str) -> str:
    """A canonical key as people read it and `read_key` takes it; one with an odd value as it is."""
    values = {name: value_text(value) for name, value in PartitionKey.parse(text).items()}
    is_odd = any("," in value or not value.isprintable() or value.strip() != value for value in values.values())
    return text if is_odd else ",".join(f"{name}={value}" for name, value in values.items()) or "-"


def _typed(word: str, types: Mapping[str, set[str]]) -> str:
    """The word with the type of its dimension, where it has none and there is no doubt."""
    head, equals, value = word.partition("=")
    found = set(types.get(head, ()))
    return f"{head}:{found.pop()}={value}" if equals and len(found) == 1 else word


def _types_of(lake: Lake, asset: str) -> dict[str, set[str]]:
    """The types of values that the dimensions of an asset have; those of dynamic ones are of the values so far."""
    from partita.algebra.partition_sets import Dynamic, Static
    from partita.algebra.windows import HOUR
    from partita.cli.dimension import type_name

    partitions = lake.partitions_of(asset)
    dimensions = () if partitions is None else partitions.dimensions
    dynamic = lake.dynamic_values(asset) if any(isinstance(d, Dynamic) for d in dimensions) else {}
    types: dict[str, set[str]] = {}
    for dimension in dimensions:
        if isinstance(dimension, Dynamic | Static):
            values = dimension.values if isinstance(dimension, Static) else dynamic.get(dimension.dimension, ())
            types[dimension.dimension] = {type_name(value) for value in values}
        else:
            types[dimension.dimension] = {"timestamp" if dimension.unit == HOUR else "date"}
    return types
