"""What a plan is asked for: which needs there are, and which assets words name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from partita.errors import PlanError
from partita.status.definitions import Definition

NEEDS = ("missing", "stale", "failed")
"""Why a partition may have to run."""


def selected(select: Sequence[str], definitions: Mapping[str, Definition]) -> set[str]:
    """The assets that words name; no words name all.

    A word is an asset's name or `tag:word`; a `+` before it takes its upstreams in, one after it what is made from it.
    A name may have these signs in it: a word that is one as it stands means that asset alone.
    """
    if not select:
        return set(definitions)
    upstreams = {name: {u.asset for u in d.upstreams} for name, d in definitions.items()}
    downstreams: dict[str, set[str]] = {}
    for name, above in upstreams.items():
        for one in above:
            downstreams.setdefault(one, set()).add(name)
    found: set[str] = set()
    for word in select:
        names, before, after = _read(word, definitions)
        if not names:
            known = ", ".join(sorted(definitions)) or "no asset"
            raise PlanError(f"nothing is selected by {word!r}; there is: {known}")
        found |= names
        found |= _reached(names, upstreams) if before else set()
        found |= _reached(names, downstreams) if after else set()
    return found


def _read(word: str, definitions: Mapping[str, Definition]) -> tuple[set[str], str, str]:
    """The assets of a word, and its signs before and after; as few of them as will do, for a name may have some."""
    for before, after in (("", ""), ("+", ""), ("", "+"), ("+", "+")):
        if word.startswith(before) and word.endswith(after):
            names = _named(word.removeprefix(before).removesuffix(after), definitions)
            if names:
                return names, before, after
    return set(), "", ""


def _named(word: str, definitions: Mapping[str, Definition]) -> set[str]:
    if word in definitions:
        return {word}
    if word.startswith("tag:"):
        return {name for name, d in definitions.items() if word.removeprefix("tag:") in d.tags}
    return set()


def _reached(names: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        for name in edges.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found
