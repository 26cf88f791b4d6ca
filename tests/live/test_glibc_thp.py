"""glibc.elf.thp of the real glibc 2.44: what it requests is what `verify` says, and what comes of it on this kernel.

The program is linked with that loader as its own, so that the kernel maps it as it maps any.  Run by `make test-links`.
"""

import ctypes
import json
import mmap
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hugealign.verification.checking import check_fd
from hugealign.verification.rules import Policy
from tests.link import newer
from tests.live.programs import TOUCHED, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign
from tests.support import HUGEALIGN, environment

pytestmark = pytest.mark.matrix

ALL = WINDOWS * WINDOW >> 10
ON = "glibc.elf.thp=1"
_PAGEOUT = 21  # MADV_PAGEOUT, process_madvise takes it since Linux 5.10
_PROCESS_MADVISE, _PIDFD_OPEN = 440, 434
_USER = """\
#include <unistd.h>
int touch(void);
int main(void) { int sum = touch(); if (write(1, "ready\\n", 6) == 6) pause(); return sum; }
"""


@pytest.fixture(scope="module")
def libc() -> Path:
    """The directory of that C library."""
    if reason := newer.unavailable(newer.EXPERIMENTAL):
        pytest.skip(reason)
    place = newer.TARGET / newer.EXPERIMENTAL / "root/usr/lib/x86_64-linux-gnu"
    listed = subprocess.run((place / "ld-linux-x86-64.so.2", "--list-tunables"), capture_output=True, check=True)
    assert b"glibc.elf.thp:" in listed.stdout
    return place


def link(directory: Path, libc: Path, target: str, *words: str, ours: bool = True) -> Path:
    own = (f"-Wl,--dynamic-linker={libc / 'ld-linux-x86-64.so.2'}", f"-Wl,-rpath,{libc}")
    command = [*([str(HUGEALIGN)] if ours else []), "gcc", "-fuse-ld=bfd", *words, *own, "-o", target]
    subprocess.run(command, cwd=directory, check=True, env=environment())
    return directory / target


@pytest.fixture(scope="module")
def program(programs: Programs, libc: Path) -> Path:
    return link(programs.directory, libc, "thp", "main.o", "text.o")


@contextmanager
def running(path: Path, *words: str, tunables: str = "", before: tuple[str | Path, ...] = ()) -> Iterator[int]:
    env = environment(**({"GLIBC_TUNABLES": tunables} if tunables else {}))
    with subprocess.Popen([*before, path, *words], stdout=subprocess.PIPE, env=env) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            child.send_signal(signal.SIGKILL)


def drop(path: Path) -> None:
    """Take *path* out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def text(pid: int, path: Path) -> tuple[int, int]:
    """The addresses of the text of *path*."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        if line.endswith(f" {path}") and "x" in line.split()[1]:
            start, end = line.split()[0].split("-")
            return int(start, 16), int(end, 16)
    raise AssertionError(path)


def touch(pid: int, path: Path) -> None:
    start, end = text(pid, path)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in range(start, end, mmap.PAGESIZE):
            os.pread(memory.fileno(), 1, address)


def reclaim(pid: int, path: Path) -> None:
    """Have the kernel take the text, as it would without memory."""
    start, end = text(pid, path)
    call = ctypes.CDLL(None, use_errno=True).syscall
    pidfd = call(_PIDFD_OPEN, pid, 0)
    vector = (ctypes.c_uint64 * 2)(start, end - start)
    done = call(_PROCESS_MADVISE, pidfd, vector, ctypes.c_ulong(1), _PAGEOUT, ctypes.c_ulong(0))
    os.close(pidfd)
    assert done == end - start, os.strerror(ctypes.get_errno())


def advised(path: Path, *words: str) -> list[int]:
    """The sizes of what the loader requests in *path*, as LD_DEBUG=files shows it."""
    env = environment(GLIBC_TUNABLES=ON, LD_DEBUG="files")
    done = subprocess.run([path, *words], capture_output=True, text=True, check=False, env=env)
    return [int(size, 16) for size in re.findall(r"madvise \(0x\w+, 0x(\w+), MADV_HUGEPAGE\) returns 0", done.stderr)]


def passed_over(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return "HA026" in {diagnosis.code for diagnosis in check_fd(fd, str(path), Policy()).diagnoses}
    finally:
        os.close(fd)


def test_rule_says_what_the_loader_asks_for(programs: Programs, libc: Path, program: Path) -> None:
    """The text of our link; not that of a file whose headers were only aligned; and not LLD's own."""
    directory = programs.directory
    assert not passed_over(program)
    assert ALL << 10 in advised(program)
    link(directory, libc, "plain-thp", "main.o", "text.o", ours=False)
    aligned = directory / "aligned-thp"
    fixed = hugealign("fix", "--level=align", directory / "plain-thp", "-o", aligned)
    assert fixed.returncode == 0, fixed.stderr
    assert passed_over(aligned)
    assert advised(aligned) == []
    shifted = directory / "shifted-thp"
    assert hugealign("fix", directory / "plain-thp", "-o", shifted).returncode == 0
    assert not passed_over(shifted)
    assert len(advised(shifted)) == 1


@pytest.mark.parametrize("tunables", ["", ON], ids=["default", "tunable"])
def test_cold_cached_and_warmed(program: Path, tunables: str) -> None:
    """It helps cold text, though not all of it; what is cached small stays small; what is warm is huge either way."""
    drop(program)
    with running(program, "5", tunables=tunables) as pid:
        cold = huge_kib(pid, program)
    assert cold in (range(WINDOW >> 10, ALL + 1) if tunables else (0,))
    chill(program)
    with running(program, "5", tunables=tunables) as pid:
        assert huge_kib(pid, program) == 0
    assert hugealign("warm", program).returncode == 0
    with running(program, "5", tunables=tunables) as pid:
        assert huge_kib(pid, program) == ALL


@pytest.mark.parametrize(("tunables", "left"), [("", 0), (ON, ALL)], ids=["default", "tunable"])
def test_after_reclaim(program: Path, tunables: str, left: int) -> None:
    """Text that the kernel took comes back huge only with it."""
    chill(program)
    assert hugealign("warm", program).returncode == 0
    with running(program, "5", tunables=tunables) as pid:
        assert huge_kib(pid, program) == ALL
        reclaim(pid, program)
        assert huge_kib(pid, program) == 0
        touch(pid, program)
        assert huge_kib(pid, program) == left


@pytest.mark.parametrize(("tunables", "left"), [("", 0), (ON, ALL)], ids=["default", "tunable"])
def test_library_after_reclaim(programs: Programs, libc: Path, tunables: str, left: int) -> None:
    directory = programs.directory
    (directory / "library-thp.c").write_text(TOUCHED, encoding="ascii")
    (directory / "user-thp.c").write_text(_USER, encoding="ascii")
    library = link(directory, libc, "libthp.so", "-shared", "-fPIC", "library-thp.c", "text.o")
    user = link(directory, libc, "user-thp", "user-thp.c", "-L.", "-lthp", f"-Wl,-rpath,{directory}", ours=False)
    assert not passed_over(library)
    assert hugealign("warm", library).returncode == 0
    with running(user, tunables=tunables) as pid:
        assert huge_kib(pid, library) == ALL
        reclaim(pid, library)
        touch(pid, library)
        assert huge_kib(pid, library) == left


def test_run_sets_it_where_the_programs_loader_knows_it(programs: Programs, program: Path) -> None:
    """A loader that does not know it leaves the environment as it is."""
    for given, expected in (("", ON), ("glibc.malloc.check=0", f"glibc.malloc.check=0:{ON}"), (f"{ON}:x=1", None)):
        run = (HUGEALIGN, "run", "--")
        with running(program, "5", tunables=given, before=run) as pid:
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            result = [e for e in environ if e.startswith(b"GLIBC_TUNABLES=")]
            assert result == [f"GLIBC_TUNABLES={expected or given}".encode()]
            assert huge_kib(pid, program) == ALL
    with running(programs.good, "5", before=(HUGEALIGN, "run", "--")) as pid:
        assert b"GLIBC_TUNABLES" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_verify_counts_what_it_asks_for(program: Path) -> None:
    (file,) = json.loads(hugealign("verify", "--json", program).stdout)["files"]
    system = next(s for s in file["kernels"] if s["system"] == "glibc-thp")
    assert (system["answer"], system["windows"]) == ("yes", WINDOWS)
