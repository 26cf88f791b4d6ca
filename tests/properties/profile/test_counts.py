"""The form of profiles that adds up: one file for equal counts, whatever way they were added; no damage unseen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hugealign.profile import counts
from hugealign.profile.counts import Counts
from tests.unit.profile.test_counts import added, merged

_NAMES = st.one_of(
    st.sampled_from(["main", "a\tb", "@x", "\\", "ü", "\udcff", "\n", "f(int)::{lambda}"]), st.text("ab")
)


_ADDRESSES = st.one_of(st.none(), st.integers(0, 2**64 - 1))
_FUNCTIONS = st.builds(counts.function, _ADDRESSES, _NAMES.filter(bool), _NAMES, st.sampled_from([b"", b"0" * 16]))
_ENDS = st.builds(counts.end, _ADDRESSES, _NAMES.filter(bool), _NAMES)
_CALLS = st.builds(counts.call, _ENDS, _ADDRESSES, _ENDS)
_KEYS = st.one_of(
    _FUNCTIONS, _CALLS, st.sampled_from([b"hosts", b"foreign", b"outside", b"bad", b"r\t1\tff", b"j\t0\t9", b"b\t1"])
)


_HEADS = st.builds(counts.head, st.sampled_from(["", "ab" * 20, "00"]), _NAMES)
_COUNTS = st.dictionaries(_HEADS, st.dictionaries(_KEYS, st.integers(0, counts.MOST), max_size=6), max_size=3)


@given(_COUNTS)
def test_what_is_written_is_read(some: Counts) -> None:
    data = counts.write(some)
    assert counts.parse(data) == some
    assert counts.write(counts.parse(data)) == data


@given(parts=st.lists(_COUNTS, min_size=1, max_size=4))
@settings(max_examples=50)
def test_merging_adds_up_in_any_order_and_any_steps(
    parts: list[Counts], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("merge")
    whole = counts.write(added(*parts))
    assert counts.write(merged(directory, *parts)) == whole
    assert counts.write(merged(directory, *parts[::-1])) == whole
    first, *rest = parts
    assert counts.write(merged(directory, first, merged(directory, *rest) if rest else {})) == whole
