"""Really linked files, and structured damage to them."""

import os
import random
import struct
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.elf.image import Image, read_image
from hugealign.elf.notes import BuildNote

PAGE = 1 << 16  # small windows, so that the files are small

_SOURCES = {
    "main.c": '#include <stdio.h>\nint main(void) { return puts("") < 0; }\nint used(void) { return puts("x"); }\n',
    "text.s": ".text\n.fill 100000, 1, 0xc3\n",
    "note.s": '.section .note.hugealign,"a",@note\n.balign 4\n.byte '
    + ",".join(map(str, BuildNote(PAGE, PAGE, 2 * PAGE, 1, padded=True, profile=b"id").pack()))
    + "\n",
    "pad.s": '.section .hugealign.pad,"ax"\n.byte 0xcc\n',
    "pad.ld": "SECTIONS { .hugealign.pad : { KEEP(*(.hugealign.pad)) . = ALIGN(0x10000); } =0xcccccccc }"
    " INSERT AFTER .fini;",
    "bare.s": ".globl _start\n_start: nop\n.fill 70000, 1, 0xc3\n.data\n.long 1\n",
}
_PADDED = "main.o text.o note.o pad.o -Wl,-T,pad.ld -Wl,-z,max-page-size=0x10000 -Wl,-z,separate-code"
_COMMANDS = (
    f"gcc -fuse-ld=bfd {_PADDED} -o pie",
    f"gcc -fuse-ld=bfd -no-pie {_PADDED} -o fixed",
    f"gcc -fuse-ld=bfd -shared {_PADDED} -o library",
    "gcc -fuse-ld=gold main.o text.o -o gold",
    "gcc -fuse-ld=mold main.o text.o note.o -o mold",
    "gcc -fuse-ld=lld main.o text.o note.o -o lld",
    "objcopy --only-keep-debug pie debug",
    "as --32 bare.s -o bare32.o",
    "ld -m elf_i386 bare32.o -o i386",
    "aarch64-linux-gnu-as bare.s -o bare64.o",
    "aarch64-linux-gnu-ld bare64.o -o aarch64",
)
#: The files of the corpus.
NAMES = frozenset(words.rpartition(" ")[2] for words in _COMMANDS) - {"bare32.o", "bare64.o"}


def corpus() -> dict[str, bytes]:
    """Link the files that are mutated; what a missing tool cannot make is left out."""
    with tempfile.TemporaryDirectory(prefix="hugealign-fuzz-") as name:
        directory = Path(name)
        for file, source in _SOURCES.items():
            stack = '.section .note.GNU-stack,"",@progbits\n' if file.endswith(".s") else ""
            (directory / file).write_text(source + stack)
        for command in ("gcc -O1 -fPIC -c main.c text.s note.s pad.s", *_COMMANDS):
            try:
                subprocess.run(command.split(), cwd=directory, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
        kept = [p for p in directory.iterdir() if "." not in p.name]
        return {path.name: path.read_bytes() for path in sorted(kept)}


@dataclass(slots=True)
class Subject:
    """A file in memory that can be mutated and made whole again."""

    name: str
    data: bytes
    image: Image
    fd: int
    touched: list[tuple[int, int]] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        """Overwrite bytes inside the file."""
        data = data[: max(0, len(self.data) - offset)]
        if offset >= 0 and data:
            os.pwrite(self.fd, data, offset)
            self.touched.append((offset, len(data)))

    def truncate(self, length: int) -> None:
        """Make the file shorter or longer; what is written behind a cut may make it as long as it was, of zeros."""
        os.ftruncate(self.fd, length)
        self.touched.append((0, len(self.data)))

    def restore(self) -> None:
        """Undo every mutation."""
        os.ftruncate(self.fd, len(self.data))
        for offset, size in self.touched:
            os.pwrite(self.fd, self.data[offset : offset + size], offset)
        self.touched.clear()


def subjects(files: dict[str, bytes]) -> list[Subject]:
    """Put the files of the corpus into memory."""
    result = []
    for name, data in files.items():
        fd = os.memfd_create(name)
        os.write(fd, data)
        result.append(Subject(name, data, read_image(fd), fd))
    return result


class Mutator:
    """Structured damage to one file, chosen by a random number generator."""

    def __init__(self, chance: random.Random, subject: Subject) -> None:
        self.chance = chance
        self.subject = subject
        self.image = subject.image
        self.order = "<" if self.image.little else ">"

    def mutate(self) -> None:
        """Apply one to five mutations."""
        kinds: tuple[Callable[[], None], ...] = (
            self.file_header, self.program_header, self.program_header, self.section_header, self.section_header,
            self.dynamic, self.contents, self.strings, self.noise, self.size, self.swap,
        )  # fmt: skip
        for _ in range(self.chance.randint(1, 5)):
            self.chance.choice(kinds)()

    def number(self) -> int:
        """An interesting number: an edge of some width, a size or an address of this file, or anything."""
        segment = self.chance.choice(self.image.segments)
        own = (
            segment.p_offset, segment.p_vaddr, segment.p_vaddr + segment.p_memsz, segment.p_filesz, segment.p_align,
            self.image.file_size, self.image.e_shoff,
        )  # fmt: skip
        edge = 1 << self.chance.choice((0, 1, 4, 8, 12, 15, 16, 21, 30, 31, 32, 47, 48, 63, 64))
        base = self.chance.choice((0, edge, *own, self.chance.getrandbits(self.chance.randint(1, 64))))
        return (base + self.chance.randint(-2, 2)) % (1 << 64)

    def pack(self, size: int) -> bytes:
        """Return an interesting number in *size* bytes."""
        value = self.number() % (1 << 8 * size)
        return value.to_bytes(size, "little" if self.order == "<" else "big")

    def file_header(self) -> None:
        """Change a field of the ELF header."""
        form = "16B" + ("HHIQQQIHHHHHH" if self.image.is64 else "HHIIIIIHHHHHH")
        sizes = [1] * 16 + [struct.calcsize("<" + letter) for letter in form[3:]]
        which = self.chance.choice((4, 5, *range(16, len(sizes))))
        self.subject.write(sum(sizes[:which]), self.pack(sizes[which]))

    def program_header(self) -> None:
        """Change a field of a program header, or its type into another that means something."""
        segment = self.chance.choice(self.image.segments)
        width = 8 if self.image.is64 else 4
        fields = [(0, 4), (4, 4), *((8 + 8 * i, 8) for i in range(6))] if width == 8 else [(4 * i, 4) for i in range(8)]
        offset, size = self.chance.choice(fields)
        data = self.pack(size)
        if offset == 0:
            kind = self.chance.choice((0, 1, 2, 3, 4, 6, 7, 0x6474E550, 0x6474E552, 0x6474E553))
            data = struct.pack(self.order + "I", kind)
        self.subject.write(segment.header + offset, data)

    def section_header(self) -> None:
        """Change a field of a section header."""
        if self.image.sections:
            section = self.chance.choice(self.image.sections)
            width = 8 if self.image.is64 else 4
            offset, size = self.chance.choice(((0, 4), (4, 4), *((8 + width * i, width) for i in range(4))))
            self.subject.write(section.header + offset, self.pack(size))

    def dynamic(self) -> None:
        """Change an entry of the dynamic section: its tag, its value, or the end of the list."""
        for segment in self.image.segments:
            if segment.p_type == 2 and segment.p_filesz >= 16:
                width = 8 if self.image.is64 else 4
                at = segment.p_offset + self.chance.randrange(segment.p_filesz // (2 * width)) * 2 * width
                tag = self.chance.choice((0, 1, 5, 10, 14, 15, 22, 29, 30, 0x6FFFFFFB, 0x6FFFFFFE, 0x6FFFFFFF))
                if self.chance.random() < 0.5:
                    order = "little" if self.order == "<" else "big"
                    self.subject.write(at, tag.to_bytes(width, order))  # type: ignore[arg-type]
                else:
                    self.subject.write(at + width, self.pack(width))

    def contents(self) -> None:
        """Change a word of what a small section holds: notes, versions, strings, the interpreter."""
        small = [s for s in self.image.sections if 4 <= s.sh_size < 1 << 12 and s.sh_type not in (0, 8)]
        if small:
            section = self.chance.choice(small)
            at = section.sh_offset + self.chance.randrange(section.sh_size // 4) * 4
            self.subject.write(at, self.pack(self.chance.choice((1, 2, 4, 8))))

    def strings(self) -> None:
        """Put terminal escapes, undecodable bytes and unending names into the names."""
        named = [s for s in self.image.sections if s.sh_type == 3 and s.sh_size > 8]
        if named:
            section = self.chance.choice(named)
            at = section.sh_offset + self.chance.randrange(section.sh_size)
            evil = (
                b"\x1b[31m",
                b"\x1b]0;x\x07",
                b"\xff\xfe",
                b"\r\n",
                b"\xc2\x9b2J",
                b"]]>",
                b"<&\"'",
                b"A" * 300,
                b"%0A::",
            )
            self.subject.write(at, self.chance.choice(evil))

    def noise(self) -> None:
        """Change bytes anywhere, mostly in the headers."""
        limit = self.chance.choice((64, 1024, len(self.subject.data)))
        for _ in range(self.chance.randint(1, 8)):
            self.subject.write(self.chance.randrange(limit), self.chance.randbytes(self.chance.randint(1, 8)))

    def size(self) -> None:
        """Cut the file short, or let it end in a hole."""
        length = len(self.subject.data)
        cut = self.chance.randrange(self.chance.choice((128, 4096, length)))
        self.subject.truncate(self.chance.choice((cut, length - cut % 512, length + 4096 * cut)))

    def swap(self) -> None:
        """Exchange two program headers."""
        first, second = (self.chance.choice(self.image.segments).header for _ in range(2))
        width = 56 if self.image.is64 else 32
        self.subject.write(first, self.subject.data[second : second + width])
        self.subject.write(second, self.subject.data[first : first + width])
