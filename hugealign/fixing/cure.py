"""How to give a finished file the windows that it lacks, found by trying: edit its headers, or else link it again."""

import contextlib
import os
import shlex
from dataclasses import dataclass

from hugealign import replacing, settings
from hugealign.elf.coverage import text_size
from hugealign.elf.image import EM_AARCH64, EM_X86_64, ET_REL, Image, read_image
from hugealign.errors import HugealignError
from hugealign.fixing.fix import FixOptions, made, refuse_copy
from hugealign.fixing.plan import RefusalError
from hugealign.regular import opened
from hugealign.replacing import ReplaceError
from hugealign.units import counted, printable
from hugealign.verification.rules import RELINK


@dataclass(frozen=True, slots=True)
class Cure:
    """The *command*, fit for a terminal, that gives a file windows; how many it has *before* and *after*.

    *in_place*: the file itself gets them.
    """

    command: str
    before: int
    after: int
    in_place: bool = True

    @property
    def effect(self) -> str:
        """The number of windows before and after, for people."""
        return f"{self.before} -> {counted(self.after, 'window')}"

    def __str__(self) -> str:
        """Return the command, followed by its effect in parentheses."""
        return f"{self.command} ({self.effect})"


def find(path: str, page_size: int) -> Cure | None:
    """Return the command that gives the file at *path* more windows by editing its headers; None if there is none.

    It writes another file, OUT, if this one cannot be changed.  This writes nothing.
    """
    file = path if not path.startswith("-") else f"./{path}"
    name = printable(shlex.quote(file))
    mine = os.access(os.path.dirname(file) or ".", os.W_OK) and os.access(file, os.W_OK)
    command, in_place = f"{'' if mine else 'sudo '}hugealign fix --in-place {name}", True
    try:
        with opened(path) as fd:
            _, output, plan = made(fd, FixOptions(page_size=page_size))
            try:
                replacing.refuse_write(fd)
                refuse_copy(path, fd, output)
            except (RefusalError, ReplaceError):
                command, in_place = f"hugealign fix {name} -o OUT", False
    except (HugealignError, OSError):
        return None
    if plan is None or not plan.edits or plan.windows <= plan.windows_before:
        return None
    return Cure(command, plan.windows_before, plan.windows, in_place)


def cure(path: str, page_size: int) -> str:
    """Return the `Cure` of the file at *path* in words; empty if there is none."""
    return str(find(path, page_size) or "")


def instead(path: str) -> str:
    """Return what to do about a file that `fix` refuses.

    Empty if its text is small, if the link is not to blame, or if hugealign does not lay out links for its processor.
    """
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        image = read_image(fd)
        if image.e_type != ET_REL and not _small(image) and _laid_out(image):
            return RELINK
    return ""


def cure_or_relink(path: str, page_size: int) -> str:
    """Return what to do about a file whose text has too few windows, in words that follow a reason.

    Where the file itself cannot change, a command can run from a fixed copy; nothing would use another file.
    """
    if found := find(path, page_size):
        start = f"hugealign run --fix --file {printable(shlex.quote(path))} -- COMMAND ({found.effect})"
        return f"run: {found if found.in_place else start}"
    with contextlib.suppress(HugealignError, OSError), opened(path) as fd:
        image = read_image(fd)
        if _small(image):
            return "4 KiB pages serve so little text"
        if not _laid_out(image):
            return "hugealign lays out programs for x86-64 and aarch64"
    return RELINK


def _small(image: Image) -> bool:
    return text_size(image) < settings.min_text()


def _laid_out(image: Image) -> bool:
    """Return whether `hugealign gcc` would lay out such a file."""
    return image.is64 and image.little and image.e_machine in (EM_X86_64, EM_AARCH64)
