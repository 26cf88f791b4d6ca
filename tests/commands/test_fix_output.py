"""`hugealign fix -o OUT`: the message names the file that is at fault."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, PYTHON, run


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("missing/out", "No such file or directory"),
        ("directory", "not a regular file"),
        ("fifo", "not a regular file"),
        ("file/out", "Not a directory"),
        ("new/", "Is a directory"),
        ("new/.", "Is a directory"),
        ("x" * 300, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_output_at_fault(out: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(os.listdir(tmp_path))
    words = (HUGEALIGN, "fix", PYTHON, "--page-size=64K", "-o", out)
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: {out}: cannot be written: {reason}\n"
    (error,) = json.loads(run(*words, "--format=json", cwd=tmp_path).stdout)["errors"]
    assert error == {"target": out, "message": f"cannot be written: {reason}", "refused": False}
    assert sorted(os.listdir(tmp_path)) == before
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_input_at_fault(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")
    done = run(HUGEALIGN, "fix", tmp_path / "missing", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: {tmp_path}/missing: No such file or directory\n"
    assert (tmp_path / "out").read_text() == "kept"


def test_output_that_is_the_input(tmp_path: Path) -> None:
    whole = shutil.copy(PYTHON, tmp_path / "program")
    for out in ("./program", "program/", "../" + tmp_path.name + "/program//"):
        done = run(HUGEALIGN, "fix", whole, "-o", out, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, "hugealign: error: OUT is FILE itself; use --in-place\n")
    assert Path(whole).read_bytes() == PYTHON.read_bytes()


def test_a_report_is_not_written_where_only_a_directory_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for out, reason in (("new/", "Is a directory"), ("file/", "Not a directory"), ("new/.", "Is a directory")):
        done = run(HUGEALIGN, "verify", "-o", out, PYTHON, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (3, f"hugealign: error: {out}: cannot be written: {reason}\n")
    assert (os.listdir(tmp_path), (tmp_path / "file").read_text()) == (["file"], "kept")
