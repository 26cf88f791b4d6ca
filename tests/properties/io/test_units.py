"""Sizes as people write them, and what is fit for a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.io.units import format_size, printable


@given(st.integers(0, 1 << 40))
def test_formatted_sizes_are_short_and_right_to_a_tenth(size: int) -> None:
    text = format_size(size)
    assert len(text) <= 10
    value, unit = text.split()
    scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert abs(float(value) * scale - size) <= scale * 0.0501


@given(st.text() | st.binary().map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_printable_is_printable(text: str) -> None:
    assert printable(text).isprintable()
