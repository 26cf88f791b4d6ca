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
    from collections.abc import Callable, Mapping

MAGIC = b"# hugealign.order/1"
_LIMIT = 256 << 20  # bytes of an order file
_IDENTITY = 20  # bytes of the checksum that identify a profile
#: How compilers begin the name of the section of one function (GCC manual, -ffunction-sections, -freorder-functions;
#: LLVM, -fsplit-machine-functions).  What is only expected to run seldom may be split off into the last two.
_OWN, _OTHERS = b".text.", (b".text.hot.", b".text.startup.", b".text.exit.")
_SELDOM = (b".text.unlikely.", b".text.split.")
#: GCC names the section of a constructor after one of its symbols, and a profile may know it by the other.
_TWINS = ((b"C1E", b"C2E"), (b"C2E", b"C1E"), (b"D1E", b"D2E"), (b"D2E", b"D1E"))
_NO_NAME = b"#@\t"
_KINDS = (b"hot", b"cold", b"fill")
_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$"
#: Bytes of the paths of files that mean just themselves in a linker script.
PLAIN_PATH = _PLAIN + b"-+/"
#: What means something to a linker script even in quotes, or to the matching of names.
_SPECIAL = frozenset(b'*?[]\\"' + bytes(range(32)) + b"\x7f")
_START, _END = (mark.encode() for mark in HOT_MARKS)
#: No object is to be placed whole.
NOTHING: "Mapping[bytes, list[bytes]]" = {}


class Order:
    """What an order file says to a link.

    *names* are its functions, in order; the first *hot* of them reach to the last one that ran.  *sources* are the
    source files of those that need more than the name, by their index.  *windows* is how many are to be huge, 0 for
    all; *identity* tells the profile.
    """

    __slots__ = ("hot", "identity", "names", "sources", "windows")

    def __init__(
        self, names: list[bytes], hot: int, sources: dict[int, bytes], windows: int = 0, identity: bytes = b""
    ) -> None:
        self.names = names
        self.hot = hot
        self.sources = sources
        self.windows = windows
        self.identity = identity

    def local(self) -> "set[tuple[bytes, bytes]]":
        """Return the names that need a source file to be told from others, with it."""
        return {(self.names[index], source) for index, source in self.sources.items()}


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
    # Whole lists at a time: of tens of thousands of lines nearly all say a name and at most how often it was seen.
    entries = [line.partition(b"\t") for line in lines if line and line[0] not in _NO_NAME]
    names = [name for name, _, _ in entries]
    if b"\\" in data:
        names = [_unescape(name) for name in names]
    seldom: set[int] = set()
    sources: dict[int, bytes] = {}
    further = b"\tkind=" in data or b"\tfile=" in data
    for index, (name, tab, text) in enumerate(entries if further else ()):
        if b"i" not in text:  # neither of the two
            continue
        fields = dict(field.partition(b"=")[::2] for field in text.split(b"\t"))
        kind = fields.get(b"kind", b"hot")
        if kind not in _KINDS:
            raise HugealignError(f"line {lines.index(name + tab + text) + 1}: not a symbol of an order file")
        if kind != b"hot":
            seldom.add(index)
        if source := fields.get(b"file"):
            sources[index] = _unescape(source)
    hot = len(names)
    while hot - 1 in seldom:
        hot -= 1
    return Order(names, hot, sources, _windows(lines), _checksum(data)[:_IDENTITY])


def _windows(lines: list[bytes]) -> int:
    """Return the number of windows that the comments before the first name ask for, 0 if they do not."""
    windows = 0
    for number, line in enumerate(lines, 1):
        if line.startswith(b"# windows: "):
            windows = _number(line[11:], number)
        elif line and line[0] not in _NO_NAME:
            break
    return windows


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


def symbols(order: Order, choices: "Choices | None" = None) -> bytes:
    """Return lld's ``--symbol-ordering-file``: one symbol per line, spaces at the ends dropped, ``#`` for comments.

    lld moves all code that a symbol lies among.  With *choices* only those of the functions that did not run are listed
    that have sections of their own: what lld-plugin has left together stays together.
    """
    others = order.names[order.hot :]
    names = [_START, *order.names[: order.hot], _END, *(choices.alone(others) if choices else others)]
    text = b"\n".join([*names, b""])
    if len(text.split()) == len(names) == text.count(b"\n"):
        return text
    return b"".join([b"%b\n" % name for name in names if b"\n" not in name and name == name.strip()])


def sections(order: Order, choices: "Choices") -> bytes:
    """Return gold's ``--section-ordering-file``: what is not listed comes first, so all the rest is listed last."""

    def listed(name: bytes, _source: bytes) -> bytes:
        return b"".join([b"%b\n" % section for section in choices.of(name) if b" " not in section])

    return _list(order, choices, (_OWN, b"\n"), listed) + b".text\n.text.*\n"


def script(
    order: Order,
    choices: "Choices",
    objects: "Mapping[tuple[bytes, bytes], list[bytes]]",
    place: str,
    pieces: "Mapping[bytes, list[bytes]]" = NOTHING,
) -> bytes:
    """Return a script for GNU ld and lld that puts the functions into an output section of their own at *place*.

    *objects* are the names of the object files with the function of a name from a source file; *pieces* are, by the
    first function listed, patterns of object files to place whole.  One statement per function: several names in one
    statement would keep the order of the inputs.  An output section of the name ``.text``, of which there would be two,
    makes valgrind lose all names.
    """

    def statements(name: bytes, source: bytes) -> bytes:
        lines = [b"%b(.text)\n" % pattern for pattern in pieces.get(name, ())]
        files = (
            [file for file in objects.get((name, source), ()) if not file.translate(None, PLAIN_PATH)] if source else []
        )
        for section in choices.of(name):
            word = b'"%b"' % section if section.translate(None, _PLAIN + b"*") else section
            lines += [b"*%b(%b)\n" % (file, word) for file in files] or [b"*(%b)\n" % word]
        return b"".join(lines)

    text = _list(order, choices, (b"*(" + _OWN, b")\n"), statements)
    return b"SECTIONS\n{\n.hugealign.hot :\n{\n%b}\n}\nINSERT %b;\n" % (text, place.encode())


def _list(
    order: Order, choices: "Choices", around: tuple[bytes, bytes], other: "Callable[[bytes, bytes], bytes]"
) -> bytes:
    """Return all names with HOT_MARKS among them: what is *around* a name makes it the section of a function.

    What *other* makes of a name, and of its source file, stands for those that have not just the one section.
    """
    before, after = around
    names, sources = order.names, order.sources
    strange = choices.strange(names)
    places = [n for n, name in enumerate(names) if name in strange] if strange else []
    if sources:
        places = sorted({*places, *sources})

    def part(start: int, end: int) -> bytes:
        parts = []
        for index in [*(place for place in places if start <= place < end), end]:
            if start < index:
                parts += [before, (after + before).join(names[start:index]), after]
            if index < end:
                parts.append(other(names[index], sources.get(index, b"")))
            start = index + 1
        return b"".join(parts)

    marks = (before + mark + after for mark in (_START, _END))
    return next(marks) + part(0, order.hot) + next(marks) + part(order.hot, len(names))


class Choices:
    """The sections that a function may be in: those of *table*, or with *others* all that compilers make.

    *table* has the names of the inputs' sections, each between bytes that are 0.
    """

    def __init__(self, table: bytes, others: bool) -> None:
        self._present = set(table.split(b"\0"))
        self._others = others
        # The few functions that may have a section of another kind as well; all the rest is quickly found.
        self._elsewhere = _tails(table, _OTHERS)
        self._seldom = _tails(table, _SELDOM)

    def strange(self, names: list[bytes]) -> set[bytes]:
        """Return those of *names* that have not just the one section ``.text.NAME``, or mean more than themselves."""
        own = (_OWN + (b"\0" + _OWN).join(names)).split(b"\0")
        strange = {section[len(_OWN) :] for section in set(own).difference(self._present)}
        strange |= self._elsewhere.intersection(names)
        if b"".join(names).translate(None, _PLAIN):
            strange.update(name for name in names if name.translate(None, _PLAIN))
        return strange

    def alone(self, names: list[bytes]) -> list[bytes]:
        """Return those of *names* that have a section of their own, or may have one."""
        strange = self.strange(names)
        return [name for name in names if name not in strange or self.of(name)]

    def of(self, name: bytes) -> list[bytes]:
        """Return the sections for the function *name*, none if the name means more than itself to a linker.

        ``.text.unlikely.f`` is that of f itself only if f has no other: else it is that of f's cold part.
        """
        if (rest := name.translate(None, _PLAIN)) and _SPECIAL.intersection(rest):
            return []
        if not (self._others or self._may_have(name)):
            return []
        whole, cold, number = name.rpartition(b".cold")
        if cold and not number.strip(b".0123456789"):
            names = [_OWN + name, *(prefix + whole for prefix in _SELDOM)]
            return names if self._others else self._known(names)
        names = [_OWN + name, *(prefix + name for prefix in _OTHERS)]
        if found := self._known(names):
            return found
        stem, suffix, digits = name.rpartition(b".llvm.")
        if suffix and digits.isdigit() and self._others:
            # ThinLTO's number changes with the source, and lld-plugin leaves it out.  The asterisk is a pattern.
            names += [_OTHERS[0] + stem, b"%b%b.llvm.*" % (_OWN, stem)]
        twins = [name.replace(one, other) for one, other in _TWINS if one in name]
        likely = [prefix + twin for twin in twins for prefix in (_OWN, *_OTHERS)]
        if found := self._known(likely + [prefix + name for prefix in _SELDOM]):
            return found
        return names if self._others else []

    def _may_have(self, name: bytes) -> bool:
        if _OWN + name in self._present or name in self._elsewhere or name in self._seldom:
            return True
        return b".cold" in name or b"1E" in name or b"2E" in name

    def _known(self, names: list[bytes]) -> list[bytes]:
        return [name for name in names if name in self._present]


def _tails(table: bytes, prefixes: tuple[bytes, ...]) -> set[bytes]:
    return {part.partition(b"\0")[0] for prefix in prefixes for part in table.split(b"\0" + prefix)[1:]}
