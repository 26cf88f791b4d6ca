"""Where /proc is not mounted, as in some chroots, commands say that, and do not call files missing that are there."""

import subprocess
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, PYTHON, environment, worded


def without_proc(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    words = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none /proc && {script}"]
    done = subprocess.run(words, cwd=place, env=environment(), capture_output=True, text=True, check=False)
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    return done


@pytest.mark.parametrize("words", ["fix --dry-run", "warm --check", "verify --config=/dev/null"])
def test_a_file_to_read(words: str, tmp_path: Path) -> None:
    done = without_proc(f"{HUGEALIGN} {words} {PYTHON}", tmp_path)
    output = done.stdout + done.stderr
    assert "No such file" not in output
    if not words.startswith("verify"):  # which needs no /proc
        assert (done.returncode, output) == (3, f"hugealign: error: {PYTHON}: {worded('machine.no-proc')}\n")


def test_a_file_to_write(tmp_path: Path) -> None:
    done = without_proc(f"{HUGEALIGN} verify --config=/dev/null {PYTHON} -o report", tmp_path)
    assert (done.returncode, done.stderr) == (
        3,
        f"hugealign: error: report: cannot be written: {worded('machine.no-proc')}\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["top", "top --format prometheus", "ps 1", "ps sh", "adapt 1", "advise 1"])
def test_processes_to_look_at(words: str, tmp_path: Path) -> None:
    """Numbers would say that there is nothing to gain, and "no process 1" that it is gone."""
    done = without_proc(f"{HUGEALIGN} {words}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"hugealign: error: {worded('machine.no-proc')}\n")
