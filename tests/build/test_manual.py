"""Each block of shell commands in the manual is run, or says why it is not."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.build.manual import DOCUMENTS, PLACES, Block, blocks, emulates, traced
from tests.support import ROOT, environment, need

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_says_how_it_is_run(block: Block) -> None:
    if block.how == "run in":
        assert block.what in PLACES
    elif block.how == "run by":
        assert Path(block.document).name in (ROOT / block.what).read_text(encoding="utf-8")
    else:
        assert block.how == "not run", "no line before it says how it is run: see tests/build/manual.py"
        assert len(block.what.split()) >= 3, "why?"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each directory that blocks run in, once."""
    need("autoreconf", "clang-19", "cmake", "dpkg-deb", "meson", "ninja", "perf")
    made = {}
    for name, make in PLACES.items():
        made[name] = tmp_path_factory.mktemp(name)
        make(made[name])
    return made


@pytest.mark.matrix
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.how == "run in"], ids=str)
def test_run(block: Block, places: dict[str, Path], tmp_path: Path) -> None:
    if traced(block) and not emulates():
        pytest.skip("qemu-x86_64 is missing, or takes no plugins")
    directory = tmp_path / "here"
    shutil.copytree(places[block.what], directory, symlinks=True)
    words = ["bash", "-e", "-o", "pipefail", "-c", block.commands]
    env = environment(XDG_CACHE_HOME=f"{directory}/cache")
    with subprocess.Popen(
        words,
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            output, _ = shell.communicate()
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    print(f"{block}\n{output}")  # `make test-fresh` keeps it, to be read
    assert shell.returncode == 0, output
    assert "warning" not in output, output
