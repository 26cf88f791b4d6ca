"""Read and write order files, ``hugealign.order/1``; docs/reference/order-file.md has the grammar.

A link reads a long order in the time that it may cost: this module imports nothing that costs more than the link, and
`symbol_lines` handles lines in bulk, each distinct text after a name once.
"""

import os

from hugealign.errors import HugealignError, NumberFormatError
from hugealign.io.numbers import decimal
from hugealign.io.units import printable
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAGIC = "# hugealign.order/1"
HOT, COLD, FILL = "hot", "cold", "fill"
ALIASES = 16  # kept other names per function; linkers that merge functions (--icf) give some of them thousands
LIMIT = 256 << 20  # bytes of an order file
_MOST = 1 << 21  # lines of functions; the largest programs have half as many
_MOST_WINDOWS = 10**8 - 1
_BLOCK_DIGITS, _ADDRESS_DIGITS = 9, 16
_LONGEST_SAMPLES = len(b"samples=") + 30
_SHOWN = 1024  # characters of a file's name in a message
_PIECE = 1 << 16  # bytes that are handled together: reused memory costs less than new memory, which has to be cleared
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n"}
_UNESCAPES = {b"\\": b"\\", b"t": b"\t", b"n": b"\n"}
_DIGITS = b"0123456789"
_HEX = _DIGITS + b"abcdef"
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_KEY = _LETTERS + _DIGITS + b"-"
_KINDS = (b"hot", b"cold", b"fill")
_HOT: "Mapping[bytes, bytes]" = {}
_FILL: "Mapping[bytes, bytes]" = {b"kind": b"fill"}
_OTHER_NAME: "Mapping[bytes, Mapping[bytes, bytes]]" = {kind: {b"of": b"", b"kind": kind} for kind in _KINDS}
_HASH = ord("#")


class OrderFileError(HugealignError):
    """The file is not an order file; the message does not name it."""


class Entry:
    """One function: *name*, or *address* if it is empty; *file* if the name is not unique; *aliases*, its other names.

    *window* is the number of the window that it begins in, from 1; 0 if the file does not say.  *blocks* are the
    numbers of the blocks that stay if the function is divided, the entry block first; *unit* is its compilation unit,
    if it is needed to tell the function from others.
    """

    JSON = "name=shown file? samples"
    __slots__ = ("address", "aliases", "blocks", "file", "kind", "name", "samples", "unit", "window")

    def __init__(
        self,
        name: str,
        file: str = "",
        samples: int = 0,
        kind: str = HOT,
        window: int = 0,
        address: int = 0,
        aliases: "tuple[str, ...]" = (),
        blocks: "tuple[int, ...]" = (),
        unit: str = "",
    ) -> None:
        self.name, self.file, self.samples, self.kind, self.window = name, file, samples, kind, window
        self.address, self.aliases, self.blocks, self.unit = address, aliases, blocks, unit

    @property
    def shown(self) -> str:
        """The symbol, or @ and the address in hexadecimal digits."""
        return self.name or f"@{self.address:x}"

    @property
    def key(self) -> tuple[str, str, int]:
        """The key that tells this function from others."""
        return self.name, self.file, 0 if self.name else self.address

    def _values(self) -> "tuple[object, ...]":
        return tuple(getattr(self, field) for field in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Entry) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Entry({', '.join(f'{field}={getattr(self, field)!r}' for field in self.__slots__)})"


class OrderFile(Record):
    """The content of an order file: its *header*, and its functions in order."""

    header: "Mapping[str, str]"
    entries: "Sequence[Entry]" = ()


class SymbolLines(Record):
    """Consecutive lines of functions, by place: *names* as written, and *texts*, what follows their first tabs.

    *fields* are those of the lines that have more than samples and blocks.  The line of another name has the field
    ``kind`` of its function.  *addresses* are those of functions without a name.  *windows* are the places that windows
    begin at, with the windows' numbers.
    """

    names: list[bytes]
    texts: list[bytes]
    fields: "dict[int, Mapping[bytes, bytes]]"
    addresses: dict[int, int]
    windows: list[tuple[int, int]]


def write(order: OrderFile) -> str:
    """Return the text of an order file."""
    lines = [MAGIC, *(f"# {key}: {escape(value)}" for key, value in order.header.items())]
    window = 0
    for entry in order.entries:
        if entry.window != window:
            window = entry.window
            lines.append(f"# window: {window}")
        name = _name(entry.name) if entry.name else f"@{entry.address:x}"
        file = f"\tfile={escape(entry.file)}" if entry.file else ""
        samples = f"\tsamples={entry.samples}" if entry.samples else ""
        blocks = f"\tblocks={'.'.join(map(str, entry.blocks))}" if entry.blocks else ""
        unit = f"\tunit={escape(entry.unit)}" if entry.unit else ""
        kind = f"\tkind={entry.kind}" if entry.kind != HOT else ""
        lines.append(f"{name}{file}{samples}{blocks}{unit}{kind}")
        lines += [f"{_name(alias)}\tof={name}" for alias in entry.aliases if entry.name]
    return "\n".join([*lines, ""])


def is_order(path: str) -> bool:
    """Return whether the regular file at *path* begins as an order file does; False if it cannot be read."""
    try:
        if not os.path.isfile(path):
            return False  # reading would take something out of a pipe
        with open(path, "rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC.encode()
    except OSError:
        return False


def contents(path: str) -> bytes:
    """Return the bytes of the order file at *path*.  Raises HugealignError, which names the file."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise HugealignError(f"{printable(path[:_SHOWN])}: not a regular file")
        with open(path, "rb") as file:
            # Python allocates as much as read() requests, even if the file has less.
            data = file.read(min(os.fstat(file.fileno()).st_size, LIMIT) + 1)
    except OSError as error:
        raise HugealignError(f"{printable(path[:_SHOWN])}: {error.strerror}") from error
    if len(data) > LIMIT:
        raise HugealignError(f"{printable(path[:_SHOWN])}: larger than an order file can be")
    return data


def load(path: str) -> OrderFile:
    """Return the content of the order file at *path*.  Raises HugealignError, which names the file."""
    try:
        return parse(contents(path))
    except OrderFileError as error:
        raise OrderFileError(f"{printable(path[:_SHOWN])}: {error}") from None


def parse(data: bytes) -> OrderFile:
    """Return the content of the order file *data*.  Raises OrderFileError."""
    header = read_header(data)
    entries: list[Entry] = []
    window = 0
    for lines in symbol_lines(data):
        marks = dict(lines.windows)
        for at, (name, text) in enumerate(zip(lines.names, lines.texts, strict=True)):
            window = marks.get(at, window)
            fields = lines.fields.get(at) or (_fields(text) if b"\t" in text else None)
            address = lines.addresses.get(at)
            named = "" if address is not None else _str(name)
            if fields is None:
                entries.append(Entry(named, "", int(text[8:] or 0), HOT, window, address or 0))
            elif b"of" not in fields:
                entries.append(_entry(named, fields, window, address or 0))
            elif len(entries[-1].aliases) < ALIASES:
                entries[-1].aliases += (named,)
        window = marks.get(len(lines.names), window)
    return OrderFile(header, entries)


def _entry(name: str, fields: "Mapping[bytes, bytes]", window: int, address: int) -> Entry:
    return Entry(
        name,
        fields.get(b"file", b"").decode("utf-8", "surrogateescape"),
        int(fields.get(b"samples", b"0")),
        fields.get(b"kind", b"hot").decode(),
        window,
        address,
        blocks=_blocks(fields[b"blocks"]) if b"blocks" in fields else (),
        unit=fields.get(b"unit", b"").decode("utf-8", "surrogateescape"),
    )


def read_header(data: bytes) -> "dict[str, str]":
    """Return the lines ``# key: value`` before the first function of the order file *data*.

    Raises OrderFileError, also if *data* does not begin as an order file does.
    """
    title = data.partition(b"\n")[0]
    if title != MAGIC.encode():
        why = f"the first line is not `{MAGIC}`"
        if title == MAGIC.encode() + b"\r":
            why = "its lines end with CR LF"
        raise OrderFileError(f"is not an order file: {why}")
    header: dict[str, str] = {}
    number, start = 0, 0
    while start >= 0:
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)]
        number += 1
        if line and line[0] != _HASH:
            break
        key, colon, value = line[2:].partition(b": ")
        if colon and line[1:2] == b" " and key[:1].islower() and not key.translate(None, _KEY) and key != b"window":
            try:
                header[key.decode()] = _str(value)
                if key == b"windows":
                    decimal(value, _MOST_WINDOWS)
            except NumberFormatError:
                raise OrderFileError(f"line {number}: not a number of windows") from None
            except OrderFileError as error:
                raise OrderFileError(f"line {number}: {error}") from None
        start = end + 1 if end >= 0 else -1
    return header


def symbol_lines(data: bytes) -> "Iterator[SymbolLines]":
    """Yield the lines of functions of the order file *data*, some at a time.  Raises OrderFileError."""
    owner, left = (b"", b"hot"), _MOST
    start = 0
    while start >= 0:
        end = data.find(b"\n", start + _PIECE)
        piece = data[start : end if end >= 0 else len(data)]
        try:
            lines, behind = _read(piece, owner)
        except OrderFileError as error:
            raise _with_line(piece, owner, data.count(b"\n", 0, start) + 1, error) from None
        left -= len(lines.names)
        if left < 0:
            raise OrderFileError(f"has more than {_MOST} functions: no program has as many")
        yield lines
        owner, start = behind, end + 1 if end >= 0 else -1


def _with_line(piece: bytes, owner: tuple[bytes, bytes], first: int, error: OrderFileError) -> OrderFileError:
    """Return the *error* in *piece* with the number of its line; *first* is that of the first line."""
    for number, line in enumerate(piece.split(b"\n"), first):
        try:
            _, owner = _read(line, owner)
        except OrderFileError as of_line:
            return OrderFileError(f"line {number}: {of_line}")
    return error


def _read(piece: bytes, owner: tuple[bytes, bytes]) -> tuple[SymbolLines, tuple[bytes, bytes]]:
    """Return the functions of *piece*, complete lines, and the name, as written, and kind of the last of them.

    *owner* is the same of the function before *piece*.  Raises OrderFileError.
    """
    if b"\0" in piece or b"\r" in piece:
        raise OrderFileError("a byte that has to be escaped")
    lines = piece.split(b"\n")
    rows = [line.partition(b"\t") for line in lines if line and line[0] != _HASH]
    names, texts = [row[0] for row in rows], [row[2] for row in rows]
    unusual = [
        text
        for text in set(texts)
        if text and not (text[:8] == b"samples=" and text[8:].isdigit() and len(text) <= _LONGEST_SAMPLES)
    ]
    known = {text: _fields(text) for text in unusual if not _is_divided(text)}
    fields = {at: known[text] for at, text in enumerate(texts) if text in known} if known else {}
    if not all(names) or b" " in piece:
        _check_names(names)
    if b"\\" in piece:
        for name in names:
            unescape_bytes(name)
    addresses = {}
    if b"@" in piece:
        addresses = {at: _address(name) for at, name in enumerate(names) if name[:1] == b"@"}
    behind = _resolve_aliases(names, fields, owner)
    return SymbolLines(names, texts, fields, addresses, _windows(lines) if b"# window: " in piece else []), behind


def _check_names(names: "Sequence[bytes]") -> None:
    for name in names:
        if not name or name[:1] == b" " or name[-1:] == b" ":
            raise OrderFileError("not a symbol of an order file")


def _address(name: bytes) -> int:
    if not 1 < len(name) <= 1 + _ADDRESS_DIGITS or name[1:].strip(_HEX):
        raise OrderFileError("not a symbol of an order file")
    return int(name[1:], 16)


def _resolve_aliases(
    names: "Sequence[bytes]", fields: "dict[int, Mapping[bytes, bytes]]", owner: tuple[bytes, bytes]
) -> tuple[bytes, bytes]:
    """Give the lines of other names the kind of their functions; return the name and kind of the last function."""
    last = -1  # the place of the function that the line before belongs to; -1 is the one before all lines
    aliases = [at for at, of_line in fields.items() if b"of" in of_line]
    before = -1
    for at in aliases:
        if at - 1 != before:
            last = at - 1
        name, kind = (names[last], fields.get(last, _HOT).get(b"kind", b"hot")) if last >= 0 else owner
        if fields[at][b"of"] != name or b"@" in (name[:1], names[at][:1]) or len(fields[at]) > 1:
            raise OrderFileError("not another name, and nothing else, of the function before")
        fields[at] = _OTHER_NAME[kind]
        before = at
    if before != len(names) - 1:
        last = len(names) - 1
    return (names[last], fields.get(last, _HOT).get(b"kind", b"hot")) if last >= 0 else owner


def _windows(lines: "Sequence[bytes]") -> list[tuple[int, int]]:
    """Return the places that windows begin at, counted in lines of functions, with the windows' numbers."""
    windows, at = [], 0
    for line in lines:
        if line.startswith(b"# window: "):
            try:
                windows.append((at, decimal(line[10:], _MOST_WINDOWS)))
            except NumberFormatError:
                raise OrderFileError("not the number of a window") from None
        at += bool(line) and line[0] != _HASH
    return windows


def _is_divided(text: bytes) -> bool:
    """Whether *text* is what most divided functions have: samples, then blocks."""
    samples, blocks, rest = text.partition(b"\tblocks=")
    usual = samples[:8] == b"samples=" and samples[8:].isdigit() and len(samples) <= _LONGEST_SAMPLES
    return usual and bool(blocks) and b"\t" not in rest


def _fields(text: bytes) -> "Mapping[bytes, bytes]":
    """Return the fields of a line.  Raises OrderFileError."""
    if text == b"kind=fill":
        return _FILL
    if text[:3] == b"of=" and b"\t" not in text:
        return {b"of": text[3:]}
    fields: dict[bytes, bytes] = {}
    for word in text.split(b"\t"):
        if not word:
            continue
        key, equals, value = word.partition(b"=")
        if not equals or not key or key.translate(None, _LETTERS):
            raise OrderFileError("not a field of an order file")
        if key in fields:
            raise OrderFileError("a field twice")
        fields[key] = value if key == b"of" else unescape_bytes(value)
    if fields.get(b"kind", b"hot") not in _KINDS:
        raise OrderFileError("not a kind of function")
    samples = fields.get(b"samples", b"0")
    if not samples.isdigit() or len(samples) > _LONGEST_SAMPLES - 8:
        raise OrderFileError("not a number of samples")
    return fields


def _blocks(text: bytes) -> "tuple[int, ...]":
    """Return the numbers of the blocks that stay; none if *text* is not a list of these, which divides nothing."""
    words = text.split(b".")
    if text.translate(None, _DIGITS + b".") or not all(words) or max(map(len, words)) > _BLOCK_DIGITS:
        return ()
    numbers = tuple(map(int, words))
    return numbers if not numbers[0] and len(set(numbers)) == len(numbers) else ()


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
    """Return the text that `escape` was given.  Raises OrderFileError."""
    return _str(text.encode("utf-8", "surrogateescape")) if "\\" in text else text


def _str(text: bytes) -> str:
    return unescape_bytes(text).decode("utf-8", "surrogateescape")


def unescape_bytes(text: bytes) -> bytes:
    r"""Return *text* without escapes: ``\\``, ``\t``, ``\n`` and ``\xNN``.  Raises OrderFileError for any other."""
    if b"\\" not in text:
        return text
    plain, start = bytearray(), 0
    while (at := text.find(b"\\", start)) >= 0:
        plain += text[start:at]
        code, digits = text[at + 1 : at + 2], text[at + 2 : at + 4]
        start = at + 2
        if code in _UNESCAPES:
            plain += _UNESCAPES[code]
        elif code == b"x" and len(digits) == 2 and not digits.strip(_HEX):
            plain.append(int(digits, 16))
            start = at + 4
        else:
            raise OrderFileError("a backslash that escapes nothing")
    return bytes(plain + text[start:])
