"""The one reader of numbers: digits, nothing else, never more than the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hugealign.errors import NumberFormatError
from tests.unit.io.test_numbers import READERS, Reader


@given(st.sampled_from(sorted(READERS, key=str)), st.integers(0, 1 << 64), st.integers(0, 9))
def test_every_number_comes_back(read: Reader, number: int, zeros: int) -> None:
    form, _ = READERS[read]
    text = "0" * zeros + form.format(number)
    assert read(text, number, "") == read(text.encode(), number, "") == number
    assert read(text.upper(), number, "") == number
    if number:
        with pytest.raises(NumberFormatError):
            read(text, number - 1, "")


@given(st.sampled_from(sorted(READERS, key=str)), st.text(max_size=40), st.integers(0, 1 << 70))
def test_what_is_accepted_is_what_python_means(read: Reader, text: str, maximum: int) -> None:
    try:
        number = read(text, maximum, "")
    except NumberFormatError:
        return
    assert text.isascii()
    assert number == int(text, READERS[read][1]) <= maximum
