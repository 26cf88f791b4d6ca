"""The order of blocks: in C as in Python, and what it is good for."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.ordering.exttsp import FlowGraph, orders
from tests.oracles import exttsp


@st.composite
def graphs(draw: st.DrawFn) -> FlowGraph:
    count = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.integers(0, 700), min_size=count, max_size=count))
    counts = draw(st.lists(st.integers(0, 1 << 45), min_size=count, max_size=count))
    node = st.integers(0, count - 1)
    weight = st.integers(0, 20) | st.integers(0, 1 << 45)
    return FlowGraph(sizes, counts, draw(st.dictionaries(st.tuples(node, node), weight, max_size=30)))


@given(st.lists(graphs(), max_size=4))
def test_c_orders_as_the_definition_does(many: list[FlowGraph]) -> None:
    result = orders(many)
    assert result == exttsp.orders(many)
    for graph, order in zip(many, result, strict=True):
        assert sorted(order) == list(range(len(graph.sizes)))
        assert order[0] == 0


def test_the_hot_way_falls_through() -> None:
    """0 goes to 2 nearly always, 2 to 4; 1 and 3 are what seldom happens."""
    jumps = {(0, 1): 1, (0, 2): 99, (1, 2): 1, (2, 3): 1, (2, 4): 99, (3, 4): 1}
    (result,) = orders([FlowGraph([16] * 5, [100, 1, 100, 1, 100], jumps)])
    assert result[:3] == [0, 2, 4]


def test_a_loop_is_turned() -> None:
    """The test of a loop is at its end: the body falls into it, and it jumps back."""
    jumps = {(0, 1): 1, (1, 2): 100, (2, 1): 99, (1, 3): 1}
    (result,) = orders([FlowGraph([16] * 4, [1, 100, 100, 1], jumps)])
    assert result[0] == 0
    assert abs(result.index(1) - result.index(2)) == 1
