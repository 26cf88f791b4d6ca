"""The rules that need more than the headers of the text segments.  Pure: from facts to diagnoses.

Only `hugealign verify` applies them; the rules that a link checks are in ``rules``.
"""

import re
from collections.abc import Iterator

from hugealign.diagnosis.values import Diagnosis
from hugealign.elf import edit
from hugealign.elf.coverage import code_size, coverage, pad_sections
from hugealign.elf.dynamic import Dynamic
from hugealign.elf.image import PF_X, PT_GNU_RELRO, PT_GNU_STACK, SHT_NOBITS, Image, Segment
from hugealign.elf.windows import BASE_PAGE, align_down, align_up, load_bias, text_windows, whole_windows
from hugealign.verification.facts import LIBRARY, STATIC_PIE, Facts
from hugealign.verification.kernels import thp_eligible
from hugealign.verification.rules import Policy, finding, startable

_GLIBC = re.compile(r"GLIBC_([0-9]{1,4})\.([0-9]{1,4})")
_ALIGNING_GLIBC = (2, 35)


def examine(facts: Facts, policy: Policy) -> list[Diagnosis]:
    """Return what the deeper rules find; for a separate debug file, only whether it wastes disk space."""
    policy = policy.of(facts.image)
    loads = facts.image.load_segments
    if not loads:
        return []
    if facts.debug:
        return list(_debug_file(facts, policy, loads[0]))
    broken = [*_alignments(loads, policy), *startable(facts.image), *_relro(facts.image), *_stack(facts.image)]
    text = facts.image.text_segments
    if not text:
        return broken
    if facts.dynamic.textrel:
        broken.append(finding("HA010", text[0]))
    if facts.bad_pad is not None:
        broken.append(finding("HA015", text[0], address=facts.bad_pad))
    broken += _note(facts, text[0])
    covered = coverage(facts.image, policy.page_size)
    if covered.text >= policy.min_text:
        broken += _large(facts, policy, text[0], covered.windows)
    return broken


def _stack(image: Image) -> Iterator[Diagnosis]:
    for segment in image.segments:
        if segment.p_type == PT_GNU_STACK and segment.p_flags & PF_X:
            yield finding("HA025", segment)
            return


def _large(facts: Facts, policy: Policy, text: Segment, windows: int) -> Iterator[Diagnosis]:
    if windows:
        yield from _loader(facts, text)
        yield from _thp(facts, policy)
    yield from _base(facts.image, policy, text)
    yield from _lost_pad(facts, policy, text)


def _loader(facts: Facts, text: Segment) -> Iterator[Diagnosis]:
    if facts.kind == STATIC_PIE:
        yield finding("HA012", text)
    if facts.kind != LIBRARY:
        return
    if musl := _musl(facts.dynamic):
        yield finding("HA011", text, musl=musl)
        return
    newest = max((_glibc_version(name) for name in facts.dynamic.versions), default=(0, 0))
    if (0, 0) < newest < _ALIGNING_GLIBC:
        yield finding("HA011", text, glibc=f"{newest[0]}.{newest[1]}")


def _thp(facts: Facts, policy: Policy) -> Iterator[Diagnosis]:
    """Yield a diagnosis for the first text that has windows, but for which glibc.elf.thp does not ask."""
    if _musl(facts.dynamic):
        return
    page = policy.page_size
    for segment, _, _ in text_windows(facts.image, page):
        if not thp_eligible(segment, page, facts.kind == LIBRARY):
            yield finding("HA026", segment, address=segment.p_vaddr, offset=segment.p_offset, page_size=page)
            return


def _musl(dynamic: Dynamic) -> str:
    """Return the name of the musl that the file needs; empty if it needs none."""
    # Alpine names libc.musl-x86_64.so.1, musl-gcc libc.so; so does Android, but its libc has versions.
    names = (name for name in dynamic.needed if name.startswith("libc.musl") or name == "libc.so")
    return next((name for name in names if name != "libc.so" or not dynamic.versions), "")


def _glibc_version(name: str) -> tuple[int, int]:
    match = _GLIBC.match(name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _base(image: Image, policy: Policy, text: Segment) -> Iterator[Diagnosis]:
    page = policy.page_size
    base = align_down(image.load_segments[0].p_vaddr, BASE_PAGE) if image.fixed else -load_bias(image)

    def windows(bias: int) -> int:
        first, last = whole_windows(text, page, image.fixed, bias, image.load_alignment)
        return last - first

    # The linker would reach a better base by moving all addresses, or only the ones before the text.
    if base % page and max(windows(0), windows(-(base % page))) > windows(load_bias(image)):
        yield finding("HA024", text, base=base, page_size=page)


def _lost_pad(facts: Facts, policy: Policy, text: Segment) -> Iterator[Diagnosis]:
    image, page = facts.image, policy.page_size
    end = align_up(text.p_vaddr + text.p_memsz, BASE_PAGE)
    tail = (end + load_bias(image)) % page
    if not code_size(image, end - tail, end):
        return  # a text that ends with a window gets a pad of one byte
    if any(section.name == ".hugealign.fix" for section in image.sections):
        return  # a fix pads gaps within the text, and its windows end where it could make them end
    pads, note = pad_sections(image), facts.notes.build
    least = len(image.machine.trap) if image.machine else 1
    if pads and all(section.sh_size <= least for section in pads):
        return  # the link found the tail not worth a window
    if pads:
        yield finding("HA019", text, tail=tail, section=pads[0].name)
    elif note and note.padded and note.page_size >= page:
        exact = (text.p_vaddr + text.p_memsz + load_bias(image)) % note.page_size
        if exact > note.threshold:
            yield finding("HA019", text, tail=tail)


def _note(facts: Facts, text: Segment) -> Iterator[Diagnosis]:
    note = facts.notes.build
    if not note:
        return
    image = facts.image
    runs = text_windows(image, note.page_size)
    windows = sum((last - first) // note.page_size for _, first, last in runs)
    if windows < note.windows or (not image.fixed and image.load_alignment % note.page_size):
        yield finding("HA017", text, page_size=note.page_size, meant=note.windows, windows=windows)
    if note.hot_start >= note.hot_end:
        return
    inside = sum(max(0, min(last, note.hot_end) - max(first, note.hot_start)) for _, first, last in runs)
    outside = note.hot_end - note.hot_start - inside
    if outside > 0:
        yield finding("HA018", text, outside=outside)


def _relro(image: Image) -> Iterator[Diagnosis]:
    if relro := image.first_segment(PT_GNU_RELRO):
        left = (relro.p_vaddr + relro.p_memsz) % BASE_PAGE
        if left and not any(diagnosis.code == "HA013" for diagnosis in startable(image)):
            yield finding("HA014", relro, left=left)


def _alignments(loads: tuple[Segment, ...], policy: Policy) -> Iterator[Diagnosis]:
    for segment in loads:
        if segment.p_align & (segment.p_align - 1):
            yield finding("HA021", segment, align=segment.p_align)
    largest = max(loads, key=lambda segment: segment.p_align)
    # The next level of the page table: 1 GiB for 2 MiB.
    if largest.p_align & (largest.p_align - 1) == 0 and largest.p_align >= policy.page_size << 9:
        yield finding("HA022", largest, align=largest.p_align, page_size=policy.page_size)


def _debug_file(facts: Facts, policy: Policy, segment: Segment) -> Iterator[Diagnosis]:
    image = facts.image
    wasted = sum(end - start for start, end in edit.unclaimed(image) if end <= image.file_size)
    wasted += sum(section.sh_size for section in pad_sections(image) if section.sh_type != SHT_NOBITS)
    wasted = min(wasted, facts.disk_size)  # a hole takes no room
    if wasted >= min(policy.min_text, policy.page_size // 2) and 2 * facts.disk_size > image.file_size:
        yield finding("HA020", segment, wasted=wasted)
