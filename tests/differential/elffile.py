"""ELF files written from scratch: any layout of segments, as no linker makes it.

Each program touches a byte in every page of its executable segments, writes a full stop and waits.
"""

import itertools
import random
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PAGE, WINDOW = 4096, 2 << 20
R, W, X = 4, 2, 1
FIXED, PIE, STATIC_PIE, LIBRARY = KINDS = ("fixed", "pie", "static-pie", "library")
_INTERPRETER = b"/lib64/ld-linux-x86-64.so.2\0"
_CODE = """
    lea table(%rip), %rbx
1:  mov (%rbx), %rsi
    mov 8(%rbx), %rcx
    test %rcx, %rcx
    jz 3f
    lea table(%rip), %rdx
    add %rdx, %rsi
2:  movb (%rsi), %al
    add $4096, %rsi
    dec %rcx
    jnz 2b
    add $16, %rbx
    jmp 1b
3:  mov $1, %eax
    mov $1, %edi
    lea dot(%rip), %rsi
    mov $1, %edx
    syscall
4:  mov $34, %eax
    syscall
    jmp 4b
dot: .ascii "."
    .balign 8
table:
"""


@dataclass(slots=True)
class Part:
    """One PT_LOAD.  *code* are ranges of addresses that sections of code take; *data* those of other sections."""

    flags: int
    address: int
    offset: int
    size: int
    memory: int
    align: int
    code: list[tuple[int, int]] = field(default_factory=list)
    data: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.address + self.memory


@dataclass(slots=True)
class Layout:
    """One file: its *kind*, its *parts*, whether it has section headers, and whether the loader writes to its text."""

    kind: str
    parts: list[Part]
    sections: bool
    textrel: bool = False
    headers: bool = True

    def __str__(self) -> str:
        words = [self.kind, "" if self.sections else "no sections", "textrel" * self.textrel]
        words += ["" if self.headers else "headers in no segment"]
        lines = [", ".join(filter(None, words))]
        for p in self.parts:
            flags = "".join(c for bit, c in ((R, "R"), (W, "W"), (X, "E")) if p.flags & bit)
            lines.append(
                f"  {flags:3} {p.address:#x} at {p.offset:#x}, {p.size:#x} of {p.memory:#x}, align {p.align:#x}"
                + "".join(f" code {a:#x}-{b:#x}" for a, b in p.code)
            )
        return "\n".join(lines)

    @property
    def texts(self) -> list[Part]:
        return [p for p in self.parts if p.flags & X]

    def code(self) -> list[tuple[int, int]]:
        """The ranges of addresses that hold code, as far as the file tells."""
        if self.sections:
            return [item for p in self.parts for item in p.code]
        return [(p.address, p.end) for p in self.texts]


def assembled() -> bytes:
    """Return the machine code of a program, up to its table."""
    with tempfile.TemporaryDirectory() as name:
        source, made, raw = (Path(name) / part for part in ("a.s", "a.o", "a.bin"))
        source.write_text(_CODE, encoding="ascii")
        subprocess.run(["as", source, "-o", made], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, raw], check=True)
        return raw.read_bytes()


def generate(random: random.Random) -> Layout:
    """Return a layout."""
    choose = random.choice
    kind = random.choices(KINDS, (3, 4, 3, 3))[0]
    align = choose((PAGE, PAGE, 16 << 10, 64 << 10, 1 << 20, WINDOW, WINDOW, WINDOW, 4 << 20, 1 << 30))
    headers = kind == PIE or random.random() < 0.85
    base = 0x400000 if kind == FIXED else 0
    if random.random() < 0.35:
        base += choose((PAGE, 0x10000, 0x100000, 0x1FF000, WINDOW, 3 * WINDOW))
    address, offset = base, 0
    parts: list[Part] = []
    if headers:
        size = choose((PAGE, PAGE, 0x3000, 0x80000, 0x210000))
        parts.append(Part(R, address, 0, size, size, align))
        address, offset = address + size, size
    else:
        offset = choose((0x1000, 0x1000, 0x300))
        address += offset if random.random() < 0.7 else choose((0, PAGE, WINDOW))
    order = [X] * random.choices((1, 2, 3), (6, 2, 1))[0] + [0] * choose((0, 1, 1)) + [W]
    if random.random() < 0.3:
        random.shuffle(order)
    for what in order:
        flags = R | what | (W if what == X and random.random() < 0.05 else 0)
        how = random.random()
        step = choose((PAGE, PAGE, align, WINDOW)) if align <= WINDOW else choose((PAGE, WINDOW))
        if how < 0.06 and parts and address % PAGE == offset % PAGE:
            pass  # on the last page of the part before, as gold does: mapped over it
        elif how < 0.55:  # packed, as LLD does: each on the next page, with the same offset within it
            address = -(-address // step) * step + offset % PAGE
            if address < (parts[-1].end if parts else 0):
                address += PAGE
        elif how < 0.85:  # congruent modulo the step
            address = -(-address // step) * step
            offset += (address - offset) % step if step <= 4 * WINDOW else 0
        else:  # congruent modulo a page only
            address = -(-address // PAGE) * PAGE
            offset = -(-offset // PAGE) * PAGE
        size = choose((0x300, 0x20000, 0x1F0000, WINDOW, 0x345000, 2 * WINDOW, 0x5FF000)) if what == X else 0x2000
        if what == 0:
            size = choose((0x800, 0x100000, 0x250000))
        if what == X and random.random() < 0.5:
            size = -(-(size + address) // WINDOW) * WINDOW - address
        memory = size + (choose((0, 0x5000, 0x300000)) if flags & W else 0)
        part = Part(flags, address, offset, size, memory, align)
        if what == X:
            _sections(random, part)
        parts.append(part)
        address, offset = part.end, offset + size
    if len([p for p in parts if p.flags & X and p.code]) == 0:
        first = next(p for p in parts if p.flags & X)
        first.code, first.data = [(first.address, first.address + first.size)], []
    dynamic = kind in (PIE, LIBRARY)
    return Layout(
        kind, parts, sections=random.random() < 0.8, textrel=dynamic and random.random() < 0.08, headers=headers
    )


def _sections(random: random.Random, part: Part) -> None:
    """Divide *part* into code and data."""
    start, end = part.address, part.address + part.size
    if random.random() < 0.6 or part.size < 0x1000:
        part.code = [(start, end)]
        return
    edges = sorted(
        {start, end, *(random.randrange(start, end) & ~15 or start for _ in range(random.choice((1, 2, 3))))}
    )
    edges = [edge for edge in edges if start <= edge <= end]
    code = bool(random.getrandbits(1))
    for low, high in itertools.pairwise(edges):
        (part.code if code else part.data).append((low, high))
        code = not code


def write(layout: Layout, path: Path, program: bytes) -> None:
    """Write the file."""
    text = next(p for p in layout.texts if p.code)
    data = next(p for p in layout.parts if p.flags & W and not p.flags & X)
    place = text.code[0][0]
    need = len(program) + 16 * (len(layout.texts) + 1)
    if text.code[0][1] - place < need:
        text.code[0] = place, place + need
        text.size = max(text.size, place + need - text.address)
        text.memory = max(text.memory, text.size)
    table_at = place + len(program)
    file_end = max(p.offset + p.size for p in layout.parts)
    table = b""
    for part in layout.texts:
        first = part.address // PAGE * PAGE
        pages = -(-(part.address + part.size) // PAGE) - first // PAGE
        table += struct.pack("<qQ", first - table_at, pages)
    table += bytes(16)

    dynamic, strings = data.address + 64, b"\0"
    tags = []
    hash_at, symbols_at, strings_at, relocations_at = (dynamic + at for at in (512, 560, 640, 672))
    if layout.kind != FIXED:
        tags = [(5, strings_at), (6, symbols_at), (4, hash_at), (10, len(strings)), (11, 24)]
        if layout.textrel:
            tags += [(7, relocations_at), (8, 24), (9, 24), (22, 0)]
        if layout.kind in (PIE, STATIC_PIE):
            tags += [(0x6FFFFFFB, 0x08000000)]
        tags += [(0, 0)]
    blob = bytearray(1024)
    blob[0:8] = b"\1" * 8
    blob[64 : 64 + 16 * len(tags)] = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    blob[576:592] = struct.pack("<4I", 1, 1, 0, 0)
    blob[704:705] = strings
    target = next(p for p in layout.texts if p.code).code[-1][1] - 8 & ~7
    blob[736:760] = struct.pack("<QQq", target, 8, 0)

    headers = []
    interpreter = data.address + 900
    if layout.kind == PIE:
        blob[900 : 900 + len(_INTERPRETER)] = _INTERPRETER
        size = 56 * (len(layout.parts) + 4)
        headers.append((6, R, 64, layout.parts[0].address + 64, size, size, 8))
        headers.append((3, R, data.offset + 900, interpreter, len(_INTERPRETER), len(_INTERPRETER), 1))
    headers += [(1, p.flags, p.offset, p.address, p.size, p.memory, p.align) for p in layout.parts]
    if tags:
        headers.append((2, R | W, data.offset + 64, dynamic, 16 * len(tags), 16 * len(tags), 8))
    headers.append((0x6474E551, R | W, 0, 0, 0, 0, 16))
    names, sections = b"\0", [(0,) * 10]
    if layout.sections:
        for name, flags, ranges in (
            (b".text\0", 6, [(item, p) for p in layout.parts for item in p.code]),
            (b".rodata\0", 2, [(item, p) for p in layout.parts for item in p.data]),
        ):
            for (low, high), part in ranges:
                at = part.offset + low - part.address
                sections.append((len(names), 1, flags, low, at, high - low, 0, 0, 1, 0))
            names += name
        sections.append((len(names), 3, 0, 0, file_end, len(names) + 10, 0, 0, 1, 0))
        names += b".shstrtab\0"
    table_of_sections = -(-(file_end + len(names)) // 8) * 8 if layout.sections else 0
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\2\1\1".ljust(16, b"\0"),
        2 if layout.kind == FIXED else 3,
        62,
        1,
        place,
        64,
        table_of_sections,
        0,
        64,
        56,
        len(headers),
        64,
        len(sections) if layout.sections else 0,
        len(sections) - 1 if layout.sections else 0,
    )
    for p_type, flags, at, address, size, memory, align in headers:
        header += struct.pack("<IIQQQQQQ", p_type, flags, at, address, address, size, memory, align)
    with path.open("wb") as file:
        file.truncate(file_end)
        file.seek(0)
        file.write(header)
        file.seek(data.offset)
        file.write(blob[: data.size])
        file.seek(text.offset + place - text.address)
        file.write(program + table)
        if layout.sections:
            file.seek(file_end)
            file.write(names)
            file.seek(table_of_sections)
            file.write(b"".join(struct.pack("<IIQQQQIIQQ", *section) for section in sections))
    path.chmod(0o755)
