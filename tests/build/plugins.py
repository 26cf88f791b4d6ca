"""What tests of the LLVM pass plugin share: the plugin as a user builds it, order files, and what came out."""

import fcntl
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hugealign import orderfile
from hugealign.orderfile import Entry, OrderFile
from tests.build.projects import Settings
from tests.support import HUGEALIGN, Elf, environment, run

VERSIONS = ("14", "19")


@dataclass(frozen=True, slots=True)
class Built:
    """The plugin for one LLVM."""

    major: str
    prefix: Path
    plugin: Path
    cache: Path

    @property
    def clang(self) -> str:
        return f"clang-{self.major}"

    def compile(self, source: Path, *words: object, order: Path | None, **settings: str) -> Path:
        """Compile *source* beside itself, with the plugin; *order* is the order file."""
        target = source.with_suffix(".o")
        profile = {"HUGEALIGN_PROFILE": str(order)} if order else {}
        language = self.clang.replace("clang", "clang++") if source.suffix == ".cc" else self.clang
        command = (language, "-O1", *words, f"-fpass-plugin={self.plugin}", "-c", source, "-o", target)
        done = run(*command, env=environment(**profile, **settings), check=True)
        assert done.stderr == ""
        return target


def missing(major: str) -> str | None:
    """What is not installed for the plugin of this LLVM."""
    prefix = f"/usr/lib/llvm-{major}"
    needed = {
        f"clang-{major}": f"{prefix}/bin/clang",
        f"llvm-{major}-dev": f"{prefix}/lib/cmake/llvm/LLVMConfig.cmake",
        f"lld-{major}": f"{prefix}/bin/ld.lld",
    }
    if not shutil.which("cmake"):
        return "cmake"
    return next((package for package, path in needed.items() if not os.path.exists(path)), None)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users' cache, one for all processes of the tests: a build takes ten seconds."""
    base = tmp_path_factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "plugins"
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture(
    params=[pytest.param(major, marks=pytest.mark.matrix if major != "19" else ()) for major in VERSIONS],
    scope="session",
)
def built(request: pytest.FixtureRequest, cache: Path) -> Built:
    """The plugin for each LLVM, built as a user does it."""
    return build(request.param, cache)


@pytest.fixture(scope="session")
def newest(cache: Path) -> Built:
    return build("19", cache)


def build(major: str, cache: Path) -> Built:
    if package := missing(major):
        pytest.skip(f"{package} is not installed")
    # What users set for their own builds means nothing to this one.
    theirs: Settings = {"CC": "nowhere", "CXX": "nowhere", "CXXFLAGS": "--nonsense", "CMAKE_GENERATOR": "Nonsense"}
    where = cache / f"plugin-{major}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not where.exists():
            done = run(HUGEALIGN, "plugin", "build", f"clang-{major}", XDG_CACHE_HOME=str(cache), **theirs)
            assert (done.returncode, done.stderr) == (0, "")
            where.write_text(done.stdout.rstrip("\n"))
    return Built(major, Path(f"/usr/lib/llvm-{major}"), Path(where.read_text()), cache)


def order_file(path: Path, *entries: Entry) -> Path:
    path.write_bytes(orderfile.write(OrderFile({}, entries)).encode("utf-8", "surrogateescape"))
    return path


def hot_sections(path: Path) -> set[str]:
    return {name.removeprefix(".text.hot.") for name in Elf(path).sections if name.startswith(".text.hot.")}


def functions(path: Path, section: str | None = None) -> list[str]:
    """The names of the functions in the order of their addresses, without ThinLTO's suffixes."""
    index = None
    if section is not None:
        listed = run("readelf", "-SW", path, check=True).stdout
        match = re.search(rf"\[ *(\d+)\] {re.escape(section)} ", listed)
        if not match:
            return []
        index = match[1]
    rows = [line.split() for line in run("readelf", "-sW", path, check=True).stdout.splitlines()]
    named = {(int(r[1], 16), r[7]) for r in rows if len(r) == 8 and r[3] == "FUNC" and index in (None, r[6])}
    return [name.partition(".llvm.")[0] for _, name in sorted(named)]
