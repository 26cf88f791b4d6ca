"""Counts of source lines: which of them a piece of code is of."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.profile.linecounts import _base


@given(st.integers(0, 0xFFF))
def test_the_base_of_a_discriminator(base: int) -> None:
    """As LLVM writes it: nothing is one bit, up to 31 takes six, more takes thirteen; other parts come behind."""
    encoded = 1 if not base else (base << 1 if base < 0x20 else (base & 0xFE0) << 2 | 0x40 | (base & 0x1F) << 1)
    width = 1 if not base else 7 if base < 0x20 else 14
    assert _base(encoded) == base
    assert _base(encoded | 5 << width) == base
