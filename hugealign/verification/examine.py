"""The rules that need more than the headers of the text segments.  Pure: from facts to findings.

Only `hugealign verify` applies them; the rules that a link checks are in ``rules``.
"""

import re
from collections.abc import Iterator

from hugealign.elf import edit
from hugealign.elf.coverage import coverage, pad_sections
from hugealign.elf.dynamic import Dynamic
from hugealign.elf.image import PF_X, PT_GNU_RELRO, PT_GNU_STACK, SHT_NOBITS, Image, Segment
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, load_bias, text_windows, whole_windows
from hugealign.io.units import format_size, printable
from hugealign.verification.facts import LIBRARY, STATIC_PIE, Facts
from hugealign.verification.kernels import thp_eligible
from hugealign.verification.rules import Finding, Policy, startable

_GLIBC = re.compile(r"GLIBC_([0-9]{1,4})\.([0-9]{1,4})")
_ALIGNING_GLIBC = (2, 35)


def examine(facts: Facts, policy: Policy) -> list[Finding]:
    """Return the findings of the deeper rules; for a separate debug file, only whether it wastes disk space."""
    loads = facts.image.load_segments
    if not loads:
        return []
    if facts.debug:
        return list(_debug_file(facts, policy, loads[0]))
    findings = [*_alignments(loads, policy), *startable(facts.image), *_relro(facts.image), *_stack(facts.image)]
    text = facts.image.text_segments
    if not text:
        return findings
    if facts.dynamic.textrel:
        findings.append(Finding("HA010", text[0], "the loader writes relocations into the text"))
    if facts.bad_pad is not None:
        findings.append(Finding("HA015", text[0], f"the padding holds something else than traps at {facts.bad_pad:#x}"))
    findings += _note(facts, text[0])
    covered = coverage(facts.image, policy.page_size)
    if covered.text >= policy.min_text:
        findings += _large(facts, policy, text[0], covered.windows)
    return findings


def _stack(image: Image) -> Iterator[Finding]:
    for segment in image.segments:
        if segment.p_type == PT_GNU_STACK and segment.p_flags & PF_X:
            yield Finding("HA025", segment, "PT_GNU_STACK asks for an executable stack")
            return


def _large(facts: Facts, policy: Policy, text: Segment, windows: int) -> Iterator[Finding]:
    """Yield the findings that matter only if there is enough text to gain."""
    if windows:
        yield from _loader(facts, text)
        yield from _thp(facts, policy)
    yield from _base(facts.image, policy, text)
    yield from _lost_pad(facts, policy, text)
    if policy.itlb_2m and windows > policy.itlb_2m:
        message = f"{windows} windows of text; {policy.cpu or 'the processor'} has {policy.itlb_2m} entries for them"
        yield Finding("HA016", text, message)


def _loader(facts: Facts, text: Segment) -> Iterator[Finding]:
    if facts.kind == STATIC_PIE:
        yield Finding("HA012", text, "a static PIE: kernels before 6.11 (6.6.92) do not align it")
    if facts.kind != LIBRARY:
        return
    if _is_musl(facts.dynamic):
        yield Finding("HA011", text, "a library for musl, which ignores its alignment")
        return
    newest = max((_glibc_version(name) for name in facts.dynamic.versions), default=(0, 0))
    if (0, 0) < newest < _ALIGNING_GLIBC:
        message = f"needs glibc {newest[0]}.{newest[1]}; before 2.35 it ignores the alignment of libraries"
        yield Finding("HA011", text, message)


def _thp(facts: Facts, policy: Policy) -> Iterator[Finding]:
    """Yield a finding for the first text that has windows, but for which glibc.elf.thp does not ask."""
    if _is_musl(facts.dynamic):
        return
    page = policy.page_size
    for segment, _, _ in text_windows(facts.image, page):
        if not thp_eligible(segment, page, facts.kind == LIBRARY):
            what = f"p_vaddr {segment.p_vaddr:#x} and p_offset {segment.p_offset:#x}"
            message = f"{what} are not both multiples of {format_size(page)}: glibc.elf.thp passes the text over"
            yield Finding("HA026", segment, message)
            return


def _is_musl(dynamic: Dynamic) -> bool:
    # Alpine names libc.musl-x86_64.so.1, musl-gcc libc.so; so does Android, but its libc has versions.
    return any(name.startswith("libc.musl") or (name == "libc.so" and not dynamic.versions) for name in dynamic.needed)


def _glibc_version(name: str) -> tuple[int, int]:
    match = _GLIBC.match(name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _base(image: Image, policy: Policy, text: Segment) -> Iterator[Finding]:
    page = policy.page_size
    base = align_down(image.load_segments[0].p_vaddr, BASE_PAGE) if image.fixed else -load_bias(image)

    def windows(bias: int) -> int:
        first, last = whole_windows(text, page, image.fixed, bias, image.load_alignment)
        return last - first

    # On a better base the linker would move all addresses, or only those before the text.
    if base % page and max(windows(0), windows(-(base % page))) > windows(load_bias(image)):
        yield Finding("HA024", text, f"the image base is {base:#x}, not a multiple of {format_size(page)}")


def _lost_pad(facts: Facts, policy: Policy, text: Segment) -> Iterator[Finding]:
    image, page = facts.image, policy.page_size
    tail = (align_up(text.p_vaddr + text.p_memsz, BASE_PAGE) + load_bias(image)) % page
    if not tail or any(section.name == ".hugealign.fix" for section in image.sections):
        return  # a fix pads gaps within the text, and its windows end where it could make them end
    pads = pad_sections(image)
    if pads:
        name = printable(pads[0].name)
        yield Finding("HA019", text, f"{name} is there, and the text ends {format_size(tail)} into a window")
    elif facts.notes.build and facts.notes.build.padded and facts.notes.build.page_size >= page:
        yield Finding("HA019", text, "the link padded the text, and the padding is gone")


def _note(facts: Facts, text: Segment) -> Iterator[Finding]:
    note = facts.notes.build
    if not note:
        return
    image = facts.image
    runs = text_windows(image, note.page_size)
    windows = sum((last - first) // note.page_size for _, first, last in runs)
    size = format_size(note.page_size)
    if not image.fixed and image.load_alignment % note.page_size:
        yield Finding("HA017", text, f"the link was laid out for {size}; the file is aligned to less")
    elif windows < note.windows:
        yield Finding("HA017", text, f"the link meant {note.windows} windows of {size}; there are {windows}")
    if note.hot_start >= note.hot_end:
        return
    inside = sum(max(0, min(last, note.hot_end) - max(first, note.hot_start)) for _, first, last in runs)
    outside = note.hot_end - note.hot_start - inside
    if outside > 0:
        yield Finding("HA018", text, f"{format_size(outside)} of the hot functions lie outside the windows")


def _relro(image: Image) -> Iterator[Finding]:
    for relro in [s for s in image.segments if s.p_type == PT_GNU_RELRO][:1]:
        left = (relro.p_vaddr + relro.p_memsz) % BASE_PAGE
        if left and not any(finding.rule.id == "HA013" for finding in startable(image)):
            yield Finding("HA014", relro, f"the last {left} bytes of RELRO stay writable")


def _alignments(loads: tuple[Segment, ...], policy: Policy) -> Iterator[Finding]:
    for segment in loads:
        if segment.p_align & (segment.p_align - 1):
            yield Finding("HA021", segment, f"p_align is {segment.p_align:#x}, no power of two")
    largest = max(loads, key=lambda segment: segment.p_align)
    # The next level of the page table: 1 GiB for 2 MiB.
    if largest.p_align & (largest.p_align - 1) == 0 and largest.p_align >= policy.page_size << 9:
        yield Finding(
            "HA022", largest, f"aligned to {format_size(largest.p_align)}; {format_size(policy.page_size)} do"
        )


def _debug_file(facts: Facts, policy: Policy, segment: Segment) -> Iterator[Finding]:
    image = facts.image
    wasted = sum(end - start for start, end in edit.unclaimed(image) if end <= image.file_size)
    wasted += sum(section.sh_size for section in pad_sections(image) if section.sh_type != SHT_NOBITS)
    wasted = min(wasted, facts.disk_size)  # a hole takes no room
    if wasted >= min(policy.min_text, policy.page_size // 2) and 2 * facts.disk_size > image.file_size:
        yield Finding("HA020", segment, f"{format_size(wasted)} of the debug file hold nothing")
