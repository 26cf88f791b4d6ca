"""The order of a profile in each linker's words.  Pure, but for `read`.

`hugealign.order.orderfile` reads the same file whole; a link asks for names only, and imports nothing that costs more
than the link itself.

Names come from a program, and thus from anyone.  What a linker would take for a pattern, a quote, a comment or the end
of a line is left out: a function that is not listed lies where it would lie without an order.
"""

import os

from hugealign.elf.objectfile import HOT_MARKS
from hugealign.errors import HugealignError
from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC = b"# hugealign.order/1"
_LIMIT = 256 << 20  # bytes of an order file
_IDENTITY = 20  # bytes of the checksum that identify a profile
#: How compilers begin the name of the section of one function (GCC manual, -ffunction-sections, -freorder-functions;
#: LLVM, -fsplit-machine-functions).  What is only expected to run seldom may be split off into the last two.
_OWN, _OTHERS = b".text.", (b".text.hot.", b".text.startup.", b".text.exit.")
_SELDOM = (b".text.unlikely.", b".text.split.")
#: GCC names the section of a constructor after one of its symbols, and a profile may know it by the other.
_TWINS = ((b"C1E", b"C2E"), (b"C2E", b"C1E"), (b"D1E", b"D2E"), (b"D2E", b"D1E"))
_NO_NAME = (b"", b"#", b"@", b"\t")
_HOT = (b"", b"hot")
_KINDS = (*_HOT, b"cold", b"fill")
_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$"
#: What means something to a linker script even in quotes, or to the matching of names.
_SPECIAL = frozenset(b'*?[]\\"' + bytes(range(32)) + b"\x7f")
_START, _END = (mark.encode() for mark in HOT_MARKS)


class Order:
    """What an order file says to a link.

    *names* are its functions and their source files (empty if the name is enough), in order; the first *hot* of them
    reach to the last one that ran.  *windows* is how many are to be huge, 0 for all; *identity* tells the profile.
    """

    __slots__ = ("hot", "identity", "names", "windows")

    def __init__(self, names: list[tuple[bytes, bytes]], hot: int, windows: int = 0, identity: bytes = b"") -> None:
        self.names = names
        self.hot = hot
        self.windows = windows
        self.identity = identity

    def marked(self) -> list[tuple[bytes, bytes]]:
        """Return the names with HOT_MARKS around the hot ones."""
        return [(_START, b""), *self.names[: self.hot], (_END, b""), *self.names[self.hot :]]


def read(path: str) -> Order:
    """Return the order in the file at *path*.  Raises HugealignError, whose message names the file."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise HugealignError(f"{printable(path)}: not a regular file")
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError as error:
        raise HugealignError(f"{printable(path)}: {error.strerror}") from error
    if len(data) > _LIMIT:
        raise HugealignError(f"{printable(path)}: larger than an order file can be")
    try:
        return parse(data)
    except HugealignError as error:
        raise HugealignError(f"{printable(path)}: {error}") from error


def parse(data: bytes) -> Order:
    """Return what the order file *data* says.  Raises HugealignError."""
    lines = data.split(b"\n")
    if lines[0].rstrip() != MAGIC:
        raise HugealignError(f"is no order file: the first line is not `{MAGIC.decode()}`")
    names: list[tuple[bytes, bytes]] = []
    hot = windows = 0
    for number, line in enumerate(lines, 1):
        name, _, fields = line.partition(b"\t")
        if line[:1] in _NO_NAME:
            if line.startswith(b"# windows: ") and not names:
                windows = _number(line[11:], number)
            continue  # a comment, or a function without a name, of which a linker can be told nothing
        kind = file = b""
        if fields and (b"\t" in fields or not fields.startswith(b"samples=")):
            known = dict(field.partition(b"=")[::2] for field in fields.split(b"\t"))
            kind, file = known.get(b"kind", b""), _unescape(known.get(b"file", b""))
            if kind not in _KINDS:
                raise HugealignError(f"line {number}: not a symbol of an order file")
        names.append((_unescape(name) if b"\\" in name else name, file))
        if kind in _HOT:
            hot = len(names)
    return Order(names, hot, windows, _checksum(data)[:_IDENTITY])


def _number(text: bytes, line: int) -> int:
    if not text.isdigit() or len(text) > 9:
        raise HugealignError(f"line {line}: not a number")
    return int(text)


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    from hugealign.order.orderfile import unescape  # costs more than the link of a small program, and is seldom needed

    return unescape(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _checksum(data: bytes) -> bytes:
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12; hashlib would load OpenSSL first
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    checksum: bytes = sha256(data).digest()
    return checksum


def symbols(order: Order) -> bytes:
    """Return lld's ``--symbol-ordering-file``: one symbol per line, spaces at the ends dropped, ``#`` for comments."""
    return b"".join([b"%b\n" % name for name, _ in order.marked() if b"\n" not in name and name == name.strip()])


def sections(order: Order, choices: "Choices") -> bytes:
    """Return gold's ``--section-ordering-file``: what is not listed comes first, so all the rest is listed last."""
    found = [section for name, _ in order.marked() for section in choices.of(name) if b" " not in section]
    return b"\n".join([*found, b".text", b".text.*", b""])


def script(order: Order, choices: "Choices", objects: "Mapping[tuple[bytes, bytes], list[bytes]]", place: str) -> bytes:
    """Return a script for GNU ld and lld that puts the functions into an output section of their own at *place*.

    *objects* are the names of the object files with the function of a name from a source file.  One statement per
    function: several names in one statement would keep the order of the inputs.  An output section of the name
    ``.text``, of which there would be two, makes valgrind lose all names.
    """
    lines = []
    for entry in order.marked():
        name, source = entry
        files = [file for file in objects.get(entry, ()) if not file.translate(None, _PLAIN + b"-+")] if source else []
        for section in choices.of(name):
            word = b'"%b"' % section if section.translate(None, _PLAIN) else section
            lines += [b"    *%b(%b)\n" % (file, word) for file in files] or [b"    *(%b)\n" % word]
    return b"SECTIONS\n{\n  .hugealign.hot :\n  {\n%b  }\n}\nINSERT %b;\n" % (b"".join(lines), place.encode())


class Choices:
    """The sections that a function may be in: those of *present*, or with *others* all that compilers make."""

    def __init__(self, present: "set[bytes]", others: bool) -> None:
        self._present = present | {_OWN + _START, _OWN + _END}
        self._others = others
        # The few functions that may have a section of another kind as well; all the rest is quickly found.
        few = [section for section in present if section.startswith(_OTHERS)]
        self._elsewhere = {section[len(prefix) :] for section in few for prefix in _OTHERS}

    def of(self, name: bytes) -> list[bytes]:
        """Return the sections for the function *name*, none if the name means more than itself to a linker.

        ``.text.unlikely.f`` is that of f itself only if f has no other: else it is that of f's cold part.
        """
        if (rest := name.translate(None, _PLAIN)) and _SPECIAL.intersection(rest):
            return []
        section = _OWN + name
        if section in self._present and name not in self._elsewhere:
            return [section]
        whole, cold, number = name.rpartition(b".cold")
        if cold and not number.strip(b".0123456789"):
            names = [section, *(prefix + whole for prefix in _SELDOM)]
            return names if self._others else self._known(names)
        names = [section, *(prefix + name for prefix in _OTHERS)]
        if found := self._known(names):
            return found
        twins = [name.replace(one, other) for one, other in _TWINS if one in name]
        likely = [prefix + twin for twin in twins for prefix in (_OWN, *_OTHERS)]
        if found := self._known(likely + [prefix + name for prefix in _SELDOM]):
            return found
        return names if self._others else []

    def _known(self, names: list[bytes]) -> list[bytes]:
        present = self._present
        return [name for name in names if name in present]
