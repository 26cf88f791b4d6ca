"""The input of a profile's reader: the bytes of one file, and the program that it is of."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from hugealign.elf.symbols import Functions
from hugealign.profile import lines
from hugealign.profile.debugfiles import DebugFiles

_PATTERN_LIMIT = 1 << 14  # bytes of a line
_DEBUG = b".debug"


@dataclass(frozen=True, slots=True)
class Others:
    """Other builds than the requested one: *debug* names their functions; those *apart* are read by themselves."""

    debug: DebugFiles = field(default_factory=DebugFiles)
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """The unpacked *stream* of a profile of the *functions* of the file at *binary*.

    *path* is a file with the same bytes, for tools; neither it nor *binary* looks like an option to one.  *others* has
    what is known of other builds.
    """

    stream: BinaryIO
    path: str
    functions: Functions
    binary: str
    others: Others = field(default_factory=Others)

    @property
    def name(self) -> bytes:
        """The name of the program, without directories, also if *binary* is its debug file."""
        return os.fsencode(os.path.basename(self.binary)).removesuffix(_DEBUG)

    def ours(self, file: bytes) -> bool:
        """Return whether *file*, a path in the profile, has the program's name."""
        return file.rpartition(b"/")[2].removesuffix(_DEBUG) == self.name

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the stream."""
        return lines.lines(self.stream)

    def short_lines(self) -> Iterator[bytes]:
        """Yield the lines, with a malformed one in place of each line that is too long.

        The patterns that read a line take time in proportion to the square of its length.
        """
        for line in self.lines():
            yield line if len(line) <= _PATTERN_LIMIT else b"\0"
