"""What guards a program against attacks, as far as its headers tell, and whether one file is guarded less than another.

hugealign edits programs, and none may have less hardening than its plain link.  This runs after every laid-out
link, so it imports nothing but our own light modules.
"""

import struct

from hugealign.elf.image import (
    DF_1_NOW,
    DF_BIND_NOW,
    DF_TEXTREL,
    DT_BIND_NOW,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_TEXTREL,
    ET_DYN,
    NT_GNU_PROPERTY_TYPE_0,
    PF_W,
    PF_X,
    PT_GNU_PROPERTY,
    PT_GNU_RELRO,
    PT_GNU_STACK,
    Image,
    dynamic_entries,
    notes_in,
    read_or_nothing,
)
from hugealign.elf.machines import MACHINES
from hugealign.records import Record

#: What PT_GNU_STACK says, from weak to strong.  Without it, the kernel decides by the processor and by its own version
#: (``elf_read_implies_exec``, arch/x86/include/asm/elf.h), and glibc gives threads an executable stack.
STACK_EXECUTABLE, STACK_UNSAID, STACK_GUARDED = 0, 1, 2
_FEATURES = frozenset(m.feature for m in MACHINES.values() if m.feature)
_NOTE_LIMIT = 1 << 16  # bytes of the property note that are read


class Guards(Record):
    """The guards of one file.

    *writable_text*: a segment is writable and executable.  *grown_text*: an executable segment extends beyond its bytes
    in the file, so zeros are executable.  *stack* is one of the STACK_ numbers.  *features* are the bits of the
    control-flow note: IBT and SHSTK, or BTI, PAC and GCS.
    """

    writable_text: bool = False
    grown_text: bool = False
    stack: int = STACK_GUARDED
    relro: bool = True
    bind_now: bool = True
    pie: bool = True
    features: int = 0
    textrel: bool = False


def stack(image: "Image") -> int:
    """Return what the headers of *image* say about the stack: one of the STACK_ numbers."""
    segment = image.first_segment(PT_GNU_STACK)
    if segment is None:
        return STACK_UNSAID
    return STACK_EXECUTABLE if segment.p_flags & PF_X else STACK_GUARDED


def writable_text(image: "Image") -> bool:
    """Return whether some segment of *image* is writable and executable."""
    return any(segment.p_flags & PF_W for segment in image.text_segments)


def grown_text(image: "Image") -> bool:
    """Return whether some executable segment of *image* has memory that the file does not fill."""
    return any(segment.p_filesz != segment.p_memsz for segment in image.text_segments)


def read_guards(fd: int, image: "Image") -> Guards:
    """Return the guards of the file behind *fd*, whose headers are *image*; an unreadable guard counts as missing."""
    values = dict(reversed(dynamic_entries(fd, image)))  # the first of a tag counts
    flags, flags_1 = values.get(DT_FLAGS, 0), values.get(DT_FLAGS_1, 0)
    return Guards(
        writable_text=writable_text(image),
        grown_text=grown_text(image),
        stack=stack(image),
        relro=_relro(image),
        bind_now=DT_BIND_NOW in values or bool(flags & DF_BIND_NOW or flags_1 & DF_1_NOW),
        pie=image.e_type == ET_DYN,
        features=_features(fd, image),
        textrel=DT_TEXTREL in values or bool(flags & DF_TEXTREL),
    )


#: How a file can be guarded less than another, for people, by the name of the guard.
LOSSES = {
    "text-read-only": "its text would be writable",
    "text-in-file": "its text would not be wholly in the file",
    "stack": "its stack would be executable",
    "relro": "RELRO would be missing",
    "bind-now": "its symbols would be bound late",
    "pie": "it would not be position independent",
    "no-textrel": "its text would hold relocations",
    "control-flow": "its control-flow protection would be off",
}


def weaker(ours: Guards, other: Guards) -> str:
    """Return the name in `LOSSES` of a guard that *ours* lacks and *other* has; empty if there is none."""
    lost = (
        ours.writable_text and not other.writable_text,
        ours.grown_text and not other.grown_text,
        ours.stack < other.stack,
        other.relro and not ours.relro,
        other.bind_now and not ours.bind_now,
        other.pie and not ours.pie,
        ours.textrel and not other.textrel,
        other.features & ~ours.features,
    )
    return next((name for name, is_lost in zip(LOSSES, lost, strict=True) if is_lost), "")


def _relro(image: "Image") -> bool:
    """Return whether PT_GNU_RELRO holds anything; without such data, wild makes one that is only padding."""
    segment = image.first_segment(PT_GNU_RELRO)
    if segment is None or not segment.p_memsz:
        return False
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    inside = [s for s in image.sections if s.sh_size and start <= s.sh_addr < end]
    return not inside or any(section.name != ".relro_padding" for section in inside)


def _features(fd: int, image: "Image") -> int:
    """Return the processor's feature bits of the property note (Linux Extensions to gABI, "Program Property")."""
    segment = image.first_segment(PT_GNU_PROPERTY)
    # gold makes no such segment; glibc then looks at the note itself (_dl_process_pt_note, elf/dl-load.c).
    section = next((s for s in image.sections if s.name == ".note.gnu.property"), None)
    if segment:
        data = read_or_nothing(fd, segment.p_offset, min(segment.p_filesz, _NOTE_LIMIT))
    elif section:
        data = read_or_nothing(fd, section.sh_offset, min(section.sh_size, _NOTE_LIMIT))
    else:
        return 0
    step = 8 if image.is64 else 4
    for name, kind, start, end in notes_in(data, image.order, step):
        properties, at = data[start:end], 0
        while (name, kind) == (b"GNU", NT_GNU_PROPERTY_TYPE_0) and at + 12 <= len(properties):
            pr_type, pr_size, features = struct.unpack_from(image.order + "III", properties, at)
            if pr_type in _FEATURES and pr_size == 4:
                return int(features)
            at += 8 + pr_size + -pr_size % step
    return 0
