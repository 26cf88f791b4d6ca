"""What each kernel and loader that a test here runs would do with the text of a file.  Pure: from headers to answers.

Each system is a small model of one published piece of source.  Its conditions are those of the named source; it counts
the windows that the system *would* map huge once the page cache or the copy allows it.
"""

import functools
from collections.abc import Callable

from hugealign.elf.coverage import coverage, coverages
from hugealign.elf.image import EM_AARCH64, PF_R, PF_W, Image, Segment
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, drift
from hugealign.io.units import format_size
from hugealign.records import Record
from hugealign.verification.facts import LIBRARY, PIE, STATIC_PIE

YES, PARTIAL, NO = "yes", "partial", "no"

#: glibc does not align to huge pages above this (MAX_THP_PAGESIZE).
_LARGEST_ALIGNED = 32 << 20
#: The page of some kernels for aarch64, and the range that 32 contiguous entries of their page tables map.
_PAGE_64K, _RUN_64K = 64 << 10, 2 << 20


class Eligibility(Record):
    """What one system does: *answer* YES, PARTIAL or NO, how many *windows* it maps huge, and why.

    *system* is a short id, *title* its name for people, *source* the commit, version or document it follows.
    """

    system: str
    title: str
    answer: str
    windows: int
    reason: str
    source: str


#: How many windows a system maps huge, the bytes of text in them, and why not more.
_Answer = tuple[int, int, str]
#: What `_with_alignment` says about the file for a page size and an alignment.
_Aligned = Callable[[int, int], _Answer]


class _System(Record):
    system: str
    title: str
    source: str
    judge: Callable[[Image, int, str, _Aligned], _Answer]
    machine: int | None = None  # judges only files for this processor


def eligibility(image: Image, page_size: int, kind: str) -> tuple[Eligibility, ...]:
    """Return what each known system does with the text of *image*, which is of *kind* (``Facts.kind``)."""
    text = coverage(image, page_size).text
    if not text:
        return ()
    found = []
    aligned = functools.cache(functools.partial(_with_alignment, image))  # most systems ask for the same
    for system in _SYSTEMS:
        if system.machine not in (None, image.e_machine):
            continue
        windows, huge, reason = system.judge(image, page_size, kind, aligned)
        answer = NO if not windows else YES if huge >= text else PARTIAL
        if windows and not reason:
            reason = "all of the text" if answer == YES else f"{format_size(text - huge)} of text stay on 4 KiB pages"
        found.append(Eligibility(system.system, system.title, answer, windows, reason, system.source))
    return tuple(found)


def _with_alignment(image: Image, page: int, alignment: int) -> _Answer:
    """Judge by the windows that there are if the loader gives the file *alignment*."""
    part = coverage(image, page, alignment)
    if part.windows:
        return part.windows, part.huge, ""
    return 0, 0, _why_none(image, page, alignment)


def _why_none(image: Image, page: int, alignment: int) -> str:
    if not image.fixed and alignment % page:
        return f"aligned to {format_size(alignment)}: ASLR moves it off the grid"
    texts = image.text_segments
    if all((s.p_vaddr + drift(image) - s.p_offset) % page for s in texts):
        return "p_vaddr and p_offset differ modulo the window"
    return "no whole window of text"


def _honoured(image: Image, page: int, _kind: str, aligned: _Aligned) -> _Answer:
    return aligned(page, image.load_alignment)


def _no_static_pie(image: Image, page: int, kind: str, aligned: _Aligned) -> _Answer:
    if kind == STATIC_PIE:
        return 0, 0, "p_align of a static PIE is not honoured"
    return _honoured(image, page, kind, aligned)


def _old_kernel(image: Image, page: int, kind: str, aligned: _Aligned) -> _Answer:
    if kind in (PIE, STATIC_PIE):
        return 0, 0, "p_align of programs is not honoured"
    return _honoured(image, page, kind, aligned)


def _old_glibc(image: Image, page: int, kind: str, aligned: _Aligned) -> _Answer:
    if kind != LIBRARY:
        return _honoured(image, page, kind, aligned)
    if any(s.p_align and (s.p_vaddr - s.p_offset) % s.p_align for s in image.load_segments):
        return 0, 0, "refuses to load it: p_vaddr and p_offset differ modulo p_align"
    return 0, 0, "p_align of libraries is not honoured"


def _musl(image: Image, page: int, kind: str, aligned: _Aligned) -> _Answer:
    if kind == LIBRARY:
        return 0, 0, "p_align of libraries is not honoured"
    return _honoured(image, page, kind, aligned)


def thp_eligible(segment: Segment, page: int, library: bool) -> bool:
    """Return whether glibc 2.44, with glibc.elf.thp=1, asks for huge pages for *segment*.

    See ``_dl_executable_postprocess`` for programs, and for libraries ``_dl_segment_thp_eligible``, which sees the
    4 KiB pages of the mapping; both are in sysdeps/unix/sysv/linux.
    """
    start, offset, end = segment.p_vaddr, segment.p_offset, segment.p_vaddr + segment.p_memsz
    if library:
        start, offset, end = (align_down(start, BASE_PAGE), align_down(offset, BASE_PAGE), align_up(end, BASE_PAGE))
    return (
        page <= _LARGEST_ALIGNED
        and segment.p_flags & (PF_R | PF_W) == PF_R
        and end - start >= page
        and not (start | offset) % page
    )


def _glibc_thp(image: Image, page: int, kind: str, aligned: _Aligned) -> _Answer:
    """Judge by what the loader asks for; text that it passes over may be huge for other reasons."""
    library = kind == LIBRARY
    alignment = image.load_alignment
    if library and any(thp_eligible(s, page, library) for s in image.load_segments):
        alignment = max(page, alignment)
    windows, huge, reason = aligned(page, alignment)
    if not windows:
        return windows, huge, reason
    parts = zip(image.text_segments, coverages(image, page, alignment), strict=True)
    asked = [part for segment, part in parts if thp_eligible(segment, page, library)]
    if not asked:
        return 0, 0, "asks only for segments whose address and offset are multiples of the huge page"
    return sum(part.windows for part in asked), sum(part.huge for part in asked), ""


def _linux_64k(image: Image, _page: int, _kind: str, aligned: _Aligned) -> _Answer:
    """Judge by runs of contiguous page table entries: with 64 KiB pages a PMD maps 512 MiB, and such a run 2 MiB."""
    if any(s.p_align < _PAGE_64K for s in image.load_segments):
        return 0, 0, "aligned to less than 64 KiB: such a kernel does not load it"
    windows, huge, reason = aligned(_RUN_64K, image.load_alignment)
    return windows, huge, reason


_SYSTEMS = (
    _System(
        "linux",
        "Linux 6.11 and glibc 2.35, or newer",
        "commits ce81bb256a22 (5.10) and 3545deff0ec7 (6.11); glibc BZ #28676 (2.35)",
        _honoured,
    ),
    _System("linux-5.10", "Linux 5.10 to 6.10", "commit ce81bb256a22 (5.10), before 3545deff0ec7", _no_static_pie),
    _System("linux-old", "Linux before 5.10", "fs/binfmt_elf.c before commit ce81bb256a22", _old_kernel),
    _System("glibc-old", "glibc before 2.35", "elf/dl-load.c before BZ #28676 and #28688", _old_glibc),
    _System("musl", "musl", "map_library, ldso/dynlink.c of musl 1.2.5", _musl),
    _System(
        "glibc-thp",
        "glibc 2.44 with glibc.elf.thp=1",
        "_dl_segment_thp_eligible and _dl_executable_postprocess, glibc 2.44",
        _glibc_thp,
    ),
    _System(
        "linux-64k",
        "aarch64 Linux with 64 KiB pages, runs of 2 MiB",
        "contpte_set_ptes, arch/arm64/mm/contpte.c (Linux 6.9): 32 entries, aligned in memory and in one folio",
        _linux_64k,
        EM_AARCH64,
    ),
)
