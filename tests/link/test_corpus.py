"""The same behaviour as the bare compiler: small programs of every kind, linked with and without hugealign.

The programs are in tests/corpus; tests/corpus/README.md says how a source tells how it is built and what it does.
Of every fourth source the first variant runs with one linker; all variants of all with all linkers are ``make
test-links``.
"""

import hashlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

from tests.corpus import CASES, MODES, SOURCES, Case
from tests.support import HUGEALIGN, PAGE, TOOLCHAINS, Elf, run

#: The linkers that `make test` takes in turn.
TURNS = ("gcc-bfd", "clang19-lld19", "gcc-mold", "gcc-lld14", "gcc-gold", "clang14-lld14")
#: `make test` takes one source of so many.
SHARE = 6


class Checker:
    """Builds and compares; *directory* keeps the objects, which do not depend on the linker.

    Programs run behind the words of *runner*, and have windows of *page* bytes; *target* are words for the compiler.
    """

    def __init__(
        self, directory: Path, runner: tuple[str, ...] = (), page: int = PAGE, target: tuple[str, ...] = ()
    ) -> None:
        self.directory, self.runner, self.page, self.target = directory, runner, page, target
        self.locks: defaultdict[str, Lock] = defaultdict(Lock)

    def compiled(self, case: Case, define: str | None = None, pic: bool = False) -> Path:
        """The object of the source, or of the part of it that *define* names."""
        std = {".c": ["-std=gnu99"], ".cc": ["-std=gnu++17"]}.get(case.source.path.suffix, [])
        argv = [
            case.compiler,
            *self.target,
            "-c",
            *"-Wall -Wextra -Werror".split(),
            *std,
            "-fPIC" if pic else MODES[case.mode()],
        ]
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
            result = run(*argv, cwd=where, HUGEALIGN_MIN_TEXT="0")
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
            for path in [wrapped / "program", *wrapped.glob("*.so")]:
                if source.all("NoLayout"):
                    assert path.read_bytes() == (plain / path.name).read_bytes()
                else:
                    assert Elf(path).faults(self.page, exact=case.toolchain.linker != "gold") == [], path.name
                assert Elf(path).lacks(Elf(plain / path.name)) == [], path.name
            words = (*self.runner, "./program", *source.words("Run"))
            results = [run(*words, cwd=where) for where in (plain, wrapped)]
            seen = [(done.returncode, done.stdout, done.stderr) for done in results]
            assert seen[1] == seen[0]
            if self.runner:  # what QEMU's user mode cannot do, it does not do twice
                return
            assert seen[0][0] == int((source.all("Expect") or ["0"])[0]), seen
            if source.all("Output") != ["*"]:
                assert seen[0][1].splitlines() == source.all("Output")


def sample() -> Iterator[Case]:
    """Some sources in their first variants, with the next linker in turn that can do it."""
    chains = [chain for name in TURNS for chain in TOOLCHAINS if chain.name == name]
    for turn, source in enumerate(SOURCES[::SHARE]):
        start = turn % len(chains)
        cases = [Case(source, source.variants[0], chain) for chain in chains[start:] + chains[:start]]
        yield next((case for case in cases if not case.skip()), cases[0])


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[None]]]:
    """The cases that were requested, checked in their order on all processors."""
    checker = Checker(tmp_path_factory.mktemp("corpus"))
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.module is request.module]
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
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matrix(case: Case, verdicts: dict[Case, Future[None]]) -> None:
    if reason := case.skip():
        pytest.skip(reason)
    verdicts[case].result()
