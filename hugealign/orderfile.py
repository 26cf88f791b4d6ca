r"""The order file ``hugealign.order/1``: one symbol per line, in the order that a linker is to put them.

``name``, then ``key=value`` fields after tabs: ``file`` the source file of a local symbol whose name others have too,
``samples``, ``kind`` (``cold`` or ``fill``; without it the function is hot).  A line with ``of`` is another name of the
function before, since a section can bear any of them.  ``@401136`` is a function without a name, by its address.
``# key: value`` before the first symbol says what the order was made from, ``# window: 2`` further down where a window
begins; any other line that begins with ``#`` is a comment.

In names and values a backslash, a character that does not print and an undecodable byte are escaped (``\\``, ``\t``,
``\n``, ``\xNN`` for each byte), and so are ``#`` and ``@`` at the beginning and spaces at both ends of a name.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hugealign.errors import HugealignError

MAGIC = "# hugealign.order/1"
HOT, COLD, FILL = "hot", "cold", "fill"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n"}
_UNESCAPES = {b"\\": b"\\", b"t": b"\t", b"n": b"\n"}
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_HEADER = re.compile(r"# ([a-z][a-z0-9-]*): (.*)\Z")
_ADDRESS = re.compile(r"@([0-9a-f]{1,16})\Z")
_SAMPLES_DIGITS = 30
ALIASES = 16  # other names of a function; linkers that make functions one (--icf) give some of them thousands


class OrderFileError(HugealignError):
    """The file is no order file; the message does not name it."""


@dataclass(slots=True)
class Entry:
    """One function: *name*, or *address* if it is empty; *file* if the name is not enough; its other names *aliases*.

    *window* is the number of the window that it begins in, from 1; 0 if the file does not say.  Not frozen: there are
    half a million of them in a large program, and making each would take three times as long.
    """

    name: str
    file: str = ""
    samples: int = 0
    kind: str = HOT
    window: int = 0
    address: int = 0
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells this function from others."""
        return self.name, self.file, 0 if self.name else self.address


@dataclass(frozen=True, slots=True)
class OrderFile:
    """What an order file says: its *header*, and its functions in order."""

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
        yield line + kind
        for alias in entry.aliases if entry.name else ():
            yield f"{_name(alias)}\tof={_name(entry.name)}{kind}"


def parse(lines: Iterable[bytes]) -> OrderFile:
    """Return what *lines*, without their ends, say.  Raises OrderFileError."""
    header: dict[str, str] = {}
    entries: list[Entry] = []
    window = 0
    for number, raw in enumerate(lines, 1):
        line = raw.decode("utf-8", "surrogateescape")
        if number == 1:
            if line.rstrip() != MAGIC:
                raise OrderFileError(f"is no order file: the first line is not `{MAGIC}`")
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
                entries.append(entry)
            elif entries and entries[-1].name == of and len(entries[-1].aliases) < ALIASES:
                entries[-1].aliases += (entry.name,)
    if not header and not entries:
        raise OrderFileError("is an empty order file")
    return OrderFile(header, entries)


def _entry(line: str, window: int, number: int) -> tuple[Entry, str | None]:
    """Return what a line says, and the function that it is another name of."""
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
    return entry, unescape(fields["of"]) if "of" in fields else None


def _number(text: str, line: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _SAMPLES_DIGITS:
        raise OrderFileError(f"line {line}: not a number")
    return int(text)


def escape(text: str) -> str:
    """Return *text* without anything that would end a line or a field, or move a terminal's cursor."""
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
    """Return what `escape` was given."""
    if "\\" not in text:
        return text
    raw = text.encode("utf-8", "surrogateescape")
    plain = _ESCAPED.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else _UNESCAPES.get(m[2], m[2]), raw)
    return plain.decode("utf-8", "surrogateescape")
