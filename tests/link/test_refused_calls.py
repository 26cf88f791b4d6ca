"""Each system call of a link's own Python fails once, with an error that it can have: the program links all the same.

The interpreter's start does not count: what comes after hugealign's first module does.  A package below a prefix of its
own makes hugealign run that prefix's Python, here one under strace, which refuses the call.
"""

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.strace import ERRORS
from tests.support import HUGEALIGN, ROOT, environment, need, need_compiler, run

#: The calls that are refused, if a link makes them.
CALLS = (
    "openat open read pread64 getdents64 write pwrite64 ftruncate newfstatat fstat stat statx readlink memfd_create "
    "vfork clone clone3 fork execve mmap fallocate pipe2 dup dup2 fcntl lseek unlink"
).split()
#: Links that take different ways: compiler words, KiB of text, settings.
WAYS: dict[str, tuple[str, int, dict[str, str]]] = {
    "started": ("gcc -fuse-ld=bfd", 4500, {}),
    "python": ("gcc -fuse-ld=bfd", 600, {}),
    "edited": ("gcc -fuse-ld=mold", 600, {}),
    "twice": ("gcc -fuse-ld=gold", 600, {}),
    "ordered": ("clang-19 -fuse-ld=lld", 600, {"HUGEALIGN_PROFILE": "order"}),
    "copies": ("gcc -fuse-ld=mold", 600, {"HUGEALIGN_PROFILE": "order"}),
    "left alone": ("gcc -fuse-ld=bfd -Wl,-Tdata=0x4000000", 600, {}),
}
#: So many calls of each link are refused in `make test`, all in `make test-links`.
SOME = 5


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation whose Python is one under strace."""
    need("strace")
    place = tmp_path_factory.mktemp("prefix")
    name = f"python3.{sys.version_info.minor}"
    package = place / "lib" / name / "site-packages" / "hugealign"
    shutil.copytree(ROOT / "hugealign", package)
    shutil.copytree(ROOT / "ld-scripts", package / "ld-scripts")
    (place / "bin").mkdir()
    python = place / "bin" / name
    python.write_text(f'#!/bin/sh\nexec strace -qq -o "$LOG" -e trace="$CALLS" $INJECT {sys.executable} "$@"\n')
    python.chmod(0o755)
    (place / "main.c").write_text(MAIN_OF_ANY)
    (place / "order").write_text("# hugealign.order/1\nmain\n")
    run("gcc", "-ffunction-sections", "-c", "main.c", cwd=place, check=True)
    for size in sorted({size for _, size, _ in WAYS.values()}):
        shutil.copy(bulk_object(place, size), place / f"{size}.o")
    return place


def link(prefix: Path, way: str, log: Path, inject: str = "") -> tuple[int, str, int]:
    """Link by *way*; return the status, what was said, and the status of the program."""
    compiler, size, settings = WAYS[way]
    need_compiler(*compiler.split())
    (shims,) = prefix.glob("lib/*/site-packages/hugealign/libexec")
    out = log.with_name("out")
    out.unlink(missing_ok=True)
    words = (*compiler.split(), f"-B{shims}/", "main.o", f"{size}.o", "-o", out)
    calls = ",".join(f"?{name}" for name in CALLS)
    done = run(*words, cwd=prefix, env=environment(LOG=str(log), CALLS=calls, INJECT=inject, **settings))
    return done.returncode, done.stderr, run(out).returncode if out.exists() else -1


def refusals(prefix: Path, way: str, log: Path) -> Iterator[tuple[str, str, int]]:
    """Each call of that link, one of its errors in turn, and its number among those of its name."""
    assert link(prefix, way, log) == (0, "", 0)
    counts: Counter[str] = Counter()
    ours = False
    for entry in log.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\(", entry)
        if not call:
            continue
        counts[call[1]] += 1
        ours = ours or "hugealign/link/" in entry
        if ours:
            errors = ERRORS[call[1]]
            yield call[1], errors[counts[call[1]] % len(errors)], counts[call[1]]
            if call[1] == "execve":
                return  # the linker took its place


def outcome(prefix: Path, way: str, log: Path, call: str, error: str, number: int) -> str:
    """What is wrong with the link in which that call is refused; empty if nothing is."""
    status, output, ran = link(prefix, way, log, f"-e inject={call}:error={error}:when={number}")
    what = f"{call} {number} {error}: "
    if status or ran:
        return f"{what}link {status}, program {ran}: {output}"
    if any(not line.startswith("hugealign: warning: ") for line in output.splitlines()) or output.count("\n") > 1:
        return f"{what}{output}"
    return ""


@pytest.mark.parametrize("way", WAYS)
def test_some_calls_are_refused(way: str, prefix: Path, tmp_path: Path) -> None:
    cases = list(refusals(prefix, way, tmp_path / "log"))
    some = cases[:: len(cases) // SOME]
    assert len(some) >= SOME
    assert [output for case in some if (output := outcome(prefix, way, tmp_path / "log", *case))] == []


@pytest.mark.matrix
@pytest.mark.parametrize("way", WAYS)
def test_each_call_is_refused(way: str, prefix: Path, tmp_path: Path) -> None:
    cases = list(refusals(prefix, way, tmp_path / "log"))
    assert [output for case in cases if (output := outcome(prefix, way, tmp_path / "log", *case))] == []


#: Runs a command for which each memfd_create fails, as under a seccomp filter of a sandbox.
FILTER = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 98;
    execvp(words[1], words + 1);
    return 99 + 0 * count;
}
"""


@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_no_files_in_memory(error: str, tmp_path: Path) -> None:
    (tmp_path / "filter.c").write_text(FILTER)
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run("gcc", f"-DERROR={error}", "filter.c", "-o", "filter", cwd=tmp_path, check=True)
    for size in (600, 4500):
        shutil.copy(bulk_object(tmp_path, size), tmp_path / f"{size}.o")
        for linker in ("bfd", "gold", "mold"):
            words = (HUGEALIGN, "gcc", f"-fuse-ld={linker}", "main.c", f"{size}.o", "-o", "out")
            done = run("./filter", *words, cwd=tmp_path, check=True)
            assert done.stderr.count("\n") <= 1
            assert "Traceback" not in done.stderr
            assert run(tmp_path / "out").returncode == 0
            (tmp_path / "out").unlink()
    done = run("./filter", HUGEALIGN, "run", "--", "/bin/echo", "ran", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    for command in ("verify", "top", "doctor"):
        done = run("./filter", HUGEALIGN, command, *(["./filter"] if command == "verify" else []), cwd=tmp_path)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1)
