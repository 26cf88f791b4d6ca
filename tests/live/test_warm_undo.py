"""``hugealign warm --undo``: a later process has its text in small pages again."""

import os
from pathlib import Path

import pytest

from hugealign.io.regular import opened
from hugealign.pagecache import measure as pagecache
from hugealign.pagecache import warming
from hugealign.system import kernel
from tests.live.programs import WINDOW, WINDOWS, Programs, huge_kib, hugealign, running
from tests.support import advised, worded

ALL = WINDOWS * WINDOW >> 10


@pytest.fixture
def warmed(programs: Programs, request: pytest.FixtureRequest) -> Path:
    path = programs.copy(f"cool-{request.node.name}")
    if kernel.file_system(path.stat().st_dev) == "tmpfs":
        pytest.skip("tmpfs keeps its pages; test_remedies.py has a row for it")
    assert hugealign("warm", path).returncode == 0
    return path


def test_and_warm_again(warmed: Path) -> None:
    content, times = warmed.read_bytes(), warmed.stat()
    for _ in range(2):
        done = hugealign("warm", "--undo", warmed)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{warmed}: 0 of 3 windows huge (0 B)\n", "")
        with running(warmed, "5") as child:
            assert huge_kib(child.pid, warmed) == 0
        assert hugealign("warm", warmed).returncode == 0
        with running(warmed, "5") as child:
            assert huge_kib(child.pid, warmed) == ALL
    assert warmed.read_bytes() == content
    assert (warmed.stat().st_mtime_ns, warmed.stat().st_ctime_ns) == (times.st_mtime_ns, times.st_ctime_ns)


def test_what_is_read_back_is_in_memory(warmed: Path) -> None:
    # Otherwise the next process would read it, in whatever pages the kernel likes.
    cached: list[int] = []
    while len(cached) < 3 and WINDOWS * WINDOW // 4096 not in cached:  # short of memory, the kernel takes some back
        done = hugealign("warm", "--undo", warmed)
        assert done.returncode == 0
        fd = os.open(warmed, os.O_RDONLY)
        state = pagecache.cache_state(fd, WINDOW, WINDOWS * WINDOW)
        os.close(fd)
        if state is None:
            pytest.skip("this kernel has no cachestat")
        cached.append(state.cached)
    assert cached[-1] == WINDOWS * WINDOW // 4096


def test_file_in_use_stays_huge_and_names_the_process(warmed: Path) -> None:
    with running(warmed, "5") as child:
        done = hugealign("warm", "--undo", warmed)
        assert done.returncode == 1
        assert done.stdout.splitlines() == [
            f"{warmed}: 3 of 3 windows huge (6.0 MiB)",
            f"  {worded('cache.in-use', process=child.pid, name=warmed.name[:15])}; {advised('stop')}",
        ]
        assert huge_kib(child.pid, warmed) == ALL
    assert hugealign("warm", "--undo", warmed).returncode == 0


def test_windows_with_only_some_text(programs: Programs) -> None:
    with opened(str(programs.plain)) as fd:
        offsets = pagecache.text_windows(fd, all_text=True)
        assert all(warming.warm(fd, offsets).huge)
        assert hugealign("warm", "--undo", programs.plain).returncode == 0
        assert not any(pagecache.measure(fd, offsets))


def test_what_is_no_program(tmp_path: Path, built: Programs) -> None:
    for path, message in (
        (tmp_path, worded("file.special")),
        (tmp_path / "no", worded("file.unreadable", error="ENOENT")),
        (Path("/etc/passwd"), worded("file.not-elf")),
    ):
        done = hugealign("warm", "--undo", path, built.plain)
        assert done.returncode == 3
        assert message in done.stderr
        assert str(built.plain) in done.stdout
    assert hugealign("warm", "--undo").returncode == 2
