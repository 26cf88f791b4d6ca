"""The settings of a link, from the ``HUGEALIGN_*`` variables, and the defaults that all commands share.

A link reads no other configuration: a file found by search would make builds depend on where they run.  VARIABLES is
the only table of these variables: the help, `doctor` and the shell's checks (packaging/tables.py) are made from it.
"""

import os

from hugealign.errors import UsageError
from hugealign.io.units import parse_page_size, parse_size
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CHECK_MODES = ("off", "warn", "error")
BOOLEAN, SIZE, PAGE_SIZE_KIND, GLOBS, FILE, MODE = "boolean", "size", "page size", "globs", "file", "mode"

#: A size that is not given: what the processor of the link or of the file has (`elf.machines`).
OWN = -1
#: The huge page size, and the least text worth a window, as people write them; those of most processors.
DEFAULT_PAGE_SIZE, DEFAULT_MIN_TEXT = "2M", "256K"
#: The same in bytes, and the tail of text up to which a window is not worth a pad.
PAGE_SIZE, MIN_TEXT, PAD_THRESHOLD = 2 << 20, 256 << 10, 4 << 10

#: variable: kind, the field of Settings that it sets (empty: the launcher reads it), example for the help, meaning.
VARIABLES = {
    "HUGEALIGN_DISABLE": (BOOLEAN, "", "1", "run the plain compiler and linker"),
    "HUGEALIGN_PAGE_SIZE": (PAGE_SIZE_KIND, "page_size", DEFAULT_PAGE_SIZE, "the huge page size"),
    "HUGEALIGN_MIN_TEXT": (SIZE, "min_text", DEFAULT_MIN_TEXT, "link programs with less text unchanged"),
    "HUGEALIGN_ONLY": (GLOBS, "only", "GLOB:GLOB", "lay out only outputs with these names"),
    "HUGEALIGN_SKIP": (GLOBS, "skip", "GLOB:GLOB", "leave outputs with these names unchanged"),
    "HUGEALIGN_PROFILE": (FILE, "profile", "FILE", "put hot functions first, in the order of FILE (hugealign order)"),
    "HUGEALIGN_ORDER_OBJECTS": (
        BOOLEAN,
        "order_objects",
        "1",
        "order whole objects that were compiled without -ffunction-sections",
    ),
    "HUGEALIGN_PLUGIN": (BOOLEAN, "", "0", "do not use the LLVM plugin"),
    "HUGEALIGN_CHECK": (MODE, "check", "warn", "check each output: off, warn (default) or error"),
    "HUGEALIGN_DEBUG": (BOOLEAN, "debug", "1", "print on stderr what each link does"),
}


class Settings(Record):
    """The settings of one link.  Sizes are in bytes or OWN; *only* and *skip* are tuples of globs of output names.

    *profile* is the path of an order file, empty without one.  With *order_objects*, a function without a section of
    its own pulls in the object that contains it.
    """

    page_size: int = OWN
    min_text: int = OWN
    check: str = "warn"
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    debug: bool = False
    profile: str = ""
    order_objects: bool = False
    #: The bytes of tail up to which a window is not worth a pad; no variable sets it.
    pad_threshold: int = PAD_THRESHOLD


def min_text() -> int:
    """Return the least text worth a window, in bytes or OWN, from HUGEALIGN_MIN_TEXT.  Raises UsageError."""
    name = "HUGEALIGN_MIN_TEXT"
    return from_environ({name: os.environ.get(name, "")}).min_text


def from_environ(environ: "Mapping[str, str]") -> Settings:
    """Return the settings in *environ*; an empty variable counts as unset.  Raises UsageError."""
    given = {
        field: _value(name, kind, text)
        for name, (kind, field, _, _) in VARIABLES.items()
        if field and (text := environ.get(name))
    }
    return Settings().changed(**given)


def check_variable(name: str, text: str) -> None:
    """Raise UsageError unless *text* is a valid value of the variable *name*."""
    if text:
        _value(name, VARIABLES[name][0], text)


def _value(name: str, kind: str, text: str) -> object:
    if kind == PAGE_SIZE_KIND:
        return parse_page_size(text, name)
    if kind == SIZE:
        return parse_size(text, name)
    if kind == GLOBS:
        return tuple(glob for glob in text.split(":") if glob)
    if kind == BOOLEAN and text not in ("0", "1"):
        raise UsageError(f"{name}: not 0 or 1")
    if kind == MODE and text not in CHECK_MODES:
        raise UsageError(f"{name}: not one of {', '.join(CHECK_MODES)}")
    return text == "1" if kind == BOOLEAN else text
