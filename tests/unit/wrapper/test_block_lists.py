"""Clang's list of blocks: what may stand in it."""

import pytest

from hugealign.orderfile import Entry
from hugealign.wrapper.block_lists import listed, listed_by_unit


def text(*entries: Entry) -> str:
    return "".join(listed(entries))


def test_names_and_aliases() -> None:
    assert text(Entry("f", blocks=(0, 4, 2)), Entry("g"), Entry("h", blocks=(0,), aliases=("i", "j"))) == (
        "!f\n!!0 4 2\n!h/i/j\n!!0\n"
    )


@pytest.mark.parametrize("name", ["", "a b", "a/b", "!a", "@a", "#a", "a\nb", "a\rb", "a\x00b", "\udc80"])
def test_names_that_mean_something_there(name: str) -> None:
    """Not a line for them, as the function's own name or another's."""
    assert text(Entry(name, address=1, blocks=(0, 1))) == ""
    assert text(Entry("f", blocks=(0, 1), aliases=(name,))) == "!f\n!!0 1\n"


def test_no_name_twice() -> None:
    """Which would be an error: by another line, as another name, and of a function that two files have the same."""
    twice = Entry("f", blocks=(0, 1), aliases=("g", "g", "f"))
    assert text(twice, Entry("f", blocks=(0,)), Entry("g", blocks=(0,)), Entry("h", blocks=(0,), aliases=("f",))) == (
        "!f/g\n!!0 1\n!h\n!!0\n"
    )
    assert text(Entry("f", "a.c", blocks=(0,)), Entry("f", "b.c", blocks=(0,))) == "!f\n!!0\n"


def test_functions_of_one_name_without_units() -> None:
    """What stays in one stays in the other, in the order of the numbers; the first form knows no units."""
    both = (Entry("f", "a.c", blocks=(0, 7, 2), unit="a.c"), Entry("f", "b.c", blocks=(0, 3), unit="d/b.c"))
    assert text(*both) == "!f\n!!0 2 3 7\n"


def test_functions_of_one_name_by_units() -> None:
    both = (Entry("f", "a.c", blocks=(0, 7, 2), unit="a.c"), Entry("f", "b.c", blocks=(0, 3), unit="d/b.c"))
    other = Entry("g", blocks=(0,), aliases=("h",))
    assert "".join(listed_by_unit([*both, other])) == "v1\nm a.c\nf f\nc 0 7 2\nm d/b.c\nf f\nc 0 3\nf g h\nc 0\n"


@pytest.mark.parametrize(
    "entries",
    [
        (Entry("f", blocks=(0, 1), unit="a b"),),
        (Entry("f", blocks=(0, 1), unit="a\nv1"),),
        (Entry("f", blocks=(0, 1), unit="\udc80"),),
        (Entry("a b", blocks=(0, 1), unit="a.c"),),
    ],
)
def test_units_that_mean_something_there(entries: tuple[Entry, ...]) -> None:
    assert "".join(listed_by_unit(entries)) == "v1\n"


def test_no_unit_twice() -> None:
    """Which would be an error; and a function that is in any unit is in each."""
    twice = (Entry("f", "a.c", blocks=(0, 1), unit="a.c"), Entry("f", "a.c", blocks=(0,), unit="a.c"))
    assert "".join(listed_by_unit(twice)) == "v1\nm a.c\nf f\nc 0 1\n"
    assert "".join(listed_by_unit([*twice, Entry("f", blocks=(0, 9))])) == "v1\nf f\nc 0 9\n"
