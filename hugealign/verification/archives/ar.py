"""Members of an archive of ar(1) that is read from front to back: static libraries, thin ones, and Debian packages."""

from collections.abc import Iterator

from hugealign.io import ar
from hugealign.io.numbers import decimal
from hugealign.io.unpacking import Budget, ByteSource, UnpackError
from hugealign.verification.archives.kinds import Member

_NAMES_LIMIT = 1 << 24  # bytes of long names
_NAME_LIMIT = 1 << 12


def members(source: ByteSource, budget: Budget) -> Iterator[Member]:
    """Yield the members except the symbol tables; members of a thin archive lie elsewhere, and are empty."""
    thin = source.exactly(len(ar.MAGIC)) == ar.THIN
    names = b""
    while source.peek(ar.HEADER):
        budget.members()
        name, size = ar.entry(source.exactly(ar.HEADER))
        padding = size & 1
        if name == ar.LONG_NAMES:
            if size > _NAMES_LIMIT:
                raise UnpackError("ar names")
            budget.spend(size)
            names = source.exactly(size)
        elif name in ar.TABLES:
            source.skip(size)
        elif thin:
            padding = 0
            yield Member(ar.full_name(name, names), source.part(0))
        else:
            if name.startswith(b"#1/") and name[3:].isdigit():  # 4.4BSD: the name is the front of the data
                length = decimal(name[3:], min(size, _NAME_LIMIT), "the name of an archive member")
                name = source.exactly(length).rstrip(b"\0")
                size -= length
            data = source.part(size)
            if name not in ar.TABLES:
                yield Member(ar.full_name(name, names), data)
            data.finish()
        if padding and source.peek(1):
            source.skip(1)
