"""What `warm` and `warm --undo` do where things are wrong: a clear line each, and no file changed."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.io import regular
from hugealign.io.libc import libc
from hugealign.pagecache import diagnose, warming
from hugealign.pagecache import measure as pagecache
from hugealign.system import kernel, memory
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, hugealign, running
from tests.support import refused, worded


@pytest.fixture
def cold(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = programs.copy(f"bad-{request.node.name.partition('[')[0]}")
    yield path
    path.unlink()


@pytest.mark.parametrize("command", [("warm",), ("warm", "--undo")])
def test_files_of_the_kernel(command: tuple[str, ...]) -> None:
    cases = {
        "/proc/self/maps": worded("file.empty"),  # its length is not known before it is read
        "/sys/kernel/mm/transparent_hugepage/enabled": worded("file.not-elf"),
        "/dev/null": worded("file.special"),
        "/proc/self/fd": worded("file.special"),
        "/proc/self/mem": worded("file.empty"),
    }
    for path, message in cases.items():
        done = hugealign(*command, path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"hugealign: error: {path}: {message}\n"


def test_file_that_cannot_be_mapped(tmp_path: Path) -> None:
    # The files of the kernel that cannot be mapped hold no ELF.  A directory stands for them: the same error.
    fd = os.open(tmp_path, os.O_RDONLY)
    with refused("file.unreadable", error="ENODEV"):
        pagecache.measure(fd, [0])
    os.close(fd)


@pytest.mark.parametrize(
    "command", [("warm",), ("warm", "--check"), ("warm", "--libs"), ("warm", "--replace"), ("warm", "--undo")]
)
def test_sparse_file_of_ten_gigabytes(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    done = hugealign(*command, path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: {path}: {worded('file.not-elf')}\n"


def test_address_space_that_is_small(cold: Path) -> None:
    def limited(mib: int, *words: object) -> subprocess.CompletedProcess[str]:
        # By a shell: ours would need the memory between fork and exec.
        command = ["sh", "-c", f'ulimit -v {mib << 10} && exec "$0" "$@"', sys.executable, *map(str, words)]
        return subprocess.run(command, check=False, capture_output=True, cwd=ROOT, text=True)

    # Python's compiler takes a want of memory for a syntax error: everything is to be compiled before.
    assert hugealign("warm", "--libs", cold).returncode == 0
    # What Python needs to start with what the command imports, and then a little more each time.
    imports = (
        "import runpy, json, struct, locale, shutil, hugealign.system.libraries, hugealign.pagecache.report, "
        "hugealign.fixing.remedies, hugealign.cli.warm"
    )
    least = next(mib for mib in range(10, 400, 4) if limited(mib, "-c", imports).returncode == 0)
    statuses = []
    for more in (0, 3, 6, 10, 40, 300):
        done = limited(least + more, "-m", "hugealign", "warm", "--libs", cold)
        assert done.returncode in (0, 3)
        assert "Traceback" not in done.stderr
        assert ("ulimit -v" in done.stderr) == (done.returncode == 3)
        assert (f"{WINDOWS} of {WINDOWS} windows huge" in done.stdout) == (done.returncode == 0)
        statuses.append(done.returncode)
    assert {0, 3} == set(statuses)


def test_windows_in_small_batches(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, sizes = libc().mmap, []

    def stingy(address: int | None, length: int, *rest: int) -> int:
        if address is None:
            sizes.append(length)
            if length > 3 * WINDOW:
                return -1 & (1 << 64) - 1
        return int(real(address, length, *rest))

    monkeypatch.setattr(libc(), "mmap", stingy)
    with regular.opened(str(cold)) as fd:
        offsets = pagecache.text_windows(fd)
        assert pagecache.measure(fd, offsets) == [False] * WINDOWS
        assert max(sizes) > min(sizes) == 3 * WINDOW
        monkeypatch.setattr(libc(), "mmap", lambda *_: -1 & (1 << 64) - 1)
        with refused("memory.address-space", size=3 * WINDOW):
            pagecache.measure(fd, offsets)


@pytest.fixture
def group() -> Iterator[Path]:
    """The directory of a memory control group of our own, of either version."""
    for top, name in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
        directory = top / f"hugealign-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            directory.mkdir()
            if (directory / name).exists():
                yield directory
                time.sleep(0.1)
                directory.rmdir()
                return
            directory.rmdir()
    pytest.skip("no memory control group can be made here")


def in_group(group: Path, limit: int) -> tuple[str, ...]:
    name = "memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max"
    (group / name).write_text(str(limit))
    return ("sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh")


@pytest.fixture
def large(programs: Programs) -> Path:
    """A program of 32 MiB of text."""
    directory = programs.directory
    text = '.text\n.globl walk\n.balign 0x200000\nwalk: .fill 32 << 18, 4, 0\n.section .note.GNU-stack,"",%progbits\n'
    (directory / "large.s").write_text(text)
    words = "gcc -fuse-ld=bfd main.o large.s -o large -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
    subprocess.run(words.split(), cwd=directory, check=True)
    return directory / "large"


def warmed(group: Path, limit: int, *words: str | Path) -> dict[str, Any]:
    """Return what ``warm`` says of one file, or the error that it says instead, in a *group* of so many bytes."""
    result = json.loads(hugealign("warm", "--json", *words, prefix=in_group(group, limit)).stdout)
    every: list[dict[str, Any]] = result["files"] + result["errors"]
    assert len(every) == 1
    return every[0]


def test_control_group_that_may_not_use_as_much(group: Path, large: Path) -> None:
    result = warmed(group, 30 << 20, large)["diagnosis"]
    assert (result["code"], result["facts"]["room"], result["remedy"]["kind"]) == (
        "memory.few",
        30 << 20,
        "raise-limit",
    )
    assert warmed(group, 30 << 20, "--windows", "2", large)["windows_huge"] == 2
    assert warmed(group, 1 << 30, large)["diagnosis"] is None


def test_control_group_that_is_too_small_for_all(group: Path, large: Path) -> None:
    for limit in range(42, 35, -1):
        hugealign("warm", "--undo", large)
        fd = os.open(large, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        result = warmed(group, limit << 20, large)
        if result["diagnosis"]:
            break
    else:
        pytest.skip("no limit was met")
    assert (result["diagnosis"]["code"], result["diagnosis"]["facts"]) == ("memory.limit", {"limit": limit << 20})
    assert result["diagnosis"]["remedy"]["kind"] == "raise-limit"
    assert result["windows_huge"] < result["windows"]
    assert warmed(group, 1 << 30, large)["diagnosis"] is None


def interrupted(path: Path, number: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run hugealign and send it a signal while it reads the first window."""
    code = f"""
import os, sys
from hugealign import cli
from hugealign.pagecache import warming
real = warming.touch
def touch(*arguments):
    real(*arguments)
    os.kill(os.getpid(), {number})
warming.touch = touch
sys.exit(cli.main({[*words, str(path)]!r}))
"""
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT)


def test_signals_in_the_middle(cold: Path) -> None:
    content, before = cold.read_bytes(), cold.stat()
    done = interrupted(cold, signal.SIGINT, "warm")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hugealign: interrupted\n")
    assert hugealign("warm", "--undo", cold).returncode == 0
    done = interrupted(cold, signal.SIGTERM, "warm")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "", "")
    with running(cold, "5"):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            interrupted(cold, number, "warm", "--replace")
    assert not [name for name in os.listdir(cold.parent) if name.startswith(".hugealign")]
    assert cold.read_bytes() == content
    assert (cold.stat().st_ino, cold.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


@pytest.mark.parametrize("size", [0, 100, WINDOW, WINDOW + 5000])
def test_file_that_shrinks_while_we_look(cold: Path, size: int) -> None:
    code = f"""
import os, sys
from hugealign import cli
from hugealign.io import regular
from hugealign.pagecache import measure as pagecache, warming
def shrink(real):
    def wrapper(*arguments):
        os.truncate({str(cold)!r}, {size})
        return real(*arguments)
    return wrapper
for module, name in ((pagecache, "touch"), (warming, "touch"), (warming, "measure")):
    setattr(module, name, shrink(getattr(module, name)))
sys.exit(cli.main([*sys.argv[1:], {str(cold)!r}]))
"""
    for command in (("warm",), ("warm", "--undo")):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], check=False, capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode in (0, 1, 3)  # a SIGBUS would be -7
        assert "Traceback" not in done.stderr


def test_pages_that_are_being_written(cold: Path) -> None:
    if kernel.file_system(cold.stat().st_dev) == "tmpfs":
        pytest.skip("tmpfs writes nothing")
    # A process that writes the same bytes again and again.
    code = f"""
import os
fd = os.open({str(cold)!r}, os.O_RDWR)
places = range({WINDOW}, {(1 + WINDOWS) * WINDOW}, {WINDOW // 8})
pages = [(os.pread(fd, 4096, place), place) for place in places]
print(flush=True)
while True:
    for page, place in pages:
        os.pwrite(fd, page, place)
"""
    with (
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer,
        regular.opened(str(cold)) as fd,
    ):
        try:
            assert writer.stdout
            writer.stdout.readline()
            if pagecache.cache_state(fd, 0, WINDOW) is None:
                pytest.skip("this kernel has no cachestat")
            reason = diagnose.after_warming(fd, str(cold), warming.Warmth((False,) * WINDOWS), 0)
        finally:
            writer.kill()
            writer.wait()
        assert (reason.code, reason.facts["process"]) == ("cache.open-for-writing", writer.pid)
        assert str(reason.facts["name"]).startswith("python")
        # Written, but not yet on disk: what is kept says so, if the request is in time.
        kept = pagecache.CacheState(cached=2, dirty=1, writeback=1)
        reason = diagnose.after_warming(fd, str(cold), warming.Warmth((False,) * WINDOWS, (), kept), 0)
        assert (reason.code, reason.facts) == ("cache.dirty", {"dirty": 2})


def test_cache_state_counts_what_is_not_written(cold: Path) -> None:
    fd = os.open(cold, os.O_RDWR)
    os.fsync(fd)
    os.pread(fd, WINDOW, WINDOW)  # the kernel may have dropped some of it since it was copied
    before = pagecache.cache_state(fd, WINDOW, WINDOW)
    os.pwrite(fd, os.pread(fd, 4096, WINDOW), WINDOW)
    after = pagecache.cache_state(fd, WINDOW, WINDOW)
    os.close(fd)
    if before is None or after is None or kernel.file_system(cold.stat().st_dev) == "tmpfs":
        pytest.skip("no cachestat, or nothing is ever written")
    assert (before.cached, before.dirty, before.writeback) == (WINDOW // 4096, 0, 0)
    assert after.cached == WINDOW // 4096
    assert after.dirty + after.writeback == 1


def test_reasons_without_evidence_of_anything_else(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the kernel says cannot be brought about here: memory is never so fragmented, nor so many kernels at hand.
    with regular.opened(str(cold)) as fd:
        for free, huge, answer, code in (
            (0, 0, 0, "memory.fragmented"),
            (9, 1, 0, "thp.partial"),
            (9, 0, errno.EINVAL, "file-system.no-huge-pages"),
            (9, 0, errno.ENOMEM, "thp.refused"),
            (None, 0, 0, "file-system.no-huge-pages"),
        ):
            monkeypatch.setattr(memory, "free_huge_pages", lambda free=free: free)
            outcome = warming.Warmth((bool(huge), False, False), collapse=answer)
            assert diagnose.after_warming(fd, str(cold), outcome, 1 << 60).code == code
