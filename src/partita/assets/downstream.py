"""Which partitions of an asset are made from some partitions of its upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from partita.algebra.key import PartitionKey
from partita.algebra.mappings import chosen_upstream
from partita.status.definitions import Definition


def made_from(
    definition: Definition,
    known: Mapping[str, Definition],
    upstream: Mapping[str, AbstractSet[str]],
    keys: Iterable[str],
) -> set[str]:
    """Those of the keys that are made from any of the upstream partitions, which are given by asset."""
    given = list(keys)
    found: set[str] = set()
    for one in definition.upstreams:
        theirs = [PartitionKey.parse(key) for key in upstream.get(one.asset, ())]
        if not theirs:
            continue
        projected: dict[tuple[str, ...], set[tuple[object, ...]]] = {}
        for text in given:
            choice = chosen_upstream(
                one.mapping, definition.partitions, known[one.asset].partitions, [PartitionKey.parse(text)]
            )
            if choice.names not in projected:
                projected[choice.names] = {tuple(key[name] for name in choice.names) for key in theirs}
            if projected[choice.names] & set(choice.values):
                found.add(text)
    return found
