"""A list of blocks is for one target; where more than its words can give clang another, it gets no list."""

import shutil
from pathlib import Path

import pytest

from hugealign import orderfile
from tests.build.projects import Settings
from tests.support import HUGEALIGN, run

WAYS = {
    "name": ("wasm32-clang",),
    "configuration": ("clang-19", "--config=./words"),
    "configuration in two words": ("clang-19", "--config", "./words"),
    "response file": ("clang-19", "@words"),
    "environment": ("clang-19",),
}


@pytest.mark.skipif(not shutil.which("clang-19"), reason="no clang-19")
@pytest.mark.parametrize("way", WAYS)
def test_a_target_that_has_no_such_sections(way: str, tmp_path: Path) -> None:
    """The list of the native target is there already."""
    entries = [orderfile.Entry("second", blocks=(0, 2))]
    (tmp_path / "order").write_text(orderfile.write(orderfile.OrderFile({"blocks": "of 1"}, entries)))
    (tmp_path / "one.c").write_text("int second(int x) { return x ? x * 3 : 4; }\n")
    (tmp_path / "words").write_text("--target=wasm32\n")
    (tmp_path / "wasm32-clang").symlink_to(shutil.which("clang-19") or "")
    settings: Settings = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    front = (HUGEALIGN, "--profile=order")
    run(*front, "clang-19", "-O2", "-c", "one.c", cwd=tmp_path, check=True, **settings)
    assert list((tmp_path / "cache").rglob("*.list"))
    more: Settings = {"CCC_OVERRIDE_OPTIONS": "#+--target=wasm32"} if way == "environment" else {}
    done = run(*front, *WAYS[way], "-O2", "-c", "one.c", "-o", "one.o", cwd=tmp_path, **settings, **more)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.o").read_bytes()[:4] == b"\0asm"
