"""docs/guides/python-wheels.md and node-bun-deno.md, typed: what others built, and nobody can link again."""

import subprocess
from pathlib import Path

import pytest

from tests.build.manual import blocks
from tests.link.bulk import bulk_source
from tests.support import ROOT, environment, need, run

SITE = ".venv/lib/python3/site-packages/big"
_TRAIN = """\
import ctypes, glob, time
library = ctypes.CDLL(glob.glob(".venv/lib/*/site-packages/big/libbig.so")[0])
end = time.time() + 3
while time.time() < end:
    library.big_sum()
print("done")
"""
_ADDON = "const end = Date.now() + 500; while (Date.now() < end) { JSON.parse('[1]') } console.log('done')"


def typed(page: str, place: Path) -> list[str]:
    """Type the blocks of *page* that this test runs in *place*, one after the other; return what each prints."""
    found = []
    for block in blocks(ROOT / "docs/guides" / page):
        if block.what.endswith("test_guides.py"):
            done = subprocess.run(
                ["sh", "-ec", f"{block.commands}\nwait"],
                check=False, cwd=place, capture_output=True, text=True, env=environment(), timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, (block, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr
            found.append(done.stdout)
    return found


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library whose linker gave it no window."""
    need("gcc")
    (tmp_path / "bulk.s").write_text(bulk_source())
    made = tmp_path / "libbig.so"
    run("gcc", "-shared", "-fPIC", "-Wl,-z,max-page-size=0x1000", tmp_path / "bulk.s", "-o", made, check=True)
    return made


def test_python_wheels(library: Path, tmp_path: Path) -> None:
    run("/usr/bin/python3", "-m", "venv", "--without-pip", ".venv", cwd=tmp_path, check=True)
    (tmp_path / SITE).mkdir(parents=True)
    (tmp_path / "train.py").write_text(_TRAIN)
    installed = tmp_path / SITE / "libbig.so"
    installed.hardlink_to(library)
    before = library.read_bytes()
    fixed, seen, undone = typed("python-wheels.md", tmp_path)
    assert "libbig.so: 0 -> 2 windows of 2.0 MiB\n" in fixed
    assert "1 had other names (hard links), which keep the old file" in fixed
    assert fixed.endswith("done\n")
    (line,) = [line for line in seen.splitlines() if "libbig.so" in line and "MiB" in line]
    assert "2/2" in line
    assert undone.endswith("1 file restored\n")
    assert installed.read_bytes() == library.read_bytes() == before


def test_node(library: Path, tmp_path: Path) -> None:
    need("node", "npm")
    place = tmp_path / "node_modules/big"
    place.mkdir(parents=True)
    library.rename(place / "big.node")
    (tmp_path / "package.json").write_text('{"name": "a", "scripts": {"start": "node server.js"}}')
    (tmp_path / "server.js").write_text(_ADDON)
    before = (place / "big.node").read_bytes()
    started, undone = typed("node-bun-deno.md", tmp_path)
    assert "big.node: 0 -> 2 windows of 2.0 MiB\n" in started
    assert started.endswith("done\n")
    assert undone.endswith("1 file restored\n")
    assert (place / "big.node").read_bytes() == before
