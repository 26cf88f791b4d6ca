"""The rules as data, and the check of those that need no more than the headers.

The check runs after every link: no imports but our own, no I/O.  ``examine`` holds the rules that only ``verify``
applies.
"""

import itertools

from hugealign.elf.coverage import code_size, coverage
from hugealign.elf.image import EM_AARCH64, EM_X86_64, PF_W, PF_X, PT_GNU_RELRO, SHF_ALLOC, SHF_EXECINSTR
from hugealign.elf.windows import (
    BASE_PAGE,
    align_down,
    align_up,
    joined,
    load_bias,
    text_windows,
    unasked_load_bias,
    whole_windows,
)
from hugealign.io.units import format_size, printable
from hugealign.records import Record
from hugealign.settings import MIN_TEXT, PAD_THRESHOLD, PAGE_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hugealign.elf.image import Image, Section, Segment

ERROR, WARNING, NOTE = "error", "warning", "note"

#: Where the addresses of programs end (TASK_SIZE): with page tables of four levels, which every kernel has.
_ADDRESSES = {EM_X86_64: (1 << 47) - BASE_PAGE, EM_AARCH64: 1 << 48}

#: The rules that report missing windows, which an edit of the headers may give a finished file; and a rule that such an
#: edit breaks.
LACK_WINDOWS = ("HA001", "HA003", "HA004", "HA005", "HA027", "HA028")
DATA_IN_TEXT = "HA009"


class Rule(Record):
    """One rule: *condition* is what it rests on in the kernel or the loader, *remedy* is what to do about a finding.

    Without a *remedy*, another link is.  The long text is ``pages.page(rule.id)``.
    """

    id: str
    severity: str
    title: str
    condition: str
    remedy: str = ""

    @property
    def fix(self) -> str:
        """What to do about a finding."""
        from hugealign.diagnosis.catalogue import REMEDIES  # takes longer than the check, and is rarely needed

        return self.remedy or REMEDIES["relink"]


RULES = {
    row[0]: Rule(*row)
    for row in (
        (
            "HA001",
            ERROR,
            "the text segment is not aligned to the huge page",
            "Linux 5.10, commit ce81bb256a22; glibc 2.35, BZ #28676: addresses keep the largest p_align",
        ),
        (
            "HA002",
            ERROR,
            "p_vaddr and p_offset of the text differ modulo the huge page",
            "thp_vma_suitable_order, include/linux/huge_mm.h: address and file offset agree modulo the window",
        ),
        (
            "HA003",
            ERROR,
            "the text starts in the middle of a window",
            "thp_vma_suitable_order, include/linux/huge_mm.h: the whole window lies inside one mapping",
        ),
        (
            "HA004",
            ERROR,
            "the text ends in the middle of a window",
            "thp_vma_suitable_order, include/linux/huge_mm.h: the whole window lies inside one mapping",
        ),
        (
            "HA005",
            ERROR,
            "another segment lies in a window of the text",
            "thp_vma_suitable_order, include/linux/huge_mm.h: the whole window lies inside one mapping",
        ),
        (
            "HA006",
            ERROR,
            "the text segment is not wholly in the file",
            "elf_load, fs/binfmt_elf.c: memory beyond p_filesz is anonymous; mm/filemap.c: beyond the file is SIGBUS",
            "link or copy the file again if it was truncated or edited; keep sections without contents out of the text",
        ),
        (
            "HA007",
            ERROR,
            "more than one executable segment",
            "elf_map, fs/binfmt_elf.c: each PT_LOAD is a mapping with a head and a tail of its own",
            "drop -Ttext/--section-start, or the section attributes that split the text",
        ),
        (
            "HA008",
            ERROR,
            "the text is writable",
            "do_cow_fault, mm/memory.c: a write to a private file mapping makes an anonymous 4 KiB page",
            "drop -N/--omagic, or the writable executable section",
        ),
        (
            "HA009",
            WARNING,
            "data lies among the text",
            "elf_map, fs/binfmt_elf.c: one protection for all that lies in a segment",
            'relink with CC="hugealign gcc", or -Wl,-z,separate-code; gold cannot: use -fuse-ld=bfd, lld or mold',
        ),
        (
            "HA010",
            ERROR,
            "the text holds relocations",
            "DT_TEXTREL, DF_TEXTREL (System V ABI, chapter 5): the loader writes to the text, do_cow_fault copies",
            "compile everything with -fPIC (or -fPIE), assembly included; link with -Wl,-z,text to see what is left",
        ),
        (
            "HA011",
            NOTE,
            "the loader of this library may ignore its alignment",
            "glibc before 2.35 (BZ #28676) and every musl (map_library, ldso/dynlink.c) ignore p_align of libraries",
            "run it with glibc 2.35 or newer, or link it into the program",
        ),
        (
            "HA012",
            NOTE,
            "a static PIE is aligned only by new kernels",
            "Linux 6.11, commit 3545deff0ec7 (in 6.6 from 6.6.92): p_align of programs without PT_INTERP",
            "run it on Linux 6.11 or newer (6.6.92), or link with -static -no-pie",
        ),
        (
            "HA013",
            ERROR,
            "RELRO reaches over memory that nothing maps",
            "_dl_protect_relro, elf/dl-reloc.c in glibc: mprotect fails with ENOMEM and the program does not start",
            "relink without -z common-page-size, or with a newer LLD (14 does this, 19 does not)",
        ),
        (
            "HA014",
            NOTE,
            "the last page of RELRO stays writable",
            "_dl_protect_relro, elf/dl-reloc.c in glibc: the end of PT_GNU_RELRO is rounded down to a 4 KiB page",
            "relink with another linker (-fuse-ld=bfd, -fuse-ld=lld) or a newer one",
        ),
        (
            "HA015",
            WARNING,
            "the padding is not trap instructions",
            "Intel SDM volume 2, INT3; Arm ARM C6.2, UDF: a jump into padding has to stop at once",
        ),
        (
            "HA016",
            NOTE,
            "more windows than the processor has entries for",
            "second-level or 2 MiB instruction TLB of the processor named by --cpu",
            "move the hot functions into the first windows, and warm only those: hugealign warm --windows N FILE",
        ),
        (
            "HA017",
            WARNING,
            "the note of the build and the layout disagree",
            ".note.hugealign, type 1, version 1 (hugealign/elf/notes.py): what the link meant",
        ),
        (
            "HA018",
            WARNING,
            "the hot functions lie outside the windows",
            "thp_vma_suitable_order, include/linux/huge_mm.h; the range is that of .note.hugealign",
        ),
        (
            "HA019",
            WARNING,
            "the padding no longer ends a window",
            "GNU objcopy and strip compute segments from sections: what no section holds is dropped",
            "relink; after the link use strip without --remove-section, and run hugealign verify last",
        ),
        (
            "HA020",
            NOTE,
            "a debug file takes the room of the text",
            "llvm-objcopy --only-keep-debug keeps offsets congruent modulo p_align, and writes the gap",
            "use GNU objcopy --only-keep-debug, or: fallocate --dig-holes FILE",
        ),
        (
            "HA021",
            ERROR,
            "an alignment is not a power of two",
            "maximum_alignment, fs/binfmt_elf.c (Linux 5.10): other values are skipped; glibc refuses to load the file",
            "link the file again; no linker writes this, so another tool has",
        ),
        (
            "HA022",
            WARNING,
            "the alignment is far larger than the huge page",
            "load_elf_binary, fs/binfmt_elf.c: every doubling of p_align takes one bit from address randomisation",
            "relink with -Wl,-z,max-page-size=0x200000, or hugealign verify --page-size SIZE if it is meant",
        ),
        (
            "HA023",
            ERROR,
            "loadable segments overlap or are out of order",
            "System V ABI, chapter 5: ascending p_vaddr; load_elf_binary maps with MAP_FIXED, one over another",
            "link the file again, without -Ttext/--section-start/PHDRS that put two segments on one page",
        ),
        (
            "HA024",
            WARNING,
            "the image base is not on a window",
            "load_elf_binary, fs/binfmt_elf.c: load_bias is lowered by the first p_vaddr",
            "drop -Ttext-segment/--image-base, or make it a multiple of 2 MiB",
        ),
        (
            "HA025",
            WARNING,
            "the stack is executable",
            "load_elf_binary, fs/binfmt_elf.c: PF_X of PT_GNU_STACK; glibc gives every thread such a stack",
            'give each assembly file .section .note.GNU-stack,"",@progbits, and drop -z execstack',
        ),
        (
            "HA026",
            NOTE,
            "glibc.elf.thp passes the text over",
            "_dl_executable_postprocess, glibc 2.44: p_vaddr and p_offset are multiples of the huge page",
            'relink with CC="hugealign gcc"; or undo a fix of level align, and: hugealign fix FILE -o OUT',
        ),
        (
            "HA027",
            WARNING,
            "only some loaders and file systems place the text on the grid",
            "__thp_get_unmapped_area, mm/huge_memory.c (Linux 5.18, commit 1854bc6e2420): by offset, if at all",
        ),
        (
            "HA028",
            NOTE,
            "a part of the text stays on 4 KiB pages after the fix",
            "thp_vma_suitable_order, include/linux/huge_mm.h: the whole window lies inside one mapping",
        ),
        (
            "HA029",
            ERROR,
            "Linux does not start the file",
            "load_elf_binary and elf_map, fs/binfmt_elf.c: sizes, addresses and offsets of every PT_LOAD",
            "link the file again, without -Tdata/-Tbss/--section-start; if another tool edited it, take the original",
        ),
        (
            "HA030",
            ERROR,
            "the text has fewer windows than asked for",
            "thp_vma_suitable_order, include/linux/huge_mm.h: only a whole window is mapped huge; N is --min-windows",
            "look where the code went: hugealign verify -v FILE LIBRARY; or lower --min-windows",
        ),
    )
}


class Policy(Record):
    """What is required of a file.  Sizes are bytes; *itlb_2m* is how many 2 MiB entries *cpu* has, 0 if not asked.

    *min_windows* is how many whole windows of text it needs, however little text it has.
    """

    page_size: int = PAGE_SIZE
    min_text: int = MIN_TEXT
    cpu: str = ""
    itlb_2m: int = 0
    min_windows: int = 0

    @property
    def pad_threshold(self) -> int:
        """The bytes of tail up to which a window is not worth a pad, as for a link."""
        return min(PAD_THRESHOLD, self.min_text)


class Finding:
    """One rule broken by one segment; *message* is the rule's title with this file's numbers."""

    __slots__ = ("message", "rule", "segment")

    def __init__(self, rule: str, segment: "Segment", message: str) -> None:
        self.rule = RULES[rule]
        self.segment = segment
        self.message = message


def check(image: "Image", policy: Policy) -> list[Finding]:
    """Return what keeps the text of *image* from lying in whole windows; empty if nothing does.

    Text smaller than ``policy.min_text`` is not checked against the placement rules: it fits the 4 KiB entries
    of every current iTLB (64 and more), so there is nothing to gain.
    """
    findings = [finding for segment in image.text_segments for finding in _structure(image, segment)]
    texts = joined(image.text_segments)
    placed: list[Finding] = []
    large = coverage(image, policy.page_size).text >= policy.min_text
    if large:
        data = _data_sections(image)
        for segment in texts:
            placed += _placement(image, segment, policy)
            placed += _among(segment, data)
    # Segments that each consist of whole windows have no head or tail of their own, such as BOLT's after a fix.
    if not large or any(finding.rule.severity == ERROR for finding in placed):
        findings += [Finding("HA007", segment, "a second executable segment") for segment in texts[1:]]
    return findings + placed


def startable(image: "Image") -> "Iterator[Finding]":
    """Yield why the program or library of *image* does not start, or not with the memory that it was linked for.

    Each of these is judged by the headers alone, so a link asks for them, too.
    """
    yield from _loadable(image)
    yield from _ascending(image.load_segments)
    yield from _protectable(image)


def _loadable(image: "Image") -> "Iterator[Finding]":
    """Yield what load_elf_binary and elf_map (fs/binfmt_elf.c) refuse, or cannot map, for each ``PT_LOAD``."""
    loads = image.load_segments
    room = _ADDRESSES.get(image.e_machine, 1 << 64 if image.is64 else 1 << 32)
    base = 0 if image.fixed else min((align_down(s.p_vaddr, BASE_PAGE) for s in loads), default=0)
    for segment in loads:
        name = f"LOAD {segment.index}"
        missing = segment.p_offset + segment.p_filesz - image.file_size
        if segment.p_filesz > segment.p_memsz:
            message = f"{name} has more bytes in the file ({segment.p_filesz:#x}) than in memory ({segment.p_memsz:#x})"
        elif segment.p_vaddr + segment.p_memsz - base > room:
            message = f"{name} reaches over the end of the address space: {segment.p_vaddr + segment.p_memsz:#x}"
        elif (segment.p_vaddr - segment.p_offset) % BASE_PAGE and (segment.p_filesz or segment.p_vaddr % BASE_PAGE):
            message = f"p_vaddr and p_offset of {name} differ modulo {format_size(BASE_PAGE)}"
        elif missing > 0 and not segment.p_flags & PF_X:  # text: HA006
            message = f"the file ends {format_size(missing)} before {name} does"
        else:
            continue
        yield Finding("HA029", segment, message)


def _ascending(loads: "tuple[Segment, ...]") -> "Iterator[Finding]":
    for before, after in itertools.pairwise(loads):
        if after.p_vaddr < before.p_vaddr:
            yield Finding("HA023", after, f"LOAD {after.index} lies below LOAD {before.index}, which comes first")
        elif before.p_memsz and align_up(before.p_vaddr + before.p_memsz, BASE_PAGE) > align_down(
            after.p_vaddr, BASE_PAGE
        ):
            yield Finding("HA023", after, f"LOAD {after.index} is mapped over the end of LOAD {before.index}")


def _protectable(image: "Image") -> "Iterator[Finding]":
    for relro in [s for s in image.segments if s.p_type == PT_GNU_RELRO][:1]:
        start = align_down(relro.p_vaddr, BASE_PAGE)
        end = align_down(relro.p_vaddr + relro.p_memsz, BASE_PAGE)
        reached = start
        for load in sorted(image.load_segments, key=lambda segment: segment.p_vaddr):
            if align_down(load.p_vaddr, BASE_PAGE) <= reached:
                reached = max(reached, align_up(load.p_vaddr + load.p_memsz, BASE_PAGE))
        if reached < end:
            yield Finding("HA013", relro, f"RELRO ends at {end:#x}, what is mapped there at {reached:#x}")


def _structure(image: "Image", segment: "Segment") -> "Iterator[Finding]":
    if segment.p_filesz != segment.p_memsz:
        yield Finding("HA006", segment, f"p_filesz is {segment.p_filesz:#x}, p_memsz is {segment.p_memsz:#x}")
    elif segment.p_offset + segment.p_filesz > image.file_size:
        missing = segment.p_offset + segment.p_filesz - image.file_size
        yield Finding("HA006", segment, f"the file ends {format_size(missing)} before its text does")
    if segment.p_flags & PF_W:
        yield Finding("HA008", segment, "the text is writable as well as executable")


def _placement(image: "Image", segment: "Segment", policy: Policy) -> "Iterator[Finding]":
    page = policy.page_size
    if not code_size(image, segment.p_vaddr, segment.p_vaddr + segment.p_memsz):
        return
    bias, alignment, fixed = load_bias(image), image.load_alignment, image.fixed
    size = format_size(segment.p_align)
    if not fixed and (not alignment or alignment % page):
        unasked = unasked_load_bias(image, page)
        if unasked is not None and text_windows(image, page, page, unasked):
            message = f"text is aligned to {size}: only some loaders and file systems place it on {format_size(page)}"
            yield Finding("HA027", segment, message)
            bias, fixed = unasked, True
        else:
            yield Finding("HA001", segment, f"text is aligned to {size}; huge pages need {format_size(page)}")
    start, end = segment.p_vaddr + bias, segment.p_vaddr + segment.p_memsz + bias
    if (start - segment.p_offset) % page:
        yield Finding("HA002", segment, f"p_vaddr and p_offset differ modulo {format_size(page)}")
    head = -align_down(start, BASE_PAGE) % page
    lost = code_size(image, start - bias, min(start + head, end) - bias)
    if head and lost:
        yield Finding("HA003", segment, f"text starts inside a window: {format_size(lost)} of head stay on 4 KiB pages")
    tail = align_up(end, BASE_PAGE) % page
    lost = code_size(image, max(start, align_up(end, BASE_PAGE) - tail) - bias, end - bias)
    if lost > policy.pad_threshold and head < end - start:
        yield Finding("HA004", segment, f"text ends inside a window: {format_size(lost)} of tail stay on 4 KiB pages")
    first, last = whole_windows(segment, page, fixed, bias, alignment)
    for other in joined(image.load_segments):
        if other.index == segment.index or first == last:
            continue
        at, until = align_down(other.p_vaddr, BASE_PAGE), align_up(other.p_vaddr + other.p_memsz, BASE_PAGE)
        if at < last and until > first:
            yield Finding("HA005", segment, f"LOAD {other.index} ({other.flags}) lies in a window of the text")
            break  # one is enough; a hostile file has 1,170 in each other's windows


def _data_sections(image: "Image") -> "list[Section]":
    data = [s for s in image.sections if s.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC and s.sh_size]
    return sorted(data, key=lambda section: section.sh_addr)


def _among(segment: "Segment", data: "list[Section]") -> "Iterator[Finding]":
    """Name the *data* sections, which are sorted by address, that lie in *segment*."""
    # Sorted and searched, not filtered: a hostile file has 1,170 segments and 262,144 sections.
    from bisect import bisect_left

    first, last = (
        bisect_left(data, at, key=lambda section: section.sh_addr)
        for at in (segment.p_vaddr, segment.p_vaddr + segment.p_memsz)
    )
    if first < last:
        more = f" and {last - first - 1} more" if last - first > 1 else ""
        yield Finding("HA009", segment, f"{printable(data[first].name)}{more} lie in the executable segment")
