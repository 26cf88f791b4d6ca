"""Find the programs in an archive, and in archives within it."""

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterator

from hugealign.diagnosis.refusal import diagnosed
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.image import ET_CORE, ET_REL, SHF_EXECINSTR, read_image, type_of
from hugealign.errors import UNKNOWN_FORM, HugealignError, MalformedElfError
from hugealign.io import unpacking
from hugealign.io.unpacking import (
    Budget,
    ByteSource,
    FileSource,
    LimitError,
    UnpackError,
    no_room,
    spool,
    unnamed_file,
)
from hugealign.records import Record
from hugealign.verification.archives import OBJECT, OTHER, ar, containers, cpio, tar, zip  # noqa: A004  # the format's name
from hugealign.verification.archives.kinds import (
    AR,
    CPIO,
    DEBIAN,
    ELF,
    HEAD,
    RPM,
    TAR,
    THIN,
    ZIP,
    ZSTD,
    Member,
    kind,
)

DEPTH = 3  # archives within one another

_PACKED = ("gzip", "bzip2", "xz", ZSTD)


class Program(Record):
    """A program at *path*, its content behind *fd* until the next is requested; or the *problem* with what is there."""

    path: str
    fd: int = -1
    problem: Diagnosis | None = None


def programs(fd: int, name: str, budget: Budget, counts: "Counter[str]", *, named: bool) -> Iterator[Program]:
    """Yield the programs in the archive behind *fd*, which is called *name*; *counts* counts the skipped files.

    A static archive that was *named* is itself a problem, because objects are not programs.
    """
    try:
        with unnamed_file() as member:
            whole = FileSource(fd, 0, os.fstat(fd).st_size)
            yield from _Search(budget, counts, member.fileno()).content(whole, name, DEPTH, named=named)
    except (HugealignError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            error = no_room(error)
        yield Program(name, problem=diagnosed(name, error))


class _Search:
    """The search of one named file: the work that it may cause, the counts, the file that members are copied to."""

    def __init__(self, budget: Budget, counts: "Counter[str]", member: int) -> None:
        self._budget = budget
        self._counts = counts
        self._member = member

    def content(
        self, source: ByteSource, name: str, depth: int, *, named: bool = False, unpacked: bool = False
    ) -> Iterator[Program]:
        """Yield the programs that *source* holds.  Raises HugealignError, OSError."""
        head = source.peek(HEAD)
        what = kind(head)
        if what == ELF:
            yield from self._elf(source, name, head)
        elif what in _PACKED:
            yield from self._unpacked(what, source, name, depth - unpacked, named=named)
        elif not what:
            self._counts[OTHER] += 1
        elif what == THIN or (what == AR and DEBIAN not in head[8:24]):
            yield from self._static(source, name, thin=what == THIN, named=named)
        elif depth <= 0:
            yield _too_deep(name)
        elif what == AR:
            yield from self._deb(source, name, depth)
        else:
            readers = {TAR: self._tar, CPIO: self._cpio, RPM: self._rpm, ZIP: self._zip}
            yield from readers[what](source, name, depth)

    def _elf(self, source: ByteSource, name: str, head: bytes) -> Iterator[Program]:
        if type_of(head) == ET_REL:
            self._counts[OBJECT] += 1
        elif type_of(head) == ET_CORE:
            self._counts[OTHER] += 1
        else:
            spool(source, self._member, self._budget)
            yield Program(name, self._member)

    def _unpacked(self, what: str, source: ByteSource, name: str, depth: int, *, named: bool) -> Iterator[Program]:
        if depth < 0:
            yield _too_deep(name)
            return
        inner = self._unpack(what, source, depth)
        try:
            inner.peek(HEAD)
        except UnpackError:
            if named or what == ZSTD:
                raise
            self._counts[OTHER] += 1  # it only begins like compressed data, by chance or as a test for other tools
            return
        yield from self.content(inner, name, depth, named=named, unpacked=True)

    def _unpack(self, what: str, source: ByteSource, depth: int) -> ByteSource:
        if what == ZSTD:
            return unpacking.Zstd(source, self._budget)
        if what == "xz":
            # Each xz in an xz takes a window: the deeper ones get less, so that all together stay in bounds.
            return unpacking.xz(source, self._budget, unpacking.WINDOW >> (0 if depth > 1 else 2))
        return unpacking.gzip(source, self._budget) if what == "gzip" else unpacking.bzip2(source, self._budget)

    def _members(
        self, members: Iterator[Member], name: str, depth: int, layers: containers.Layers | None = None
    ) -> Iterator[Program]:
        for member in members:
            inner = member.name.removeprefix("./")
            path = f"{name}!{layers.name(inner) if layers else inner}"
            try:
                yield from self.content(member.source, path, depth - 1)
            except LimitError:
                raise
            except HugealignError as error:
                yield Program(path, problem=diagnosed(path, error))

    def _tar(self, source: ByteSource, name: str, depth: int) -> Iterator[Program]:
        yield from self._members(
            tar.members(source, self._budget), name, depth, containers.Layers(source, self._budget)
        )
        source.finish()

    def _cpio(self, source: ByteSource, name: str, depth: int) -> Iterator[Program]:
        following = CPIO
        while following == CPIO:
            yield from self._members(cpio.members(source, self._budget), name, depth)
            cpio.pass_zeros(source)
            following = kind(source.peek(HEAD))
        # An initial ram disk is a sequence of archives, packed or not (Documentation/driver-api/early-userspace).
        if following in _PACKED:
            yield from self._unpacked(following, source, name, depth, named=True)
        elif source.peek(1):
            raise UnpackError("what follows the cpio archive", UNKNOWN_FORM)
        source.finish()

    def _rpm(self, source: ByteSource, name: str, depth: int) -> Iterator[Program]:
        header = cpio.payload(source, self._budget)
        what = kind(source.peek(HEAD))
        payload = self._unpack(what, source, depth) if what in _PACKED else source
        yield from self._members(cpio.members(payload, self._budget, header), name, depth)
        payload.finish()

    def _deb(self, source: ByteSource, name: str, depth: int) -> Iterator[Program]:
        for member in ar.members(source, self._budget):
            if member.name.startswith("data.tar"):
                if not kind(member.source.peek(HEAD)):
                    raise UnpackError(member.name, UNKNOWN_FORM)
                yield from self.content(member.source, name, depth)

    def _zip(self, source: ByteSource, name: str, depth: int) -> Iterator[Program]:
        with contextlib.ExitStack() as stack:
            if not isinstance(source, FileSource):
                whole = stack.enter_context(unnamed_file()).fileno()
                spool(source, whole, self._budget)
                source = FileSource(whole, 0, os.fstat(whole).st_size)
            passed: Counter[int] = Counter()
            members = zip.members(source.fd, source.start, source.end, self._budget, self._counts, passed)
            yield from self._members(members, name, depth)
        for method, files in passed.items():
            code = "file.unknown-form" if method else "file.members-encrypted"
            facts: dict[str, int | str] = {"files": files}
            if method:
                facts["part"] = f"zip method {method}"
            yield Program(name, problem=Diagnosis(code, name, facts))

    def _static(self, source: ByteSource, name: str, *, thin: bool, named: bool) -> Iterator[Program]:
        objects = text = 0
        for member in ar.members(source, self._budget):
            head = member.source.peek(HEAD)
            if thin or (kind(head) == ELF and type_of(head) == ET_REL):
                objects += 1
                text += self._text(member.source) if named and not thin else 0
            else:
                yield from self.content(member.source, f"{name}!{member.name}", 0)
        self._counts[OBJECT] += objects
        if named and objects:
            code = "file.thin-archive" if thin else "file.archive"
            yield Program(name, problem=Diagnosis(code, name, {"objects": objects, "text": text}))

    def _text(self, source: ByteSource) -> int:
        """Return the bytes of code in one object file; 0 if its headers are damaged."""
        spool(source, self._member, self._budget)
        try:
            return sum(s.sh_size for s in read_image(self._member).sections if s.sh_flags & SHF_EXECINSTR)
        except MalformedElfError:
            return 0


def _too_deep(name: str) -> Program:
    return Program(name, problem=Diagnosis("file.too-deep", name, {"depth": DEPTH}))
