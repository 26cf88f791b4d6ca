"""Clang's list of blocks: what may stand in it."""

import pytest

from hugealign.compiling.lists import listed
from hugealign.orderfile import Entry


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
