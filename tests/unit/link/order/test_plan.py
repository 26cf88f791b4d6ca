"""What an ordered link is to do: its order, and its note."""

import hashlib
from pathlib import Path

from hugealign.elf.machines import X86_64
from hugealign.elf.notes import BuildNote
from hugealign.link import linkers
from hugealign.link.command import parse
from hugealign.link.job import Job
from hugealign.link.order.dialects import LinkOrder
from hugealign.link.order.plan import OrderedLink, read
from hugealign.settings import PAGE_SIZE, Settings


def test_the_note_is_the_one_that_verify_reads() -> None:
    job = Job("ld", [], [], parse([]), X86_64, Settings(page_size=PAGE_SIZE))
    order = LinkOrder([], 7, {}, windows=3, identity=b"i" * 20)
    made = OrderedLink(order, linkers.SCRIPT, linkers.named("bfd"), job)
    packed = BuildNote(1 << 21, 0, 0, 3, padded=True, profile=b"i" * 20, functions=7, threshold=4096).pack()
    assert made.note() == packed[:24] + bytes(4) + packed[28:]  # but for the version


def test_a_long_order_is_read_as_a_short_one(tmp_path: Path) -> None:
    """A second process computes its checksum meanwhile."""
    path = tmp_path / "order"
    for lines in (1, 100_000):
        path.write_text("# hugealign.order/1\n" + "".join(f"f{i}\tsamples=1\n" for i in range(lines)))
        job = Job("ld.lld", [], [], parse([]), X86_64, Settings(page_size=PAGE_SIZE, profile=str(path)))
        order = read(linkers.SYMBOLS, linkers.named("lld"), job).order
        assert (len(order.names), order.identity) == (lines, hashlib.sha256(path.read_bytes()).digest()[:20])
