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
    found = [window(at, heat, state, ours=ours) for at, (heat, state, ours) in enumerate(kinds)]
    done = plan(found, most)
    fixed = sum(one.huge and not one.ours for one in found)
    after = {one.start for one in found if one.huge} - {one.start for one in done.split} | {
        one.start for one in done.collapse
    }
    assert len(after) <= max(most, fixed)
    assert all(one.ours and one.huge for one in done.split)
    assert all((one.heat or one.ours) and not one.huge for one in done.collapse)
    after_that = [
        Window(one.start, one.part, State.HUGE if one.start in after else State.SMALL, one.heat, one.ours)
        for one in found
        if one.state != State.UNTOUCHED or one.start in after
    ]
    assert plan(after_that, most) == AdaptPlan()  # and then there is peace
