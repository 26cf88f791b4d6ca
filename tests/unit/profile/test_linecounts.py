"""Counts of source lines: which of them a piece of code is of."""

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from hugealign.code.blockmap import Block
from hugealign.elf.symbols import Functions
from hugealign.profile import autofdo, linecounts
from hugealign.profile.linecounts import Inlined, LineCounts, _frames, _settled, place
from hugealign.profile.model import Flow, MemoryRoom, Profile, ProfileError
from hugealign.profile.source import ProfileSource


def frame(name: str, line: int, start: int, discriminator: int = 0) -> dict[str, object]:
    return {"FunctionName": name, "Line": line, "StartLine": start, "Discriminator": discriminator}


def test_a_line_lies_below_the_calls_that_were_inlined_around_it() -> None:
    inner = Inlined({(2, 0): 70, (3, 1): 5})
    root = Inlined({(1, 0): 100}, {((4, 0), "inner"): inner})
    assert root.count([frame("f", 11, 10)]) == 100
    assert root.count([frame("f", 12, 10)]) == 0
    assert root.count([frame("inner", 52, 50), frame("f", 14, 10)]) == 70
    assert root.count([frame("inner", 53, 50, 2), frame("f", 14, 10)]) == 5
    assert root.count([frame("inner", 52, 50), frame("f", 15, 10)]) == 0  # another call of it
    assert root.count([frame("other", 52, 50), frame("f", 14, 10)]) == 0


def test_a_line_before_its_function() -> None:
    """As a macro's can be: LLVM keeps 16 bits of the distance."""
    assert Inlined({(0xFFFE, 0): 3}).count([frame("f", 8, 10)]) == 3


def test_blocks_of_no_line_may_be_hot() -> None:
    assert _settled([None, 5, None, None, 2, None, 0, None]) == [5, 5, 5, 5, 2, 2, 0, 0]
    assert _settled([None, None]) == [0, 0]
    assert _settled([]) == []


def test_indentation_says_what_a_line_belongs_to() -> None:
    """By one space for each level, or by two, as dump_gcov has it."""
    for wide in (1, 2):
        counts = LineCounts(MemoryRoom())
        counts.begin("f")
        counts.line(wide, (1, 0), 10)
        counts.call(wide, (2, 0), "g")
        counts.line(2 * wide, (5, 0), 20)
        counts.call(2 * wide, (6, 3), "h")
        counts.line(3 * wide, (7, 0), 30)
        counts.line(wide, (3, 0), 40)
        counts.begin("")
        counts.line(wide, (1, 0), 50)
        counts.begin("k")
        h = Inlined({(7, 0): 30})
        g = Inlined({(5, 0): 20}, {((6, 3), "h"): h})
        assert counts.functions == {"f": Inlined({(1, 0): 10, (3, 0): 40}, {((2, 0), "g"): g}), "k": Inlined()}


def read(text: str) -> tuple[set[str], int]:
    """The functions whose lines are counted, and how many are left out."""
    counts = LineCounts(MemoryRoom())
    profile = Profile()
    autofdo.read(text.encode().splitlines(), profile, counts)
    assert not profile.bad
    return set(counts.functions), counts.left_out


def test_what_are_no_lines() -> None:
    """Pseudo-probes, which a checksum of the function's control flow gives away; contexts; GCC's, as dump_gcov has."""
    assert read("f:9:1\n 1: 9\n !CFGChecksum: 1\n !Attributes: 1\ng:9:1\n 1: 9\n !Attributes: 1\n") == ({"g"}, 1)
    assert read("f:9:1\n 1: 9\n 2: h:9\n  1: 9\n  !CFGChecksum: 1\n !CFGChecksum: 2\n") == (set(), 1)
    assert read("[main:3 @ f]:9:1\n 1: 9\n") == (set(), 1)
    assert read("f total:9 head:1\n  1: 9\n") == (set(), 1)


#: f and g, of three blocks of eight bytes each.
MAPS = {start: [Block(number, start + 8 * number, 8, False) for number in range(3)] for start in (0x1000, 0x1040)}


def placed(
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    frames: Mapping[int, Sequence[dict[str, object]]],
    maps: Mapping[int, list[Block]] = MAPS,
    names: Sequence[str] = ("f", "g"),
) -> dict[tuple[int, int], int]:
    """Return what AutoFDO's *text* says ran, where the code at each address is of *frames*."""
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        by_name.setdefault(name, []).append(index)
    functions = Functions([0x1000, 0x1040], [0x18, 0x18], list(names), ["", ""], by_name)
    monkeypatch.setattr(linecounts, "read_blocks", lambda _, wanted: {at: maps[at] for at in maps if at in wanted})

    def known(_: str, addresses: Iterable[int]) -> Iterable[Sequence[dict[str, object]]]:
        return (frames.get(address, []) for address in addresses)

    monkeypatch.setattr(linecounts, "_frames", known)
    counts, flow = LineCounts(MemoryRoom()), Flow()
    autofdo.read(text.encode().splitlines(), Profile(), counts)
    place(counts.functions, ProfileSource(io.BytesIO(), "profile", functions, "prog"), flow)
    return flow.runs


def lines(name: str, start: int) -> dict[int, Sequence[dict[str, object]]]:
    """The first block of a function is of its first line, the others of the second."""
    return {start + at: [frame(name, 11 + (at > 0), 10)] for at in (0, 8, 16)}


def test_code_has_the_count_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest in a block; inlined code by the call that it came from."""
    text = "f:9:1\n 1: 9\n 2: 4\n 3: inner:7\n  1: 7\n"
    inner = [frame("inner", 51, 50), frame("f", 13, 10)]
    frames = {0x1000: [frame("f", 11, 10)], 0x1004: [frame("f", 12, 10)], 0x1008: inner, 0x1010: [frame("f", 14, 10)]}
    assert placed(monkeypatch, text, frames) == {(0x1000, 0x1008): 9, (0x1008, 0x1010): 7}


def test_code_without_a_line_counts_as_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 0 means none; so does a function without a first line, from which lines are counted."""
    text = "f:9:1\n 0: 3\n 1: 9\n 11: 5\n"
    for unknown in (frame("f", 0, 10), frame("f", 11, 0)):
        found = placed(monkeypatch, text, {0x1000: [frame("f", 11, 10)], 0x1008: [unknown], 0x1010: [unknown]})
        assert found == {(at, at + 8): 9 for at in (0x1000, 0x1008, 0x1010)}


def test_no_code_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a stripped program, or one without -fdebug-info-for-profiling."""
    for frames in ({}, {0x1000: [frame("f", 11, 0)], 0x1008: [frame("f", 12, 0)]}):
        with pytest.raises(ProfileError, match="no code of its functions has a line"):
            placed(monkeypatch, "f:9:1\n 1: 9\n", frames)
    assert placed(monkeypatch, "[main @ f]:9:1\n 1: 9\n", {}) == {}


def test_an_empty_block_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would count for the block behind it, at the same address."""
    sizes = [8, 0, 16]
    blocks = [Block(n, 0x1000 + sum(sizes[:n]), size, False) for n, size in enumerate(sizes)]
    frames = {0x1000: [frame("f", 11, 10)], 0x1008: [frame("f", 12, 10)]}
    assert placed(monkeypatch, "f:9:1\n 1: 9\n", frames, {0x1000: blocks}) == {(0x1000, 0x1008): 9}


def test_functions_that_lines_do_not_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one name, and those whose map is not that of the file."""
    text = "f:9:1\n 1: 9\ng:5:1\n 1: 5\n"
    frames = {**lines("f", 0x1000), **lines("g", 0x1040)}
    assert placed(monkeypatch, text, frames) == {(0x1000, 0x1008): 9, (0x1040, 0x1048): 5}
    behind = {**MAPS, 0x1000: [*MAPS[0x1000][:2], Block(2, 0x1010, 16, False)]}
    assert placed(monkeypatch, text, frames, behind) == {(0x1040, 0x1048): 5}
    assert placed(monkeypatch, text, frames, names=("f", "f")) == {}


def test_only_so_many_addresses_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is too large does not keep others out."""
    monkeypatch.setattr(linecounts, "_MOST", 5)
    text = "f:9:1\n 1: 9\ng:5:1\n 1: 5\n"
    frames = {**lines("f", 0x1000), **lines("g", 0x1040)}
    assert placed(monkeypatch, text, frames) == {}
    small = {**MAPS, 0x1040: [Block(0, 0x1040, 8, False), Block(1, 0x1048, 4, False)]}
    assert placed(monkeypatch, text, frames, small) == {(0x1040, 0x1048): 5}


@pytest.mark.parametrize("field", ["Line", "StartLine", "Discriminator"])
def test_a_tool_that_prints_something_else(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "llvm-symbolizer-25"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for value in ('"x"', "null", "1e999", "{}"):
        printed = dict.fromkeys(("Line", "StartLine", "Discriminator", "FunctionName"), "1") | {field: value}
        text = ",".join(f'"{key}":{told}' for key, told in printed.items())
        tool.write_text(f"#!/bin/sh\necho '{{\"Symbol\":[{{{text}}}]}}'\n")
        tool.chmod(0o755)
        with pytest.raises(ProfileError, match="prints what is not known here"):
            list(_frames("prog", [0x1000]))
