"""Huge text in containers of podman and crun, whose images lie on a file system that keeps no huge folios."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import filesystems
from tests.live import stock as stocks
from tests.live.booted import debian
from tests.live.filesystems import MissingError
from tests.live.podman import Podman, huge_kib
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, hugealign

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"
RUN = ("/opt/hugealign/bin/hugealign", "run", "--")


class Engine(Podman):
    """Podman with images of its own at *place*."""

    def __init__(self, place: Path, state: str) -> None:
        super().__init__("--root", place / "root", "--runroot", state, "--storage-driver", "vfs")

    def huge_kib(self, *words: str | Path) -> tuple[int, str, str]:
        """Run a container; return the KiB of its text on huge pages, what `hugealign ps` says, and what it says."""
        name, pid, said = self.start(*words)
        try:
            return huge_kib(pid), hugealign("ps", str(pid)).stdout, said
        finally:
            self.run("rm", "--force", "--time=0", name)


@pytest.fixture(scope="module")
def engine(built: Programs) -> Iterator[Engine]:
    if os.geteuid():
        pytest.skip("root is needed")
    if missing := [name for name in ("podman", "crun") if not shutil.which(name)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    work = built.directory / "containers"
    work.mkdir()
    # In a place of its own: podman wants a name of 50 characters at most.
    with tempfile.TemporaryDirectory(prefix="huge-") as state:
        yield from _engine(built, work, state)


def _engine(built: Programs, work: Path, state: str) -> Iterator[Engine]:
    try:
        with filesystems.mounted("btrfs", work, size=4 << 30) as at:
            podman = Engine(at, state)
            podman.run("import", "--quiet", debian(()), "base")
            name = podman.run("create", "base", "true")
            package = work / "hugealign"
            for part in ("bin", "hugealign"):
                shutil.copytree(ROOT / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
            podman.run("cp", package, f"{name}:/opt/hugealign")
            podman.run("cp", built.good, f"{name}:{SERVER}")
            podman.run("commit", "--quiet", name, "server")
            yield podman
    except MissingError as error:
        pytest.skip(str(error))


def test_entrypoint_of_an_ordinary_user(engine: Engine) -> None:
    huge, ps, said = engine.huge_kib("--user=65534", "server", *RUN, SERVER, "5")
    assert (huge, said) == (ALL, "ready")
    assert ps.endswith("all 3 windows are huge\n")


def test_entrypoint_of_root(engine: Engine) -> None:
    """Root of a container may not mount, and says so; with CAP_SYS_ADMIN it may."""
    huge, _, said = engine.huge_kib("server", *RUN, SERVER, "5")
    assert (huge, "not staged: no right to mount" in said) == (0, True)
    huge, _, _ = engine.huge_kib("--cap-add=SYS_ADMIN", "server", *RUN, SERVER, "5")
    assert huge == ALL


def test_copy_in_memory(engine: Engine) -> None:
    words = ("/opt/hugealign/bin/hugealign", "run", "--how=copy", "--", SERVER, "5")
    huge, _, _ = engine.huge_kib("--read-only", "server", *words)
    assert huge == ALL


def test_image_that_nobody_changes(engine: Engine, built: Programs) -> None:
    """The host stages the file and gives it to the container as a volume."""
    with stocks.store(built.directory) as store:
        program = built.copy("of-an-image")
        assert hugealign("stage", "--store", store, program).returncode == 0
        volume = f"{store}/path{program}:{SERVER}:ro"
        huge, ps, _ = engine.huge_kib("--volume", volume, "server", SERVER, "5")
        assert huge == ALL
        assert ps.endswith("all 3 windows are huge\n")
