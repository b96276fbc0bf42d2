"""Partition mappings: which partitions of an upstream asset a downstream partition is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from partita.algebra.key import PartitionKey, check_dimension_name
from partita.algebra.key_label import key_label
from partita.algebra.key_text import KeyValue
from partita.algebra.partition_sets import Dimension, PartitionSet
from partita.algebra.time_windows import TimeWindows
from partita.errors import DefinitionError, value_repr

KeyFunction: TypeAlias = Callable[[PartitionKey], Iterable[PartitionKey]]


@dataclass(frozen=True, slots=True)
class SameKeyMapping:
    """Dimensions with the same name have the same value; time windows of different grids match if they overlap.

    A dimension that only the upstream has matches with all of its values.
    """

    def document(self) -> dict[str, Any]:
        """Return the mapping as JSON."""
        return {"mapping": "same_key"}


@dataclass(frozen=True, slots=True)
class WindowOffsetMapping:
    """Like `SameKeyMapping`, but one dimension matches the windows from offset `first` to `last`."""

    dimension: str
    first: int
    last: int

    def document(self) -> dict[str, Any]:
        """Return the mapping as JSON."""
        return {"mapping": "window_offset", "dimension": self.dimension, "first": self.first, "last": self.last}


@dataclass(frozen=True, slots=True)
class AllPartitionsMapping:
    """Each downstream partition needs all partitions of the upstream."""

    def document(self) -> dict[str, Any]:
        """Return the mapping as JSON."""
        return {"mapping": "all_partitions"}


@dataclass(frozen=True, slots=True)
class FunctionMapping:
    """A function of the key; only its name is recorded, so only a process that registered the asset can call it."""

    name: str
    function: KeyFunction | None = field(default=None, compare=False)

    def document(self) -> dict[str, Any]:
        """Return the mapping as JSON."""
        return {"mapping": "function", "name": self.name}


PartitionMapping: TypeAlias = SameKeyMapping | WindowOffsetMapping | AllPartitionsMapping | FunctionMapping


def same_key() -> SameKeyMapping:
    """Map to the partitions with the same key; this is the default mapping.

    Dimensions of the same name have the same value. Time windows of different lengths match if they overlap: a month
    needs all of its days, a day needs its month. A dimension that only the upstream has matches with all of its values.
    """
    return SameKeyMapping()


def window_offset(dimension: str, first: int, last: int | None = None) -> WindowOffsetMapping:
    """Map to other time windows of a dimension; other dimensions match as with `same_key`.

    `window_offset("date", -1)` is the previous day, `window_offset("date", -6, 0)` the last seven days with the day
    itself.

    Args:
        dimension: a dimension of time windows.
        first: the offset of the first window, in windows.
        last: the offset of the last window; by default `first`.
    """
    last = first if last is None else last
    for number in (first, last):
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**31:
            raise DefinitionError(
                f"the window offsets of {value_repr(dimension)} must be 32-bit integers, not {value_repr(number)}"
            )
    if last < first:
        raise DefinitionError(f"the window offsets of {dimension!r} are an empty range: {first} to {last}")
    return WindowOffsetMapping(check_dimension_name(dimension), first, last)


def all_partitions() -> AllPartitionsMapping:
    """Map every partition to all partitions of the upstream."""
    return AllPartitionsMapping()


def mapped_by(function: KeyFunction) -> FunctionMapping:
    """Map to the partitions that a function returns for the key of the downstream partition.

    Only the name of the function is recorded. A process that hasn't registered the asset can't call it, and reports the
    staleness that the last `lake.sweep` stored.

    Args:
        function: a function of a `PartitionKey` that returns the keys of the upstream.
    """
    if not callable(function):
        raise DefinitionError(f"mapped_by takes a function of a partition key, not {value_repr(function)}")
    name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"
    return FunctionMapping(name, function)


def mapping_from_document(document: dict[str, Any]) -> PartitionMapping:
    """Return the mapping from its JSON."""
    kind = document["mapping"]
    if kind == "same_key":
        return SameKeyMapping()
    if kind == "window_offset":
        return WindowOffsetMapping(document["dimension"], document["first"], document["last"])
    if kind == "all_partitions":
        return AllPartitionsMapping()
    if kind == "function":
        return FunctionMapping(document["name"])
    raise DefinitionError(f"unknown upstream mapping {kind!r}; a newer version of Partita wrote it")


def upstream_windows(mapping: PartitionMapping, downstream: TimeWindows, upstream: TimeWindows, ordinal: int) -> range:
    """Return the ordinals of the upstream windows that a downstream window is made from."""
    has_offset = isinstance(mapping, WindowOffsetMapping) and mapping.dimension == downstream.name
    first, last = (mapping.first, mapping.last) if has_offset else (0, 0)  # type: ignore[union-attr] # a WindowOffsetMapping
    return upstream.overlapping_ordinals(downstream, ordinal + first, ordinal + last)


@dataclass(frozen=True, slots=True)
class DimensionSelection:
    """Partitions selected by the values of some of their dimensions; without dimensions, all partitions."""

    names: tuple[str, ...]
    values: tuple[tuple[KeyValue, ...], ...]


ALL_PARTITIONS = DimensionSelection((), ((),))


def upstream_selection(
    mapping: PartitionMapping, downstream: PartitionSet, upstream: PartitionSet, keys: Iterable[PartitionKey]
) -> DimensionSelection:
    """Return the upstream partitions that the downstream partitions with the given keys are made from."""
    if isinstance(mapping, AllPartitionsMapping):
        return ALL_PARTITIONS
    if isinstance(mapping, FunctionMapping):
        return _selection_by_function(mapping, upstream, keys)
    dimension_pairs = [
        (dimension, parent)
        for parent in upstream.dimensions
        if (dimension := downstream.find_dimension(parent.name)) is not None
    ]
    if not dimension_pairs:
        return ALL_PARTITIONS
    mapped_values: dict[tuple[str, KeyValue], Sequence[KeyValue]] = {}
    combinations: dict[tuple[KeyValue, ...], None] = {}
    for key in keys:
        columns = []
        for dimension, parent in dimension_pairs:
            value = (dimension.name, key[dimension.name])
            if value not in mapped_values:
                mapped_values[value] = _upstream_values(mapping, dimension, parent, value[1])
            columns.append(mapped_values[value])
        combinations.update(dict.fromkeys(product(*columns)))
    return DimensionSelection(tuple(parent.name for _, parent in dimension_pairs), tuple(combinations))


def upstream_keys(mapping: FunctionMapping, key: PartitionKey) -> Iterable[PartitionKey]:
    """Return the keys that the function maps a key to; raise `DefinitionError` if it fails or returns other values."""
    if mapping.function is None:
        raise DefinitionError(f"the mapping {mapping.name} is a function that this process has not registered")
    try:
        mapped_keys = tuple(mapping.function(key))
    except Exception as error:
        raise DefinitionError(f"{mapping.name} fails for {key_label(key)}: {type(error).__name__}: {error}") from error
    for mapped_key in mapped_keys:
        if not isinstance(mapped_key, PartitionKey):
            raise DefinitionError(
                f"{mapping.name} must return partition keys, and returned {mapped_key!r} for {key_label(key)}"
            )
        yield mapped_key


def _selection_by_function(
    mapping: FunctionMapping, upstream: PartitionSet, keys: Iterable[PartitionKey]
) -> DimensionSelection:
    mapped_keys = dict.fromkeys(mapped_key for key in keys for mapped_key in upstream_keys(mapping, key))
    for key in mapped_keys:
        if tuple(key) != upstream.names:
            names = ", ".join(upstream.names) or "none"
            label = key_label(key, empty="without dimensions")
            raise DefinitionError(
                f"{mapping.name} returned the key {label}, but the upstream's dimensions are: {names}"
            )
    return DimensionSelection(upstream.names, tuple(tuple(key.values()) for key in mapped_keys))


def _upstream_values(
    mapping: PartitionMapping, downstream: Dimension, upstream: Dimension, value: KeyValue
) -> Sequence[KeyValue]:
    if not isinstance(downstream, TimeWindows) or not isinstance(upstream, TimeWindows):
        return (value,)
    ordinal = downstream.ordinal_of(value)
    if ordinal is None:
        return (value,)
    # No key can hold a window outside of the years 1 to 9999.
    with suppress(ValueError, OverflowError):
        return [upstream.key_value(window) for window in upstream_windows(mapping, downstream, upstream, ordinal)]
    return ()
