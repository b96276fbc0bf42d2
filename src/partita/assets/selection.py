"""What a plan can be asked for: the states of partitions, and the selectors of assets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from partita.errors import PlanError, value_repr
from partita.status.definitions import AssetDefinition
from partita.status.states import PLANNABLE_STATES


def plannable_states(*, missing: bool, stale: bool, failed: bool) -> tuple[str, ...]:
    """Return the states that are asked for, or all of them if none is."""
    is_requested = dict(zip(PLANNABLE_STATES, (missing, stale, failed), strict=True))
    return tuple(state for state in PLANNABLE_STATES if is_requested[state]) or PLANNABLE_STATES


def parse_selectors(select: str | Sequence[str]) -> tuple[str, ...]:
    """Return one selector or several as a tuple. Raise `PlanError` for anything but strings."""
    selectors = (select,) if isinstance(select, str) else tuple(select) if isinstance(select, Iterable) else ()
    if not isinstance(select, Iterable) or not all(isinstance(selector, str) for selector in selectors):
        raise PlanError(f"select takes strings, as in select=['+daily', 'tag:nightly'], not {value_repr(select)}")
    return selectors


def select_assets(selectors: Sequence[str], definitions: Mapping[str, AssetDefinition]) -> set[str]:
    """Return the assets that match any selector; all assets without selectors.

    A selector is an asset's name or `tag:word`; a `+` before it adds all upstreams, one after it all downstreams. Names
    may contain these characters: a selector that equals a name selects that asset alone. Raise `PlanError` for a
    selector without a match.
    """
    if not selectors:
        return set(definitions)
    upstreams = {name: {u.asset for u in d.upstreams} for name, d in definitions.items()}
    downstreams: dict[str, set[str]] = {}
    for name, upstream_names in upstreams.items():
        for upstream in upstream_names:
            downstreams.setdefault(upstream, set()).add(name)
    selection: set[str] = set()
    for selector in selectors:
        names, with_upstreams, with_downstreams = _resolve_selector(selector, definitions)
        if not names:
            available = ", ".join(sorted(definitions)) or "no asset"
            raise PlanError(f"{selector!r} selects no asset; choose from: {available}")
        selection |= names
        if with_upstreams:
            selection |= _reachable_assets(names, upstreams)
        if with_downstreams:
            selection |= _reachable_assets(names, downstreams)
    return selection


def _resolve_selector(selector: str, definitions: Mapping[str, AssetDefinition]) -> tuple[set[str], bool, bool]:
    """Return the assets of a selector, and whether their upstreams and downstreams are selected too.

    As few `+` as possible are read as operators, because a name may contain some.
    """
    for prefix, suffix in (("", ""), ("+", ""), ("", "+"), ("+", "+")):
        if selector.startswith(prefix) and selector.endswith(suffix):
            names = _matching_assets(selector.removeprefix(prefix).removesuffix(suffix), definitions)
            if names:
                return names, bool(prefix), bool(suffix)
    return set(), False, False


def _matching_assets(selector: str, definitions: Mapping[str, AssetDefinition]) -> set[str]:
    if selector in definitions:
        return {selector}
    if selector.startswith("tag:"):
        return {name for name, d in definitions.items() if selector.removeprefix("tag:") in d.tags}
    return set()


def _reachable_assets(names: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    reachable_names: set[str] = set()
    pending = list(names)
    while pending:
        for name in edges.get(pending.pop(), set()) - reachable_names:
            reachable_names.add(name)
            pending.append(name)
    return reachable_names
