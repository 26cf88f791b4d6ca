"""Archives of tar(1): v7, ustar, GNU and pax, sparse files too.

Format: POSIX.1-2017, pax, "pax Interchange Format"; GNU tar's manual, "Basic Tar Format".  Not `tarfile`: it keeps a
record of every member, and reads headers of any size at once.
"""

from collections.abc import Iterator

from hugealign.errors import TRUNCATED, UNKNOWN_FORM
from hugealign.io.numbers import decimal
from hugealign.io.unpacking import CHUNK, Budget, ByteSource, UnpackError
from hugealign.verification.archives.kinds import TAR_BLOCK as BLOCK
from hugealign.verification.archives.kinds import Member, is_tar_header, tar_number

_HEADER_LIMIT = 1 << 20  # bytes of one extended header: names, and extended attributes of 64 KiB
_PIECES_LIMIT = 1 << 16  # pieces of one sparse file
_SIZE_LIMIT = (1 << 63) - 1  # off_t
_REGULAR = (b"\0", b"0", b"7")  # and contiguous
_WITHOUT_DATA = b"123456"  # links, devices, directories, FIFOs: whatever size they claim


def members(source: ByteSource, budget: Budget) -> Iterator[Member]:
    """Yield the regular files; links, directories and devices hold nothing to check."""
    name: bytes | None = None
    pax: dict[bytes, bytes] = {}
    while True:
        block = source.peek(BLOCK)
        if not block.strip(b"\0"):
            return  # the end of the archive: a block of zeros, or nothing
        source.exactly(BLOCK)
        if not is_tar_header(block):
            raise UnpackError("tar header")
        budget.members()
        kind = block[156:157]
        size = tar_number(block[124:136])
        if kind in b"LKxgX":
            if size > _HEADER_LIMIT:
                raise UnpackError("tar header")
            budget.spend(size)
            data = source.exactly(-(-size // BLOCK) * BLOCK)[:size]
            if kind == b"L":
                name = data.rstrip(b"\0")
            elif kind in b"xX":
                pax = _records(data, budget)
            continue
        if kind not in _WITHOUT_DATA:
            if b"size" in pax:
                size = _decimal(pax[b"size"])
            holes = _gnu_holes(block, source, budget) if kind == b"S" else None
            stored = source.part(size)
            if kind in _REGULAR or holes:
                yield Member(_name(block, name, pax), _content(stored, pax, holes, budget))
            stored.finish()
            padding = -size % BLOCK
            if len(source.peek(padding)) == padding:  # some writers leave out the padding of the last member
                source.skip(padding)
        name, pax = None, {}


class Sparse(ByteSource):
    """A file with holes: *pieces* (offset, size) of *stored*, zeros between them, *size* bytes in all."""

    __slots__ = ("_at", "_budget", "_end", "_pieces", "_size", "_stored")

    def __init__(self, stored: ByteSource, pieces: list[tuple[int, int]], size: int, budget: Budget) -> None:
        super().__init__()
        end = 0
        for offset, length in pieces:
            if offset < end:
                raise UnpackError("sparse map")
            end = offset + length
        if end > size:
            raise UnpackError("sparse map")
        self._stored = stored
        self._budget = budget
        self._pieces = pieces[::-1]
        self._at = 0
        self._end = 0  # of the piece that is being read
        self._size = size

    def _next(self, size: int) -> bytes:
        while self._at == self._end and self._pieces and self._pieces[-1][0] == self._at:
            self._end += self._pieces.pop()[1]
        if self._at < self._end:
            data = self._stored.read(min(size, self._end - self._at))
            if not data:
                raise UnpackError(code=TRUNCATED)
        else:
            hole = self._pieces[-1][0] if self._pieces else self._size
            data = bytes(min(size, CHUNK, hole - self._at))
            self._budget.spend(len(data))
            self._end += len(data)
        self._at += len(data)
        return data

    def finish(self) -> None:
        """Pass over the rest; a hole has no checksum at its end."""
        self._ahead = b""
        self._pieces.clear()
        self._at = self._end = self._size
        self._stored.finish()


def _content(
    stored: ByteSource, pax: dict[bytes, bytes], holes: tuple[list[tuple[int, int]], int] | None, budget: Budget
) -> ByteSource:
    if holes:
        return Sparse(stored, *holes, budget)
    if pax.get(b"GNU.sparse.major") == b"1":
        return Sparse(stored, _pax_holes(stored, budget), _decimal(pax.get(b"GNU.sparse.realsize", b"")), budget)
    if b"GNU.sparse.size" in pax:
        raise UnpackError("GNU.sparse 0.0", UNKNOWN_FORM)
    return stored


def _name(block: bytes, name: bytes | None, pax: dict[bytes, bytes]) -> bytes:
    if name is None:
        name = block[:100].split(b"\0")[0]
        prefix = block[345:500].split(b"\0")[0]
        if prefix and block[257:263] == b"ustar\0":
            name = prefix + b"/" + name
    return pax.get(b"GNU.sparse.name", pax.get(b"path", name))


def _decimal(digits: bytes) -> int:
    return decimal(digits, _SIZE_LIMIT, "a tar header")


def _records(data: bytes, budget: Budget) -> dict[bytes, bytes]:
    """Return the records of a pax header: length, blank, key, equals sign, value, newline each."""
    records = {}
    at = 0
    while at < len(data) and data[at]:
        blank = data.find(b" ", at, at + 20)
        budget.members()
        end = at + _decimal(data[at:blank]) if blank > at else at
        key, equals, value = data[blank + 1 : end - 1].partition(b"=")
        if not equals or not at < blank < end <= len(data) or data[end - 1 : end] != b"\n":
            raise UnpackError("pax header")
        records[key] = value
        at = end
    return records


def _gnu_holes(block: bytes, source: ByteSource, budget: Budget) -> tuple[list[tuple[int, int]], int]:
    """Return the pieces of a GNU sparse file, and its size: the header holds four, each block behind it 21 more."""
    pieces = _pieces(block[386:482])
    more = block[482]
    while more:
        budget.members(4)
        table = source.exactly(BLOCK)
        pieces += _pieces(table[:504])
        more = table[504]
        if len(pieces) > _PIECES_LIMIT:
            raise UnpackError("sparse map", UNKNOWN_FORM)
    return pieces, tar_number(block[483:495])


def _pieces(table: bytes) -> list[tuple[int, int]]:
    return [
        (tar_number(table[at : at + 12]), tar_number(table[at + 12 : at + 24]))
        for at in range(0, len(table) - 23, 24)
        if table[at + 12]
    ]


def _pax_holes(stored: ByteSource, budget: Budget) -> list[tuple[int, int]]:
    """Return the pieces of a sparse file of pax form 1.0: decimal lines, filled up to a block, in front of the data."""
    numbers: list[int] = []
    rest = b""
    while not numbers or len(numbers) <= 2 * numbers[0]:
        budget.members(4)
        *lines, rest = (rest + stored.exactly(BLOCK)).split(b"\n")
        numbers += map(_decimal, lines)
        if len(rest) > BLOCK or len(numbers) > 2 * _PIECES_LIMIT:
            raise UnpackError("sparse map", UNKNOWN_FORM)
    return list(zip(numbers[1 : 2 * numbers[0] : 2], numbers[2 : 2 * numbers[0] + 1 : 2], strict=True))
