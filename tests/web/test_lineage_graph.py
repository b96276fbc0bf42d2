"""The graph of upstreams: what is made from something stands to the right of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.web.lineage_graph import NODE_HEIGHT, NODE_WIDTH, lay_out_graph

NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.lists(NAMES, max_size=4), max_size=8)


def test_a_chain_goes_from_left_to_right() -> None:
    graph = lay_out_graph({"c": ["b"], "b": ["a"], "a": [], "d": ["a"]})
    x = {node.name: node.x for node in graph.nodes}
    assert x["a"] < x["b"] < x["c"]
    assert x["b"] == x["d"]
    assert {(edge.upstream, edge.asset) for edge in graph.edges} == {("a", "b"), ("b", "c"), ("a", "d")}


def test_an_upstream_that_is_not_registered_has_a_box() -> None:
    assert {node.name for node in lay_out_graph({"a": ["elsewhere"]}).nodes} == {"a", "elsewhere"}


def test_a_chain_may_be_long() -> None:
    graph = lay_out_graph({f"{n:04}": [f"{n + 1:04}"] for n in range(3_000)})
    x = {node.name: node.x for node in graph.nodes}
    assert x["3000"] == 0
    assert sorted(x, key=x.__getitem__) == sorted(x, reverse=True)


def test_a_circle_is_drawn() -> None:
    assert {node.name for node in lay_out_graph({"a": ["b"], "b": ["c"], "c": ["a"]}).nodes} == {"a", "b", "c"}


def test_nothing_is_an_empty_graph() -> None:
    graph = lay_out_graph({})
    assert (graph.nodes, graph.edges, graph.width, graph.height) == ((), (), 0, 0)


@given(GRAPHS)
def test_boxes_never_overlap_and_lie_within(upstreams: dict[str, list[str]]) -> None:
    graph = lay_out_graph(upstreams)
    places = [(node.x, node.y) for node in graph.nodes]
    assert all(
        abs(x - x2) >= NODE_WIDTH or abs(y - y2) >= NODE_HEIGHT
        for at, (x, y) in enumerate(places)
        for x2, y2 in places[at + 1 :]
    )
    assert all(0 <= x <= graph.width - NODE_WIDTH and 0 <= y <= graph.height - NODE_HEIGHT for x, y in places)
    assert {node.name for node in graph.nodes} == set(upstreams) | {u for found in upstreams.values() for u in found}
