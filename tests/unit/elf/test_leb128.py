"""LEB128 numbers, of any length and cut short."""

import pytest

from hugealign.elf.leb128 import end_of, read_one, read_unsigned


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ("00", [0]),
        ("7f", [127]),
        ("8001", [128]),
        ("e58e26", [624485]),  # DWARF 5, figure C.1
        ("8000", [0]),
        ("ffffffff0f", [(1 << 32) - 1]),
        ("ffffffffffffffffff01", [(1 << 64) - 1]),
        ("ffffffffffffffffff7f", [(1 << 64) - 1]),
        ("05e58e2600", [5, 624485, 0]),
    ],
)
def test_numbers(data: str, values: list[int]) -> None:
    whole = b"\xff" + bytes.fromhex(data) + b"\x05"
    assert read_unsigned(whole, 1, len(whole), len(values)) == (values, len(whole) - 1)
    at = 1
    for value in values:
        assert end_of(whole, at) == read_one(whole, at)[1]
        number, at = read_one(whole, at)
        assert number & (1 << 64) - 1 == value
    assert at == len(whole) - 1


@pytest.mark.parametrize(("data", "count"), [("", 1), ("80", 1), ("ffffffffffffffffffff01", 1), ("0180", 2)])
def test_numbers_that_do_not_end(data: str, count: int) -> None:
    whole = bytes.fromhex(data)
    with pytest.raises(ValueError, match="does not end"):
        read_unsigned(whole + b"\x01", 0, len(whole), count)
    if count == 1:
        with pytest.raises((IndexError, ValueError)):
            read_one(whole, 0)
