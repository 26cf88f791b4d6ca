"""One class per linker: the arguments that it needs to make whole windows, in its own dialect.

What each linker does with these flags, and why each is needed, was measured on GNU ld 2.40 to 2.47, lld 14 to 23,
mold 1.10 to 3.0, gold 1.16 and wild 0.10; the scripts in ld-scripts/ carry the details.
"""

import os

from hugealign.elf.machines import Machine
from hugealign.link.command import Command
from hugealign.settings import PAD_THRESHOLD

#: The threshold in the scripts, which a smaller one replaces where HUGEALIGN_MIN_TEXT is smaller.
SCRIPT_THRESHOLD = PAD_THRESHOLD
#: The pad object of a usual link; other links make theirs.
PAD_OBJECT = "pad-x86_64.o"


#: The forms of an order: a script, lld's list of symbols, gold's list of sections, copies of the inputs for mold.
SCRIPT, SYMBOLS, SECTIONS, COPIES = "script", "symbols", "sections", "copies"
_KEEP_PAD = ("-u", "__hugealign_pad")  # despite --gc-sections


class Linker:
    """A linker and its recipe; by default flags, a pad object, and an edit of the linked file."""

    #: Its file name is one of the *names*, or begins or ends like these.
    names: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    #: Its name in the first line of its ``--version``.
    mark = ""
    #: The section of the pad object, named so that the linker puts it last in the text.
    pad_section = ".hugealign.pad"
    #: The section of the linked file that ends with it.
    padded = pad_section
    #: Whether the linker pads by a script, so the linked file should need no edit.
    script = False
    #: Whether the pad must be sized by a first link, because the linker leaves no room after the text.
    two_pass = False
    #: The section of a second pad, sized by a first link like that of the text: the linker packs its segments, so the
    #: text begins on a window only if the read-only data before it end on one.  Empty for other linkers.
    lead_section = ""
    #: Whether output sections lie in the order in which the linker reads their names: an object with them comes first.
    declared = False
    #: Whether a flag of their sections keeps the pads.
    retained = False
    #: Whether the linker allocates all of its output, so that zeros take disk that could be holes.
    dense = False
    #: The form in which the linker takes an order of functions, None if it takes none.
    form: str | None = None
    #: The options beside the page size that put the text on a window boundary of its own, and keep the pad.
    options: tuple[str, ...] = ("-z", "separate-code")
    #: The address of a program that is not position-independent, None for that of its processor.
    image_base: int | None = None
    #: The option for it, if it has to be on a window.
    base_option = ""
    #: The file name of a script that a link with an order needs besides, None if it needs none.
    order_script: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def wastes(self, _machine: Machine) -> bool:
        """Return whether the linker writes to disk what could be holes, in files for *machine*."""
        return self.dense

    def arguments(self, user: list[str], page_size: int, pad: str, script: str | None) -> list[str]:
        """Return the linker arguments: the *user*'s with ours around them.

        Our script comes before all others, since the last one inserted at a place lies nearest to it;
        our ``-z`` options come last, since the last one wins.  *pad* and *script* are paths.
        """
        before = ["-T", script] if script else []
        return [*before, *user, pad, "-z", f"max-page-size={page_size:#x}", *self.options]

    def base(self, command: Command, page_size: int, machine: Machine) -> list[str]:
        """Return the option that puts a program at fixed addresses on a window, if its usual base is not on one.

        Without it GNU ld rounds the base down, at times to 0, where ordinary users may map nothing (mmap_min_addr).
        """
        if not self.base_option or command.position_independent or command.image_base is not None:
            return []
        base = machine.base if self.image_base is None else self.image_base
        return [f"{self.base_option}={page_size:#x}"] if base % page_size else []

    def default_script(self, _command: Command) -> list[str]:
        """Return the words that have the linker read the user's default script, where our script would hide it."""
        return []

    def order_form(self, _machine: Machine) -> str | None:
        """Return the form of an order for a link for this machine."""
        return self.form

    def order_words(self, form: str, path: str) -> list[str]:
        """Return the options that give the linker the order at *path*, in a *form* that it reads."""
        return ["-T" if form == SCRIPT else "--section-ordering-file", path]


class Bfd(Linker):
    """GNU ld."""

    ends = ("ld.bfd",)
    mark = "GNU ld"
    script = True
    base_option = "-Ttext-segment"
    form = SCRIPT  # before 2.43 it takes nothing else

    def wastes(self, machine: Machine) -> bool:
        """Return whether the pad is zeros, which GNU ld writes out; it seeks over other gaps."""
        return machine.holes


class Lld(Linker):
    """LLVM's linker."""

    names = ("lld", "ld.lld")
    begins = ("lld-", "ld.lld-")
    mark = "LLD"
    script = True
    order_script = "lld-plt.ld"

    def wastes(self, machine: Machine) -> bool:
        """Return whether long tails get no pad: lld fills the rest of their window with traps (writeTrapInstr)."""
        return machine.pad_threshold > PAD_THRESHOLD

    def default_script(self, command: Command) -> list[str]:
        """Return ``-T`` and the script: lld reads it only without another script (``-dT`` in its manual page)."""
        return ["-T", command.default_script] if command.default_script and not command.scripts else []

    def order_form(self, machine: Machine) -> str:
        """Return SYMBOLS, or SCRIPT where lld puts these in the middle of the text."""
        return SCRIPT if machine.thunks else SYMBOLS

    def order_words(self, form: str, path: str) -> list[str]:
        """Return lld's options; the marks are empty, so ``--icf=all`` would fold them into one."""
        from hugealign.elf.objectfile import HOT_MARKS  # most links have no order

        given = ["-T", path] if form == SCRIPT else ["--symbol-ordering-file", path, "--no-warn-symbol-ordering"]
        return [*given, *(f"--keep-unique={mark}" for mark in HOT_MARKS)]


class Mold(Linker):
    """mold reads no scripts.  It sorts sections of code by name, so ``~`` comes last."""

    names = ("mold", "ld.mold", "ld64.mold", "sold")
    mark = "mold"
    padded = pad_section = "~hugealign.pad"
    dense = True
    options = ("-z", "separate-code", *_KEEP_PAD)
    image_base = 2 << 20
    base_option = "--image-base"
    form = COPIES  # it has no option for an order, and sorts output sections of code by name


class Gold(Linker):
    """gold, deprecated since binutils 2.44, knows no ``-z separate-code``: read-only data share the text segment.

    ``--rosegment`` would separate them, but patchelf (0.14) makes programs with that layout crash.  The next segment
    begins at the very next byte of the file, so the pad must have its full size in the link.
    """

    ends = ("gold",)
    mark = "GNU gold"
    two_pass = True
    dense = True
    options = _KEEP_PAD
    form = SECTIONS


class Wild(Linker):
    """wild packs its segments as lld does by default, and knows neither ``-z separate-code`` nor scripts that insert.

    It keeps sections for SHF_GNU_RETAIN, not for ``-u``.  Read-only sections with names that it does not know come last
    in their segment.  Code sections with such names come before .text, so the pad is a part of .text: the last part,
    because its alignment is the smallest.
    """

    names = ("wild", "ld.wild")
    mark = "Wild"
    pad_section = ".text.~hugealign"
    padded = ".text"
    lead_section = ".hugealign.rodata"
    retained = True
    declared = True
    dense = True
    options = ()
    form = COPIES  # it has no option for an order; output sections of code lie as it reads their names


#: The linkers that have recipes, by their names there.
KINDS: "dict[str, type[Linker]]" = {"bfd": Bfd, "lld": Lld, "mold": Mold, "gold": Gold, "wild": Wild}


def identify(path: str, version: str | None = None) -> Linker | None:
    """Return the linker at *path*, or None: judge by the file name behind its links, else by *version*.

    *version* is the first line of its ``--version``, None if not known yet.
    """
    name = os.path.basename(os.path.realpath(path))
    for kind, known in KINDS.items():
        if name in known.names or name.startswith(known.begins) or name.endswith(known.ends):
            return known(kind)
    if version is None:
        return None
    claimed = version.partition("(")[0]  # the rest may name another linker that it is compatible with
    return next((known(kind) for kind, known in KINDS.items() if known.mark in claimed), Linker("unknown"))


def named(kind: str) -> Linker:
    """Return the linker that the recipes call *kind*: bfd, lld, mold, gold or wild."""
    return KINDS[kind](kind)
