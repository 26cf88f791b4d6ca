"""What a plan for a file has to know beyond the file's headers."""

import os
from dataclasses import replace

from hugealign import settings
from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import SUBJECT, Remedy
from hugealign.elf.coverage import is_debug_file
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.fixrecord import SHIFT, reader, recorded
from hugealign.elf.image import Image, read_image
from hugealign.fixing.output import without_tail
from hugealign.fixing.plan import Plan, make_plan

_PACKED = b"UPX!"
_PACKED_WITHIN = 4096  # bytes: behind the program headers, in the files of every version so far


def read(fd: int) -> Image:
    """Return the headers of the file behind *fd*; meaningless bytes behind its contents do not count.

    Raises NotElfError, MalformedElfError, OSError.
    """
    return without_tail(reader(fd), read_image(fd))


def plan(fd: int, image: Image, page_size: int, level: str = SHIFT, rodata: bool = False) -> Plan:
    """Return the plan for the file behind *fd*, whose headers are *image*.  Raises HugealignError, OSError.

    If the same plan has been carried out before, nothing is left to do: a boundary that went around a section may now
    lie where one more window could be made, but what a fixed file gains must not depend on how often it was fixed.
    """
    if is_debug_file(image):
        raise RefusalError("file.debug", Remedy("fix-program"))
    if _PACKED in os.pread(fd, _PACKED_WITHIN, 0):
        raise RefusalError("file.packed", Remedy("run", ("upx", "-d"), SUBJECT))
    if not image.sections:
        raise RefusalError("fix.no-sections")
    if read_dynamic(fd, image).textrel:
        raise RefusalError("text.relocations", Remedy("compile-pic"))
    made = make_plan(image, page_size, level, rodata, settings.min_text())
    record = recorded(reader(fd), image)
    if record is None or not made.edits:
        return made
    before, after = made.rodata or (0, 0)
    if (record.level, record.page_size) == (level, page_size) and made.windows_before and before == after:
        return replace(made, edits=())
    undo = Remedy("run", ("hugealign", "fix", "--undo"), SUBJECT)
    raise RefusalError("fix.fixed-already", undo, level=record.level)
