"""Arguments that are keys or times: `date=2025-01-15,region=us-east`, `2025-01-15T10:30:00Z`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.algebra.key_label import value_label
from partita.cli.dimension_text import key_from_words
from partita.errors import KeyFormatError, StatusError

if TYPE_CHECKING:
    from partita.lake import Lake


def parse_key(text: str, lake: Lake, asset: str) -> PartitionKey:
    """Parse a key in canonical form, or as `NAME=VALUE` pairs with commas between them.

    A value without a type has the type of the asset's dimension, if the asset is registered.
    """
    if not text:
        return PartitionKey.of()
    try:
        return PartitionKey.parse(text)
    except KeyFormatError:
        types = _dimension_types(lake, asset)
        return key_from_words(_add_type(word, types) for word in text.split(","))


def parse_timestamp(text: str) -> datetime:
    """Parse an ISO 8601 time; without an offset it is in UTC, and a date is its midnight."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        raise StatusError(f"{text!r} is not a time; write ISO 8601, as in 2025-01-15T10:30:00Z") from None
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp


def key_argument(text: str) -> str:
    """Return a canonical key as `NAME=VALUE` pairs that `parse_key` accepts as the key, `-` if the key is empty.

    A key stays canonical if a value contains a comma, an unprintable character or outer spaces. Long values are whole,
    unlike those of labels.
    """
    values = {name: value_label(value) for name, value in PartitionKey.parse(text).items()}
    is_ambiguous = any("," in value or not value.isprintable() or value.strip() != value for value in values.values())
    return text if is_ambiguous else ",".join(f"{name}={value}" for name, value in values.items()) or "-"


def _add_type(word: str, types: Mapping[str, set[str]]) -> str:
    """Add the type of the dimension to a word without a type, if the dimension has exactly one type."""
    name, equals, value = word.partition("=")
    dimension_types = tuple(types.get(name, ()))
    return f"{name}:{dimension_types[0]}={value}" if equals and len(dimension_types) == 1 else word


def _dimension_types(lake: Lake, asset: str) -> dict[str, set[str]]:
    """Return the types of the values of each dimension; for a dynamic dimension, of the values recorded so far."""
    from partita.algebra.calendar import HOUR
    from partita.algebra.partition_sets import DynamicDimension, StaticDimension
    from partita.cli.dimension_text import key_type_name

    partitions = lake.partitions_of(asset)
    dimensions = () if partitions is None else partitions.dimensions
    dynamic_values = lake.dynamic_values(asset) if any(isinstance(d, DynamicDimension) for d in dimensions) else {}
    types: dict[str, set[str]] = {}
    for dimension in dimensions:
        if isinstance(dimension, DynamicDimension | StaticDimension):
            values = (
                dimension.values if isinstance(dimension, StaticDimension) else dynamic_values.get(dimension.name, ())
            )
            types[dimension.name] = {key_type_name(value) for value in values}
        else:
            types[dimension.name] = {"timestamp" if dimension.unit == HOUR else "date"}
    return types
