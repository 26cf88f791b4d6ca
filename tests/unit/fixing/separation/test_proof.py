"""What control reaches in a function, and that nothing is proven where something is not what it seems."""

import pytest

from hugealign.code import x86
from hugealign.fixing.separation.proof import Instruction, _Function

START = 0x1000
LEA = "48 8d 05 11 22 33 44"


def function(code: str, *arrivals: int) -> _Function:
    """Return the function with *code*, in hexadecimal, at whose offsets *arrivals* control arrives."""
    made = _Function(START, bytes.fromhex(code))
    made.add(START + offset for offset in arrivals)
    return made


def found(code: str, offset: int, *arrivals: int) -> str:
    """Return the proven instruction at *offset* in hexadecimal; nothing if none is."""
    made = function(code, *(arrivals or (0,)))
    made.reach(START + offset)
    instruction = made.instruction(START + offset)
    return instruction.code.hex(" ") if instruction else ""


@pytest.mark.parametrize("byte", range(7))
def test_each_byte_of_an_instruction(byte: int) -> None:
    made = function(f"90 {LEA} c3", 0)
    made.reach(START + 1 + byte)
    assert made.instruction(START + 1 + byte) == Instruction(START + 1, bytes.fromhex(LEA))


def test_data_behind_a_jump_hide_no_instruction() -> None:
    """Decoded in a row, the two bytes would swallow what follows: MOV with an operand of eight bytes."""
    code = f"eb 02 48 b8 {LEA} 90 c3"
    assert found(code, 4) == LEA
    assert found(code, 2) == ""


@pytest.mark.parametrize(
    "end", ["c3", "c2 08 00", "0f 0b", "f4", "cc", "ff e0", "e9 00 01 00 00", "eb 70", "67 0f b9 40 05"]
)
def test_control_does_not_go_on(end: str) -> None:
    assert found(f"{end} {LEA} c3", len(bytes.fromhex(end))) == ""


@pytest.mark.parametrize("end", ["e8 00 01 00 00", "ff d0", "74 00", "0f 84 00 00 00 00", "e3 00", "0f 05"])
def test_control_goes_on(end: str) -> None:
    code = f"{end} {LEA} c3"
    assert found(code, len(bytes.fromhex(end))) == LEA


@pytest.mark.parametrize("branch", ["75 {:02x}", "eb {:02x}", "0f 84 {:02x} 00 00 00", "e9 {:02x} 00 00 00"])
def test_branches(branch: str) -> None:
    code = f"{branch.format(3)} c3 c3 c3 {LEA} c3"
    assert found(code, bytes.fromhex(code).index(0x48)) == LEA


@pytest.mark.parametrize("prefix", ["", "67 ", "48 ", "f0 e8 f0 ff ff ff ", "e8 e8 ff ff ff "])
def test_a_call_in_a_function(prefix: str) -> None:
    code = f"{prefix}e8 01 00 00 00 c3 {LEA} c3"
    assert found(code, bytes.fromhex(code).index(b"\x48\x8d")) == LEA


@pytest.mark.parametrize("prefix", ["81", "b8 00 00 00"])
def test_what_only_looks_like_a_call(prefix: str) -> None:
    code = f"{prefix} e8 01 00 00 00 c3 {LEA} c3"
    assert found(code, bytes.fromhex(code).index(b"\x48\x8d")) == ""
    assert found(f"{prefix} e8 01 00 00 00 c3", 0) != ""


def test_a_call_into_the_middle() -> None:
    made = function(f"{LEA} e8 f6 ff ff ff c3", 0)
    made.reach(START + 12)
    assert made.instruction(START) is None


def test_a_branch_backwards() -> None:
    assert found(f"eb 08 {LEA} c3 eb f6", 2) == LEA


@pytest.mark.parametrize(
    "code",
    [
        f"75 01 {LEA} c3",  # into the middle of what follows
        f"{LEA} 75 fa c3",  # into the middle of what was reached
        f"{LEA} 06 c3",  # no instruction
        f"{LEA} 48 8d",  # cut off
    ],
)
def test_nothing_is_proven_where_something_is_wrong(code: str) -> None:
    made = function(code, 0)
    made.reach(START + len(bytes.fromhex(code)) - 1)
    assert made.instruction(START) is None


def test_two_beginnings_that_contradict_each_other() -> None:
    made = function(f"{LEA} {LEA} c3", 0, 3)
    for offset in (14, 0):
        made.reach(START + offset)
    assert made.instruction(START) is None


def test_a_prefix_that_a_branch_skips() -> None:
    """As the C library's code for processes of one thread; other prefixes are not skipped."""
    assert found(f"74 01 f0 ff 05 11 22 33 44 {LEA} c3", 9) == LEA
    assert found(f"74 01 66 ff 05 11 22 33 44 {LEA} c3", 9) == ""


def test_a_long_block() -> None:
    count = 5 * x86.RUN
    assert found("90 " * count + LEA + " c3", count) == LEA
    assert found("90 " * count + LEA + " c3", count - 1) == "90"


def test_tables_count_only_behind_a_jump_through_a_register() -> None:
    for end, taken in (("ff e0", {START + 7 + 0x44332211}), ("c3", set())):
        made = function(f"{LEA} {end}", 0)
        made.reach(START + 8)
        assert made.taken() == taken
    made = function(f"eb 07 {LEA} ff e0", 0)  # LEA is not reached
    made.reach(START + 10)
    assert made.taken() == set()


def test_a_table_ends_where_no_instruction_begins() -> None:
    made = function(f"ff e0 {LEA} c3", 0)
    assert list(made.followed([START + 2, 0x9000, START + 9, START + 3, START + 2])) == [START + 2, START + 9]
    made = function(f"ff e0 {LEA} 48", 0)  # the last instruction does not end with the function
    assert list(made.followed([START + 2])) == []


def test_all_of_a_section_of_code() -> None:
    made = function("c3 c3 90")
    for arrivals in made.all():
        made.add(arrivals)
    made.reach(START + 2)
    assert made.instruction(START + 2) == Instruction(START + 2, b"\x90")
