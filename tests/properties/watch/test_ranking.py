"""Which windows shall be huge: the hottest, and never more than so many."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.process.pagemap import State
from hugealign.watch.ranking import AdaptPlan, Window, plan
from tests.unit.watch.test_ranking import window


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(State), st.booleans()), max_size=12),
    st.integers(0, 6),
)
def test_never_more_than_so_many(kinds: list[tuple[int, State, bool]], most: int) -> None:
    result = [window(at, heat, state, ours=ours) for at, (heat, state, ours) in enumerate(kinds)]
    done = plan(result, most)
    fixed = sum(item.huge and not item.ours for item in result)
    after = {item.start for item in result if item.huge} - {item.start for item in done.split} | {
        item.start for item in done.collapse
    }
    assert len(after) <= max(most, fixed)
    assert all(item.ours and item.huge for item in done.split)
    assert all((item.heat or item.ours) and not item.huge for item in done.collapse)
    after_that = [
        Window(item.start, item.part, State.HUGE if item.start in after else State.SMALL, item.heat, item.ours)
        for item in result
        if item.state != State.UNTOUCHED or item.start in after
    ]
    assert plan(after_that, most) == AdaptPlan()  # and then there is peace
