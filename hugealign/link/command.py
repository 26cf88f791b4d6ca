"""What a linker's command line requests: pure parsing that answers the shim's few questions.

The shim reads the user's arguments to learn whether to leave the link alone, what its output is, and its inputs.  It
rewrites them only where a linker gets copies of inputs (`link.order.copies`).  `options` says what each option does.
"""

from hugealign.elf import machines
from hugealign.link import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: One-letter options with an argument, in the same word or the next (GNU ld manual, "Command-line Options").
_SHORT_WITH_ARGUMENT = "AFGILOPRTYabcefhlmouyz"

#: Options that say whether the linker prefers archives from here on.
_STATIC = {
    "static": True, "Bstatic": True, "dn": True, "non_shared": True,
    "Bdynamic": False, "dy": False, "call_shared": False,
}  # fmt: skip
_POSITION_INDEPENDENT = {
    "pie": True, "pic-executable": True, "shared": True, "Bshareable": True,
    "no-pie": False, "nopie": False, "no-pic-executable": False,
}  # fmt: skip
_ELF_FORMATS = ("default", "elf", *machines.FORMATS)
_NESTING_LIMIT = 16
_RESPONSE_LIMIT = 64 << 20
_BLANKS = " \t\n\v\f\r"  # ISSPACE of libiberty: `str.split` also splits at other Unicode blanks, which names may have


class Command:
    """One linker command line, as far as the shim cares."""

    def __init__(self) -> None:
        self.output = "a.out"
        self.machine: machines.Machine | None = None
        self.hands_off: str | None = None
        self.inputs: list[str] = []
        self.places: list[int] = []  # the index of each input among the words
        self.libraries: list[tuple[str, bool]] = []  # name, and whether only an archive will do
        self.library_paths: list[str] = []
        self.library_files: list[str] | None = None  # the files of the libraries, once `estimate.libraries` has run
        self.scripts: list[str] = []
        self.default_script: str | None = None  # the linker reads it after the command line
        self.sections: list[str] = []  # patterns of the input sections that the user's scripts request
        self.reports: list[tuple[str, bool]] = []  # files that name the inputs, and whether in make's syntax
        self.ordered = False  # by an option of the user's own
        self.max_page_size = 0
        self.common_page_size = 0
        self.image_base: int | None = None
        self.static = False
        self.position_independent = False
        self.z: list[str] = []  # the keywords of -z

    def requested_sections(self) -> "Callable[[bytes], object] | None":
        """Return a function that says whether a script of the user requests a section; None if there is no script."""
        if not self.sections:
            return None
        from hugealign.link.scripts import matcher

        return matcher(self.sections)


def expand(arguments: list[str], read: "Callable[[str], str]") -> list[str]:
    """Return *arguments* with each ``@file`` replaced by the words in it, as the linkers do.

    *read* returns a file's text or raises OSError; a word that names no file stays (binutils, expandargv).
    Raises RecursionError when files name each other too deeply.
    """
    words: list[str] = []
    _expand(arguments, read, words, 0)
    return words


def _expand(arguments: list[str], read: "Callable[[str], str]", words: list[str], depth: int) -> None:
    if depth > _NESTING_LIMIT:
        raise RecursionError
    for word in arguments:
        if word.startswith("@") and len(word) > 1:
            try:
                text = read(word[1:])
            except (OSError, ValueError):  # ValueError: a NUL byte in the name
                words.append(word)
                continue
            _expand(split(text[:_RESPONSE_LIMIT]), read, words, depth + 1)
        else:
            words.append(word)


def split(text: str) -> list[str]:
    """Split the text of a response file into words: white space, quotes and backslashes (GCC manual, ``@file``)."""
    if text.isascii() and not ("'" in text or '"' in text or "\\" in text):
        return text.split()
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    characters = iter(text)
    for c in characters:
        if c == "\\":
            word = word or []
            word.append(next(characters, ""))
        elif quote:
            if c == quote:
                quote = ""
            else:
                word = word or []
                word.append(c)
        elif c in "'\"":
            quote = c
            word = [] if word is None else word
        elif c in _BLANKS:
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            word = word or []
            word.append(c)
    if word is not None:
        words.append("".join(word))
    return words


def parse(words: list[str], linker: str = "") -> Command:
    """Return what the expanded linker arguments *words* request of a *linker* of that kind, empty if it is unknown."""
    command = Command()
    remaining = enumerate(words)
    for place, word in remaining:
        if not word.startswith("-"):
            if word:
                command.inputs.append(word)
                command.places.append(place)
            continue
        if word.strip("-") == "":
            continue
        name, value = _option(word)
        if value is None and options.takes_argument(name):
            value = next(remaining, (0, ""))[1]
            written = f"{word} {value}"
        else:
            written = word
        if (reason := _apply(command, name, value)) and linker not in options.REDUNDANT.get(name, ()):
            command.hands_off = command.hands_off or f"{written}: {reason}"
    return command


def _option(word: str) -> tuple[str, str | None]:
    """Return the name of the option *word* without dashes, and the value in the same word, if any.

    A long option may be written with one dash, unless it begins with ``o`` (GNU ld manual); a one-letter option
    may be followed by its value without a space.  A word that begins with ``-l`` names a library,
    except the option that means the same.
    """
    name, equals, value = word.lstrip("-").partition("=")
    long_form = word.startswith("--") or (
        options.effect(name) != options.UNKNOWN and (name[0] not in "lo" or name in ("library", "library-path"))
    )
    if not long_form and word[1] in _SHORT_WITH_ARGUMENT:
        return word[1], word[2:] or None
    return name, value if equals else None


def _apply(command: Command, name: str, value: str | None) -> str:
    """Apply the option *name* to *command*; return why it keeps the link from being laid out, empty if it does not."""
    if name in ("o", "output"):
        command.output = value or ""
    elif name == "m":
        command.machine = machines.EMULATIONS.get(value or "")
        return "" if command.machine else "the target is not one that hugealign knows"
    elif name == "z":
        command.z.append(value or "")
        keyword, _, size = (value or "").partition("=")
        if keyword == "max-page-size":
            command.max_page_size = number(size) or 0
        elif keyword == "common-page-size":
            command.common_page_size = number(size) or 0
        return options.z_effect(value or "")
    elif name in ("T", "script"):
        command.scripts.append(value or "")
    elif name in ("dT", "default-script"):
        command.default_script = value or ""
    elif name in ("l", "library"):
        command.libraries.append((value or "", command.static))
    elif name in ("L", "library-path"):
        command.library_paths.append(value or "")
    elif name in _STATIC:
        command.static = _STATIC[name]
    elif name in _POSITION_INDEPENDENT:
        command.position_independent = _POSITION_INDEPENDENT[name]
    elif name in ("Ttext-segment", "image-base"):
        command.image_base = number(value or "")
        return "the image base is not a number" if command.image_base is None else ""
    elif name in ("b", "format", "oformat"):
        return "" if value in _ELF_FORMATS else "inputs or output of another format"
    elif name in ("Map", "dependency-file"):
        command.reports.append((value or "", name == "dependency-file"))
    elif name == "plugin-opt":
        return options.plugin_effect(value or "")
    elif options.gives_order(name):
        command.ordered = True
    else:
        return options.effect(name)
    return ""


def number(text: str) -> int | None:
    """Return the number that *text* stands for in linkers' notation (``0x…``, decimal, suffix K or M), or None."""
    shift = {"k": 10, "m": 20}.get(text[-1:].lower(), 0)
    if shift:
        text = text[:-1]
    try:
        value = int(text, 0) << shift
    except ValueError:
        try:
            value = int(text, 16) << shift
        except ValueError:
            return None
    return value if 0 <= value < 1 << 64 else None
