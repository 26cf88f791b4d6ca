"""The one reader of numbers: digits, nothing else, never more than the bound."""

from collections.abc import Callable

import pytest

from hugealign.errors import HugealignError, NumberFormatError
from hugealign.io.numbers import decimal, hexadecimal, octal

Reader = Callable[[str | bytes, int, str], int]
READERS: dict[Reader, tuple[str, int]] = {decimal: ("{:d}", 10), octal: ("{:o}", 8), hexadecimal: ("{:x}", 16)}
ODD = (
    "",
    " ",
    "-1",
    "+1",
    "1_0",
    " 1",
    "1 ",
    "1\n",
    "0x1",
    "0o1",
    "0b1z",
    "1.0",
    "1e+3",
    "\u0663",
    "\u00b2",
    "1\0",
    "\udc80",
    "g",
)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("text", ODD)
def test_what_int_would_take_is_refused(read: Reader, text: str) -> None:
    with pytest.raises(NumberFormatError):
        read(text, 1 << 64, "")
    with pytest.raises(NumberFormatError):
        read(text.encode("utf-8", "surrogateescape"), 1 << 64, "")


@pytest.mark.parametrize("read", READERS)
def test_five_thousand_digits_are_refused_in_one_short_line(read: Reader) -> None:
    for text in ("1" * 5000, b"0" * 5000):
        with pytest.raises(NumberFormatError) as error:
            read(text, 1 << 64, "size")
        assert len(str(error.value)) < 150
        assert str(error.value).startswith("size: '")


def test_the_error_is_shown_as_one_line_and_caught_as_either() -> None:
    assert issubclass(NumberFormatError, HugealignError)
    assert issubclass(NumberFormatError, ValueError)
    with pytest.raises(NumberFormatError) as error:
        decimal("\x1b[31m\n", 9)
    assert str(error.value).isprintable()
