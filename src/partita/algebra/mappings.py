"""Upstream mappings: which partitions of an upstream asset one of ours is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from partita.algebra.key import PartitionKey, checked_name
from partita.algebra.key_text import KeyValue
from partita.algebra.partition_sets import Dimension, PartitionSet
from partita.algebra.windows import Windows
from partita.errors import DefinitionError, value_repr

KeyFunction: TypeAlias = Callable[[PartitionKey], Iterable[PartitionKey]]


@dataclass(frozen=True, slots=True)
class SameKey:
    """Dimensions of one name have one value; of time windows of different grids, those that overlap.

    A dimension that only the upstream has counts with all of its values.
    """

    def document(self) -> dict[str, Any]:
        """The mapping as JSON."""
        return {"mapping": "same_key"}


@dataclass(frozen=True, slots=True)
class WindowOffset:
    """As `SameKey`, but in one dimension the windows from `first` to `last` of ours on."""

    dimension: str
    first: int
    last: int

    def document(self) -> dict[str, Any]:
        """The mapping as JSON."""
        return {"mapping": "window_offset", "dimension": self.dimension, "first": self.first, "last": self.last}


@dataclass(frozen=True, slots=True)
class AllPartitions:
    """Each of ours needs every partition of the upstream."""

    def document(self) -> dict[str, Any]:
        """The mapping as JSON."""
        return {"mapping": "all_partitions"}


@dataclass(frozen=True, slots=True)
class MappedBy:
    """A function says which; only its name is recorded, so only a process that registered the asset can ask it."""

    name: str
    function: KeyFunction | None = field(default=None, compare=False)

    def document(self) -> dict[str, Any]:
        """The mapping as JSON."""
        return {"mapping": "function", "name": self.name}


Mapping: TypeAlias = SameKey | WindowOffset | AllPartitions | MappedBy


def same_key() -> SameKey:
    """Partitions with the same key; this is what an upstream without a mapping has.

    Time windows of other lengths are those that overlap: a month needs all of its days, a day the month that it is in.
    """
    return SameKey()


def window_offset(dimension: str, first: int, last: int | None = None) -> WindowOffset:
    """Windows before or after ours: -1 is the one before, and -6, 0 the last seven with ours."""
    last = first if last is None else last
    for number in (first, last):
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**31:
            raise DefinitionError(
                f"windows of {value_repr(dimension)} are counted by whole numbers, not {value_repr(number)}"
            )
    if last < first:
        raise DefinitionError(f"the windows from {first} to {last} of {dimension!r} are none")
    return WindowOffset(checked_name(dimension), first, last)


def all_partitions() -> AllPartitions:
    """Every partition of the upstream."""
    return AllPartitions()


def mapped_by(function: KeyFunction) -> MappedBy:
    """The partitions that a function of our key gives."""
    if not callable(function):
        raise DefinitionError(f"mapped_by takes a function of a partition's key, not {value_repr(function)}")
    name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"
    return MappedBy(name, function)


def mapping_of(document: dict[str, Any]) -> Mapping:
    """The mapping that its `document` gave."""
    kind = document["mapping"]
    if kind == "same_key":
        return SameKey()
    if kind == "window_offset":
        return WindowOffset(document["dimension"], document["first"], document["last"])
    if kind == "all_partitions":
        return AllPartitions()
    if kind == "function":
        return MappedBy(document["name"])
    raise DefinitionError(f"the upstream mapping {kind!r} is not known to this version of Partita")


def upstream_windows(mapping: Mapping, ours: Windows, theirs: Windows, ordinal: int) -> range:
    """The windows of an upstream's dimension that one of ours is made from."""
    shifted = isinstance(mapping, WindowOffset) and mapping.dimension == ours.dimension
    first, last = (mapping.first, mapping.last) if shifted else (0, 0)  # type: ignore[union-attr] # it is one
    return theirs.overlapping(ours, ordinal + first, ordinal + last)


@dataclass(frozen=True, slots=True)
class Choice:
    """Partitions by the values of some of their dimensions; without dimensions, all of them."""

    names: tuple[str, ...]
    values: tuple[tuple[KeyValue, ...], ...]


EVERYTHING = Choice((), ((),))


def chosen_upstream(mapping: Mapping, ours: PartitionSet, theirs: PartitionSet, keys: Iterable[PartitionKey]) -> Choice:
    """The partitions of an upstream that some of ours are made from."""
    if isinstance(mapping, AllPartitions):
        return EVERYTHING
    if isinstance(mapping, MappedBy):
        return _by_function(mapping, theirs, keys)
    shared = [(here, there) for there in theirs.dimensions if (here := ours.find(there.dimension)) is not None]
    if not shared:
        return EVERYTHING
    known: dict[tuple[str, KeyValue], Sequence[KeyValue]] = {}
    found: dict[tuple[KeyValue, ...], None] = {}
    for key in keys:
        columns = []
        for here, there in shared:
            value = (here.dimension, key[here.dimension])
            if value not in known:
                known[value] = _mapped_values(mapping, here, there, value[1])
            columns.append(known[value])
        found.update(dict.fromkeys(product(*columns)))
    return Choice(tuple(there.dimension for _, there in shared), tuple(found))


def asked_upstream(mapping: MappedBy, key: PartitionKey) -> Iterable[PartitionKey]:
    """The keys that a function gives, which must be keys; what goes wrong in it is wrong with the definition."""
    if mapping.function is None:
        raise DefinitionError(f"the mapping {mapping.name} is a function that this process doesn't have")
    try:
        given = tuple(mapping.function(key))
    except Exception as error:
        raise DefinitionError(f"{mapping.name} fails for {key}: {type(error).__name__}: {error}") from error
    for theirs in given:
        if not isinstance(theirs, PartitionKey):
            raise DefinitionError(f"{mapping.name} gave {theirs!r} for {key}, and not partition keys")
        yield theirs


def _by_function(mapping: MappedBy, theirs: PartitionSet, keys: Iterable[PartitionKey]) -> Choice:
    given = dict.fromkeys(one for key in keys for one in asked_upstream(mapping, key))
    for key in given:
        if tuple(key) != theirs.names:
            names = ", ".join(theirs.names) or "none"
            raise DefinitionError(f"{mapping.name} gave the key {key}, and the upstream's dimensions are: {names}")
    return Choice(theirs.names, tuple(tuple(key.values()) for key in given))


def _mapped_values(mapping: Mapping, here: Dimension, there: Dimension, value: KeyValue) -> Sequence[KeyValue]:
    if not isinstance(here, Windows) or not isinstance(there, Windows):
        return (value,)
    ordinal = here.ordinal(value)
    if ordinal is None:
        return (value,)
    # Windows outside of the years 1 to 9999 are in no key.
    with suppress(ValueError, OverflowError):
        return [there.value(window) for window in upstream_windows(mapping, here, there, ordinal)]
    return ()
