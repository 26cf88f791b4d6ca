"""Sizes as people write them, text fit for a terminal, and what a mistyped name may have meant."""

from hugealign.errors import NumberFormatError, UsageError
from hugealign.io.numbers import decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIXES = {"K": 10, "M": 20, "G": 30}
_LARGEST = 1 << 40
_MOST_DIGITS = 10**13 - 1
_LONGEST_TYPO = 64  # characters; a longer word is not a typo


def parse_size(text: str, name: str) -> int:
    """Return the bytes that *text* means: ``4096``, ``64K``, ``2M``, ``2MiB``, ``1G``.

    *name* is the option or variable, for the message.  Raises UsageError.
    """
    digits = text.upper().removesuffix("IB").removesuffix("B")
    shift = _SUFFIXES.get(digits[-1:], 0)
    if shift:
        digits = digits[:-1]
    try:
        size = decimal(digits if text.isascii() else text, _MOST_DIGITS) << shift
    except NumberFormatError:
        raise UsageError(f"{name}: not a size (examples: 4096, 64K, 2M)") from None
    if size > _LARGEST:
        raise UsageError(f"{name}: larger than 1 TiB")
    return size


def parse_page_size(text: str, name: str) -> int:
    """Return the huge page size in bytes: a power of two from 64 KiB to 1 GiB.  Raises UsageError."""
    size = parse_size(text, name)
    if size & (size - 1) or not 1 << 16 <= size <= 1 << 30:
        raise UsageError(f"{name}: not a huge page size (a power of two from 64K to 1G; usual: 2M)")
    return size


def format_size(size: int) -> str:
    """Return *size* bytes in binary units with at most one decimal: ``0 B``, ``512 B``, ``4.0 KiB``, ``3.1 MiB``."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            tenths = (size * 10 + (1 << (shift - 1))) >> shift
            return f"{tenths // 10}.{tenths % 10} {unit}"
    return f"{size} B"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 error``, ``2 errors``, with the *plural* if that is not *noun* and an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def are(number: int) -> str:
    """Return ``is`` for 1, ``are`` for others."""
    return "is" if number == 1 else "are"


def without_commands(text: str) -> str:
    r"""Return *text* so that it gives no commands, even if GitHub's runner shows it.

    The runner takes a line that begins with ``::``, and ``##[`` anywhere in a line, for a command to itself
    (ActionCommand.cs in github.com/actions/runner).  Names in files must not become commands.
    """
    if "::" not in text and "##[" not in text:
        return text
    lines = text.replace("##[", r"##\x5b").split("\n")
    return "\n".join(x.replace("::", r"\x3a:", 1) if x.lstrip().startswith("::") else x for x in lines)


def printable(text: str) -> str:
    r"""Return *text* fit for a terminal: control characters and undecodable bytes become ``\xNN`` escapes.

    File, symbol and section names are untrusted; unescaped, they could move the cursor or forge lines.
    """
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable()
        else c.encode("utf-8", "surrogateescape").decode("latin-1").encode("unicode_escape").decode()
        for c in text
    )


def wrapped(text: str, width: int, indent: str, end: str = "") -> list[str]:
    r"""Return *text* as lines that begin with *indent* and fit *width* columns, 0 for any; no word is broken.

    A line that goes on has *end* behind it: with `` \`` a command can be typed as it stands.
    """
    if not width or len(indent) + len(text) <= width:
        return [indent + text]
    import re

    words = re.findall(r"(?:'[^']*'|[^\s'])+", text)
    lines = [indent]
    for word in words:
        if lines[-1].strip() and len(lines[-1]) + len(word) + 1 + len(end) > width:
            lines[-1] += end
            lines.append(f"{indent}  ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return lines


def nearest(word: str, known: "Iterable[str]") -> str:
    """Return the name in *known* that is most like *word*, empty if none is close."""
    from difflib import get_close_matches  # takes 3 ms: only for mistyped names

    by_folded = {name.lower(): name for name in known}
    matches = get_close_matches(word.lower(), by_folded, 1) if len(word) <= _LONGEST_TYPO else []
    return by_folded[matches[0]] if matches else ""


def hint(word: str, known: "Iterable[str]") -> str:
    """Return ``; did you mean NAME?`` for a message, empty if no name is close."""
    match = nearest(word, known)
    return f"; did you mean {printable(match)}?" if match else ""
