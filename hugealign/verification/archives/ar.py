"""Archives of ar(1): static libraries, thin ones, and Debian packages.  Format: ar(5), and binutils' bfd/archive.c."""

from collections.abc import Iterator

from hugealign.io.numbers import decimal
from hugealign.verification.archives.limits import ArchiveError, Work
from hugealign.verification.archives.source import ByteSource, Member

AR, THIN = b"!<arch>\n", b"!<thin>\n"
_TABLES = (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED", b"__.SYMDEF_64")
_NAMES_LIMIT = 1 << 24  # bytes of long names
_NAME_LIMIT = 1 << 12
_SIZE_LIMIT = 10**15  # more than the digits of any field allow


def members(source: ByteSource, work: Work) -> Iterator[Member]:
    """Yield the members except the symbol tables; those of a thin archive, which lie elsewhere, are empty."""
    thin = source.exactly(8) == THIN
    names = b""
    while header := source.peek(60):
        source.exactly(60)
        work.members()
        name = header[:16].rstrip(b" ")
        if header[58:] != b"`\n":
            raise ArchiveError("a damaged header of an archive member")
        size = decimal(header[48:58].rstrip(b" "), _SIZE_LIMIT, "the size of an archive member")
        padding = size & 1
        if name == b"//":
            if size > _NAMES_LIMIT:
                raise ArchiveError("its table of names is impossibly large")
            work.copied(size)
            names = source.exactly(size)
        elif name in _TABLES:
            source.skip(size)
        elif thin:
            padding = 0
            yield Member(_gnu(name, names), source.part(0))
        else:
            if name.startswith(b"#1/") and name[3:].isdigit():  # 4.4BSD: the name is the front of the data
                length = decimal(name[3:], min(size, _NAME_LIMIT), "the name of an archive member")
                name = source.exactly(length).rstrip(b"\0")
                size -= length
            data = source.part(size)
            if name not in _TABLES:
                yield Member(_gnu(name, names), data)
            data.finish()
        if padding and source.peek(1):
            source.skip(1)


def _gnu(name: bytes, names: bytes) -> bytes:
    """Return a name without GNU's slash at its end; ``/123`` is an offset into the table of long *names*."""
    if name[:1] == b"/" and name[1:].isdigit():
        at = decimal(name[1:], _SIZE_LIMIT)
        end = names.find(b"\n", at, at + _NAME_LIMIT)
        name = names[at : end if end >= 0 else at + _NAME_LIMIT]
    return name.removesuffix(b"/")
