"""The graph of upstreams: assets in columns, each to the right of all that it is made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

WIDTH, HEIGHT = 190, 40
"""The size of an asset's box."""
_APART, _BETWEEN = 70, 16
_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Node:
    """An asset's box: its name, and where its upper left corner is."""

    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from an upstream to what is made from it, as the path of an SVG."""

    upstream: str
    asset: str
    path: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The boxes and lines of a graph, and how large it is."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


def make_graph(upstreams: Mapping[str, Iterable[str]]) -> Graph:
    """The graph of assets and what each is made from; a line that would close a circle is left out of the order."""
    above = {name: [u for u in found if u != name] for name, found in upstreams.items()}
    for name in [u for found in above.values() for u in found]:
        above.setdefault(name, [])
    columns = _ordered(_columns(above), above)
    tallest = max((len(column) for column in columns), default=0)
    height = max(0, tallest * (HEIGHT + _BETWEEN) - _BETWEEN)
    places: dict[str, Node] = {}
    for at, column in enumerate(columns):
        top = (height - (len(column) * (HEIGHT + _BETWEEN) - _BETWEEN)) / 2
        for row, name in enumerate(column):
            places[name] = Node(name, at * (WIDTH + _APART), top + row * (HEIGHT + _BETWEEN))
    edges = tuple(
        Edge(u, name, _path(places[u], places[name])) for name, found in above.items() for u in dict.fromkeys(found)
    )
    width = max(0, len(columns) * (WIDTH + _APART) - _APART)
    return Graph(tuple(places.values()), edges, width, height)


def _columns(above: Mapping[str, list[str]]) -> list[list[str]]:
    """Each asset one column after the last of its upstreams."""
    depth: dict[str, int] = {}
    for name in _upstreams_first(above):
        depth[name] = max((depth[u] + 1 for u in above[name] if u in depth), default=0)
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in sorted(depth):
        columns[depth[name]].append(name)
    return columns


def _upstreams_first(above: Mapping[str, list[str]]) -> Iterator[str]:
    """Every asset after its upstreams, but for those that would close a circle."""
    seen: set[str] = set()
    for start in sorted(above):
        waiting = [(start, False)]
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                yield name
            elif name not in seen:
                seen.add(name)
                waiting += [(name, True), *((u, False) for u in above[name] if u not in seen)]


def _ordered(columns: list[list[str]], above: Mapping[str, list[str]]) -> list[list[str]]:
    """The columns with each asset near those that it is joined to, so that few lines cross."""
    below: dict[str, list[str]] = {name: [] for name in above}
    for name, found in above.items():
        for upstream in found:
            below[upstream].append(name)
    rank = {name: float(at) for column in columns for at, name in enumerate(column)}
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for column in columns if sweep % 2 == 0 else reversed(columns):
            means = {n: sum(rank[m] for m in near[n]) / len(near[n]) if near[n] else rank[n] for n in column}
            column.sort(key=lambda name: (means[name], name))
            rank.update({name: float(at) for at, name in enumerate(column)})
    return columns


def _path(one: Node, other: Node) -> str:
    x0, y0 = one.x + WIDTH, one.y + HEIGHT / 2
    x1, y1 = other.x, other.y + HEIGHT / 2
    middle = (x0 + x1) / 2
    return f"M{x0:g} {y0:g}C{middle:g} {y0:g} {middle:g} {y1:g} {x1:g} {y1:g}"
