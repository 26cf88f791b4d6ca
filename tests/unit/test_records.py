"""Records behave as the frozen dataclasses that they stand for."""

import pytest

from hugealign.records import Record, once


class Window(Record):
    """A record with a default."""

    start: int
    huge: bool = False


class Range(Record):
    """Another with the same fields."""

    start: int
    huge: bool = False


def test_equal_if_all_fields_are() -> None:
    assert Window(1) == Window(1, False) == Window(start=1)
    assert Window(1) != Window(1, huge=True)
    assert Window(1) != Range(1)
    assert Window(1) != (1, False)


def test_equal_records_are_one_key() -> None:
    assert {Window(1): "first", Window(2): "second", Window(1, False): "again"} == {
        Window(1): "again",
        Window(2): "second",
    }
    with pytest.raises(TypeError, match="unhashable"):
        hash(Window([]))  # type: ignore[arg-type]


def test_shown_with_the_names_of_its_fields() -> None:
    assert repr(Window(4096, huge=True)) == "Window(start=4096, huge=True)"


def test_changed_leaves_the_record_as_it_was() -> None:
    window = Window(1)
    assert window.changed(huge=True) == Window(1, True)
    assert window == Window(1)


def test_once_is_computed_once_and_anew_for_a_changed_record() -> None:
    class Sum(Record):
        left: int
        right: int = 1

        @once
        def total(self) -> int:
            """The sum."""
            asked.append(self.left)
            return self.left + self.right

    asked: list[int] = []
    one = Sum(2)
    assert (one.total, one.total, asked) == (3, 3, [2])
    other = one.changed(left=5)
    assert (other.total, asked) == (6, [2, 5])
    assert (one == Sum(2), hash(one) == hash(Sum(2)), repr(one)) == (True, True, repr(Sum(2)))
