"""How many windows miss least."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign_lab import misses
from hugealign_lab.misses import Misses


@given(st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=2, max_size=9))
def test_hardly_more_than_the_fewest_misses_then_the_fewest_windows(counts: list[list[int]]) -> None:
    chosen = Misses(["a", "b"], counts, 1).chosen
    assert 1 <= chosen < len(counts)
    for count in range(1, len(counts)):
        assert sum(counts[chosen]) <= 1.03 * sum(counts[count])
        assert sum(counts[count]) > 1.03 * min(map(sum, counts[1:])) or chosen <= count


def test_table_of_the_choice() -> None:
    made = Misses(["skylake", "4k=128/8,2m=8,l2=1536/12"], [[9000, 9], [100, 5], [20, 5], [20, 5], [7000, 5]], 4)
    assert list(misses.lines(made)) == [
        "huge windows          skylake  4k=128/8,2m=8,l2=1536/12",
        "           0            9,000                         9",
        "           1              100                         5",
        "*     2 to 3               20                         5",
        "           4            7,000                         5",
    ]
    assert misses.why(made) == "25 misses, the fewest of 1 to 4; min(needed, budget): 4, 7,005 misses"
    same = Misses(["c"], [[3], [5], [5]], 1)
    assert misses.why(same) == "5 misses, the fewest of 1 to 2 (none at all: 3); min(needed, budget): the same"
    assert misses.why(Misses(["c"], [[7], [5]], 1)) == "5 misses; min(needed, budget): the same"
    assert [line.split() for line in misses.lines(same)][1:] == [["0", "3"], ["*", "1", "to", "2", "5"]]


def test_a_few_misses_are_worth_no_window() -> None:
    """27 windows for 9 of 341 misses are not."""
    counts = [[9000], [5000], *[[900]] * 4, [400], *[[350]] * 27, [341]]
    assert Misses(["a"], counts, 1).chosen == 7
    assert Misses(["a"], counts, 1).fewest == 34
    assert Misses(["a"], [[9], [5], [4]], 1).chosen == 2
