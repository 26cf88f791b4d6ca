"""The table of the linkers' options, held against what each installed linker says that it has."""

import itertools
import re
import shutil
from pathlib import Path

import pytest

from hugealign.link import options
from hugealign.link.command import parse
from tests.differential.options import options as named
from tests.link import newer
from tests.support import LLVM, need

LINKERS = ("ld.bfd", "ld.gold", "mold", "wild", *(f"{path}/ld.lld" for path in LLVM.values()))
#: Linkers of Debian's next releases, if tests/link/newer.py has unpacked them.
NEXT = [str(path) for suite in newer.SUITES for path in sorted((newer.TARGET / suite / "bin").glob("ld.*"))]


@pytest.mark.parametrize("linker", [*LINKERS, *NEXT])
def test_every_option_of_a_linker_is_in_the_table(linker: str) -> None:
    if linker not in NEXT:
        need(linker)
    result = named(linker)
    assert len(result) > 100
    words = [o.name for o in result if not o.keyword and options.effect(o.name) == options.UNKNOWN]
    keywords = [o.keyword for o in result if o.keyword and options.z_effect(o.keyword) == options.UNKNOWN]
    assert (words, keywords) == ([], []), "not in the table of hugealign/link/options.py"


@pytest.mark.parametrize("linker", [f"{path}/ld.lld" for path in LLVM.values()])
def test_keywords_that_lld_does_not_list(linker: str) -> None:
    """They stand in the program as the strings that it compares with: here those that the manual names."""
    need(linker)
    manual = """
        combreloc nocombreloc copyreloc nocopyreloc defs undefs execstack noexecstack force-bti force-ibt global
        ifunc-noplt initfirst interpose keep-text-section-prefix lazy now max-page-size=4096 muldefs nodefaultlib
        nodelete nodlopen nognustack norelro notext origin pac-plt rel rela retpolineplt rodynamic separate-code
        noseparate-code separate-loadable-segments shstk stack-size=4096 start-stop-visibility=hidden text wxneeded
        start-stop-gc nostart-stop-gc bti-report=none cet-report=none dead-reloc-in-nonalloc=*=0
        """
    assert [keyword for keyword in manual.split() if options.z_effect(keyword)] == []


@pytest.mark.parametrize("linker", LINKERS)
def test_an_option_takes_the_next_word_only_if_every_linker_says_so(linker: str) -> None:
    """Else an option behind it could be hidden; what is taken for an input instead does no harm."""
    need(linker)
    alone = {o.name for o in named(linker) if not o.argument} - {o.name for o in named(linker) if o.argument}
    # In mold's help some lack their argument, and GNU ld reads that of -O and -dT.
    known = {
        "Tdata",
        "Ttext",
        "dynamic-list",
        "export-dynamic-symbol",
        "export-dynamic-symbol-list",
        "sort-section",
        "O",
        "dT",
    }
    assert sorted(name for name in alone - known if options.takes_argument(name)) == []


def test_usual_options_are_harmless() -> None:
    """Those with which a link starts before Python has read its command line."""
    for pattern in options.USUAL:
        word = pattern.strip("'").replace("?*", "now").replace("*", "x" if "=" in pattern else "")
        words = [word[:-1], "/x"] if word.endswith("/") else [word, "x"]
        assert parse([*words, "main.o"]).hands_off is None, pattern


@pytest.mark.parametrize(
    "words",
    [
        "--no-such-option", "-z no-such-keyword", "--section-start=.data=0", "--sect=.data=0", "-Tbss 0x600000",
        "-Trodata-segment=0x600000", "--Tdata=0x600000", "-z lrodata-after-bss",
        "--thinlto-index-only", "--thinlto-index-only=x", "-plugin-opt=thinlto-index-only", "-plugin-opt=emit-asm",
        "--lto-emit-llvm", "--unique", "--no-rosegment", "-z text-unlikely-segment", "-z nosectionheader", "-EB",
        "-C /", "--verbose", "--run cc", "--separate-debug-file", "-c script", "--split-by-file=4", "-G 8",
    ],
)  # fmt: skip
def test_options_that_get_the_plain_link(words: str) -> None:
    command = parse([*words.split(), "main.o"])
    assert command.hands_off
    assert words.split(maxsplit=1)[0] in command.hands_off


def test_no_word_of_the_table_is_there_twice() -> None:
    """Of two groups, the first decides, so a harmless option in both would be laid out."""
    text = Path(options.__file__).read_text()
    found = re.findall(r'^(_[A-Z_]+) = ("""|")(.*?)\2', text, re.DOTALL | re.MULTILINE)
    groups = {name: {word.rstrip("=") for word in group.split()} for name, _, group in found}
    assert {"_HARMLESS", "_PLACES", "_Z_HARMLESS", "_Z_PLACES"} <= groups.keys()
    for (name, words), (other, others) in itertools.combinations(groups.items(), 2):
        assert not words & others or name.startswith("_Z_") != other.startswith("_Z_"), (name, other)
    for name, _, group in found:
        assert len(group.split()) == len(groups[name]), name
    assert shutil.which("ld.bfd")
