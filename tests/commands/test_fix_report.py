"""`hugealign fix --dry-run DIR`: trees of any depth, and what cannot be looked at."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, PYTHON, run, worded


def test_a_deep_tree(tmp_path: Path) -> None:
    """Deeper than Python recurses; the file at the end is found."""
    deep = tmp_path
    try:
        for _ in range(1005):
            deep /= "d"
            deep.mkdir()
        shutil.copy(PYTHON, deep / "program")
        done = run(HUGEALIGN, "fix", "--dry-run", "--page-size=64K", "--max-executable=1G", "d", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\n1 file would gain " in done.stdout
    finally:
        run("rm", "-rf", tmp_path / "d", check=True)  # pytest's own clean-up recurses, too


def test_what_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    ordinary = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
    (tmp_path / "private").mkdir(mode=0)
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (
        ("private", worded("file.unreadable", error="EACCES")),
        ("private/program", worded("file.unreadable", error="EACCES")),
        ("missing", worded("file.unreadable", error="ENOENT")),
        ("loop", worded("file.unreadable", error="ELOOP")),
    ):
        done = run(*ordinary, HUGEALIGN, "fix", "--dry-run", name, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"hugealign: error: {name}: {reason}\n"
