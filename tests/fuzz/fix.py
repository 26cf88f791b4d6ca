"""What a fix must be: the input but for what was planned, every byte at its address, and undone without a trace."""

import itertools
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from hugealign.elf.fixrecord import LEVELS, Piece
from hugealign.elf.image import PF_W, PF_X, Image, read_image
from hugealign.elf.windows import BASE_PAGE, align_down, align_up
from hugealign.errors import HugealignError
from hugealign.fixing import fix, writing
from hugealign.fixing.fix import FixOptions
from hugealign.fixing.moves import moved
from hugealign.fixing.output import Output
from tests.fuzz import elf

#: The levels, and the choice among them.
WAYS = (*LEVELS, "")

#: Files with two texts: in one window, as GNU ld makes them of a .text aligned to more than a page, and apart.
_TWO = """\
.text
.globl _start
.balign 0x8000
_start: .fill 300000, 1, 0xc3
.section .plt.own, "ax"
.fill 100, 1, 0xc3
.section .rodata
.fill 70000, 1, 1
.data
.long 1
.section .text.far, "ax"
.fill 200000, 1, 0xc3
.section .rodata.far, "a"
.fill 70000, 1, 1
.section .note.GNU-stack, "", @progbits
"""
_NEAR = """SECTIONS { . = SIZEOF_HEADERS; .hash : { *(.hash) } .gnu.hash : { *(.gnu.hash) } .dynsym : { *(.dynsym) }
.dynstr : { *(.dynstr) } . = ALIGN(0x1000); .plt.own : { *(.plt.own) } .text : { *(.text) *(.text.far) }
. = ALIGN(0x1000); .rodata : { *(.rodata*) } . = ALIGN(0x1000); .dynamic : { *(.dynamic) } .data : { *(.data) } }"""
_APART = """SECTIONS { . = SIZEOF_HEADERS; .hash : { *(.hash) } .gnu.hash : { *(.gnu.hash) } .dynsym : { *(.dynsym) }
.dynstr : { *(.dynstr) } . = ALIGN(0x1000); .text : { *(.text) } . = ALIGN(0x1000); .rodata : { *(.rodata) }
. = ALIGN(0x1000); .dynamic : { *(.dynamic) } .data : { *(.data) } . = ALIGN(0x1000);
.rodata.far : { *(.rodata.far) } . = ALIGN(0x1000); .text.far : { *(.text.far) *(.plt.own) } }"""


#: Files that can be separated, with all that holds addresses: debug information, packed relocations, probes, TLS.
_ADDRESSES = r"""
#include <stdio.h>
static int zero; static __thread int mine = 3; extern char **environ;
static int *pointers[64] = {[0 ... 63] = &zero};
static int one(void) { return 1; }
int (*resolve(void))(void) { return one; }
int chosen(void) __attribute__((ifunc("resolve")));
__asm__(".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 8,32,3\n.asciz \"stapsdt\"\n.8byte main,0,0\n"
        ".asciz \"ab\"\n.asciz \"cd\"\n.asciz \"\"\n.byte 0\n.popsection");
int main(void) { return *pointers[mine] + chosen() + !environ + puts(""); }
"""
_MADE = {
    "plain": "-g -fuse-ld=bfd",
    "relr": "-gdwarf-4 -gz -fuse-ld=bfd -Wl,-z,pack-relative-relocs -Wl,--emit-relocs",
    "now": "-g -fuse-ld=lld -Wl,-z,now",
    "shared": "-shared -fuse-ld=mold",
}


def corpus() -> dict[str, bytes]:
    """Return the files of `tests.fuzz.elf` that have 64 bits, those with two texts, and some that can be separated."""
    files = {name: data for name, data in elf.corpus().items() if data[4] == 2}
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as name:
        directory = Path(name)
        (directory / "two.s").write_text(_TWO)
        subprocess.run(["as", "two.s", "-o", "two.o"], cwd=directory, check=True)
        for script, text in (("near", _NEAR), ("apart", _APART)):
            (directory / f"{script}.ld").write_text(text)
            words = f"ld -shared -z separate-code -z max-page-size=4096 -T {script}.ld two.o -o {script}"
            subprocess.run(words.split(), cwd=directory, check=True)
            files[script] = (directory / script).read_bytes()
        (directory / "main.c").write_text(_ADDRESSES)
        (directory / "text.s").write_text('.text\n.fill 100000, 1, 0xc3\n.section .note.GNU-stack, "", @progbits\n')
        for kind, flags in _MADE.items():
            words = f"gcc -fPIC main.c text.s {flags} -Wl,-z,max-page-size=4096 -o {kind}"
            if subprocess.run(words.split(), cwd=directory, check=False, capture_output=True).returncode == 0:
                files[kind] = (directory / kind).read_bytes()
    return files


def check(fd: int, level: str) -> str:
    """Fix the file behind *fd* in memory, at *level* or as is best, and undo that; return what became of it.

    Raises AssertionError.
    """
    with mock.patch.dict(os.environ, HUGEALIGN_MIN_TEXT="0"):  # the files are small
        return _check(fd, FixOptions(level, elf.PAGE))


def _check(fd: int, options: FixOptions) -> str:
    new, back = os.memfd_create("new"), os.memfd_create("back")
    try:
        try:
            made = fix.outcome(fd, options)
            if made.action == fix.NOTHING:
                return "nothing to do"
            writing.compose(fd, new, made.output)
        except (HugealignError, OSError):
            return "refused"
        assert made.plan
        if not made.plan.step:  # else `compose` has held addresses against the step
            assert_planned(fd, new, made.output)
            assert_same_addresses(read_image(fd), read_image(new), made.output.pieces)
        writing.compose(new, back, fix.outcome(new, FixOptions(undo=True)).output)
        assert contents(back) == contents(fd), "undoing gives another file"
    finally:
        os.close(new)
        os.close(back)
    return made.plan.level


def assert_planned(old: int, new: int, output: Output) -> None:
    """Hold the new file against the pieces of the old one; what is written over them is passed over."""
    assert os.fstat(new).st_size == output.size
    for piece in output.pieces:
        expected = bytearray(os.pread(old, piece.size, piece.source))
        assert len(expected) == piece.size
        for offset, data in output.writes:
            start, end = max(offset, piece.target), min(offset + len(data), piece.target + piece.size)
            if start < end:
                assert (offset, len(data)) == (0, len(output.writes[-1][1])), "more than the headers is written over"
                expected[start - piece.target : end - piece.target] = data[start - offset : end - offset]
        assert os.pread(new, piece.size, piece.target) == expected, "contents differ"


def assert_same_addresses(old: Image, new: Image, pieces: Sequence[Piece]) -> None:
    """Every byte that was mapped is mapped at its address, as writable; nothing writable has become executable."""
    for segment in old.load_segments:
        mapped = 0
        for now in new.load_segments:
            start = max(segment.p_vaddr, now.p_vaddr)
            end = min(segment.p_vaddr + segment.p_memsz, now.p_vaddr + now.p_memsz)
            if start >= end:
                continue
            mapped += end - start
            assert now.p_flags & PF_W == segment.p_flags & PF_W, "another protection"
            assert now.p_flags & PF_X >= segment.p_flags & PF_X, "text is no longer executable"
            assert not now.p_flags & PF_X or not now.p_flags & PF_W, "writable and executable"
            for address in (start, end - 1):
                place, was = address - now.p_vaddr, address - segment.p_vaddr
                assert (place < now.p_filesz) == (was < segment.p_filesz), "zeros and contents exchanged"
                if place < now.p_filesz:
                    there = now.p_offset + place
                    assert there == moved(pieces, segment.p_offset + was), "another byte at an address"
        assert mapped == segment.p_memsz, "bytes are mapped no longer, or twice"
    assert shared_pages(old) or not shared_pages(new), "two segments share a page: the kernel maps that of the last"


def shared_pages(image: Image) -> bool:
    """Return whether two segments have different bytes of the file in one page."""
    pages = [
        (align_down(s.p_vaddr, BASE_PAGE), align_up(s.p_vaddr + s.p_memsz, BASE_PAGE), s.p_vaddr - s.p_offset)
        for s in image.load_segments
        if s.p_memsz
    ]
    return any(start < before and bias != other for (_, before, other), (start, _, bias) in itertools.pairwise(pages))


def contents(fd: int) -> bytes:
    """Return the file behind *fd*."""
    return os.pread(fd, os.fstat(fd).st_size, 0)
