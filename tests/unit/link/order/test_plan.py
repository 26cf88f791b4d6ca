"""What an ordered link is to do: work beside it, and its note."""

import os

import pytest

from hugealign.elf.machines import X86_64
from hugealign.elf.notes import BuildNote
from hugealign.link import linkers
from hugealign.link.command import parse
from hugealign.link.job import Job
from hugealign.link.order.dialects import LinkOrder
from hugealign.link.order.plan import OrderedLink, SecondProcess
from hugealign.settings import PAGE_SIZE, Settings


def test_work_beside() -> None:
    """Of any size; what fails there is done here, and fails here."""
    here = os.getpid()
    beside = SecondProcess(lambda: (os.getpid(), bytes(5 << 20), [(b"a", 1)]))
    pid, *rest = beside.result()
    assert (pid != here, rest) == (True, [bytes(5 << 20), [(b"a", 1)]])
    assert SecondProcess(lambda: "done" if os.getpid() == here else 1 // 0).result() == "done"
    with pytest.raises(ZeroDivisionError):
        SecondProcess(lambda: 1 // 0).result()
    killed = SecondProcess(lambda: "done" if os.getpid() == here else os.kill(os.getpid(), 9))
    assert killed.result() == "done"


def test_the_note_is_the_one_that_verify_reads() -> None:
    job = Job("ld", [], [], parse([]), X86_64, Settings(page_size=PAGE_SIZE))
    order = LinkOrder([], 7, {}, windows=3, identity=b"i" * 20)
    made = OrderedLink(order, linkers.SCRIPT, linkers.named("bfd"), job)
    packed = BuildNote(1 << 21, 0, 0, 3, padded=True, profile=b"i" * 20, functions=7, threshold=4096).pack()
    assert made.note() == packed[:24] + bytes(4) + packed[28:]  # but for the version
