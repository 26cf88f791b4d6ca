"""Lengths of instructions, where control goes after them, and where a distance is in them: a table of encodings."""

import pytest

from hugealign.code import x86

#: An instruction in hexadecimal, its group, and the offset of a distance in it: lengths are those of the rows.
INSTRUCTIONS = [
    ("90", 0, 0),
    ("f3 0f 1e fa", 0, 0),  # endbr64
    ("48 8d 05 11 22 33 44", 0, 3),
    ("66 83 3d 11 22 33 44 3e", 0, 3),  # cmpw $0x3e: an operand-size prefix leaves the distance at four bytes
    ("66 0f 6f 05 11 22 33 44", 0, 4),  # movdqa
    ("66 81 3d 11 22 33 44 55 66", 0, 3),  # cmpw with an operand of two bytes
    ("81 3d 11 22 33 44 55 66 77 88", 0, 2),
    ("66 48 81 3d 11 22 33 44 55 66 77 88", 0, 4),  # REX.W: four bytes again
    ("c5 f9 74 05 11 22 33 44", 0, 4),  # vpcmpeqb
    ("c4 e2 79 17 05 11 22 33 44", 0, 5),  # vptest
    ("c4 e3 79 0f 05 11 22 33 44 55", 0, 5),  # vpalignr
    ("c5 fd 70 05 11 22 33 44 1b", 0, 4),  # vpshufd
    ("62 f1 7d 48 6f 05 11 22 33 44", 0, 6),  # vmovdqa32
    ("62 f3 7d 48 25 05 11 22 33 44 ff", 0, 6),  # vpternlogd
    ("8f e8 78 c0 05 11 22 33 44 01", 0, 5),  # XOP: vprotb
    ("8f 05 11 22 33 44", 0, 2),  # pop
    ("0f 38 f0 05 11 22 33 44", 0, 4),  # movbe
    ("0f 3a cc 05 11 22 33 44 01", 0, 4),  # sha1rnds4
    ("0f 0f 05 11 22 33 44 bf", 0, 3),  # 3DNow
    ("48 0f ae 05 11 22 33 44", 0, 4),
    ("d9 2d 11 22 33 44", 0, 2),  # fldcw
    ("67 8d 05 11 22 33 44", 0, 3),
    ("f6 05 11 22 33 44 01", 0, 2),  # test
    ("f6 15 11 22 33 44", 0, 2),  # not
    ("f7 05 11 22 33 44 55 66 77 88", 0, 2),
    ("66 f7 05 11 22 33 44 55 66", 0, 3),
    ("c7 05 11 22 33 44 55 66 77 88", 0, 2),
    ("c6 05 11 22 33 44 01", 0, 2),
    ("8b 04 25 11 22 33 44", 0, 0),  # an absolute address, by SIB
    ("8b 44 24 05", 0, 0),
    ("8b 84 24 05 11 22 33", 0, 0),
    ("48 b8 05 22 33 44 55 66 77 88", 0, 0),
    ("66 b8 11 22", 0, 0),
    ("b8 05 22 33 44", 0, 0),
    ("a1 05 22 33 44 55 66 77 88", 0, 0),
    ("68 05 22 33 44", 0, 0),
    ("c8 11 22 33", 0, 0),
    ("c5 f8 77", 0, 0),  # vzeroupper
    ("0f a2", 0, 0),
    ("0f 20 c0", 0, 0),
    ("70 05", x86.BRANCH8, 0),
    ("e3 05", x86.BRANCH8, 0),
    ("0f 84 11 22 33 44", x86.BRANCH32, 2),
    ("2e 0f 85 11 22 33 44", x86.BRANCH32, 3),
    ("c7 f8 11 22 33 44", x86.BRANCH32, 2),  # xbegin
    ("eb 05", x86.JUMP8, 0),
    ("e9 11 22 33 44", x86.JUMP32, 1),
    ("f2 e9 11 22 33 44", x86.JUMP32, 2),
    ("ff 25 11 22 33 44", x86.INDIRECT, 2),
    ("3e ff e0", x86.INDIRECT, 0),
    ("ff 15 11 22 33 44", 0, 2),
    ("e8 11 22 33 44", x86.CALL, 1),
    ("66 66 48 e8 11 22 33 44", x86.CALL, 4),
    ("c3", x86.END, 0),
    ("f3 c3", x86.END, 0),
    ("c2 11 22", x86.END, 0),
    ("0f 0b", x86.END, 0),
    ("67 0f b9 40 05", x86.END, 0),  # ud1, as Clang traps
    ("f4", x86.END, 0),
]
#: What is not an instruction in 64-bit mode, what we do not know, and branches that processors read differently.
UNKNOWN = [
    *("06", "27", "60", "82 c0 01", "9a 11 22 33 44 55 66", "ce", "d4 0a", "ea 11 22 33 44 55 66", "0f 04", "0f 24 c0"),
    *("d5 90 6f 05 11 22 33 44", "62 f4 7c 08 01 c0", "66 e8 11 22", "66 e9 11 22 33 44", "66 0f 84 11 22 33 44"),
    *("ff f8", "c6 0d 11 22 33 44 01", "62 f5 7d", "48"),
]


@pytest.mark.parametrize(("code", "kind", "distance"), INSTRUCTIONS)
def test_instruction(code: str, kind: int, distance: int) -> None:
    data = bytes.fromhex(code)
    found = x86.instruction().match(data + bytes(x86.LONGEST))
    assert found
    assert (found.end(), found.lastindex or 0) == (len(data), kind)
    assert x86.distance_at(data) == distance
    assert not x86.instruction().match(data[:-1])  # cut off


@pytest.mark.parametrize("code", UNKNOWN)
def test_no_instruction(code: str) -> None:
    assert not x86.instruction().match(bytes.fromhex(code))


@pytest.mark.parametrize(("code", "distance"), [(code, distance) for code, _, distance in INSTRUCTIONS if distance])
def test_what_is_in_front_of_a_distance(code: str, distance: int) -> None:
    data = bytes.fromhex(code)
    assert x86.before_distance().match(data, distance)
    assert distance in range(1, len(data) - 3)


def test_a_block_ends_behind_what_changes_the_flow() -> None:
    plain, jump = bytes.fromhex("90 48 8d 05 11 22 33 44 66 b8 11 22"), bytes.fromhex("eb 05")
    for code, end, kind in (
        (plain + jump + plain, len(plain + jump), x86.JUMP8),
        (jump + plain, len(jump), x86.JUMP8),
        (plain + jump[:1], len(plain), None),  # cut off
        (plain + b"\x48", len(plain), None),  # a prefix alone
        (b"\x06", 0, None),  # no instruction
        (b"\x90" * (2 * x86.RUN), x86.RUN, None),
    ):
        found = x86.block().match(code)
        assert found
        assert (found.end(), found.lastindex) == (end, kind)


@pytest.mark.parametrize(
    ("code", "branch"),
    [
        ("e8 00 00 00 00", True),
        ("67 e8 00 00 00 00", True),
        ("0f 84 00 00 00 00", True),
        ("c7 f8 00 00 00 00", True),
        ("eb 00", True),
        ("48 8d 05 00 00 00 00", False),
        ("ff 25 00 00 00 00", False),
        ("c3", False),
        ("06", False),
    ],
)
def test_what_branches_to_a_distance(code: str, branch: bool) -> None:
    assert x86.branches(bytes.fromhex(code)) is branch


def test_prefixes() -> None:
    assert all(x86.is_prefixes(bytes.fromhex(code)) for code in ("", "67", "f2 48", "66 66 2e"))
    assert not any(x86.is_prefixes(bytes.fromhex(code)) for code in ("81", "48 81", "b8 00"))
