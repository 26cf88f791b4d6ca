"""The rules that need no more than the headers.

The check runs after every link: no imports that take time, no I/O.  ``examine`` holds the rules that only ``verify``
applies.
"""

import itertools
from bisect import bisect_left

from hugealign.elf.coverage import code_size, coverage
from hugealign.elf.image import PF_W, PF_X, PT_GNU_RELRO, SHF_ALLOC, SHF_EXECINSTR
from hugealign.elf.machines import sizes
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
from hugealign.records import Record
from hugealign.settings import OWN, PAD_THRESHOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from hugealign.diagnosis.values import Diagnosis
    from hugealign.elf.image import Image, Section, Segment

#: The rules about where the text lies, each of them an error.
PLACEMENT = ("HA001", "HA002", "HA003", "HA004", "HA005")
#: The rules that report missing windows, which an edit of the headers may give a finished file; and a rule that such an
#: edit breaks.
LACK_WINDOWS = ("HA001", "HA003", "HA004", "HA005", "HA027", "HA028")
DATA_IN_TEXT = "HA009"


class Policy(Record):
    """What is required of a file.

    Attributes:
        page_size: The size of a huge page in bytes; by default that of the file's processor.
        min_text: The bytes of text below which small pages serve a file; by default what its processor has.
        min_windows: The number of whole windows of text that it needs, however little text it has.
        pad_threshold: The bytes of tail up to which a window is not worth a pad, as for a link.
    """

    page_size: int = OWN
    min_text: int = OWN
    min_windows: int = 0
    pad_threshold: int = PAD_THRESHOLD

    def of(self, image: "Image") -> "Policy":
        """Return the policy with the sizes of the processor of *image*."""
        page_size, min_text, threshold = sizes(image.machine, self.page_size, self.min_text)
        return Policy(page_size, min_text, self.min_windows, threshold)


def finding(code: str, segment: "Segment", **facts: int | str) -> "Diagnosis":
    """Return the diagnosis that *segment* breaks the rule *code*; `Diagnosis.about` adds the file."""
    from hugealign.diagnosis.values import Diagnosis  # most links are right, and do without

    return Diagnosis(code, "", {"segment": segment.index, "flags": segment.flags, **facts})


def check(image: "Image", policy: Policy) -> "list[Diagnosis]":
    """Return what keeps the text of *image* from lying in whole windows; empty if nothing does.

    Text smaller than ``policy.min_text`` is not checked against the placement rules: it fits the 4 KiB entries
    of every current iTLB (64 and more), so there is nothing to gain.
    """
    policy = policy.of(image)
    broken = [diagnosis for segment in image.text_segments for diagnosis in _structure(image, segment)]
    texts = joined(image.text_segments)
    placed: list[Diagnosis] = []
    large = coverage(image, policy.page_size).text >= policy.min_text
    if large:
        data = [s for s in image.sections if s.sh_flags & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC and s.sh_size]
        data.sort(key=lambda section: section.sh_addr)
        for segment in texts:
            placed += _placement(image, segment, policy)
            placed += _among(segment, data)
    # Segments that each consist of whole windows have no head or tail of their own, such as BOLT's after a fix.
    if not large or any(diagnosis.code in PLACEMENT for diagnosis in placed):
        broken += [finding("HA007", segment) for segment in texts[1:]]
    return broken + placed


def startable(image: "Image") -> "Iterator[Diagnosis]":
    """Yield why the program or library of *image* does not start, or starts without the memory that it was linked for.

    The headers alone show this, so a link also checks it.
    """
    yield from _loadable(image)
    yield from _ascending(image.load_segments)
    yield from _protectable(image)


def _loadable(image: "Image") -> "Iterator[Diagnosis]":
    """Yield what load_elf_binary and elf_map (fs/binfmt_elf.c) refuse, or cannot map, for each ``PT_LOAD``."""
    loads = image.load_segments
    room = image.machine.addresses if image.machine else 1 << 64 if image.is64 else 1 << 32
    base = 0 if image.fixed else min((align_down(s.p_vaddr, BASE_PAGE) for s in loads), default=0)
    for segment in loads:
        missing = segment.p_offset + segment.p_filesz - image.file_size
        if segment.p_filesz > segment.p_memsz:
            yield finding("HA029", segment, surplus=segment.p_filesz - segment.p_memsz)
        elif segment.p_vaddr + segment.p_memsz - base > room:
            yield finding("HA029", segment, end=segment.p_vaddr + segment.p_memsz)
        elif (segment.p_vaddr - segment.p_offset) % BASE_PAGE and (segment.p_filesz or segment.p_vaddr % BASE_PAGE):
            yield finding("HA029", segment, modulo=BASE_PAGE)
        elif missing > 0 and not segment.p_flags & PF_X:  # text: HA006
            yield finding("HA029", segment, missing=missing)


def _ascending(loads: "tuple[Segment, ...]") -> "Iterator[Diagnosis]":
    for before, after in itertools.pairwise(loads):
        below = before.p_vaddr - after.p_vaddr
        overlap = align_up(before.p_vaddr + before.p_memsz, BASE_PAGE) - align_down(after.p_vaddr, BASE_PAGE)
        if below > 0:
            yield finding("HA023", after, other=before.index, below=below)
        elif before.p_memsz and overlap > 0:
            yield finding("HA023", after, other=before.index, overlap=overlap)


def _protectable(image: "Image") -> "Iterator[Diagnosis]":
    if relro := image.first_segment(PT_GNU_RELRO):
        start = align_down(relro.p_vaddr, BASE_PAGE)
        end = align_down(relro.p_vaddr + relro.p_memsz, BASE_PAGE)
        reached = start
        for load in sorted(image.load_segments, key=lambda segment: segment.p_vaddr):
            if align_down(load.p_vaddr, BASE_PAGE) <= reached:
                reached = max(reached, align_up(load.p_vaddr + load.p_memsz, BASE_PAGE))
        if reached < end:
            yield finding("HA013", relro, end=end, mapped=reached)


def _structure(image: "Image", segment: "Segment") -> "Iterator[Diagnosis]":
    missing = segment.p_offset + segment.p_filesz - image.file_size
    if segment.p_filesz < segment.p_memsz:
        yield finding("HA006", segment, absent=segment.p_memsz - segment.p_filesz)
    elif segment.p_filesz > segment.p_memsz:
        yield finding("HA006", segment, surplus=segment.p_filesz - segment.p_memsz)
    elif missing > 0:
        yield finding("HA006", segment, missing=missing)
    if segment.p_flags & PF_W:
        yield finding("HA008", segment)


def _placement(image: "Image", segment: "Segment", policy: Policy) -> "Iterator[Diagnosis]":
    page = policy.page_size
    if not code_size(image, segment.p_vaddr, segment.p_vaddr + segment.p_memsz):
        return
    bias, alignment, fixed = load_bias(image), image.load_alignment, image.fixed
    if not fixed and (not alignment or alignment % page):
        unasked = unasked_load_bias(image, page)
        if unasked is not None and text_windows(image, page, page, unasked):
            yield finding("HA027", segment, align=segment.p_align, page_size=page)
            bias, fixed = unasked, True
        else:
            yield finding("HA001", segment, align=segment.p_align, page_size=page)
    start, end = segment.p_vaddr + bias, segment.p_vaddr + segment.p_memsz + bias
    if (start - segment.p_offset) % page:
        yield finding("HA002", segment, page_size=page)
    head = -align_down(start, BASE_PAGE) % page
    lost = code_size(image, start - bias, min(start + head, end) - bias)
    if head and lost:
        yield finding("HA003", segment, head=lost, pages=image.base_page)
    tail = align_up(end, BASE_PAGE) % page
    lost = code_size(image, max(start, align_up(end, BASE_PAGE) - tail) - bias, end - bias)
    if lost > policy.pad_threshold and head < end - start:
        yield finding("HA004", segment, tail=lost, pages=image.base_page)
    first, last = whole_windows(segment, page, fixed, bias, alignment)
    for other in joined(image.load_segments):
        if other.index == segment.index or first == last:
            continue
        at, until = align_down(other.p_vaddr, BASE_PAGE), align_up(other.p_vaddr + other.p_memsz, BASE_PAGE)
        if at < last and until > first:
            yield finding("HA005", segment, other=other.index, other_flags=other.flags)
            break  # one is enough: a hostile file has 1,170 in each other's windows


def _among(segment: "Segment", data: "list[Section]") -> "Iterator[Diagnosis]":
    """Name the *data* sections, which are sorted by address, that lie in *segment*."""
    # Sorted and searched, not filtered: a hostile file has 1,170 segments and 262,144 sections.
    first, last = (
        bisect_left(data, at, key=lambda section: section.sh_addr)
        for at in (segment.p_vaddr, segment.p_vaddr + segment.p_memsz)
    )
    if first < last:
        yield finding(DATA_IN_TEXT, segment, section=data[first].name, more=last - first - 1)
