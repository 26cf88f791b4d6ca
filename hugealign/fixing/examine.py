"""What `fix` has to know beyond a file's headers, before the plan and after it."""

import errno
import os

from hugealign import settings
from hugealign.diagnosis.refusal import DiagnosedError, RefusalError
from hugealign.diagnosis.values import SUBJECT, Remedy
from hugealign.elf.coverage import is_debug_file
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.fixrecord import SEPARATE, FixRecord, reader
from hugealign.elf.guards import read_guards, weaker
from hugealign.elf.image import PT_DYNAMIC, PT_GNU_PROPERTY, Image, read_image
from hugealign.elf.machines import sizes
from hugealign.fixing.output import Output, without_tail
from hugealign.fixing.plan import Plan, make_plan
from hugealign.io.descriptors import using, write_all

_PROPERTY = ".note.gnu.property"
_LIMIT = 1 << 16  # bytes of a segment: what `read_guards` looks at
_PACKED = b"UPX!"
_PACKED_WITHIN = 4096  # bytes: behind the program headers, in the files of every version so far


def read(fd: int) -> Image:
    """Return the headers of the file behind *fd*; meaningless bytes behind its contents do not count.

    Raises NotElfError, MalformedElfError, OSError.
    """
    return without_tail(reader(fd), read_image(fd))


def refuse(fd: int, image: Image) -> None:
    """Raise RefusalError if no level serves the file behind *fd*, whose headers are *image*.

    Raises HugealignError, OSError.
    """
    if is_debug_file(image):
        raise RefusalError("file.debug", Remedy("fix-program"))
    if _PACKED in os.pread(fd, _PACKED_WITHIN, 0):
        raise RefusalError("file.packed", Remedy("run", ("upx", "-d"), SUBJECT))
    if not image.sections:
        raise RefusalError("fix.no-sections")
    if read_dynamic(fd, image).textrel:
        raise RefusalError("text.relocations", Remedy("compile-pic"))


def plan(
    image: Image, page_size: int, level: str, max_executable: int | None = None, record: FixRecord | None = None
) -> Plan:
    """Return the plan of *level* for a file with the headers *image*, in which an earlier fix may have left *record*.

    If that fix carried out the same plan, nothing is left to do: a boundary that went around a section may now lie
    where one more window could be made, but how often a file is fixed must not change what it gains.
    Raises RefusalError.
    """
    page_size, least, _ = sizes(image.machine, page_size, settings.min_text())
    if level == SEPARATE:
        from hugealign.fixing.separation.plan import make_separation  # `run`, which must start fast, may not need it

        made = make_separation(image, page_size, least)
    else:
        made = make_plan(image, page_size, level, least, max_executable)
    done = record and (record.level, record.page_size) == (level, page_size) and made.windows_before
    return made.changed(edits=()) if done else made


def lost(fd: int, output: Output) -> str:
    """Return a guard, by its name in `elf.guards.LOSSES`, that *output* would take from the file; empty if none.

    Raises HugealignError, OSError.
    """
    with using(os.memfd_create("hugealign")) as made:
        # Only the parts that are read: headers, and a few small tables.
        try:
            os.ftruncate(made, output.size)
        except OSError as error:
            if error.errno == errno.EFBIG:  # memory has no other limit
                raise DiagnosedError("file.size-limit", Remedy("raise-limit")) from error
            raise
        for offset, data in output.writes:
            write_all(made, data, offset)
        image = read_image(made)
        ranges = [(s.p_offset, s.p_filesz) for s in image.segments if s.p_type in (PT_DYNAMIC, PT_GNU_PROPERTY)]
        ranges += [(s.sh_offset, s.sh_size) for s in image.sections if s.name == _PROPERTY]
        for start, size in ranges:
            end = start + min(size, _LIMIT)
            for piece in output.pieces:
                low, high = max(start, piece.target), min(end, piece.target + piece.size)
                if low < high:
                    write_all(made, os.pread(fd, high - low, low - piece.target + piece.source), low)
        return weaker(read_guards(made, image), read_guards(fd, read_image(fd)))
