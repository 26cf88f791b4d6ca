r"""The order file ``hugealign.order/1``: one symbol per line, in the order in which the linker should place them.

A line is a ``name``, then ``key=value`` fields after tabs.  ``file`` is the source file of a local symbol whose name is
not unique.  ``samples`` is the function's number of samples.  ``kind`` is ``cold`` or ``fill``; without it the function
is hot.  ``blocks`` is for a function that is divided: the numbers of the basic blocks that stay, in order, as in
``0.4.2``.  ``unit`` is for a divided function whose name is not unique: its compilation unit, as in debug information.
A line with ``of`` is another name of the function before it, since a section can have any of the names.  ``@401136`` is
a function without a name, by its address.  ``# key: value`` before the first symbol records what the order was made
from; ``# window: 2`` further down marks where a window begins; any other line that begins with ``#`` is a comment.

In names and values a backslash, an unprintable character and an undecodable byte are escaped (``\\``, ``\t``, ``\n``,
``\xNN`` for each byte), and so are ``#`` and ``@`` at the beginning of a name and spaces at both ends.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from hugealign.errors import HugealignError, NumberFormatError, cause
from hugealign.io.numbers import decimal
from hugealign.io.units import printable

MAGIC = "# hugealign.order/1"
HOT, COLD, FILL = "hot", "cold", "fill"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n"}
_UNESCAPES = {b"\\": b"\\", b"t": b"\t", b"n": b"\n"}
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_HEADER = re.compile(r"# ([a-z][a-z0-9-]*): (.*)\Z")
_ADDRESS = re.compile(r"@([0-9a-f]{1,16})\Z")
_MOST_SAMPLES = 10**30 - 1
_FILE_LIMIT, _LINE_LIMIT = 1 << 28, 1 << 20  # bytes of an order file, and of a line
_MOST = 1 << 21  # functions; the largest programs have half as many
_MOST_BLOCKS, _MOST_NUMBER = 1 << 16, (1 << 32) - 1
ALIASES = 16  # kept other names per function; linkers that merge functions (--icf) give some of them thousands


class OrderFileError(HugealignError):
    """The file is not an order file; the message does not name it."""


@dataclass(slots=True)
class Entry:
    """One function: *name*, or *address* if it is empty; *file* if the name is not unique; *aliases*, its other names.

    *window* is the number of the window that it begins in, from 1; 0 if the file does not say.  *blocks* are the
    numbers of the blocks that stay if the function is divided, the entry block first; *unit* is its compilation unit,
    if it is needed to tell the function from others.  The class is not frozen: a large program has half a million
    entries, and making each one would take three times as long.
    """

    name: str
    file: str = ""
    samples: int = 0
    kind: str = HOT
    window: int = 0
    address: int = 0
    aliases: tuple[str, ...] = ()
    blocks: tuple[int, ...] = ()
    unit: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """The key that tells this function from others."""
        return self.name, self.file, 0 if self.name else self.address


@dataclass(frozen=True, slots=True)
class OrderFile:
    """The content of an order file: its *header*, and its functions in order."""

    header: Mapping[str, str] = field(default_factory=dict)
    entries: Sequence[Entry] = ()


def write(order: OrderFile) -> str:
    """Return the text of an order file."""
    return "".join(f"{line}\n" for line in _lines(order))


def _lines(order: OrderFile) -> Iterator[str]:
    yield MAGIC
    for key, value in order.header.items():
        yield f"# {key}: {escape(value)}"
    window = 0
    for entry in order.entries:
        if entry.window != window:
            window = entry.window
            yield f"# window: {window}"
        line = _name(entry.name) if entry.name else f"@{entry.address:x}"
        kind = f"\tkind={entry.kind}" if entry.kind != HOT else ""
        if entry.file:
            line += f"\tfile={escape(entry.file)}"
        if entry.samples:
            line += f"\tsamples={entry.samples}"
        if entry.blocks:
            line += f"\tblocks={'.'.join(map(str, entry.blocks))}"
        if entry.unit:
            line += f"\tunit={escape(entry.unit)}"
        yield line + kind
        for alias in entry.aliases if entry.name else ():
            yield f"{_name(alias)}\tof={_name(entry.name)}{kind}"


def is_order(path: str) -> bool:
    """Return whether the regular file at *path* begins as an order file does; False if it cannot be read."""
    try:
        if not os.path.isfile(path):
            return False  # reading would take something out of a pipe
        with open(path, "rb", opener=_open) as stream:
            return stream.read(len(MAGIC)) == MAGIC.encode()
    except OSError:
        return False


def load(path: str, *, plain: bool = False) -> OrderFile:
    """Return the content of the order file at *path*.  Raises HugealignError, which names the file.

    With *plain*, the file may also have one symbol per line and comments after ``#``, as lld takes it.
    """
    try:
        with open(path, "rb", opener=_open) as stream:
            ours = stream.peek(len(MAGIC)).startswith(MAGIC.encode())
            return _names(_bounded(stream)) if plain and not ours else parse(_bounded(stream))
    except OrderFileError as error:
        raise OrderFileError(f"{printable(path)}: {error}") from None
    except (OSError, ValueError) as error:
        raise HugealignError(f"{printable(path)}: {cause(error)}") from None


def _open(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer is empty
    os.set_blocking(fd, True)
    return fd


def _bounded(stream: BinaryIO) -> Iterator[bytes]:
    left = _FILE_LIMIT
    while line := stream.readline(_LINE_LIMIT):
        left -= len(line)
        if left < 0 or len(line) == _LINE_LIMIT:
            raise OrderFileError("too large for an order file")
        yield line.removesuffix(b"\n")


def _names(lines: Iterable[bytes]) -> OrderFile:
    entries: list[Entry] = []
    for line in lines:
        if name := line.split(b"#", 1)[0].strip():
            _add(Entry(name.decode("utf-8", "surrogateescape")), entries)
        if b"\0" in line:
            entries.clear()
            break
    if not entries:
        raise OrderFileError("names no functions")
    return OrderFile({}, entries)


def _add(entry: Entry, entries: list[Entry]) -> None:
    entries.append(entry)
    if len(entries) > _MOST:
        raise OrderFileError(f"has more than {_MOST} functions: no program has as many")


def parse(lines: Iterable[bytes]) -> OrderFile:
    """Return the content of *lines*, which have no line ends.  Raises OrderFileError."""
    header: dict[str, str] = {}
    entries: list[Entry] = []
    window = 0
    for number, raw in enumerate(lines, 1):
        line = raw.decode("utf-8", "surrogateescape")
        if number == 1:
            if line != MAGIC:
                why = "its lines end with CR LF" if line == f"{MAGIC}\r" else f"the first line is not `{MAGIC}`"
                raise OrderFileError(f"is not an order file: {why}")
        elif line.startswith("#"):
            if found := _HEADER.match(line):
                key, value = found.groups()
                if key == "window":
                    window = _number(value, number)
                elif not entries:
                    header[key] = unescape(value)
        elif line.strip():
            entry, of = _entry(line, window, number)
            if of is None:
                _add(entry, entries)
            elif entries and entries[-1].name == of and len(entries[-1].aliases) < ALIASES:
                entries[-1].aliases += (entry.name,)
    if not header and not entries:
        raise OrderFileError("is an empty order file")
    return OrderFile(header, entries)


def _entry(line: str, window: int, number: int) -> tuple[Entry, str | None]:
    """Return the entry of a line, and the function that it is another name of, if any."""
    name, *words = line.split("\t")
    fields = dict(word.partition("=")[::2] for word in words)
    found = _ADDRESS.match(name)
    kind = fields.get("kind", HOT)
    if kind not in (HOT, COLD, FILL) or (name.startswith("@") and not found) or not name.strip():
        raise OrderFileError(f"line {number}: not a symbol of an order file")
    entry = Entry(
        "" if found else unescape(name),
        unescape(fields.get("file", "")),
        _number(fields.get("samples", "0"), number),
        kind,
        window,
        int(found.group(1), 16) if found else 0,
    )
    if "blocks" in fields:
        entry.blocks = _blocks(fields["blocks"], number)
        entry.unit = unescape(fields.get("unit", ""))
    return entry, unescape(fields["of"]) if "of" in fields else None


def _number(text: str, line: int) -> int:
    try:
        return decimal(text, _MOST_SAMPLES)
    except NumberFormatError:
        raise OrderFileError(f"line {line}: not a number") from None


def _blocks(text: str, line: int) -> tuple[int, ...]:
    """Return the numbers of blocks: no duplicates, the entry block first."""
    words = text.split(".", _MOST_BLOCKS)
    try:
        found = tuple(decimal(word, _MOST_NUMBER) for word in words)
    except NumberFormatError:
        raise OrderFileError(f"line {line}: not the numbers of blocks") from None
    if found[0] or len(set(found)) != len(found):
        raise OrderFileError(f"line {line}: blocks of which one is there twice, or 0 is not the first")
    return found


def escape(text: str) -> str:
    """Return *text* with all characters escaped that would end a line or a field, or move a terminal's cursor."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else _bytes(c)) for c in text)


def _bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _name(name: str) -> str:
    text = escape(name)
    if text[0] in "#@ ":
        text = _bytes(text[0]) + text[1:]
    return text[:-1] + _bytes(" ") if text.endswith(" ") else text


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", "surrogateescape")
    plain = _ESCAPED.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else _UNESCAPES.get(m[2], m[2]), raw)
    return plain.decode("utf-8", "surrogateescape")
