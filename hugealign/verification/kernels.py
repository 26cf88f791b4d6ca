"""What the kernels and loaders that the tests run would do with the text of a file.  Pure: from headers to answers.

Each system is a small model of one published piece of source.  Its conditions are those of the named source; it counts
the windows that the system *would* map huge once the page cache or the copy allows it.
"""

from hugealign.elf.coverage import Coverage, coverages, total
from hugealign.elf.image import EM_AARCH64, PF_R, PF_W, Image, Segment
from hugealign.elf.windows import BASE_PAGE, align_down, align_up
from hugealign.records import Record
from hugealign.verification.facts import LIBRARY, STATIC_PIE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

YES, PARTIAL, NO = "yes", "partial", "no"

#: glibc does not align to huge pages above this (MAX_THP_PAGESIZE).
_LARGEST_ALIGNED = 32 << 20
#: The page of some kernels for aarch64, and the range that 32 contiguous entries of their page tables map.
_PAGE_64K, _RUN_64K = 64 << 10, 2 << 20


class System(Record):
    """A kernel with a loader: a short id, its *title* for people, the commit, version or document that it follows.

    *judge* takes the kind of a file (``Facts.kind``) and, if its alignment counts, the coverage of its text segments,
    and returns the parts of the text that the system maps huge.  *machine*: only files for this processor.
    """

    system: str
    title: str
    source: str
    judge: "Callable[[Image, int, str, tuple[Coverage, ...]], tuple[Coverage, ...]]"
    machine: int | None = None


class Eligibility(Record):
    """What a known kernel or loader does with the text."""

    system: System
    answer: str
    """One of `yes`, `partial`, `no`."""
    windows: int
    """How many windows it maps huge."""

    JSON = "system=system.system title=system.title source=system.source answer windows"


def eligibility(image: Image, page_size: int, kind: str, parts: tuple[Coverage, ...]) -> tuple[Eligibility, ...]:
    """Return what each known system does with the text of *image*, which is of *kind* (``Facts.kind``).

    *parts* is the coverage of its text segments.
    """
    text = total(parts).text
    if not text:
        return ()
    answers = []
    for system in SYSTEMS:
        if system.machine in (None, image.e_machine):
            mapped = total(system.judge(image, page_size, kind, parts))
            answer = NO if not mapped.windows else YES if mapped.huge >= text else PARTIAL
            answers.append(Eligibility(system, answer, mapped.windows))
    return tuple(answers)


def _honoured(_image: Image, _page: int, _kind: str, parts: tuple[Coverage, ...]) -> tuple[Coverage, ...]:
    return parts


def _no_static_pie(_image: Image, _page: int, kind: str, parts: tuple[Coverage, ...]) -> tuple[Coverage, ...]:
    return () if kind == STATIC_PIE else parts


def thp_eligible(segment: Segment, page: int, library: bool) -> bool:
    """Return whether glibc 2.44, with glibc.elf.thp=1, requests huge pages for *segment*.

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


def _glibc_thp(image: Image, page: int, kind: str, parts: tuple[Coverage, ...]) -> tuple[Coverage, ...]:
    """Judge by what the loader requests; text that it skips may be huge for other reasons."""
    library = kind == LIBRARY
    if library and page > image.load_alignment and any(thp_eligible(s, page, library) for s in image.load_segments):
        parts = coverages(image, page, page)
    pairs = zip(image.text_segments, parts, strict=True)
    return tuple([part for segment, part in pairs if thp_eligible(segment, page, library)])


def _linux_64k(image: Image, _page: int, _kind: str, _parts: tuple[Coverage, ...]) -> tuple[Coverage, ...]:
    """Judge by runs of contiguous page table entries: with 64 KiB pages a PMD maps 512 MiB, and such a run 2 MiB.

    Such a kernel does not load what is aligned to less than its pages.
    """
    loads = all(s.p_align >= _PAGE_64K for s in image.load_segments)
    return coverages(image, _RUN_64K, image.load_alignment) if loads else ()


SYSTEMS = (
    System(
        "linux",
        "Linux 6.11 and glibc 2.35, or newer",
        "commits ce81bb256a22 (5.10) and 3545deff0ec7 (6.11); glibc BZ #28676 (2.35)",
        _honoured,
    ),
    System("linux-5.10", "Linux 5.10 to 6.10", "commit ce81bb256a22 (5.10), before 3545deff0ec7", _no_static_pie),
    System(
        "glibc-thp",
        "glibc 2.44 with glibc.elf.thp=1",
        "_dl_segment_thp_eligible and _dl_executable_postprocess, glibc 2.44",
        _glibc_thp,
    ),
    System(
        "linux-64k",
        "aarch64 Linux with 64 KiB pages, runs of 2 MiB",
        "contpte_set_ptes, arch/arm64/mm/contpte.c (Linux 6.9): 32 entries, aligned in memory and in one folio",
        _linux_64k,
        EM_AARCH64,
    ),
)
