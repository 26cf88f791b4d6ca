"""``hugealign warm`` on this kernel: does a process that requests nothing get huge pages afterwards?"""

import ctypes
import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.io import regular
from hugealign.io.libc import libc
from hugealign.pagecache import measure as pagecache
from hugealign.pagecache import warming
from hugealign.system import kernel
from tests.link.bulk import bulk_object
from tests.live.programs import NO_THP, NOBODY, ROOT, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.support import HUGEALIGN, advised, worded

ALL = f"{WINDOWS} of {WINDOWS} windows huge (6.0 MiB)"
NONE = f"0 of {WINDOWS} windows huge (0 B)"


@pytest.fixture
def cold(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = programs.copy(f"warm-{request.node.name}")
    yield path
    path.unlink()


def test_warm_makes_every_window_huge_in_a_process(cold: Path) -> None:
    with running(cold, "5") as child:
        assert huge_kib(child.pid, cold) == 0
    before = hugealign("warm", "--check", cold)
    assert (before.returncode, before.stdout) == (
        1,
        f"{cold}: {NONE}\n  {worded('cache.not-warmed')}; {advised('run', 'hugealign', 'warm', cold)}\n",
    )
    done = hugealign("warm", cold)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{cold}: {ALL}\n", "")
    with running(cold, "5") as child:
        assert huge_kib(child.pid, cold) == WINDOWS * WINDOW >> 10
    assert hugealign("warm", "--check", cold).returncode == 0


def test_file_that_was_just_written(programs: Programs, cold: Path) -> None:
    image = programs.good.read_bytes()
    with cold.open("wb", buffering=0) as file:
        for start in range(0, len(image), 4096):
            file.write(image[start : start + 4096])
    assert hugealign("warm", cold).stdout == f"{cold}: {ALL}\n"


def test_dirty_pages_are_written_before_the_eviction_that_skips_them(
    cold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: calls.append("evict"))
    with regular.opened(str(cold)) as fd:
        warming.warm(fd, pagecache.text_windows(fd))
    assert calls == ["fsync", *["evict"] * WINDOWS]


def test_file_stays_the_same(cold: Path) -> None:
    cold.chmod(0o555)
    before = cold.read_bytes(), cold.stat()
    assert hugealign("warm", cold).returncode == 0
    after = cold.read_bytes(), cold.stat()
    assert before[0] == after[0]
    assert before[1].st_mtime_ns == after[1].st_mtime_ns
    assert before[1].st_ctime_ns == after[1].st_ctime_ns


def test_windows_is_an_exact_budget(cold: Path) -> None:
    done = hugealign("warm", "--windows", "1", cold)
    assert (done.returncode, done.stdout) == (0, f"{cold}: 1 of 1 windows huge (2.0 MiB)\n")
    with running(cold, "5") as child:
        assert huge_kib(child.pid, cold) == WINDOW >> 10


def test_as_many_windows_as_the_build_meant(programs: Programs) -> None:
    """The order of functions that a program was linked with says how many windows are worth it."""
    directory = programs.directory
    (directory / "meant.order").write_text("# hugealign.order/1\n# windows: 1\nhot\n")
    (directory / "meant.c").write_text(
        "#include <unistd.h>\nint hot(void) { return 7; }\nunsigned big_sum(void);\n"
        "int main(int argc, char **argv) {\n"
        "  return argc > 1 ? pause() : hot() + (big_sum() == 0) + !argv;\n}\n"
    )
    objects = (directory / "meant.c", bulk_object(directory))
    profile = f"--profile={directory / 'meant.order'}"
    meant = directory / "meant"
    subprocess.run([HUGEALIGN, profile, "gcc", *objects, "-o", meant], check=True)
    chill(meant)
    assert hugealign("warm", meant).stdout == (
        f"{meant}: 1 of 1 windows huge (2.0 MiB)\n  {worded('text.windows-meant', windows=1)}\n"
    )
    done = hugealign("ps", "--wait", "10", "--", meant, "pause")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\bmeant\[\d+\]: the one window that its build requests is huge \(it has \d\)\n", done.stdout)
    assert hugealign("warm", "--windows", "2", meant).stdout == f"{meant}: 2 of 2 windows huge (4.0 MiB)\n"
    chill(meant)
    done = hugealign("ps", "--wait", "0.2", "--", meant, "pause")
    assert done.returncode == 1
    assert "0 of 1 windows that its build requests are huge" in done.stdout


def test_check_of_a_file_that_is_not_cached_reads_nothing(cold: Path) -> None:
    if kernel.file_system(cold.stat().st_dev) == "tmpfs":
        pytest.skip("a file on tmpfs is always cached")
    fd = os.open(cold, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert pagecache.measure(fd, [WINDOW, 2 * WINDOW]) == [False, False]
    # Still not cached: now that it is read, it comes in huge folios without any eviction.
    warming.read_in(fd, [WINDOW, 2 * WINDOW])
    assert pagecache.measure(fd, [WINDOW, 2 * WINDOW]) == [True, True]
    os.close(fd)


def test_what_is_huge_is_left_alone(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hugealign("warm", cold).returncode == 0
    with running(cold, "5") as child:
        done = hugealign("warm", cold)
        assert (done.returncode, done.stdout) == (0, f"{cold}: {ALL}\n")
        assert huge_kib(child.pid, cold) == WINDOWS * WINDOW >> 10
    monkeypatch.setattr(os, "posix_fadvise", lambda *_: pytest.fail("evicted a huge window"))
    monkeypatch.setattr(os, "fsync", lambda *_: pytest.fail("nothing to clean"))
    with regular.opened(str(cold)) as fd:
        assert warming.warm(fd, pagecache.text_windows(fd)).huge == (True,) * WINDOWS


def test_ordinary_user_can_warm_a_file_of_another(cold: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("every other test runs as an ordinary user already")
    if subprocess.run([*NOBODY, sys.executable, "-c", "import argparse, ctypes"], check=False).returncode:
        pytest.skip("setpriv or this Python does not run as nobody")
    done = hugealign("warm", cold, prefix=NOBODY)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{cold}: {ALL}\n", "")
    cold.chmod(0o711)
    denied = hugealign("warm", cold, prefix=NOBODY)
    message = f"hugealign: error: {cold}: {worded('file.unreadable', error='EACCES')}\n"
    assert (denied.returncode, denied.stderr) == (3, message)


def test_file_that_shrinks_meanwhile_is_no_crash(cold: Path) -> None:
    code = f"""
import json
import os
from hugealign.system import kernel
from hugealign.io import regular
from hugealign.pagecache import measure as pagecache, warming
with regular.opened({str(cold)!r}) as fd:
    offsets = pagecache.text_windows(fd)
    assert len(offsets) == {WINDOWS}
    os.truncate({str(cold)!r}, 0)
    assert warming.warm(fd, offsets).huge == (False,) * {WINDOWS}
    for windows in pagecache.mapped(fd, offsets):
        pagecache.touch(windows[0][1])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0  # a SIGBUS would be -7


def test_parent_that_disabled_huge_pages_does_not_hide_them(cold: Path) -> None:
    assert hugealign("warm", cold, prefix=NO_THP).stdout == f"{cold}: {ALL}\n"


def test_tmpfs(programs: Programs) -> None:
    if not os.access("/dev/shm", os.W_OK) or os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC:
        pytest.skip("no /dev/shm where programs may run")
    path = Path(f"/dev/shm/hugealign-test-{os.getpid()}")
    try:
        path.write_bytes(programs.good.read_bytes())
        path.chmod(0o755)
        if subprocess.run([programs.directory / "probe", path], check=False).returncode:
            pytest.skip("this kernel does not collapse pages of tmpfs")
        assert hugealign("warm", path).stdout == f"{path}: {ALL}\n"
        with running(path, "5") as child:
            assert huge_kib(child.pid, path) == WINDOWS * WINDOW >> 10
    finally:
        path.unlink(missing_ok=True)


@pytest.fixture
def mounted(cold: Path, tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """Make the words that run a command where ``/mnt/good`` lies on an ext4 mounted with the options given."""
    image = tmp_path / "ext4"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    script = f'mount -o loop,"$0" {image} /mnt && cp {cold} /mnt/good && sync && exec "$@"'

    def prefix(options: str) -> tuple[str, ...]:
        words = ("unshare", "-m", "sh", "-c", script, options)
        for command in (("mkfs.ext4", "-qF", image), (*words, "true")):
            if not shutil.which(command[0]) or subprocess.run(command, check=False, capture_output=True).returncode:
                pytest.skip(f"{command[0]} does not work here: root and loop devices are needed")
        return words

    return prefix


@pytest.mark.parametrize("options", ["noexec", "nodev"])
def test_mount_options_do_not_matter(mounted: Callable[[str], tuple[str, ...]], options: str) -> None:
    done = hugealign("warm", "/mnt/good", prefix=mounted(options))
    assert (done.returncode, done.stdout) == (0, f"/mnt/good: {ALL}\n")


def test_program_at_a_fixed_address_needs_no_alignment(programs: Programs) -> None:
    chill(programs.fixed)
    assert hugealign("warm", programs.fixed).stdout == f"{programs.fixed}: 1 of 1 windows huge (2.0 MiB)\n"
    with running(programs.fixed, "5") as child:
        assert huge_kib(child.pid, programs.fixed) == WINDOW >> 10
        assert hugealign("ps", str(child.pid)).returncode == 0


@pytest.fixture
def odd(tmp_path: Path, built: Programs) -> dict[str, Path]:
    """Files that are not programs, by what `warm` must say of them."""
    fifo, empty, text, cut, short = (tmp_path / name for name in ("fifo", "empty", "text", "cut", "short"))
    os.mkfifo(fifo)
    empty.touch()
    text.write_text("#!/bin/sh\n", encoding="ascii")
    cut.write_bytes(built.good.read_bytes()[:80])
    short.write_bytes(built.good.read_bytes()[:40])
    return {
        worded("file.special"): fifo,
        worded("file.empty"): empty,
        worded("file.not-elf"): text,
        worded("file.damaged", part="e_shnum"): cut,
        worded("file.damaged", part="e_ident"): short,
    }


def test_what_is_no_program_is_an_error_of_one_line(odd: dict[str, Path], tmp_path: Path) -> None:
    cases = {
        **odd,
        worded("file.unreadable", error="ENOENT"): tmp_path / "missing",
        worded("file.unreadable", error="ENOTDIR"): odd[worded("file.not-elf")] / "x",
    }
    for message, path in (*cases.items(), *((worded("file.special"), path) for path in (tmp_path, Path("/dev/zero")))):
        done = hugealign("warm", path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"hugealign: error: {path}: ")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_one_bad_file_does_not_hide_the_others(odd: dict[str, Path], cold: Path) -> None:
    fifo = odd[worded("file.special")]
    done = hugealign("warm", fifo, cold)
    assert (done.returncode, done.stdout) == (3, f"{cold}: {ALL}\n")
    chill(cold)
    done = hugealign("warm", "--check", fifo, cold)
    assert done.returncode == 1  # findings win


def test_text_cut_off_counts_only_what_is_there(programs: Programs, cold: Path) -> None:
    image = programs.good.read_bytes()
    cold.write_bytes(image[: 2 * WINDOW + 5000])  # text begins at one window; no section headers any more
    data = bytearray(cold.read_bytes())
    struct.pack_into("<Q", data, 40, 0)  # e_shoff
    struct.pack_into("<H", data, 60, 0)  # e_shnum
    cold.write_bytes(data)
    assert hugealign("warm", cold).stdout == f"{cold}: 1 of 1 windows huge (2.0 MiB)\n"


def test_huge_hostile_file_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    size = 4 << 40
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    path.write_bytes(header + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, WINDOW))
    try:
        os.truncate(path, size)
    except OSError as error:
        pytest.skip(f"no sparse file of 4 TiB here: {error}")
    for words in ((), ("--check",)):
        done = hugealign("warm", *words, path)
        assert done.returncode == 1
        assert worded("memory.few", windows=1 << 21, room=0).partition("0 B")[0] in done.stderr
    assert " of 1 windows huge " in hugealign("warm", "--windows", "1", path).stdout


@pytest.mark.parametrize("words", [["warm"], ["warm", "--windows", "0", "x"]])
def test_usage(words: list[str]) -> None:
    assert hugealign(*words).returncode == 2


def test_json(programs: Programs, cold: Path, tmp_path: Path) -> None:
    done = hugealign("warm", "--json", "--libs", cold, tmp_path, programs.plain)
    assert (done.returncode, done.stderr) == (1, "")
    result = json.loads(done.stdout)
    assert (result["schema"], result["page_size"], result["huge_bytes"]) == (
        "hugealign.warm/1",
        WINDOW,
        WINDOWS * WINDOW,
    )
    named = {file["path"]: file for file in result["files"] if not file["library"]}
    assert named[str(cold)] == {
        "path": str(cold), "library": False, "replaced": False, "windows": WINDOWS, "windows_huge": WINDOWS,
        "huge_bytes": WINDOWS * WINDOW, "small_offsets": [], "methods": ["readahead"], "diagnosis": None, "notes": [],
    }  # fmt: skip
    assert named[str(programs.plain)]["diagnosis"]["code"] == "text.no-window"
    assert any("libc.so.6" in file["path"] for file in result["files"] if file["library"])
    (error,) = result["errors"]
    assert (error["target"], error["message"], error["diagnosis"]["code"]) == (str(tmp_path), None, "file.special")
    checked = json.loads(hugealign("warm", "--check", "--json", cold).stdout)
    assert checked["files"][0]["methods"] == []


def test_part_of_the_windows_is_named(cold: Path) -> None:
    assert hugealign("warm", "--windows", "1", cold).returncode == 0
    done = hugealign("warm", "--check", cold)
    assert done.stdout.splitlines()[0] == f"{cold}: 1 of {WINDOWS} windows huge (2.0 MiB)"
    assert done.stdout.splitlines()[2] == "  not huge: file offsets 0x400000-0x800000"


@pytest.mark.parametrize(
    ("answers", "tries", "refused"),
    [
        ([0], 1, 0),
        ([errno.EAGAIN, errno.EAGAIN, 0], 3, 0),
        ([errno.EAGAIN] * 9, 3, errno.EAGAIN),
        ([errno.EINVAL, 0], 1, errno.EINVAL),  # clean pages: the kernel means it
        ([errno.ENOMEM, 0], 1, errno.ENOMEM),
    ],
)
def test_collapse_is_tried_again_where_that_helps(
    cold: Path, monkeypatch: pytest.MonkeyPatch, answers: list[int], tries: int, refused: int
) -> None:
    """Stands in for kernels with CONFIG_READ_ONLY_THP_FOR_FS, whose answers tests/kernels has."""
    calls = iter(answers)
    synced: list[int] = []
    asked: list[int] = []
    touched: list[int] = []

    class Answering:
        def __getattr__(self, name: str) -> Any:
            return getattr(libc(), name)

        def madvise(self, address: int, _size: int, advice: int) -> int:
            assert advice == warming.MADV_COLLAPSE
            assert address in touched  # first: Linux 6.1 wants a page table
            asked.append(address)
            ctypes.set_errno(error := next(calls))
            return -1 if error else 0

    monkeypatch.setattr(warming, "libc", Answering)
    monkeypatch.setattr(warming, "touch", touched.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    with regular.opened(str(cold)) as fd:
        if pagecache.cache_state(fd, 0, WINDOW) is None:
            pytest.skip("this kernel has no cachestat")
        assert warming.collapse(fd, [WINDOW]) == refused
        assert vars(pagecache.cache_state(fd, WINDOW, WINDOW)) == vars(pagecache.CacheState(WINDOW // 4096, 0, 0))
    assert len(asked) == tries
    assert len(synced) == len([a for a in answers[:tries] if a == errno.EAGAIN])
