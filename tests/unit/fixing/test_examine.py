"""What guards a program is the same after a fix, or there is no fix."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.elf.fixrecord import SHIFT, reader
from hugealign.elf.image import PF_X, PT_GNU_STACK
from hugealign.fixing import examine
from hugealign.fixing.output import Output, fixed
from hugealign.fixing.plan import Plan

_PHDR_FLAGS, _PHDR_TYPE = 4, 0


@pytest.fixture
def python() -> Iterator[int]:
    fd = os.open(Path("/usr/bin/python3").resolve(), os.O_RDONLY)
    yield fd
    os.close(fd)


def made(fd: int) -> tuple[Output, Plan]:
    image = examine.read(fd)
    plan = examine.plan(image, 1 << 16, SHIFT)
    return fixed(reader(fd), image, plan), plan


def changed(output: Output, at: int, value: int) -> Output:
    """Return *output* with four bytes of the headers replaced."""
    *before, (start, headers) = output.writes
    data = bytes(headers[:at]) + value.to_bytes(4, "little") + bytes(headers[at + 4 :])
    return output.changed(writes=(*before, (start, data)))


def test_fix_keeps_the_guards(python: int) -> None:
    assert examine.lost(python, made(python)[0]) == ""


@pytest.mark.parametrize(
    ("kind", "at", "value", "lost"),
    [
        ("stack", _PHDR_FLAGS, 7, "stack"),
        ("stack", _PHDR_TYPE, 0, "stack"),
        ("text", _PHDR_FLAGS, 7, "text-read-only"),
        ("relro", _PHDR_TYPE, 0, "relro"),
        ("note", _PHDR_TYPE, 0, ""),  # the section is looked at instead, as glibc does
    ],
)
def test_what_is_lost_is_said(kind: str, at: int, value: int, lost: str, python: int) -> None:
    output, plan = made(python)
    types = {"stack": PT_GNU_STACK, "relro": 0x6474E552, "note": 0x6474E553}
    segment = next(s for s in plan.segments if (s.p_flags & PF_X if kind == "text" else s.p_type == types[kind]))
    assert examine.lost(python, changed(output, segment.header + at, value)) == lost
