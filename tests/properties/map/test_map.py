"""The map: how heat spreads over windows, what is printed and drawn of it, and what hostile names can do to that."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.map.layout import PARTS
from tests.unit.map.test_map import PAGE, drawn, matched, program


@given(
    st.lists(st.integers(1, PAGE * 2), min_size=1, max_size=30),
    st.data(),
    st.integers(0, PAGE),
    st.integers(1, 4),
)
def test_nothing_is_lost_or_doubled(sizes: list[int], data: st.DataObject, start: int, budget: int) -> None:
    functions = program(sizes, start=start)
    index = st.integers(0, len(sizes) - 1)
    ran = matched(data.draw(st.dictionaries(index, st.integers(1, 1 << 40), min_size=1)))
    shown = drawn(functions, ran, budget)
    for result in shown.layouts:
        assert sum(sum(row.heat) for row in result.rows) == ran.total * PARTS
        left = result.uncovered()
        assert left == sorted(left, reverse=True)
        assert (left[0], left[-1]) == (ran.total * PARTS, 0)
        assert [row.number for row in result.rows] == list(range(1, len(result.rows) + 1))
        for row in result.rows:
            cells = {cell for first, end in row.text for cell in range(first, end)}
            assert all(at in cells for at, heat in enumerate(row.heat) if heat)
    planned = [w.samples for w in shown.plan.windows]
    assert len(planned) <= len(shown.layouts[1].rows)
