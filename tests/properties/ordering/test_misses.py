"""How many windows miss least, and where a function can begin."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.ordering.misses import Misses


@given(st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=2, max_size=9))
def test_hardly_more_than_the_fewest_misses_then_the_fewest_windows(counts: list[list[int]]) -> None:
    chosen = Misses(["a", "b"], counts, 1).chosen
    assert 1 <= chosen < len(counts)
    for count in range(1, len(counts)):
        assert sum(counts[chosen]) <= 1.03 * sum(counts[count])
        assert sum(counts[count]) > 1.03 * min(map(sum, counts[1:])) or chosen <= count
