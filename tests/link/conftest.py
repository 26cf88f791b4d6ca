"""Objects that the link tests share, compiled once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.link.bulk import LARGE, MAIN, bulk_object
from tests.support import SRC, TOOLCHAINS, Toolchain, run


@pytest.fixture(scope="session", autouse=True)
def no_plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An LLVM plugin that was built for the user has no part in these tests; tests/build has it in its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("no-plugin")))
        yield


@pytest.fixture(scope="session")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object with 2.9 MiB of text."""
    return bulk_object(tmp_path_factory.mktemp("bulk"))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object with 4.4 MiB of text: its links are started before Python has loaded."""
    return bulk_object(tmp_path_factory.mktemp("large"), LARGE)


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ program that tries everything, as a position-independent object."""
    target = tmp_path_factory.mktemp("features") / "features.o"
    run("g++", "-O1", "-fPIC", "-c", SRC / "features.cc", "-o", target, check=True)
    return target


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """An object with a main that runs the bulk and returns 0 if all is well."""
    (tmp_path / "main.c").write_text(MAIN)
    run("gcc", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    return tmp_path / "main.o"


@pytest.fixture(params=TOOLCHAINS, ids=lambda toolchain: toolchain.name)
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    """Each compiler with each linker."""
    chosen: Toolchain = request.param.needed()
    return chosen


@pytest.fixture(scope="session")
def toolchains() -> dict[str, Toolchain]:
    """All of them, by name."""
    return {toolchain.name: toolchain for toolchain in TOOLCHAINS}
