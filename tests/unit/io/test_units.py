"""Sizes as people write them, and what is fit for a terminal."""

import pytest

from hugealign.errors import UsageError
from hugealign.io.units import parse_page_size, parse_size, printable


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("64K", 65536), ("2M", 2 << 20), ("2m", 2 << 20), ("2MiB", 2 << 20), ("1GB", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "x") == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5M", "2X", "0x10", "٣", "9" * 30, "2000G", "1 M"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(UsageError, match=r"^x: "):
        parse_size(text, "x")


@pytest.mark.parametrize("text", ["3M", "32K", "2G", "0"])
def test_no_page_sizes(text: str) -> None:
    with pytest.raises(UsageError):
        parse_page_size(text, "x")


def test_page_sizes() -> None:
    assert [parse_page_size(text, "x") for text in ("64K", "2M", "32M", "512M", "1G")] == [
        1 << n for n in (16, 21, 25, 29, 30)
    ]


def test_printable_escapes() -> None:
    assert printable("a\x1b[1m\n\udcff\u202e") == "a\\x1b[1m\\n\\xff\\xe2\\x80\\xae"
    assert printable("plain ü") == "plain ü"
