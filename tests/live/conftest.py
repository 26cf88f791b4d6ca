"""The programs of tests.live.programs, built once."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import stock as stocks
from tests.live.programs import WINDOW, Programs, hugealign


@pytest.fixture(scope="session")
def built() -> Iterator[Programs]:
    # Not pytest's own directory: an ordinary user, as whom some tests run, could not enter it.
    with tempfile.TemporaryDirectory(prefix="hugealign-live-") as name:
        Path(name).chmod(0o755)
        result = Programs(Path(name))
        result.build()
        yield result


@pytest.fixture(scope="session")
def programs(built: Programs) -> Programs:
    """The programs, on a file system that can hold them in huge folios; the test is skipped on any other."""
    pmd = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    if not pmd.exists() or int(pmd.read_text(encoding="ascii")) != WINDOW:
        pytest.skip("the huge page of this kernel is not 2 MiB")
    status = subprocess.run([built.directory / "probe", built.copy("probed")], check=False).returncode
    if status:
        pytest.skip(f"no huge folios on the file system of {tempfile.gettempdir()}")
    return built


@pytest.fixture(scope="session")
def stock(built: Programs) -> Iterator[Path]:
    """A file system that keeps no huge folios, with the programs; the test is skipped without root."""
    if os.geteuid():
        pytest.skip("root is needed to mount a file system without huge folios")
    # Not pytest's own directory, which an ordinary user could not enter.
    work = built.directory / "stock"
    work.mkdir()
    with stocks.stock(built, work) as at:
        if subprocess.run([built.directory / "probe", at / "good"], check=False).returncode == 0:
            pytest.skip("btrfs keeps huge folios on this kernel")
        yield at


@pytest.fixture
def warmed(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A program of the test's own, on huge pages."""
    path = programs.copy(f"w{abs(hash(request.node.nodeid)) % 10**9}")
    assert hugealign("warm", path).returncode == 0
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def store(built: Programs) -> Iterator[Path]:
    with stocks.store(built.directory) as place:
        yield place
