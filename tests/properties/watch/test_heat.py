"""How heat is spread, and what is beyond the entries of a TLB."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.watch.heat import beyond
from tests.unit.watch.test_heat import pages


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 50))
def test_it_is_a_share(counts: list[int], entries: int) -> None:
    result = beyond(pages(*counts), entries)
    assert 0 <= result.low <= result.share <= result.high <= 1
