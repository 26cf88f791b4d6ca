"""Write the pad object: an ELF relocatable file with one code section that the linker keeps; and the build note.

It is written by hand because there is no assembler at link time: the shim stands in for the linker.
"""

import struct

from hugealign.elf.image import (
    ELFMAG,
    ET_REL,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_GNU_RETAIN,
    SHF_INFO_LINK,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_RELA,
    SHT_STRTAB,
    SHT_SYMTAB,
)
from hugealign.elf.machines import Machine
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    #: name, type, flags, data, link, info, alignment, entry size
    Contents = list[tuple[str, int, int, bytes, int, int, int, int]]

PAD_SYMBOL, LEAD_SYMBOL = "__hugealign_pad", "__hugealign_rodata"

#: The symbols that a profile's order puts before and behind its hot functions; each has a section of its own.
HOT_MARKS = ("__hugealign_hot_start", "__hugealign_hot_end")

_ALLOC_EXEC = SHF_ALLOC | SHF_EXECINSTR
_HIDDEN, _GLOBAL_OBJECT, _GLOBAL = 2, 0x11, 0x10
EHDR_FIELDS, PHDR_FIELDS, SHDR_FIELDS = "16sHHIQQQIHHHHHH", "IIQQQQQQ", "IIQQQQIIQQ"
EHDR, PHDR, SHDR = (struct.Struct("<" + fields) for fields in (EHDR_FIELDS, PHDR_FIELDS, SHDR_FIELDS))
_SYM, _RELA = "IBBHQQ", "QQq"
_SYM_SIZE, _RELA_SIZE = 24, 24


class Pad(Record):
    """What a pad object holds: for *machine*, a *section* of *size* bytes of traps, at least one.

    The section has the hidden global symbol PAD_SYMBOL, by which it can be kept (``-u``).  An empty
    ``.note.GNU-stack`` says that no executable stack is needed; without it GNU ld would grant one, as it would for
    other objects without it as soon as one has it: without *stack_note* it is left out.  The property note claims every
    feature, since linkers keep only those that all their inputs claim.

    With a *note* the object holds it too, and the empty sections of HOT_MARKS, ``.text.NAME``: in the linked file the
    note's hot_start and hot_end are the distances from these fields to those symbols.  *lead* is the name of a section
    of *lead_size* zeros, a pad that ends the read-only data before the text, with the symbol LEAD_SYMBOL; the linker
    that needs it sorts the parts of its sections by alignment, so that of the pads is the least.  *retain* gives both
    pads the flag that makes some linkers keep unreferenced sections.  *flags* are the ``e_flags``.
    """

    machine: Machine
    section: str
    size: int = 0
    note: bytes = b""
    stack_note: bool = True
    lead: str = ""
    lead_size: int = 1
    retain: bool = False
    flags: int = 0


def pad_object(pad: Pad) -> bytes:
    """Return the object file that holds *pad*."""
    machine, trap = pad.machine, pad.machine.trap
    sym, rela = machine.order + _SYM, machine.order + _RELA
    kept = SHF_GNU_RETAIN if pad.retain else 0
    size = max(pad.size, len(trap))
    text = bytes(size) if machine.holes else (trap * (size // len(trap) + 1))[:size]
    strings = b"\0" + PAD_SYMBOL.encode() + b"\0"
    symbols = bytes(_SYM_SIZE) + struct.pack(sym, 1, _GLOBAL_OBJECT, _HIDDEN, 1, 0, len(text))
    contents: Contents = [
        (pad.section, SHT_PROGBITS, _ALLOC_EXEC | kept, text, 0, 0, 1 if pad.lead else len(trap), 0),
        *_notes(machine, pad.stack_note),
    ]
    if pad.note:
        from hugealign.elf.notes import HOT_END, HOT_START, SECTION  # most links have no note

        # A distance is that to the field itself, or that field has a symbol, which is subtracted.
        distances, first = b"", len(symbols) // _SYM_SIZE
        to_symbol, *from_field = machine.distance
        for number, (mark, offset) in enumerate(zip(HOT_MARKS, (HOT_START, HOT_END), strict=True)):
            contents.append((f".text.{mark}", SHT_PROGBITS, _ALLOC_EXEC, b"", 0, 0, 1, 0))
            symbols += struct.pack(sym, len(strings), _GLOBAL, _HIDDEN, len(contents), 0, 0)
            strings += mark.encode() + b"\0"
            distances += struct.pack(rela, offset, (first + number) << 32 | to_symbol, 0)
            for kind in from_field:
                distances += struct.pack(rela, offset, (first + len(HOT_MARKS) + number) << 32 | kind, 0)
        contents.append((SECTION, SHT_NOTE, SHF_ALLOC, pad.note, 0, 0, 4, 0))
        at = len(contents)
        for mark, offset in zip(HOT_MARKS, (HOT_START, HOT_END), strict=True) if from_field else ():
            # Not one symbol and addends: GNU ld adds those that it should subtract (2.40, R_RISCV_SUB64).
            symbols += struct.pack(sym, len(strings), _GLOBAL, _HIDDEN, at, offset, 0)
            strings += f"{mark}_distance".encode() + b"\0"
        contents.append((f".rela{SECTION}", SHT_RELA, SHF_INFO_LINK, distances, at + 2, at, 8, _RELA_SIZE))
    if pad.lead:
        contents.append((pad.lead, SHT_PROGBITS, SHF_ALLOC | kept, bytes(pad.lead_size), 0, 0, 1, 0))
        symbols += struct.pack(sym, len(strings), _GLOBAL_OBJECT, _HIDDEN, len(contents), 0, pad.lead_size)
        strings += LEAD_SYMBOL.encode() + b"\0"
    contents += [
        (".symtab", SHT_SYMTAB, 0, symbols, len(contents) + 2, 1, 8, _SYM_SIZE),
        (".strtab", SHT_STRTAB, 0, strings, 0, 0, 1, 0),
    ]
    return _relocatable(machine, contents, pad.flags)


def declaring_object(machine: Machine, names: "Sequence[str]", flags: int = 0, *, stack_note: bool = True) -> bytes:
    """Return an object for *machine* with empty sections of code *names*, in their order."""
    sections = [(name, SHT_PROGBITS, _ALLOC_EXEC, b"", 0, 0, 1, 0) for name in names]
    return _relocatable(machine, [*sections, *_notes(machine, stack_note)], flags)


def _notes(machine: Machine, stack_note: bool) -> "Contents":
    """Return the sections that keep an object of ours from weakening a program's protection."""
    notes: Contents = [(".note.GNU-stack", SHT_PROGBITS, 0, b"", 0, 0, 1, 0)] if stack_note else []
    if machine.feature:
        feature = struct.pack(machine.order + "IIII", machine.feature, 4, machine.features, 0)
        header = struct.pack(machine.order + "III4s", 4, len(feature), 5, b"GNU\0")  # NT_GNU_PROPERTY_TYPE_0
        notes.append((".note.gnu.property", SHT_NOTE, SHF_ALLOC, header + feature, 0, 0, 8, 0))
    return notes


def _relocatable(machine: Machine, contents: "Contents", e_flags: int) -> bytes:
    """Return an object file of those sections, with their names behind them."""
    section_names = [entry[0] for entry in contents] + [".shstrtab"]
    names = b"".join(name.encode() + b"\0" for name in ["", *section_names])
    contents = [*contents, (".shstrtab", SHT_STRTAB, 0, names, 0, 0, 1, 0)]
    body: list[bytes] = []  # joined once: a pad may have 32 MiB
    length, at = EHDR.size, 1
    order = machine.order
    headers = bytes(SHDR.size)
    for name, sh_type, flags, data, link, info, alignment, entry_size in contents:
        gap = -length % alignment
        fields = (at, sh_type, flags, 0, length + gap, len(data), link, info, alignment, entry_size)
        headers += struct.pack(order + SHDR_FIELDS, *fields)
        body += [bytes(gap), data]
        length += gap + len(data)
        at += len(name.encode()) + 1
    body.append(bytes(-length % 8))
    # SHF_GNU_RETAIN means something only in files for GNU (BFD, elf_backend_section_flags): EI_OSABI is ELFOSABI_GNU.
    retained = any(flags & SHF_GNU_RETAIN for _, _, flags, *_ in contents)
    ident = ELFMAG + b"\2" + (b"\2" if machine.big else b"\1") + b"\1" + (b"\3" if retained else b"\0") + b"\0" * 8
    e_shoff = length + len(body[-1])
    count = len(contents) + 1
    sizes = (EHDR.size, 0, 0, SHDR.size, count, count - 1)
    ehdr = struct.pack(order + EHDR_FIELDS, ident, ET_REL, machine.number, 1, 0, 0, e_shoff, e_flags, *sizes)
    return b"".join((ehdr, *body, headers))
