"""The order of a profile in each linker's words.  Pure.

Names come from a program, and thus from anyone.  A name that a linker would take for a pattern, a quote, a comment or
the end of a line is left out: an unlisted function lies where it would without an order.
"""

from hugealign import orderfile
from hugealign.elf.objectfile import HOT_MARKS
from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.orderfile import OrderFileError
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

_SHOWN = 1024  # characters of its name in a message
LONG = 1 << 20  # bytes from which OpenSSL's SHA-256, four times as fast, is worth the time that it takes to load
_IDENTITY = 20  # bytes of the checksum that identify a profile
#: Prefixes that compilers give to the section of one function (GCC manual, -ffunction-sections, -freorder-functions;
#: LLVM, -fsplit-machine-functions).  The last two may hold split-off code that is merely expected to run seldom.
_OWN, _OTHERS = b".text.", (b".text.hot.", b".text.startup.", b".text.exit.")
_SELDOM = (b".text.unlikely.", b".text.split.")
_SELDOM_PREFIXES = tuple(prefix[len(_OWN) :] for prefix in _SELDOM)
_PREFIXES = (*(prefix[len(_OWN) :] for prefix in _OTHERS), *_SELDOM_PREFIXES)
_INITIALS = {prefix[:1] for prefix in _PREFIXES}
#: GCC names the section of a constructor after one of its symbols; a profile may know it by the other.
_TWINS = ((b"C1E", b"C2E"), (b"C2E", b"C1E"), (b"D1E", b"D2E"), (b"D2E", b"D1E"))
_PLAIN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$"
#: Bytes of file paths that have no special meaning in a linker script.
PLAIN_PATH = _PLAIN + b"-+/"
#: Bytes that are special in a linker script even in quotes, or in the matching of names.
_SPECIAL = frozenset(b'*?[]\\"' + bytes(range(32)) + b"\x7f")
_SPACES = (b" ", b"\t", b"\r", b"\v", b"\f")  # what bytes.strip() drops, with the newline
_START, _END = (mark.encode() for mark in HOT_MARKS)
#: The pieces of an order that places no object as a whole.
NOTHING: "Mapping[bytes, list[bytes]]" = {}


class LinkOrder(Record):
    """What a link needs from an order file.

    *names* are its functions, in order; the first *hot* of them end with the last one that ran.  *sources* are the
    source files of functions that need more than the name, by their index.  *windows* is how many should be huge, 0 for
    all; *identity* identifies the profile.  *binary* is the file name of the program that the order is of, empty if the
    order does not say.  *unseen* are the functions that are not expected to run, cold parts and
    fill: for each block of the file, where it begins in *names*, and which of its functions.
    """

    names: list[bytes]
    hot: int
    sources: dict[int, bytes]
    windows: int = 0
    identity: bytes = b""
    unseen: "Sequence[tuple[int, set[int]]]" = ()
    binary: bytes = b""

    def ran(self) -> set[bytes]:
        """Return the functions that ran, without cold parts."""
        unseen = {first + at for first, block in self.unseen for at in block}
        return {name for index, name in enumerate(self.names[: self.hot]) if index not in unseen}

    def local(self) -> "set[tuple[bytes, bytes]]":
        """Return the functions whose names need a source file to tell them apart, each with that file."""
        return {(self.names[index], source) for index, source in self.sources.items()}


def parse(data: bytes, path: str, identity: bytes = b"") -> LinkOrder:
    """Parse the order file *data* from *path*; *identity* identifies its profile.  Raises HugealignError."""
    try:
        return _parse(data, identity)
    except OrderFileError as error:
        raise HugealignError(f"{printable(path[:_SHOWN])}: {error}") from error


def _parse(data: bytes, identity: bytes) -> LinkOrder:
    header = orderfile.read_header(data)
    names: list[bytes] = []
    sources: dict[int, bytes] = {}
    unseen: list[tuple[int, set[int]]] = []
    hot = 0
    for lines in orderfile.symbol_lines(data):
        here, fields = lines.names, lines.fields
        if lines.addresses:  # which linkers do not take
            kept = [at for at in range(len(here)) if at not in lines.addresses]
            here, fields = [here[at] for at in kept], {n: fields[at] for n, at in enumerate(kept) if at in fields}
        first = len(names)
        names += here
        seldom: set[int] = set()
        for at, of_line in fields.items():
            if of_line.get(b"kind", b"hot") != b"hot":
                seldom.add(at)
            if source := of_line.get(b"file"):
                sources[first + at] = source
        unseen.append((first, seldom))
        ran = len(here)
        while ran - 1 in seldom:
            ran -= 1
        hot = first + ran if ran else hot
    if b"\\" in data:
        names = [orderfile.unescape_bytes(name) for name in names]
    binary = header.get("binary", "").encode("utf-8", "surrogateescape")
    return LinkOrder(names, hot, sources, int(header.get("windows", "0")), identity, unseen, binary)


def identity(data: bytes) -> bytes:
    """Return what identifies the order file *data*: the beginning of its SHA-256."""
    if len(data) <= LONG:
        for module in ("_sha2", "_sha256"):  # Python 3.12 and later, and before; hashlib would load OpenSSL first
            try:
                digest: bytes = __import__(module).sha256(data).digest()
            except ImportError:
                continue
            return digest[:_IDENTITY]
    import hashlib

    return hashlib.sha256(data).digest()[:_IDENTITY]


def symbols(order: LinkOrder, among: "Collection[bytes]" = (), apart: "Collection[bytes]" = ()) -> bytes:
    """Return lld's ``--symbol-ordering-file``: one symbol per line, spaces at the ends dropped, ``#`` for comments.

    lld moves a symbol together with all the code around it.  So functions that did not run are left out if they lie
    *among* other code.  Functions that a script places *apart* are left out too.
    """
    hot, others = order.names[: order.hot], order.names[order.hot :]
    if among:
        others = [name for name in others if name not in among]
    if apart:
        hot = [name for name in hot if name not in apart]
    names = [_START, *hot, _END, *others]
    text = b"\n".join([*names, b""])
    if text.count(b"\n") == len(names) and not any(space in text for space in _SPACES):
        return text
    return b"".join([b"%b\n" % name for name in names if b"\n" not in name and name == name.strip()])


def sections(order: LinkOrder, choices: "Choices") -> bytes:
    """Return gold's ``--section-ordering-file``: gold puts unlisted sections first, so all the rest is listed last."""

    def listed(name: bytes, _source: bytes) -> bytes:
        return b"".join([b"%b\n" % section for section in choices.of(name) if b" " not in section])

    return _list(order, choices, (_OWN, b"\n"), listed) + b".text\n.text.*\n"


def script(
    order: LinkOrder,
    choices: "Choices",
    objects: "Mapping[tuple[bytes, bytes], list[tuple[bytes, bytes]]]",
    pieces: "Mapping[bytes, list[bytes]]" = NOTHING,
) -> bytes:
    """Return a script for GNU ld and lld that puts the functions into an output section of their own before ``.text``.

    *objects* maps a function's name and source file to the names of the object files that have it, with its sections
    there; *pieces* maps the first listed function of object files to patterns for these, to place them whole.  Each
    function has a statement of its own: several names in one statement would keep the order of the inputs.  The output
    section is not called ``.text``: there would be two of that name, and valgrind would lose all names.
    """

    def statements(name: bytes, source: bytes) -> bytes:
        lines = [b"%b(.text)\n" % pattern for pattern in pieces.get(name, ())]
        sections = choices.of(name)
        places = choices.left(objects.get((name, source), ())) if source and sections else ()
        places = [place for place in places if not place[0].translate(None, PLAIN_PATH)]
        lines += [_statement(*place) for place in places or [(b"", section) for section in sections]]
        return b"".join(lines)

    return _before_text(_list(order, choices, (b"*(" + _OWN, b")\n"), statements))


def script_of_front(
    order: LinkOrder,
    choices: "Choices",
    objects: "Mapping[tuple[bytes, bytes], list[tuple[bytes, bytes]]]",
    apart: set[bytes],
    most: int,
) -> "tuple[bytes, set[bytes]]":
    """Return a script for lld that places the start mark and hot functions before all in its list; and their names.

    These are the functions whose names are in *apart*, by their objects, and all before the last of them, at most the
    first *most*, so the former keep their place in the order.  A function without a section of its own is left to the
    list, by which lld moves the piece it lies in.
    """
    locals_ = [index for index in order.sources if index < order.hot and order.names[index] in apart]
    last = min(most, max(locals_, default=-1) + 1)
    strange = choices.strange(order.names[:last])
    statements, placed = [_statement(b"", _OWN + _START)], set(apart)
    for index in sorted({*range(last), *locals_}):
        name = order.names[index]
        if name in apart:
            places = choices.left(objects[name, order.sources[index]]) if index in order.sources else []
        else:
            places = [(b"", section) for section in (choices.of(name) if name in strange else [_OWN + name])]
        if places:
            placed.add(name)
        statements += [_statement(*place) for place in places]
    return _before_text(b"".join(statements)), placed


def _statement(file: bytes, section: bytes) -> bytes:
    word = b'"%b"' % section if section.translate(None, _PLAIN + b"*") else section
    return b"*%b(%b)\n" % (file, word)


def _before_text(statements: bytes) -> bytes:
    return b"SECTIONS\n{\n.hugealign.hot :\n{\n%b}\n}\nINSERT BEFORE .text;\n" % statements


def _list(
    order: LinkOrder, choices: "Choices", around: tuple[bytes, bytes], other: "Callable[[bytes, bytes], bytes]"
) -> bytes:
    """Return all names with HOT_MARKS among them; the text *around* a name makes it the section of a function.

    A function that does not have just the one section is written as *other* returns it for its name and source file.
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
    """The sections that each of the functions *names* may be in, judged by the inputs' sections, which `add` collects.

    *others*: the sections of some inputs cannot be known, so a function may be in any that compilers make.  *requested*
    says of the name of a section whether a script of the user requests it: then it keeps its place.
    """

    def __init__(
        self,
        names: "Collection[bytes]",
        others: bool = False,
        local: "Collection[bytes]" = (),
        requested: "Callable[[bytes], object] | None" = None,
    ) -> None:
        self.others = others
        self._requested = requested
        self.count = 0  # sections of functions
        self.copies = dict.fromkeys(local, 0)  # sections of local functions, whose names others may have
        self._missing = set(names)  # functions without a section of their own
        for name in [name for name in names if b"1E" in name or b"2E" in name]:
            self._missing.update(_twins(name))
        self._special: set[bytes] = set()  # the few sections of other kinds, without the common prefix

    def add(self, table: bytes) -> None:
        """Add the names of an object's sections: *table* has them, each with a zero byte behind it.

        Assemblers store the name of a section as the end of the name of its relocations.
        """
        names = [text.partition(b"\0")[0] for text in table.split(_OWN)[1:]]
        self.count += len(names)
        special = [rest for rest in names if rest[:1] in _INITIALS and rest.startswith(_PREFIXES)]
        if self.copies:  # one object has one of each; clang puts functions with divided blocks into .text.hot.NAME
            own = {rest.partition(b".")[2] for rest in special if not rest.startswith(_SELDOM_PREFIXES)}
            for name in self.copies.keys() & own.union(names):
                self.copies[name] += 1
        self._missing.difference_update(names)
        self._special.update(special)

    def strange(self, names: list[bytes]) -> set[bytes]:
        """Return the *names* with another section than ``.text.NAME``, or with special characters."""
        strange = self._missing.intersection(names)
        if elsewhere := {rest.partition(b".")[2] for rest in self._special if not rest.startswith(_SELDOM_PREFIXES)}:
            strange |= elsewhere.intersection(names)
        if b"".join(names).translate(None, _PLAIN):
            strange.update([name for name in names if name.translate(None, _PLAIN)])
        if self._requested:
            strange.update([name for name in names if self._requested(_OWN + name)])
        return strange

    def left(self, places: "Collection[tuple[bytes, bytes]]") -> list[tuple[bytes, bytes]]:
        """Return the *places*, object files with a section each, that no script of the user requests."""
        return [place for place in places if not (self._requested and self._requested(place[1]))]

    def of(self, name: bytes) -> list[bytes]:
        """Return the sections for the function *name*, none if the name has a special meaning to a linker.

        ``.text.unlikely.f`` holds f itself only if f has no other section; otherwise it holds f's cold part.
        """
        sections = self._of(name)
        return [section for section in sections if not self._requested(section)] if self._requested else sections

    def _of(self, name: bytes) -> list[bytes]:
        if (rest := name.translate(None, _PLAIN)) and _SPECIAL.intersection(rest):
            return []
        whole, cold, number = name.rpartition(b".cold")
        if cold and not number.strip(b".0123456789"):
            names = [_OWN + name, *(prefix + whole for prefix in _SELDOM)]
            return names if self.others else self._known(names)
        names = [_OWN + name, *(prefix + name for prefix in _OTHERS)]
        if sections := self._known(names):
            return sections
        twins = [prefix + twin for twin in _twins(name) for prefix in (_OWN, *_OTHERS)]
        if sections := self._known(twins + [prefix + name for prefix in _SELDOM]):
            return sections
        stem, suffix, digits = name.rpartition(b".llvm.")
        if suffix and digits.isdigit():
            # ThinLTO's number changes with the source, and lld-plugin leaves it out.  The asterisk is a pattern.
            names += [_OTHERS[0] + stem, b"%b%b.llvm.*" % (_OWN, stem)]
        return names if self.others else []

    def _known(self, sections: list[bytes]) -> list[bytes]:
        return [section for section in sections if self._has(section[len(_OWN) :])]

    def _has(self, rest: bytes) -> bool:
        return rest in self._special or not (rest in self._missing or rest.startswith(_PREFIXES))


def _twins(name: bytes) -> list[bytes]:
    return [name.replace(part, other) for part, other in _TWINS if part in name]
