"""Check one open file: its kind, its coverage, what is wrong with it."""

import os
import stat

from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.elf.coverage import Coverage, coverage, coverages, total
from hugealign.elf.image import ET_CORE, ET_DYN, ET_EXEC, ET_REL, Image, read_image
from hugealign.errors import HugealignError, MalformedElfError, NotElfError
from hugealign.verification import rules
from hugealign.verification.examine import examine
from hugealign.verification.facts import Facts, read_facts
from hugealign.verification.kernels import eligibility
from hugealign.verification.result import FileReport, PlacedOrder

_PLACEMENT = ("HA002", "HA003", "HA004", "HA005", "HA007")
_OF_THE_LINK = (*rules.LACK_WINDOWS, *rules.PLACEMENT, rules.DATA_IN_TEXT, "HA007", "HA024", "HA026")
_NO_PROGRAM = {
    ET_REL: ("file.object", Remedy("link")),
    ET_CORE: ("file.core", None),
}


def check_fd(fd: int, name: str, policy: rules.Policy) -> FileReport:
    """Return the report on the file behind *fd*, which the report calls *name*.

    An error that keeps it from being checked becomes the report's problem.
    """
    try:
        return _check(fd, name, policy)
    except (OSError, HugealignError) as error:
        return FileReport(name, problem=diagnosed(name, error))


def _check(fd: int, name: str, policy: rules.Policy) -> FileReport:
    def problem(code: str, remedy: Remedy | None = None) -> FileReport:
        return FileReport(name, problem=Diagnosis(code, name, {}, remedy))

    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return problem("file.special")
    try:
        image = read_image(fd)
    except NotElfError:
        return problem("file.not-elf")
    if image.e_type not in (ET_EXEC, ET_DYN):
        return problem(*_NO_PROGRAM.get(image.e_type, ("file.no-program", None)))
    if not image.load_segments:
        return problem("file.no-segments")
    policy = policy.of(image)
    facts = read_facts(fd, image)
    broken = examine(facts, policy)
    parts: tuple[Coverage, ...] = ()
    if not facts.debug:
        broken = _laid_out(image, rules.check(image, policy) + broken, policy)
        parts = coverages(image, policy.page_size)
    covered = total(parts)
    if covered.windows < policy.min_windows and not facts.debug:
        first = (*image.text_segments, *image.load_segments)[0]
        broken.append(rules.finding("HA030", first, windows=covered.windows, wanted=policy.min_windows))
    level, undoable, made = _fixed(fd, image)
    if 0 < made <= covered.windows:
        broken = _remaining(broken, covered, image.base_page)
    if level:  # it made the windows that it could, and put data among the text for them
        edited = (*rules.LACK_WINDOWS, rules.DATA_IN_TEXT)
        broken = [d.changed(remedy=Remedy("none")) if d.code in edited else d for d in broken]
    return FileReport(
        name,
        covered,
        tuple(diagnosis.about(name) for diagnosis in broken),
        () if facts.debug else image.text_segments,
        facts.debug or covered.text < policy.min_text,
        coverages=parts,
        file_size=image.file_size,
        kernels=() if facts.debug else eligibility(image, policy.page_size, facts.kind, parts),
        build_id=facts.notes.build_id,
        debug=facts.debug,
        fix_level=level,
        undoable=undoable,
        order=_placed(fd, facts),
        policy=policy,
        pages=image.base_page,
    )


def _laid_out(image: Image, broken: list[Diagnosis], policy: rules.Policy) -> list[Diagnosis]:
    """Return *broken*; if the processor has no row, one note replaces what another link would fix."""
    if image.machine or not image.text_segments or coverage(image, policy.page_size).text < policy.min_text:
        return broken
    left = [diagnosis for diagnosis in broken if diagnosis.code not in _OF_THE_LINK]
    return [*left, rules.finding("HA031", image.text_segments[0], processor=image.processor)]


def _placed(fd: int, facts: Facts) -> PlacedOrder | None:
    note = facts.notes.build
    if note is None or not note.functions:
        return None
    from hugealign.elf.symbols import count_functions  # most files have no order

    try:
        return PlacedOrder(note.functions, count_functions(fd, facts.image, note.hot_start, note.hot_end))
    except MalformedElfError:
        return PlacedOrder(note.functions, None)


def _remaining(broken: list[Diagnosis], covered: Coverage, pages: str) -> list[Diagnosis]:
    """Return *broken* for a file with all the windows that a fix can make: a lack of more does not fail it."""
    left = [diagnosis for diagnosis in broken if diagnosis.code not in _PLACEMENT]
    placement = [diagnosis for diagnosis in broken if diagnosis.code in _PLACEMENT]
    if placement:
        where = {name: placement[0].facts[name] for name in ("segment", "flags")}
        left.append(Diagnosis("HA028", "", {**where, "lost": covered.text - covered.huge, "pages": pages}))
    return left


def _fixed(fd: int, image: Image) -> tuple[str, bool, int]:
    """Return the level of the `hugealign fix` that made this file, whether that can be undone, and its windows.

    These are what the best fix can make of the file.  The level is empty if none did or its record is damaged.
    """
    if not any(section.name == ".hugealign.fix" for section in image.sections):
        return "", False, 0
    from hugealign.elf.fixrecord import digest, present_headers, reader, recorded  # json, which other files do without

    try:
        record, headers = recorded(reader(fd), image), present_headers(reader(fd), image)
    except MalformedElfError:
        return "", False, 0
    return (record.level, digest(headers) == record.digest, record.windows) if record else ("", False, 0)
