"""Whether a fixed file is guarded as it was before: checked before anything is written."""

import errno
import os

from hugealign.elf.guards import read_guards, weaker
from hugealign.elf.image import PT_DYNAMIC, PT_GNU_PROPERTY, read_image
from hugealign.errors import HugealignError
from hugealign.fixing.output import Output
from hugealign.io.descriptors import using, write_all

_PROPERTY = ".note.gnu.property"
_LIMIT = 1 << 16  # bytes of a segment: what `read_guards` looks at


def lost(fd: int, output: Output) -> str:
    """Return how the file that *output* makes of *fd* would be guarded less, for people; empty if it would not be.

    Raises HugealignError, OSError.
    """
    with using(os.memfd_create("hugealign")) as made:
        # Only the parts that are read: headers, and a few small tables.
        try:
            os.ftruncate(made, output.size)
        except OSError as error:
            if error.errno == errno.EFBIG:  # memory has no other limit
                raise HugealignError("it is larger than this process may write (RLIMIT_FSIZE, ulimit -f)") from error
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
