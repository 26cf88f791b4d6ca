"""What gives a finished file the windows that it lacks, found by trying: its headers edited, or else another link."""

import contextlib
import os
import shlex

from hugealign import settings
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.fixing.fix import FixOptions, fix
from hugealign.regular import opened
from hugealign.units import printable
from hugealign.verification.rules import RELINK


def cure(path: str, page_size: int = settings.PAGE_SIZE) -> str:
    """Return the command that gives the file at *path* more windows, and how many, fit for a terminal; empty if none.

    Nothing is written.
    """
    try:
        plan = fix(path, FixOptions(page_size=page_size)).plan
    except (HugealignError, OSError):
        return ""
    if plan is None or not plan.edits or plan.windows <= plan.windows_before:
        return ""
    file = path if not path.startswith("-") else f"./{path}"
    mine = os.access(os.path.dirname(file) or ".", os.W_OK) and os.access(file, os.W_OK)
    gain = f"{plan.windows_before} -> {plan.windows} {'window' if plan.windows == 1 else 'windows'}"
    return f"{'' if mine else 'sudo '}hugealign fix --in-place {printable(shlex.quote(file))} ({gain})"


def cure_or_relink(path: str, page_size: int = settings.PAGE_SIZE) -> str:
    """Return what to do about a file whose text has too few windows, to stand after a reason."""
    if found := cure(path, page_size):
        return f"run: {found}"
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        if sum(segment.p_memsz for segment in read_image(fd).text_segments) < settings.MIN_TEXT:
            return "4 KiB pages serve so little text"
    return RELINK
