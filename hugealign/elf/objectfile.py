"""Writing the pad object: an ELF relocatable file with one code section that the linker keeps.

Written by hand because no assembler is at hand at link time: the shim stands where the linker stands.
"""

import struct

from hugealign.elf.image import EM_AARCH64, EM_X86_64, ET_REL

PAD_SYMBOL = "__hugealign_pad"

#: The trap instruction that fills padding: int3; UDF #0 (Arm ARM C6.2: permanently undefined).
TRAP = {EM_X86_64: b"\xcc", EM_AARCH64: b"\0\0\0\0"}

#: pr_type of GNU_PROPERTY_X86_FEATURE_1_AND and GNU_PROPERTY_AARCH64_FEATURE_1_AND (processor supplements).
_FEATURE_1_AND = {EM_X86_64: 0xC0000002, EM_AARCH64: 0xC0000000}
_ALL_FEATURES = 3  # IBT and SHSTK; BTI and PAC

_SHT_PROGBITS, _SHT_SYMTAB, _SHT_STRTAB, _SHT_NOTE = 1, 2, 3, 7
_SHF_ALLOC, _SHF_ALLOC_EXEC = 2, 2 | 4
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")


def pad_object(machine: int, section_name: str, size: int = 0) -> bytes:
    """Return an object for *machine* whose section *section_name* holds *size* bytes of traps, at least one.

    The section carries the hidden global symbol PAD_SYMBOL, by which it can be kept (``-u``).  An empty
    ``.note.GNU-stack`` says that no executable stack is needed; without it GNU ld would grant one.  The property
    note claims every control-flow feature, since linkers keep only those that all their inputs claim.
    """
    trap = TRAP[machine]
    text = trap * max(1, size // len(trap))
    symbols = _SYM.pack(0, 0, 0, 0, 0, 0) + _SYM.pack(1, 0x11, 2, 1, 0, len(text))  # GLOBAL OBJECT, HIDDEN
    strings = b"\0" + PAD_SYMBOL.encode() + b"\0"
    feature = struct.pack("<IIII", _FEATURE_1_AND[machine], 4, _ALL_FEATURES, 0)
    note = struct.pack("<III4s", 4, len(feature), 5, b"GNU\0") + feature  # NT_GNU_PROPERTY_TYPE_0
    names = b"\0"
    contents = (
        # name, type, flags, data, link, info, alignment, entry size
        (section_name, _SHT_PROGBITS, _SHF_ALLOC_EXEC, text, 0, 0, len(trap), 0),
        (".note.GNU-stack", _SHT_PROGBITS, 0, b"", 0, 0, 1, 0),
        (".note.gnu.property", _SHT_NOTE, _SHF_ALLOC, note, 0, 0, 8, 0),
        (".symtab", _SHT_SYMTAB, 0, symbols, 5, 1, 8, _SYM.size),
        (".strtab", _SHT_STRTAB, 0, strings, 0, 0, 1, 0),
        (".shstrtab", _SHT_STRTAB, 0, None, 0, 0, 1, 0),
    )
    name_offsets = []
    for entry in contents:
        name_offsets.append(len(names))
        names += entry[0].encode() + b"\0"
    body = b""
    headers = _SHDR.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    for name_offset, (_, sh_type, flags, data, link, info, alignment, entry_size) in zip(
        name_offsets, contents, strict=True
    ):
        data = names if data is None else data  # noqa: PLW2901
        body += b"\0" * (-len(body) % alignment)
        offset = _EHDR.size + len(body)
        headers += _SHDR.pack(name_offset, sh_type, flags, 0, offset, len(data), link, info, alignment, entry_size)
        body += data
    body += b"\0" * (-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    e_shoff = _EHDR.size + len(body)
    count = len(contents) + 1
    ehdr = _EHDR.pack(ident, ET_REL, machine, 1, 0, 0, e_shoff, 0, _EHDR.size, 0, 0, _SHDR.size, count, count - 1)
    return ehdr + body + headers
