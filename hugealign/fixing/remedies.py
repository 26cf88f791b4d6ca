"""How to give a finished file the windows that it lacks, found by trying: edit its headers, or else link it again."""

import contextlib
import os

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import COMMAND, OUTPUT, ROOT, Diagnosis, Remedy
from hugealign.elf.coverage import text_size
from hugealign.elf.image import ET_REL, GO_SECTION, PAD_SECTIONS, Image, read_image
from hugealign.elf.machines import least_text, native
from hugealign.errors import HugealignError, NotElfError
from hugealign.fixing.checked import refuse_checked
from hugealign.fixing.fix import FixOptions, planned, refuse_copy
from hugealign.fixing.understood import refuse_appended
from hugealign.io.caches import cached
from hugealign.io.regular import opened
from hugealign.system import packages

RELINK, RELINK_GO, RELINK_SECTIONS = Remedy("relink"), Remedy("relink-go"), Remedy("relink-sections")


def edit(path: str, page_size: int, *, ask_packages: bool = False) -> Remedy | None:
    """Return the command that fixes the file at *path*, with the windows that `planned` says; None without a gain.

    It needs OUTPUT, another file, if this one cannot be changed; with *ask_packages*, which takes 40 ms, also if the
    file is part of a package of the distribution.
    """
    file = path if not path.startswith("-") else f"./{path}"
    command, needs = ("hugealign", "fix", "--in-place", file), ""
    try:
        with opened(path) as fd:
            owned = os.geteuid() in (0, os.fstat(fd).st_uid)  # the copy keeps the owner
            if not owned or not os.access(os.path.dirname(file) or ".", os.W_OK):
                needs = ROOT
            plan = planned(fd, FixOptions(page_size=page_size))
            try:
                refuse_copy(path, fd)
                kept = ask_packages and packages.packaged(path)
            except RefusalError:
                kept = True
    except (HugealignError, OSError):
        return None
    if not plan.edits or plan.windows <= plan.windows_before:
        return None
    if kept:
        command, needs = ("hugealign", "fix", file, "-o"), OUTPUT
    return Remedy("fix", command, needs, plan.windows_before, plan.windows)


def relink(path: str) -> Remedy | None:
    """Return what to do about a file that `fix` refuses.

    None if its text is small, if the link is not to blame, or if hugealign does not lay out links for its processor.
    """
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        image = read_image(fd)
        if image.e_type != ET_REL and not _small(image) and image.machine:
            return _link(image)
    return None


def laid_out(path: str) -> bool:
    """Return whether a link of hugealign's made the file at *path*."""
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        return any(section.name in PAD_SECTIONS for section in read_image(fd).sections)
    return False


def _link(image: Image) -> Remedy:
    """Return how to link the file with *image* again.

    Go starts a compiler for that only with an option; a link without section headers is left alone.
    """
    if not image.sections:
        return RELINK_SECTIONS
    return RELINK_GO if any(section.name == GO_SECTION for section in image.sections) else RELINK


def diagnose(path: str, page_size: int, *, ask_packages: bool = False) -> Diagnosis:
    """Return why the file at *path*, whose text has too few windows, is so, and what to do.

    Where the file itself cannot change, a command can run from a fixed copy; nothing would use another file.
    """
    facts: dict[str, int | str] = {"page_size": page_size}
    with contextlib.suppress(HugealignError), opened(path) as fd:
        if cached(path, fd):
            return Diagnosis("file.cached", path, {})
    remedy = edit(path, page_size, ask_packages=ask_packages)
    if remedy:
        copy = ("hugealign", "run", "--fix", "--file", path, "--")
        remedy = remedy.changed(argv=copy, needs=COMMAND) if remedy.needs == OUTPUT else remedy
        return Diagnosis("text.no-window", path, facts, remedy.changed(kind="run"))
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        try:
            image = read_image(fd)
        except NotElfError:
            return Diagnosis("file.not-elf", path, {})
        if _small(image):
            return Diagnosis("text.small", path, {"text": text_size(image), "least": least_text(image.machine)})
        if image.machine is None or image.machine is not native():
            return Diagnosis("text.other-processor", path, {**facts, "processor": image.processor})
        try:
            refuse_checked(fd, image)
            refuse_appended(image)
        except RefusalError as error:
            return error.diagnosis.about(path)
        return Diagnosis("text.no-window", path, facts, _link(image))
    return Diagnosis("text.no-window", path, facts, RELINK)


def _small(image: Image) -> bool:
    return text_size(image) < least_text(image.machine)
