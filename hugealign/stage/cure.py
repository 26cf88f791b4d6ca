"""The fixed file that is staged for one without a whole window; `hugealign fix` makes the same."""

from hugealign.elf.fixrecord import SHIFT, reader
from hugealign.fixing import examine, guarded
from hugealign.fixing.output import Output, fixed
from hugealign.fixing.plan import RefusalError


def cured(fd: int, page_size: int, rodata: bool) -> tuple[Output, int] | None:
    """Return the fixed file and its number of windows; None if it cannot be fixed.  Raises HugealignError."""
    try:
        image = examine.read(fd)
        plan = examine.plan(fd, image, page_size, SHIFT, rodata)
        if not plan.edits:
            return None
        output = fixed(reader(fd), image, plan)
    except RefusalError:
        return None
    return None if guarded.lost(fd, output) else (output, plan.windows)
