"""The rules, as data, and the pure function that holds an image against them.

This runs after every link: no imports but our own, no I/O.
"""

from hugealign.elf.image import PF_W, SHF_ALLOC, SHF_EXECINSTR
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, whole_windows
from hugealign.units import format_size, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hugealign.elf.image import Image, Segment

ERROR, WARNING = "error", "warning"

#: Sections that hold nothing but our padding; they count as room, not as text.
PAD_SECTIONS = (".hugealign.pad", "~hugealign.pad")

RELINK = 'relink with CC="hugealign gcc" (or hugealign clang, …)'


class Rule:
    """One rule: *why* names the kernel or loader condition that it rests on, *fix* the command that mends it."""

    __slots__ = ("fix", "id", "severity", "title", "why")

    def __init__(self, rule_id: str, severity: str, title: str, why: str, fix: str = RELINK) -> None:
        self.id = rule_id
        self.severity = severity
        self.title = title
        self.why = why
        self.fix = fix


RULES = {
    rule.id: rule
    for rule in (
        Rule(
            "HA001",
            ERROR,
            "the text segment is not aligned to the huge page",
            "The kernel honours p_align when it chooses where a position-independent program or library goes "
            "(since Linux 5.10, commit ce81bb256a22). With a smaller alignment, address space randomisation "
            "moves the text off the grid of huge pages, and not one window of it can be mapped huge. A program that "
            "is not position-independent stays where it is, and needs none.",
        ),
        Rule(
            "HA002",
            ERROR,
            "p_vaddr and p_offset of the text differ modulo the huge page",
            "A huge folio of the page cache begins at a multiple of its size in the file; one page table entry "
            "can map it only at an address with the same remainder (thp_vma_suitable_order, "
            "include/linux/huge_mm.h). Linkers with dense files place text so that only 4 KiB remainders agree.",
        ),
        Rule(
            "HA003",
            ERROR,
            "the text starts in the middle of a window",
            "The kernel maps a window huge only if all of it lies inside one mapping. The head of the text, up to "
            "the first window boundary, stays on 4 KiB pages.",
        ),
        Rule(
            "HA004",
            ERROR,
            "the text ends in the middle of a window",
            "The kernel maps a window huge only if all of it lies inside one mapping. The tail of the text, after "
            "the last window boundary, stays on 4 KiB pages; no linker pads it of its own accord.",
        ),
        Rule(
            "HA005",
            ERROR,
            "another segment lies in a window of the text",
            "Two segments in one window are two mappings with their own protections, so that window cannot be "
            "one page.",
        ),
        Rule(
            "HA006",
            ERROR,
            "the text segment is not wholly in the file",
            "Bytes of memory beyond p_filesz are anonymous memory, and a segment that ends beyond the file faults; "
            "neither can be mapped from a huge folio of the file.",
            "link or copy the file again; it is truncated or was edited by a tool that does not know segments",
        ),
        Rule(
            "HA007",
            ERROR,
            "more than one executable segment",
            "Each executable segment has a head and a tail of its own, and each needs a translation of its own. "
            "Sections that are both writable and executable, -Ttext and large-model text make a second one.",
            "drop -Ttext/--section-start, or the section attributes that split the text",
        ),
        Rule(
            "HA008",
            ERROR,
            "the text is writable",
            "A private writable mapping turns into anonymous memory where it is written to, and the kernel does "
            "not map file pages huge there.",
            "drop -N/--omagic, or the writable executable section",
        ),
        Rule(
            "HA009",
            WARNING,
            "data lies among the text",
            "Sections that are not code sit in the executable segment: they take room in the text's windows and "
            "become executable. GNU ld on aarch64 and gold do this unless told to separate code.",
            "relink with -Wl,-z,separate-code, or with hugealign in front of the compiler",
        ),
    )
}


class Policy:
    """What is asked of a file; all in bytes."""

    __slots__ = ("min_text", "pad_threshold", "page_size")

    def __init__(self, page_size: int = 1 << 21, min_text: int = 1 << 18, pad_threshold: int = 4096) -> None:
        self.page_size = page_size
        self.min_text = min_text
        self.pad_threshold = pad_threshold


class Finding:
    """One rule broken by one segment; *message* is the rule's title with this file's numbers."""

    __slots__ = ("message", "rule", "segment")

    def __init__(self, rule: str, segment: "Segment", message: str) -> None:
        self.rule = RULES[rule]
        self.segment = segment
        self.message = message


class Coverage:
    """How much of the text lies in whole windows: *huge* of *text* bytes; *pad* bytes of padding fill the *windows*."""

    __slots__ = ("huge", "pad", "text", "windows")

    def __init__(self, text: int, huge: int, windows: int, pad: int) -> None:
        self.text = text
        self.huge = huge
        self.windows = windows
        self.pad = pad


def pad_range(image: "Image", segment: "Segment") -> tuple[int, int]:
    """Return the addresses between which *segment* holds our padding; equal where it holds none."""
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    for section in image.sections:
        inside = start < section.sh_addr and section.sh_addr + section.sh_size <= end
        if inside and section.sh_flags & SHF_ALLOC and section.name in PAD_SECTIONS:
            return section.sh_addr, section.sh_addr + section.sh_size
    return end, end


def coverage(image: "Image", page_size: int) -> Coverage:
    """Return the coverage of all text of *image* by whole windows of *page_size* bytes."""
    text = huge = windows = pad = 0
    for segment in image.text_segments:
        start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
        first, last = whole_windows(segment, page_size, image.fixed)
        pad_first, pad_last = pad_range(image, segment)
        pad += pad_last - pad_first
        text += end - start - (pad_last - pad_first)
        windows += (last - first) // page_size
        huge += _overlap(first, last, start, end) - _overlap(first, last, pad_first, pad_last)
    return Coverage(text, huge, windows, pad)


def _overlap(first: int, last: int, start: int, end: int) -> int:
    return max(0, min(last, end) - max(first, start))


def check(image: "Image", policy: Policy) -> list[Finding]:
    """Return what keeps the text of *image* from lying in whole windows; empty when all is well.

    Text smaller than ``policy.min_text`` is not held against the placement rules: it fits the 4 KiB entries
    of every current iTLB (64 and more), so there is nothing to win.
    """
    findings = [finding for segment in image.text_segments for finding in _structure(image, segment)]
    if len(image.text_segments) > 1:
        findings += [Finding("HA007", segment, "a second executable segment") for segment in image.text_segments[1:]]
    if coverage(image, policy.page_size).text >= policy.min_text:
        for segment in image.text_segments:
            findings += _placement(image, segment, policy)
    return findings


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
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    if not image.fixed and (not segment.p_align or segment.p_align % page):
        yield Finding(
            "HA001", segment, f"text is aligned to {format_size(segment.p_align)}; huge pages need {format_size(page)}"
        )
    if (start - segment.p_offset) % page:
        yield Finding("HA002", segment, f"p_vaddr and p_offset differ modulo {format_size(page)}")
    head = -align_down(start, BASE_PAGE) % page
    if head:
        lost = min(head, end - start)
        yield Finding("HA003", segment, f"text starts inside a window: {format_size(lost)} of head stay on 4 KiB pages")
    tail = align_up(end, BASE_PAGE) % page
    if tail > policy.pad_threshold and head < end - start:
        lost = min(tail, end - start)
        yield Finding("HA004", segment, f"text ends inside a window: {format_size(lost)} of tail stay on 4 KiB pages")
    yield from _foreign(image, segment, page)


def _foreign(image: "Image", segment: "Segment", page: int) -> "Iterator[Finding]":
    first, last = whole_windows(segment, page, image.fixed)
    for other in image.load_segments:
        if other is segment or first == last:
            continue
        at, until = align_down(other.p_vaddr, BASE_PAGE), align_up(other.p_vaddr + other.p_memsz, BASE_PAGE)
        if at < last and until > first:
            yield Finding("HA005", segment, f"LOAD {other.index} ({other.flags}) lies in a window of the text")
    start, end = segment.p_vaddr, segment.p_vaddr + segment.p_memsz
    inside = [
        section.name
        for section in image.sections
        if section.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC
        and section.sh_size
        and start <= section.sh_addr < end
    ]
    if inside:
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        yield Finding("HA009", segment, f"{printable(inside[0])}{more} lie in the executable segment")
