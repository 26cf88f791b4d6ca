"""The same behaviour as the bare compiler: small programs of every kind, linked with and without hugealign.

The programs are in tests/corpus; tests/corpus/README.md says how a source tells how it is built and what it does.
Of every source its first variant runs with one linker; all variants with all linkers are ``make test-links``.
"""

import hashlib
import os
import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pytest

from tests.support import HUGEALIGN, ROOT, TOOLCHAINS, Elf, Toolchain, run

CORPUS = ROOT / "tests" / "corpus"
DIRECTIVES = frozenset(
    "Args Link Object Archive Library Plugin File Variants Run Expect Output SkipLinker NoLayout".split()
)
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
    ("bfd", "icf"): "GNU ld folds no identical code",
    ("gcc-lld", "lto"): "lld reads no objects of GCC's link-time optimiser",
}
#: The linkers that `make test` takes in turn.
TURNS = ("gcc-bfd", "clang19-lld19", "gcc-mold", "gcc-lld14", "gcc-gold", "clang14-lld14")


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """A source file and its directives."""

    path: Path
    directives: dict[str, list[str]]

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
        name = self.source.path.relative_to(CORPUS).with_suffix("")
        return f"{name}-{self.variant}-{self.toolchain.name}"

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
        if missing := self.toolchain.missing():
            return f"{missing} is not installed"
        words = self.variant.split("+")
        for (linker, word), reason in CANNOT.items():
            if linker in self.toolchain.name and word in words:
                return reason
        for value in self.source.all("SkipLinker"):
            found = re.fullmatch(r"(\S+)(?: (\S+))? \((.*)\)", value)
            assert found, f"{self.source.path}: SkipLinker without a reason"
            linker, word, reason = found.groups()
            if linker in self.toolchain.name and (word is None or word in words):
                return reason
        return None


class Checker:
    """Builds and compares; *directory* keeps the objects, which do not depend on the linker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.locks: defaultdict[str, Lock] = defaultdict(Lock)

    def compiled(self, case: Case, define: str | None = None, pic: bool = False) -> Path:
        """The object of the source, or of the part of it that *define* names."""
        std = {".c": ["-std=gnu99"], ".cc": ["-std=gnu++17"]}.get(case.source.path.suffix, [])
        argv = [case.compiler, "-c", *"-Wall -Wextra -Werror".split(), *std, "-fPIC" if pic else MODES[case.mode()]]
        argv += [*case.source.words("Args"), *case.flags(link=False), *([f"-D{define}"] if define else [])]
        name = hashlib.sha1(f"{argv} {case.source.path}".encode(), usedforsecurity=False).hexdigest()
        target = self.directory / f"{name}.o"
        with self.locks[name]:
            if not target.exists():
                run(*argv, case.source.path, "-o", target, check=True)
        return target

    def link(self, case: Case, where: Path, *wrapper: Path) -> list[tuple[object, ...]]:
        """Link everything there is in *where*; return what each link printed and its status."""
        source, inputs = case.source, [self.compiled(case)]
        done: list[tuple[object, ...]] = []
        where.mkdir()
        for value in source.all("File"):
            name, _, text = value.partition(" ")
            (where / name).write_text(text + "\n")
        inputs += [self.compiled(case, name) for name, *_ in source.parts("Object")]
        for name, *_ in source.parts("Archive"):
            run("ar", "rcs", where / f"lib{name}.a", self.compiled(case, name), check=True)

        def run_link(*words: object) -> None:
            argv = (*wrapper, case.compiler, *case.toolchain.flags, *case.flags(link=True), *words)
            result = run(*argv, cwd=where, HUGEALIGN_MIN_TEXT="0", HUGEALIGN_PAD_THRESHOLD="0")
            done.append((result.returncode, result.stdout, result.stderr))

        libraries = source.parts("Library")
        for name, *words in libraries + source.parts("Plugin"):
            named = (f"-Wl,-soname,lib{name}.so", "-Wl,-rpath,$ORIGIN", "-o", f"lib{name}.so")
            run_link("-shared", self.compiled(case, name, pic=True), *named, *words)
        inputs += [Path(f"lib{name}.so") for name, *_ in libraries]
        path = ["-Wl,-rpath,$ORIGIN"] if source.parts("Library", "Plugin") else []
        run_link(f"-{case.mode()}", *inputs, *path, *source.words("Link"), "-o", "program")
        return done

    def check(self, case: Case) -> None:
        """Assert that hugealign changes nothing but the layout, and that it does change that."""
        source = case.source
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            plain, wrapped = Path(directory) / "plain", Path(directory) / "wrapped"
            links = self.link(case, plain)
            assert all(status == 0 for status, *_ in links), f"does not link without hugealign: {links}"
            assert self.link(case, wrapped, HUGEALIGN) == links
            for path in [] if source.all("NoLayout") else [wrapped / "program", *wrapped.glob("*.so")]:
                assert Elf(path).faults(exact=case.toolchain.linker != "gold") == [], path.name
            results = [run("./program", *source.words("Run"), cwd=where) for where in (plain, wrapped)]
            seen = [(done.returncode, done.stdout, done.stderr) for done in results]
            assert seen[1] == seen[0]
            assert seen[0][0] == int((source.all("Expect") or ["0"])[0]), seen
            if source.all("Output") != ["*"]:
                assert seen[0][1].splitlines() == source.all("Output")


SOURCES = [parse(path) for path in sorted(CORPUS.rglob("*")) if path.suffix in (".c", ".cc", ".S")]
MATRIX = [Case(source, variant, chain) for source in SOURCES for variant in source.variants for chain in TOOLCHAINS]


def sample() -> Iterator[Case]:
    """Every source in its first variant, with the next linker in turn that can do it."""
    chains = [chain for name in TURNS for chain in TOOLCHAINS if chain.name == name]
    for turn, source in enumerate(SOURCES):
        start = turn % len(chains)
        cases = [Case(source, source.variants[0], chain) for chain in chains[start:] + chains[:start]]
        yield next((case for case in cases if not case.skip()), cases[0])


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[None]]]:
    """The cases that were asked for, checked in their order on all processors."""
    checker = Checker(tmp_path_factory.mktemp("corpus"))
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = [item.callspec.params["case"] for item in items if "verdicts" in item.fixturenames]
    cases = [case for case in dict.fromkeys(asked) if isinstance(case, Case) and not case.skip()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(checker.check, case) for case in cases}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("case", list(sample()), ids=str)
def test_sample(case: Case, verdicts: dict[Case, Future[None]]) -> None:
    if reason := case.skip():
        pytest.skip(reason)
    verdicts[case].result()


@pytest.mark.matrix
@pytest.mark.parametrize("case", MATRIX, ids=str)
def test_matrix(case: Case, verdicts: dict[Case, Future[None]]) -> None:
    if reason := case.skip():
        pytest.skip(reason)
    verdicts[case].result()


def test_there_are_enough() -> None:
    assert len({(case.source, case.variant) for case in MATRIX}) >= 300
