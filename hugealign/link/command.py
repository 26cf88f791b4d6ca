"""What a linker's command line asks for: pure parsing that answers the shim's few questions.

The shim reads the user's arguments to learn whether to keep out of the way, what the output is, and what goes in.  It
rewrites them only where a linker gets copies of inputs (`link.order.copies`).  An option that is not in the tables
counts as a single word.  Its argument may then be mistaken for an input, which matters only if an object file of that
name exists.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: One-letter options with an argument, in the same word or the next (GNU ld manual, "Command-line Options").
_SHORT_WITH_ARGUMENT = "AFGILPRTYabcefhlmouyz"

#: Long options whose argument is the next word, where it is not joined by ``=``.
_WITH_ARGUMENT = frozenset(
    """
    Map architecture audit auxiliary call-graph-ordering-file chroot compress-debug-sections dT default-script
    defsym depaudit dependency-file dynamic-linker dynamic-list entry exclude-libs export-dynamic-symbol
    export-dynamic-symbol-list filter fini format hash-style image-base init just-symbols library library-path
    mllvm oformat output plugin plugin-opt reproduce require-defined retain-symbols-file rpath rpath-link script
    section-ordering-file section-start soname sort-section symbol-ordering-file sysroot thinlto-cache-dir
    trace-symbol undefined unresolved-symbols version-script wrap Tbss Tdata Ttext Ttext-segment
    """.split()
)

#: Options that compiler drivers write with the argument in the next word.  sh/shim.sh knows only these (`make tables`):
#: it takes the argument of any other for an input, sees that it is none, and passes the link on to Python.
NEXT_IS_ARGUMENT = "-m -z -L -T -e -h -o -soname -dynamic-linker -plugin -rpath -rpath-link".split()
#: sh patterns for the options of a usual link, which starts before Python has loaded if it has EARLY bytes of inputs or
#: more.  With any other option this module might say to keep out, or the linker might print something on stdout.
USUAL = """
    -melf_x86_64 -z?* -pie -shared -static -e* -h* -o* -soname* -dynamic-linker* -plugin* -rpath* -l* -L?* -O* -s -S -x
    -E --build-id* --eh-frame-hdr --hash-style=* --sysroot=* --as-needed --no-as-needed --push-state --pop-state
    --start-group --end-group '-(' '-)' --gc-sections --export-dynamic -export-dynamic --no-undefined
    --version-script=* --enable-new-dtags --disable-new-dtags --whole-archive --no-whole-archive -Bstatic -Bdynamic
    """.split()
UNUSUAL = ["-zmax-page-size*", "-L", "-T", "-o-", "-o/dev/*", "-o/proc/*"]
EARLY = 4 << 20

#: Options of links that make no ordinary program or library, or whose layout is the user's own business.
_HANDS_OFF = {
    "r": "a relocatable link",
    "relocatable": "a relocatable link",
    "i": "a relocatable link",
    "Ur": "a relocatable link",
    "N": "unpaged text is asked for",
    "omagic": "unpaged text is asked for",
    "n": "unpaged text is asked for",
    "nmagic": "unpaged text is asked for",
    "version": "only the version is asked for",
    "help": "only help is asked for",
    "dT": "a default script of the user's own",
    "default-script": "a default script of the user's own",
    "Ttext": "the address of the text is given",
    "section-start": "the address of a section is given",
    "section-ordering-file": "a section order of the user's own",
}
#: Options of lld, gold and mold that give the user's own order.
_ORDERING = frozenset(
    """
    symbol-ordering-file call-graph-ordering-file shuffle-sections reverse-sections irpgo-profile bp-startup-sort
    """.split()
)
#: Options that say whether the linker prefers archives from here on.
_STATIC = {"static": True, "Bstatic": True, "dn": True, "non_shared": True, "Bdynamic": False, "dy": False}
_POSITION_INDEPENDENT = {
    "pie": True, "pic-executable": True, "shared": True, "Bshareable": True, "no-pie": False,
}  # fmt: skip
_ELF_FORMATS = ("default", "elf", "elf64-x86-64", "elf64-littleaarch64")
_MACHINES = {
    "elf_x86_64": 62,
    "aarch64linux": 183,
    "aarch64elf": 183,
}
_NESTING_LIMIT = 16
_RESPONSE_LIMIT = 64 << 20
_BLANKS = " \t\n\v\f\r"  # ISSPACE of libiberty: `str.split` also splits at other Unicode blanks, which names may have


class Command:
    """One linker command line, as far as the shim cares."""

    def __init__(self) -> None:
        self.output = "a.out"
        self.machine: int | None = None
        self.hands_off: str | None = None
        self.inputs: list[str] = []
        self.places: list[int] = []  # the index of each input among the words
        self.libraries: list[tuple[str, bool]] = []  # name, and whether only an archive will do
        self.library_paths: list[str] = []
        self.scripts: list[str] = []
        self.reports: list[tuple[str, bool]] = []  # files that name the inputs, and whether in make's syntax
        self.ordered = False  # by an option of the user's own
        self.max_page_size = 0
        self.image_base: int | None = None
        self.static = False
        self.position_independent = False
        self.z: list[str] = []  # the keywords of -z


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


def parse(words: list[str]) -> Command:
    """Return what the expanded linker arguments *words* ask for."""
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
        if value is None and (name in _WITH_ARGUMENT or (len(name) == 1 and name in _SHORT_WITH_ARGUMENT)):
            value = next(remaining, (0, ""))[1]
        _apply(command, name, value)
    return command


def _option(word: str) -> tuple[str, str | None]:
    """Return the name of the option *word* without dashes, and the value in the same word, if any.

    A long option may be written with one dash, unless it begins with ``o`` (GNU ld manual); a one-letter option
    may be followed by its value without a space.
    """
    name, equals, value = word.lstrip("-").partition("=")
    long_form = word.startswith("--") or (name in _WITH_ARGUMENT and not name.startswith("o"))
    if not long_form and word[1] in _SHORT_WITH_ARGUMENT and name not in _HANDS_OFF and name not in _STATIC:
        return word[1], word[2:] or None
    return name, value if equals else None


def _apply(command: Command, name: str, value: str | None) -> None:
    if name in ("o", "output"):
        command.output = value or ""
    elif name == "m":
        command.machine = _MACHINES.get(value or "")
        if command.machine is None:
            command.hands_off = "the target is not one that hugealign knows"
    elif name == "z":
        command.z.append(value or "")
        if value and value.startswith("max-page-size="):
            command.max_page_size = number(value.partition("=")[2]) or 0
    elif name in ("T", "script"):
        command.scripts.append(value or "")
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
        if command.image_base is None:
            command.hands_off = "the image base is not a number"
    elif name in ("b", "format", "oformat"):
        if value not in _ELF_FORMATS:
            command.hands_off = "inputs or output of another format"
    elif name in ("Map", "dependency-file"):
        command.reports.append((value or "", name == "dependency-file"))
    elif name in _ORDERING:
        command.ordered = True
    elif name in _HANDS_OFF:
        command.hands_off = _HANDS_OFF[name]


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
