"""How to give a finished file the windows that it lacks, found by trying: edit its headers, or else link it again."""

import contextlib
import os

from hugealign import settings
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import COMMAND, OUTPUT, ROOT, Diagnosis, Remedy
from hugealign.elf.coverage import text_size
from hugealign.elf.fixrecord import SEPARATE, SHIFT
from hugealign.elf.image import EM_AARCH64, EM_X86_64, ET_REL, Image, read_image
from hugealign.errors import HugealignError
from hugealign.fixing import examine
from hugealign.fixing.fix import FixOptions, made, refuse_copy
from hugealign.io.regular import opened

RELINK = Remedy("relink")


def edit(path: str, page_size: int, level: str = "") -> Remedy | None:
    """Return the command that fixes the file at *path*, as `fix` at *level* would; None if it gains no windows.

    It needs OUTPUT, another file, if this one cannot be changed.  This writes nothing.
    """
    file = path if not path.startswith("-") else f"./{path}"
    command, needs = ("hugealign", "fix", "--in-place", file), ""
    try:
        with opened(path) as fd:
            owned = os.geteuid() in (0, os.fstat(fd).st_uid)  # the copy keeps the owner
            if not owned or not os.access(os.path.dirname(file) or ".", os.W_OK):
                needs = ROOT
            plan = made(fd, FixOptions(level, page_size)).plan
            try:
                refuse_copy(path, fd)
            except RefusalError:
                command, needs = ("hugealign", "fix", file, "-o"), OUTPUT
    except (HugealignError, OSError):
        return None
    if plan is None or not plan.edits or plan.windows <= plan.windows_before:
        return None
    return Remedy("fix", command, needs, plan.windows_before, plan.windows)


def relink(path: str) -> Remedy | None:
    """Return what to do about a file that `fix` refuses.

    None if its text is small, if the link is not to blame, or if hugealign does not lay out links for its processor.
    """
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        image = read_image(fd)
        if image.e_type != ET_REL and not _small(image) and _laid_out(image):
            return RELINK
    return None


def diagnose(path: str, page_size: int, *, quick: bool = False) -> Diagnosis:
    """Return why the file at *path*, whose text has too few windows, is so, and what to do.

    Where the file itself cannot change, a command can run from a fixed copy; nothing would use another file.  *quick*:
    by headers alone, which do not tell how many windows a fix would make.
    """
    facts: dict[str, int | str] = {"page_size": page_size}
    if found := edit(path, page_size, SHIFT if quick else ""):
        copy = ("hugealign", "run", "--fix", "--file", path, "--")
        found = found.changed(argv=copy, needs=COMMAND) if found.needs == OUTPUT else found
        numbers = (None, None) if quick else (found.before, found.after)
        return Diagnosis("text.no-window", path, facts, Remedy("run", found.argv, found.needs, *numbers))
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        image = read_image(fd)
        if _small(image):
            return Diagnosis("text.small", path, {"text": text_size(image), "least": settings.min_text()})
        if not _laid_out(image):
            return Diagnosis("text.other-processor", path, facts)
        if quick and examine.plan(image, page_size, SEPARATE).edits:
            look = ("hugealign", "fix", "--dry-run", path)
            return Diagnosis("text.no-window", path, facts, Remedy("look", look))
    return Diagnosis("text.no-window", path, facts, RELINK)


def _small(image: Image) -> bool:
    return text_size(image) < settings.min_text()


def _laid_out(image: Image) -> bool:
    """Return whether `hugealign gcc` would lay out such a file."""
    return image.is64 and image.little and image.e_machine in (EM_X86_64, EM_AARCH64)
