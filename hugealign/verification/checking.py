"""Check one open file: its kind, its coverage, its findings."""

import os
import stat
from collections.abc import Iterator

from hugealign.elf.coverage import Coverage, coverages, rodata_coverage, total
from hugealign.elf.image import ET_CORE, ET_DYN, ET_EXEC, ET_REL, Image, read_image
from hugealign.errors import HugealignError, MalformedElfError, cause
from hugealign.io.units import counted
from hugealign.verification import rules
from hugealign.verification.examine import examine
from hugealign.verification.facts import Facts, read_facts
from hugealign.verification.kernels import eligibility
from hugealign.verification.model import FileReport, Placed

_EHDR_SIZE = 64  # bytes: only 64-bit files are fixed
_PLACEMENT = ("HA002", "HA003", "HA004", "HA005", "HA007")
_NO_PROGRAM = {
    ET_REL: "an object file, which has no segments; link it first",
    ET_CORE: "a core file; give the program that dumped it",
}


def check_fd(fd: int, name: str, policy: rules.Policy) -> FileReport:
    """Return the report on the file behind *fd*, which the report calls *name*.

    An error that keeps it from being checked becomes the report's reason.
    """
    try:
        return _check(fd, name, policy)
    except OSError as error:
        return FileReport(name, reason=cause(error))
    except HugealignError as error:
        return FileReport(name, reason=str(error))


def _check(fd: int, name: str, policy: rules.Policy) -> FileReport:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        return FileReport(name, reason="a directory; give the files in it")
    if not stat.S_ISREG(mode):
        return FileReport(name, reason="not a regular file")
    image = read_image(fd)
    if image.e_type in _NO_PROGRAM:
        return FileReport(name, reason=_NO_PROGRAM[image.e_type])
    if image.e_type not in (ET_EXEC, ET_DYN):
        return FileReport(name, reason=f"ELF type {image.e_type} is neither a program nor a library")
    if not image.load_segments:
        return FileReport(name, reason="no loadable segments (a separate debug file?)")
    facts = read_facts(fd, image)
    findings = examine(facts, policy)
    parts: list[Coverage] = []
    if not facts.debug:
        findings = rules.check(image, policy) + findings
        parts = coverages(image, policy.page_size)
    covered = total(parts)
    if covered.windows < policy.min_windows and not facts.debug:
        message = f"{counted(covered.windows, 'whole window')} of text, not {policy.min_windows}"
        findings = [*findings, rules.Finding("HA030", (*image.text_segments, *image.load_segments)[0], message)]
    level, undoable, made = _fixed(fd, image)
    if 0 < made <= covered.windows:
        findings = list(_remaining(findings))
    return FileReport(
        name,
        covered,
        tuple(findings),
        () if facts.debug else image.text_segments,
        facts.debug or covered.text < policy.min_text,
        coverages=tuple(parts),
        file_size=image.file_size,
        kernels=() if facts.debug else eligibility(image, policy.page_size, facts.kind),
        build_id=facts.notes.build_id,
        debug=facts.debug,
        fix_level=level,
        undoable=undoable,
        rodata=None if facts.debug else rodata_coverage(image, policy.page_size),
        order=_placed(fd, facts),
    )


def _placed(fd: int, facts: Facts) -> Placed | None:
    note = facts.notes.build
    if note is None or not note.functions:
        return None
    from hugealign.elf.symbols import count_functions  # most files have no order

    try:
        return Placed(note.functions, count_functions(fd, facts.image, note.hot_start, note.hot_end))
    except MalformedElfError:
        return Placed(note.functions, None)


def _remaining(findings: list[rules.Finding]) -> Iterator[rules.Finding]:
    """Yield *findings* on a file that has all the windows that a fix can make: the rest of its text is no failure."""
    for finding in findings:
        if finding.rule.id not in _PLACEMENT:
            yield finding
        elif finding.rule.id != "HA007":  # which only adds to others
            yield rules.Finding("HA028", finding.segment, f"{finding.message}; fix can make no more windows whole")


def _fixed(fd: int, image: Image) -> tuple[str, bool, int]:
    """Return the level of the `hugealign fix` that made this file, whether that can be undone, and its windows.

    These are what the best fix can make of the file.  The level is empty if none did or its record is damaged.
    """
    if not any(section.name == ".hugealign.fix" for section in image.sections):
        return "", False, 0
    from hugealign.elf.fixrecord import digest, reader, recorded  # json, which other files do without

    read = reader(fd)
    try:
        record = recorded(read, image)
    except MalformedElfError:
        return "", False, 0
    if record is None:
        return "", False, 0
    headers = read(_EHDR_SIZE, 0) + read(record.headers - _EHDR_SIZE, image.segments[0].header)
    return record.level, digest(headers) == record.digest, record.windows
