"""`hugealign fix -o OUT`: the message names the file that is at fault."""

import contextlib
import fcntl
import json
import os
import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, PYTHON, advised, environment, run, worded


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("missing/out", "No such file or directory"),
        ("directory", worded("file.special")),
        ("fifo", worded("file.special")),
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
    (error,) = json.loads(run(*words, "--json", cwd=tmp_path).stdout)["errors"]
    assert error == {"target": out, "message": f"cannot be written: {reason}", "diagnosis": None}
    assert sorted(os.listdir(tmp_path)) == before
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_input_at_fault(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("kept")
    done = run(HUGEALIGN, "fix", tmp_path / "missing", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"hugealign: error: {tmp_path}/missing: {worded('file.unreadable', error='ENOENT')}")
    assert (tmp_path / "out").read_text() == "kept"


def test_standard_output_leaves_no_file_behind(tmp_path: Path) -> None:
    """However it ends: what is written first has no name."""
    (tmp_path / "t").mkdir()
    words, place = [str(HUGEALIGN), "fix", str(PYTHON), "-o", "-"], environment(TMPDIR=str(tmp_path / "t"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place) as blocked:
        assert blocked.stdout
        assert blocked.stdout.read(4) == b"\x7fELF"  # more of it than a pipe holds is still to come
        assert os.listdir(tmp_path / "t") == []
        blocked.terminate()
        blocked.communicate()
    assert os.listdir(tmp_path / "t") == []


def test_no_room_for_what_goes_to_standard_output(tmp_path: Path) -> None:
    script = f"mount -t tmpfs -o size=1M none {tmp_path} && {HUGEALIGN} fix {PYTHON} -o -"
    done = run("unshare", "-rm", "sh", "-c", script, TMPDIR=str(tmp_path))
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    reason = f"no temporary file in {tmp_path}: No space left on device; set TMPDIR to another directory"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"hugealign: error: {reason}\n")


def test_the_limit_that_is_in_the_way_is_named(tmp_path: Path) -> None:
    for words in ("--dry-run", f"-o {tmp_path}/out"):
        done = run("sh", "-c", f"ulimit -f 1000; exec {HUGEALIGN} fix {words} {PYTHON}")
        reason = f"{worded('file.size-limit')}; {advised('raise-limit')}"
        assert (done.returncode, done.stdout, done.stderr) == (3, "", f"hugealign: error: {PYTHON}: {reason}\n")
    assert os.listdir(tmp_path) == []


def _opened(pid: int) -> set[str]:
    """Return what a process has open; a descriptor that it closes meanwhile is left out."""
    paths = set()
    for name in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            paths.add(os.readlink(name))
    return paths


def test_a_file_that_goes_while_it_is_waited_for(tmp_path: Path) -> None:
    """It is named, and the others are fixed."""
    gone, other = (Path(shutil.copy(PYTHON, tmp_path / name)) for name in ("gone", "other"))
    words = [str(HUGEALIGN), "fix", "--in-place", "--page-size=64K", "--json", str(gone), str(other)]
    with gone.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as waiting:
            end = time.monotonic() + 100
            while str(gone) not in _opened(waiting.pid) and time.monotonic() < end:
                time.sleep(0.01)
            gone.unlink()
            fcntl.flock(held, fcntl.LOCK_UN)
            output, _ = waiting.communicate()
    document = json.loads(output)
    (error,) = document["errors"]
    assert (waiting.returncode, error["target"]) == (3, str(gone))
    assert error["diagnosis"]["facts"] == {"error": "ENOENT"}
    assert [done["path"] for done in document["files"]] == [str(other)]


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


def test_growth_is_bounded(tmp_path: Path) -> None:
    """Three short texts, each in a window of 1 GiB of its own."""
    lines = [".globl _start", "_start:"]
    for n in range(3):
        lines += [f'.section .text{n},"ax"', ".fill 600000, 1, 0xc3"]
    (tmp_path / "texts.s").write_text("\n".join([*lines, ""]))
    run("as", "texts.s", "-o", "texts.o", cwd=tmp_path, check=True)
    starts = [f"--section-start=.text{n}={(2 * n + 1) << 30:#x}" for n in range(3)]
    run("ld", "-Ttext-segment=0x40000000", *starts, "texts.o", "-o", "texts", cwd=tmp_path, check=True)
    words = ["prlimit", f"--as={2 << 30}", HUGEALIGN, "fix", "--dry-run", "--page-size=1G", "texts"]
    done = run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert worded("fix.grows", limit=2 << 30) in done.stderr
