"""Counts of source lines: which of them a piece of code is of."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.profile.linecounts import Inlined, LineCounts, _base, _settled
from hugealign.profile.model import MemoryRoom


def frame(name: str, line: int, start: int, discriminator: int = 0) -> dict[str, object]:
    return {"FunctionName": name, "Line": line, "StartLine": start, "Discriminator": discriminator}


def test_a_line_lies_below_the_calls_that_were_inlined_around_it() -> None:
    inner = Inlined({(2, 0): 70, (3, 1): 5})
    root = Inlined({(1, 0): 100}, {((4, 0), "inner"): inner})
    assert root.count([frame("f", 11, 10)]) == 100
    assert root.count([frame("f", 12, 10)]) == 0
    assert root.count([frame("inner", 52, 50), frame("f", 14, 10)]) == 70
    assert root.count([frame("inner", 53, 50, 2), frame("f", 14, 10)]) == 5
    assert root.count([frame("inner", 52, 50), frame("f", 15, 10)]) == 0  # another call of it
    assert root.count([frame("other", 52, 50), frame("f", 14, 10)]) == 0


def test_a_line_before_its_function() -> None:
    """As a macro's can be: LLVM keeps 16 bits of the distance."""
    assert Inlined({(0xFFFE, 0): 3}).count([frame("f", 8, 10)]) == 3


@given(st.integers(0, 0xFFF))
def test_the_base_of_a_discriminator(base: int) -> None:
    """As LLVM writes it: nothing is one bit, up to 31 takes six, more takes thirteen; other parts come behind."""
    encoded = 1 if not base else (base << 1 if base < 0x20 else (base & 0xFE0) << 2 | 0x40 | (base & 0x1F) << 1)
    width = 1 if not base else 7 if base < 0x20 else 14
    assert _base(encoded) == base
    assert _base(encoded | 5 << width) == base


def test_blocks_of_no_line_may_be_hot() -> None:
    assert _settled([None, 5, None, None, 2, None, 0, None]) == [5, 5, 5, 5, 2, 2, 0, 0]
    assert _settled([None, None]) == [0, 0]
    assert _settled([]) == []


def test_indentation_says_what_a_line_belongs_to() -> None:
    """By one space for each level, or by two, as dump_gcov has it."""
    for wide in (1, 2):
        counts = LineCounts(MemoryRoom())
        counts.begin("f")
        counts.line(wide, (1, 0), 10)
        counts.call(wide, (2, 0), "g")
        counts.line(2 * wide, (5, 0), 20)
        counts.call(2 * wide, (6, 3), "h")
        counts.line(3 * wide, (7, 0), 30)
        counts.line(wide, (3, 0), 40)
        counts.begin("")
        counts.line(wide, (1, 0), 50)
        counts.begin("k")
        h = Inlined({(7, 0): 30})
        g = Inlined({(5, 0): 20}, {((6, 3), "h"): h})
        assert counts.functions == {"f": Inlined({(1, 0): 10, (3, 0): 40}, {((2, 0), "g"): g}), "k": Inlined()}
