"""What a linker script of the user requests, read as the linkers read it: words, strings and comments.

A script may add sections to the default script (``INSERT``), name symbols and inputs, or lay the program out by itself.
Only the last keeps a link from being laid out; an unknown command counts as that.
"""

from hugealign.elf.machines import FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$/\\~+[]*?-!^:")
#: Commands that place nothing; what they name stands in parentheses or braces (ld manual, "Scripts").
_PLACES_NOTHING = frozenset(
    """
    ASSERT AS_NEEDED ENTRY EXTERN FORCE_COMMON_ALLOCATION GROUP HIDDEN INHIBIT_COMMON_ALLOCATION INPUT LD_FEATURE
    NOCROSSREFS NOCROSSREFS_TO OUTPUT_ARCH PROVIDE PROVIDE_HIDDEN SEARCH_DIR VERSION
    """.split()
)
_STATEMENTS = ("CONSTRUCTORS", "CREATE_OBJECT_SYMBOLS", "LINKER_VERSION")  # in an output section, of one word
_OPEN, _CLOSED = ("{", "("), ("}", ")")


class Script:
    """One script: why it keeps a link from being laid out (*full*, empty if it does not), and *patterns*.

    These match the names of the input sections that its inserted output sections request.
    """

    def __init__(self, text: str) -> None:
        self.full = ""
        self.patterns: list[str] = []
        self._words = tokens(text)
        self._at = 0
        while self._at < len(self._words) and not self.full:
            self.full = self._command()

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._words[at] if at < len(self._words) else ""

    def _command(self) -> str:
        """Read one command outside of all braces; return why the script is a full one."""
        word = self._peek()
        self._at += 1
        if word == ";":
            return ""
        if word == "SECTIONS" and self._peek() == "{":
            self._sections()
            if self._peek() != "INSERT" or self._peek(1) not in ("AFTER", "BEFORE"):
                return "SECTIONS without INSERT"
            self._at += 3
            return ""
        if word == "OUTPUT_FORMAT":
            named = [name.strip('"') for name in self._skip() if name not in "(),"]
            return "" if all(name in FORMATS for name in named) else "OUTPUT_FORMAT"
        if word in _PLACES_NOTHING:
            if self._peek() in _OPEN:
                self._skip()
            return ""
        if word != "." and self._peek() == "=":
            while self._peek() not in (";", ""):
                self._at += 1
            return ""
        return word

    def _skip(self) -> list[str]:
        """Skip the braces or parentheses that begin here, and return their contents."""
        start, depth = self._at, 0
        while self._at < len(self._words):
            word = self._peek()
            self._at += 1
            depth += (word in _OPEN) - (word in _CLOSED)
            if depth <= 0:
                break
        return self._words[start : self._at]

    def _sections(self) -> None:
        """Read a SECTIONS command from its brace on, and collect the patterns of input sections."""
        braces = parentheses = 0
        value = False  # whether this is the value of a symbol
        before = ""
        while self._at < len(self._words):
            word, after = self._peek(), self._peek(1)
            self._at += 1
            braces += (word == "{") - (word == "}")
            parentheses += (word == "(") - (word == ")")
            value = word == "=" or (value and word not in (";", "{", "}"))
            if word == "EXCLUDE_FILE" and after == "(":
                self._skip()
            elif word[0] not in "{}();,=" and not value and after not in ("(", "="):
                if parentheses:
                    self.patterns.append(word.strip('"'))
                elif braces > 1 and before in ("{", "}", ";", ")") and word not in _STATEMENTS:
                    self.patterns.append("*")  # a file by its name: all its sections
            if braces <= 0:
                return
            before = word


def tokens(text: str) -> list[str]:
    """Return the words, strings (with their quotes) and signs of the script *text*, without comments."""
    result: list[str] = []
    at, size = 0, len(text)
    while at < size:
        sign = text[at]
        end = at + 1
        if text.startswith("/*", at):
            at = _behind(text, "*/", at + 2)
            continue
        if sign == "#":
            at = _behind(text, "\n", at)
            continue
        if sign == '"':
            end = _behind(text, '"', end)
        elif sign in _LETTERS:
            while end < size and text[end] in _LETTERS:
                end += 1
        if not sign.isspace():
            result.append(text[at:end])
        at = end
    return result


def _behind(text: str, mark: str, start: int) -> int:
    """Return where the text behind the next *mark* begins, its end if there is none."""
    at = text.find(mark, start)
    return at + len(mark) if at >= 0 else len(text)


def matcher(patterns: list[str]) -> "Callable[[bytes], object]":
    """Return a function that says whether *patterns* request a section by its name."""
    import re
    from fnmatch import translate

    return re.compile(b"|".join(translate(pattern).encode("latin-1") for pattern in set(patterns))).match
