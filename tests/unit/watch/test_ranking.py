"""Which windows shall be huge: the hottest, and never more than so many."""

import tracemalloc
from collections import Counter

import pytest

from hugealign.process.pagemap import Region, State
from hugealign.process.smaps import Mapping
from hugealign.watch.ranking import AdaptPlan, Window, plan, share, windows

W = 2 << 20


def window(at: int, heat: int, state: State = State.SMALL, *, ours: bool = True) -> Window:
    return Window(at * W, "" if ours else "/lib/x.so", state, heat, ours)


def starts(results: tuple[Window, ...]) -> list[int]:
    return [item.start // W for item in results]


def test_windows_of_mappings_by_heat() -> None:
    jit = Mapping(
        W - 4096,
        4 * W,
        0,
        "",
        pages=(Region(W, 2 * W, huge=True, file=False), Region(2 * W, 2 * W + 4096, huge=False, file=False)),
    )
    library = Mapping(8 * W, 9 * W, 0, "/lib/x.so", pages=())
    samples = Counter({W: 1, W + 5: 2, 3 * W - 1: 9, W - 1: 100, 4 * W: 100, 8 * W: 1, 9 * W: 7})
    assert windows([jit, library], samples) == [
        Window(2 * W, "", State.SMALL, 9, ours=True),
        Window(W, "", State.HUGE, 3, ours=True),
        Window(8 * W, "/lib/x.so", State.UNTOUCHED, 1, ours=False),
    ]


def test_what_is_mapped_and_not_touched_takes_no_memory() -> None:
    """Anybody can map 60 TiB."""
    pages = (Region(7 * W, 9 * W, huge=True, file=False),)
    vast = Mapping(0, 60 << 40, 0, "", pages=pages)
    tracemalloc.start()
    result = windows([vast], Counter({8 * W: 1, 9 * W: 2, (60 << 40) - 1: 3, 60 << 40: 4}))
    assert [window.start for window in result] == [(60 << 40) - W, 9 * W, 8 * W, 7 * W]
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_the_hottest_come_first_and_what_is_not_touched_never() -> None:
    result = [window(1, 5), window(2, 50), window(4, 10), window(5, 99, State.UNTOUCHED)]
    assert starts(plan(result, 2).collapse) == [2, 4]
    assert sorted(starts(plan(result, 9).collapse)) == [1, 2, 4]


def test_code_that_was_not_sampled_comes_last_and_files_never() -> None:
    result = [window(1, 0), window(2, 50), window(3, 0, ours=False), window(4, 1, ours=False)]
    assert sorted(starts(plan(result, 9).collapse)) == [1, 2, 4]
    assert sorted(starts(plan(result, 2).collapse)) == [2, 4]
    assert starts(plan([window(1, 0, State.HUGE), window(2, 1)], 1).collapse) == [2]


def test_what_is_huge_already_counts() -> None:
    result = [window(1, 1, State.HUGE, ours=False), window(2, 50), window(3, 10)]
    assert plan(result, 2) == AdaptPlan((), (result[1],))
    assert plan(result, 1) == AdaptPlan()
    assert plan(result, 0) == AdaptPlan()  # text of files is not ours to split


def test_heat_that_moved_takes_the_place_of_what_was() -> None:
    result = [window(1, 1, State.HUGE), window(2, 50)]
    assert plan(result, 1) == AdaptPlan((result[0],), (result[1],))
    assert plan(result, 2) == AdaptPlan((), (result[1],))


def test_a_little_more_heat_moves_nothing() -> None:
    assert plan([window(1, 100, State.HUGE), window(2, 120)], 1) == AdaptPlan()
    assert starts(plan([window(1, 100, State.HUGE), window(2, 130)], 1).split) == [1]


def test_too_many_are_split_again_the_coldest() -> None:
    result = [window(at, at, State.HUGE) for at in range(1, 6)]
    assert sorted(starts(plan(result, 2).split)) == [1, 2, 3]
    assert plan(result, 0).split == tuple(result)


def test_what_was_refused_leaves_its_place_to_others() -> None:
    result = [window(1, 50), window(2, 5)]
    assert starts(plan(result, 1, frozenset({W})).collapse) == [2]


@pytest.mark.parametrize(("states", "expected"), [(None, 0.25), ({2 * W: State.HUGE}, 1.0), ({W: State.SMALL}, 0.0)])
def test_share(states: dict[int, State] | None, expected: float) -> None:
    assert share([window(1, 1, State.HUGE), window(2, 3)], 4, states) == expected
    assert share([], 0) == 0
