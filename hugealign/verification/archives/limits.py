"""How much work an archive may cause: in proportion to its size, plus one allowance for the whole command.

Every size, count and reference in an archive is untrusted.  Whatever they say, the readers pay here for what they do:
for each byte that comes out of a decompressor or a hole, each byte that is copied or parsed, each header, name and
stream, each program that is started.  All levels of nesting pay from the same purse.

The factors leave room for every honest archive that we know: packages unpack to at most 20 times their size, and
a file of an archive takes more than 8 bytes even among a hundred thousand empty ones.
"""

from hugealign.errors import HugealignError
from hugealign.io.units import format_size
from hugealign.records import Record


class ArchiveError(HugealignError):
    """The archive is damaged, or of a kind that is not known."""


class LimitError(HugealignError):
    """The archive causes more work than its size allows; ends the check of the whole named file."""


class WorkKind(Record):
    """One kind of work.

    An archive may cause *least*, plus *times* its bytes or one for each *per* bytes.  All archives of a command
    together may cause *allowance* more.
    """

    what: str
    allowance: int
    least: int  # so that a tree of thousands of tiny archives does not use up the allowance
    times: int = 1
    per: int = 1

    def share(self, size: int) -> int:
        """Return what an archive of *size* bytes may cause."""
        return self.least + size * self.times // self.per


#: Bytes out of decompressors and holes.  Deflate cannot exceed 1032:1; anything beyond 500:1 is zeros or a bomb.
UNPACKED = WorkKind("unpacks to too many bytes", 256 << 20, 64 << 10, times=500)
#: Bytes that are copied to a temporary file, or parsed: zeros do not count, as they become holes.
COPIED = WorkKind("holds too many bytes of programs", 64 << 20, 64 << 10, times=100)
#: Headers, names, references, streams.
MEMBERS = WorkKind("holds too many files", 1 << 16, 64, per=8)
#: Runs of the zstd program.
PROCESSES = WorkKind("needs the zstd program too often", 128, 2, per=2048)


class Allowance:
    """The work that all archives of one command may cause beyond the shares by their sizes."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = {kind: kind.allowance for kind in (UNPACKED, COPIED, MEMBERS, PROCESSES)}


class Work:
    """The work that one named file of *size* bytes may cause, with at most *limit* bytes unpacked or copied."""

    __slots__ = ("_allowance", "_bytes", "_left", "_limit", "_size")

    def __init__(self, size: int, limit: int, allowance: Allowance) -> None:
        self._size = size
        self._limit = limit
        self._bytes = {UNPACKED: limit, COPIED: limit}
        self._left = {kind: kind.share(size) for kind in allowance.left}
        self._allowance = allowance.left

    def unpacked(self, size: int) -> None:
        """Pay for *size* bytes out of a decompressor or a hole.  Raises LimitError."""
        self._pay_bytes(UNPACKED, size)

    def copied(self, size: int) -> None:
        """Pay for *size* bytes that are copied to a temporary file or parsed.  Raises LimitError."""
        self._pay_bytes(COPIED, size)

    def members(self, count: int = 1) -> None:
        """Pay for *count* headers, names or streams.  Raises LimitError."""
        self._pay(MEMBERS, count)

    def process(self) -> None:
        """Pay for a program that is started.  Raises LimitError."""
        self._pay(PROCESSES, 1)

    def _pay_bytes(self, kind: WorkKind, size: int) -> None:
        self._bytes[kind] -= size
        if self._bytes[kind] < 0:
            raise LimitError(f"it unpacks to more than {format_size(self._limit)}; --max-unpacked sets the limit")
        self._pay(kind, size)

    def _pay(self, kind: WorkKind, amount: int) -> None:
        left = self._left[kind] = self._left[kind] - amount
        if left < 0:
            self._left[kind] = 0
            self._allowance[kind] += left
            if self._allowance[kind] < 0:
                self._allowance[kind] = 0
                raise LimitError(f"it {kind.what} for its size of {format_size(self._size)}; unpack it first")
