"""What `hugealign run` prints of texts that are not huge."""

from pathlib import Path

import pytest

from hugealign.run.launch import IN_PLACE, STAGE, Launch, TextResult, worth_saying


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ((), ""),
        ((TextResult("/a", STAGE, 3, 3),), ""),
        ((TextResult("/a", IN_PLACE, 3, 1, "why"),), "/a: 1 of 3 windows huge: why"),
        ((TextResult("/a", STAGE, 3, 3), TextResult("/b", IN_PLACE, 2, 0, "why")), "/b: 0 of 2 windows huge: why"),
        ((TextResult("/nonexistent", IN_PLACE, problem="why"),), ""),
        ((TextResult("/a\n", IN_PLACE, 3, 1, "why"),), "/a\\n: 1 of 3 windows huge: why"),
    ],
)
def test_one_line_for_what_is_not_huge(texts: tuple[TextResult, ...], line: str) -> None:
    assert worth_saying(Launch(texts)) == line


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (200 << 10, "has too little text for huge pages (200.0 KiB); what it starts or loads was not examined"),
        (300 << 10, "none of 300.0 KiB of text huge: no whole window"),
    ],
)
def test_of_little_text_the_line_says_what_was_not_examined(tmp_path: Path, size: int, words: str) -> None:
    path = str(tmp_path / "program")
    Path(path).write_bytes(_program(size))
    program = TextResult(path, IN_PLACE)
    assert words in worth_saying(Launch([program]))
    huge, small = TextResult("/a", STAGE, 3, 3), TextResult("/b", IN_PLACE, problem="no window can be made of it")
    assert (worth_saying(Launch([program, huge], named=["/a"])) == "") == (size < 256 << 10)
    assert worth_saying(Launch([program, huge, small], named=["/a", "/b"])) == "/b: no window can be made of it"


def _program(size: int) -> bytes:
    """Return an ELF file with one executable segment of *size* bytes and nothing else."""
    import struct

    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0x1000, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0x1000, 0x1000, 0x1000, size, size, 0x1000)
    return (header + segment).ljust(0x1000, b"\0") + b"\xcc" * size
