"""The corpus: what its sources say about themselves, as README.md explains it, and the cases that come of it."""

import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.support import TOOLCHAINS, Toolchain

CORPUS = Path(__file__).parent
DIRECTIVES = frozenset(
    "Args Link Object Archive Library Plugin File Variants Run Expect Output SkipLinker NoLayout".split()
)
#: The kinds of program, each with its flag for compiling; for the link it is the word itself.
MODES = {"pie": "-fPIE", "no-pie": "-fno-pie", "static": "-fno-pie", "static-pie": "-fPIE"}
#: What the other words of a variant mean, as flags for the compiler and for the link.
WORDS = {
    "bsymbolic": ("", "-Wl,-Bsymbolic"),
    "build-id": ("", "-Wl,--build-id=sha1"),
    "cet": ("-fcf-protection=full", "-Wl,-z,now"),
    "debug": ("-g", "-g -Wl,--compress-debug-sections=zlib"),
    "gc": ("-ffunction-sections -fdata-sections", "-Wl,--gc-sections"),
    "hash": ("", "-Wl,--hash-style=both"),
    "hidden": ("-fvisibility=hidden", ""),
    "icf": ("-ffunction-sections", "-Wl,--icf=all"),
    "lazy": ("", "-Wl,-z,lazy"),
    "lto": ("-O2 -flto", "-O2 -flto"),
    "noplt": ("-fno-plt", ""),
    "norelro": ("", "-Wl,-z,norelro"),
    "now": ("", "-Wl,-z,relro,-z,now"),
    "rdynamic": ("", "-rdynamic"),
    "relocs": ("", "-Wl,--emit-relocs"),
    "relr": ("", "-Wl,-z,pack-relative-relocs"),
    "strip": ("", "-Wl,-s"),
}
#: What a linker (named by a part of the toolchain's name) cannot do with or without hugealign.
CANNOT = {
    ("gold", "static-pie"): "gold knows no static-pie (--no-dynamic-linker)",
    ("gold", "relr"): "gold knows no -z pack-relative-relocs",
    ("mold", "relr"): "mold 1.10 makes DT_RELR without the version GLIBC_ABI_DT_RELR, which glibc wants",
    ("lld14", "relr"): "lld 14 knows no -z pack-relative-relocs",
    ("wild", "lto"): "wild 0.10 makes no output of GCC's link-time optimiser: its plugin fails an assertion",
    ("bfd", "icf"): "GNU ld folds no identical code",
    ("gcc-lld", "lto"): "lld reads no objects of GCC's link-time optimiser",
}


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """A source file and its directives."""

    path: Path
    directives: dict[str, list[str]]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(CORPUS).with_suffix(""))

    def all(self, name: str) -> list[str]:
        return self.directives.get(name, [])

    def words(self, name: str) -> list[str]:
        return [word for value in self.all(name) for word in shlex.split(value)]

    @property
    def variants(self) -> list[str]:
        return self.words("Variants") or ["pie"]

    def parts(self, *names: str) -> list[list[str]]:
        """The names of its objects, archives or libraries, each with the words for its link."""
        return [shlex.split(value) for name in names for value in self.all(name)]


def parse(path: Path) -> Source:
    directives = defaultdict(list)
    for name, value in re.findall(r"^//# (\w+):[ ]?(.*)$", path.read_text(), re.MULTILINE):
        assert name in DIRECTIVES, f"{path}: no such directive: {name}"
        directives[name].append(value)
    return Source(path, dict(directives))


@dataclass(frozen=True, slots=True)
class Case:
    """A source, a variant and a toolchain."""

    source: Source
    variant: str
    toolchain: Toolchain

    def __str__(self) -> str:
        return f"{self.source.name}-{self.variant}-{self.toolchain.name}"

    @property
    def compiler(self) -> str:
        return self.toolchain.cxx if self.source.path.suffix == ".cc" else self.toolchain.cc

    def mode(self) -> str:
        return next((word for word in self.variant.split("+") if word in MODES), "pie")

    def flags(self, link: bool) -> list[str]:
        """The flags that the variant means, except its mode."""
        flags: list[str] = []
        for word in re.findall(r"c\+\+\d+|[^+]+", self.variant):
            if re.fullmatch(r"O\d|Os", word):
                flags += [] if link else [f"-{word}"]
            elif re.fullmatch(r"c(\+\+)?\d\d", word):
                flags += [] if link else [f"-std=gnu{word[1:]}"]
            elif word not in MODES:
                flags += WORDS[word][link].split()
        return flags

    def skip(self) -> str | None:
        """Why this case cannot be, with or without hugealign; None if it can."""
        missing = self.toolchain.missing()
        return f"{missing} is not installed" if missing else self.cannot()

    def cannot(self) -> str | None:
        """Why the toolchain cannot do it, if it is installed."""
        words = self.variant.split("+")
        for (linker, word), reason in CANNOT.items():
            if linker in self.toolchain.name and word in words:
                return reason
        for value in self.source.all("SkipLinker"):
            match = re.fullmatch(r"(\S+)(?: (\S+))? \((.*)\)", value)
            assert match, f"{self.source.path}: SkipLinker without a reason"
            linker, word, reason = match.groups()
            if linker in self.toolchain.name and (word is None or word in words):
                return reason
        return None


SOURCES = [parse(path) for path in sorted(CORPUS.rglob("*")) if path.suffix in (".c", ".cc", ".S")]
CASES = [Case(source, variant, chain) for source in SOURCES for variant in source.variants for chain in TOOLCHAINS]
