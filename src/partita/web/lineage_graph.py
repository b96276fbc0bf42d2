"""The layout of the lineage graph: assets in columns, each to the right of all of its upstreams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

NODE_WIDTH, NODE_HEIGHT = 190, 40
"""The size of the box of an asset."""
_COLUMN_GAP, _ROW_GAP = 70, 16
_ORDERING_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class GraphNode:
    """The box of an asset: its name and the position of its upper left corner."""

    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A line from an upstream to a downstream asset, as an SVG path."""

    upstream: str
    asset: str
    path: str


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """The boxes and lines of a graph, and its size."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    width: float
    height: float


def lay_out_graph(upstreams: Mapping[str, Iterable[str]]) -> LineageGraph:
    """Lay out the graph of assets and their upstreams. An edge that would close a cycle does not affect the order."""
    graph = {name: [u for u in names if u != name] for name, names in upstreams.items()}
    for name in [u for names in graph.values() for u in names]:
        graph.setdefault(name, [])
    columns = _reduce_crossings(_assign_columns(graph), graph)
    tallest = max((len(column) for column in columns), default=0)
    height = max(0, tallest * (NODE_HEIGHT + _ROW_GAP) - _ROW_GAP)
    nodes: dict[str, GraphNode] = {}
    for index, column in enumerate(columns):
        top = (height - (len(column) * (NODE_HEIGHT + _ROW_GAP) - _ROW_GAP)) / 2
        for row, name in enumerate(column):
            nodes[name] = GraphNode(name, index * (NODE_WIDTH + _COLUMN_GAP), top + row * (NODE_HEIGHT + _ROW_GAP))
    edges = tuple(
        GraphEdge(u, name, _edge_path(nodes[u], nodes[name]))
        for name, names in graph.items()
        for u in dict.fromkeys(names)
    )
    width = max(0, len(columns) * (NODE_WIDTH + _COLUMN_GAP) - _COLUMN_GAP)
    return LineageGraph(tuple(nodes.values()), edges, width, height)


def _assign_columns(upstreams: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the assets of each column; an asset is one column after the last of its upstreams."""
    depth: dict[str, int] = {}
    for name in _topological_order(upstreams):
        depth[name] = max((depth[u] + 1 for u in upstreams[name] if u in depth), default=0)
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in sorted(depth):
        columns[depth[name]].append(name)
    return columns


def _topological_order(upstreams: Mapping[str, list[str]]) -> Iterator[str]:
    """Return every asset after its upstreams, except where that would be a cycle."""
    visited_assets: set[str] = set()
    for start in sorted(upstreams):
        stack = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                yield name
            elif name not in visited_assets:
                visited_assets.add(name)
                stack += [(name, True), *((u, False) for u in upstreams[name] if u not in visited_assets)]


def _reduce_crossings(columns: list[list[str]], upstreams: Mapping[str, list[str]]) -> list[list[str]]:
    """Order each column by the mean position of its neighbours, so that few lines cross."""
    downstreams: dict[str, list[str]] = {name: [] for name in upstreams}
    for name, names in upstreams.items():
        for upstream in names:
            downstreams[upstream].append(name)
    rank = {name: float(row) for column in columns for row, name in enumerate(column)}
    for sweep in range(_ORDERING_SWEEPS):
        neighbours = upstreams if sweep % 2 == 0 else downstreams
        for column in columns if sweep % 2 == 0 else reversed(columns):
            means = {
                n: sum(rank[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else rank[n]
                for n in column
            }
            column.sort(key=lambda name: (means[name], name))
            rank.update({name: float(row) for row, name in enumerate(column)})
    return columns


def _edge_path(upstream: GraphNode, downstream: GraphNode) -> str:
    x0, y0 = upstream.x + NODE_WIDTH, upstream.y + NODE_HEIGHT / 2
    x1, y1 = downstream.x, downstream.y + NODE_HEIGHT / 2
    middle = (x0 + x1) / 2
    return f"M{x0:g} {y0:g}C{middle:g} {y0:g} {middle:g} {y1:g} {x1:g} {y1:g}"
