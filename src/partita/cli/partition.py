"""Partitions and moments as people type them: `date=2025-01-15,region=us-east`, `2025-01-15T10:30:00Z`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from partita.algebra.key import PartitionKey
from partita.cli.dimension import key_of_words
from partita.errors import KeyFormatError, StatusError
from partita.status.shown import value_text

if TYPE_CHECKING:
    from partita.algebra.partition_sets import Dimension, PartitionSet


def read_key(text: str, partitions: PartitionSet | None) -> PartitionKey:
    """The key of canonical text, or of dimensions with commas between.

    Where the asset's partitions are known, they say the types of untyped values.
    """
    if not text:
        return PartitionKey.of()
    try:
        return PartitionKey.parse(text)
    except KeyFormatError:
        return key_of_words(_typed(word, partitions) for word in text.split(","))


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


def _typed(word: str, partitions: PartitionSet | None) -> str:
    """The word with the type of its dimension, where it has none and there is no doubt."""
    head, equals, value = word.partition("=")
    dimension = None if partitions is None or ":" in head else partitions.find(head)
    types = set() if dimension is None else set(_types(dimension))
    return f"{head}:{types.pop()}={value}" if equals and len(types) == 1 else word


def _types(dimension: Dimension) -> Iterator[str]:
    from partita.algebra.partition_sets import Static
    from partita.algebra.windows import HOUR, Windows
    from partita.cli.dimension import type_name

    if isinstance(dimension, Windows):
        yield "timestamp" if dimension.unit == HOUR else "date"
    elif isinstance(dimension, Static):
        yield from (type_name(value) for value in dimension.values)
