"""``hugealign trace`` with real programs under the real QEMU: what it records, what it passes on, what it says."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.elf.symbols import read_functions
from hugealign_lab.ran import profile
from hugealign_lab.tracefile import Trace, open_trace
from lab.tests.traces import executed, heat
from tests.support import HUGEALIGN, environment, run, worded

QEMU = shutil.which("qemu-x86_64")
PLUGINS = QEMU and "\n-plugin" in subprocess.run([QEMU, "-h"], capture_output=True, text=True, check=False).stdout
pytestmark = pytest.mark.skipif(not PLUGINS, reason="qemu-user is not installed, or has no plugins")

# One instruction, 1000 times two, three to exit: counted by hand.
_COUNTED = """\
        .globl _start
_start: mov $1000, %ecx
1:      dec %ecx
        jnz 1b
        mov $60, %eax
        mov $7, %edi
        syscall
"""
_COUNTED_AARCH64 = """\
        .globl _start
_start: mov w1, #1000
1:      subs w1, w1, #1
        b.ne 1b
        mov x8, #93
        mov x0, #7
        svc #0
"""
# Calls directly, through the PLT, by a jump at the end, from a library and in recursion, each so often.
_CALLS = """\
#include <stdlib.h>
#define OWN __attribute__((noinline, noclone, optimize("no-optimize-sibling-calls")))
OWN int leaf(int n) { __asm__ volatile("" : "+r"(n)); return n; }
__attribute__((noinline, noclone, optimize("optimize-sibling-calls"))) int jumps(int n) { return leaf(n + 1); }
OWN int again(int n) { return n ? again(n - 1) + 1 : 0; }
OWN int compare(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }
int far_away(int);
OWN int twice(int n) { return leaf(n) + leaf(n + 2); }
int main(void) {
  int sum = 0;
  for (int i = 0; i < 1000; i++) sum += twice(i);
  for (int i = 0; i < 300; i++) sum += jumps(i);
  for (int i = 0; i < 70; i++) sum += far_away(i);
  char text[] = "hgfedcba";
  qsort(text, 8, 1, compare);
  return sum + again(9) == text[0];
}
"""
_FAR_AWAY = "int inside(int n) { return n + 1; }\nint far_away(int n) { return inside(n) + 1; }\n"
# `work` runs its loop N times: once per block.
_WORK = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void work(long n) { for (; n; n--) __asm__ volatile(""); }
static void *thread(void *n) { work((long)n); return NULL; }
int main(int argc, char **argv) {
  pthread_t threads[4];
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "threads")) {
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, (void *)100000);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  } else if (!strcmp(what, "fork")) {
    for (int i = 0; i < 3; i++)
      if (!fork()) { work(100000); _exit(0); }
    while (wait(NULL) > 0) {}
  } else if (!strcmp(what, "many")) { /* one after another: more than there are slots */
    for (int i = 0; i < 2100; i++) {
      pthread_create(threads, NULL, thread, (void *)10);
      pthread_join(threads[0], NULL);
      if (!fork()) _exit(0);
      wait(NULL);
      if (!fork()) execl("/bin/true", "true", NULL);
      wait(NULL);
    }
  } else if (!strcmp(what, "kill")) {
    work(100000);
    kill(getpid(), SIGKILL);
  } else if (!strcmp(what, "abort")) {
    work(100000);
    abort();
  } else if (!strcmp(what, "exec")) {
    work(100000);
    execl("/bin/echo", "echo", "other", NULL);
  } else if (!strcmp(what, "noexec")) {
    execl("/nonexistent", "x", NULL);
    work(100000);
  } else if (!strcmp(what, "jit")) {
    unsigned char code[] = {0x89, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0xc3}; /* mov %edi,%eax; 1: dec %eax; jnz 1b; ret */
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    ((int (*)(int))at)(100000);
  } else if (!strcmp(what, "close")) { /* and use every descriptor for a file of its own */
    for (int fd = 3; fd < 64; fd++) close(fd);
    for (int i = 0; i < 8; i++) open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0666);
    work(3000000);
  } else if (!strcmp(what, "sleep")) {
    work(20000); puts("ready"); fflush(stdout);
    for (int i = 0; i < atoi(argv[2]); i++) { work(20000); usleep(10000); }
  } else if (!strcmp(what, "daemon")) {
    if (!fork()) { close(1); close(2); for (;;) { work(100000); usleep(1000); } }
  } else {
    work(atol(what));
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("traced")
    (directory / "counted.s").write_text(_COUNTED)
    (directory / "counted-aarch64.s").write_text(_COUNTED_AARCH64)
    (directory / "work.c").write_text(_WORK)
    commands = [
        "gcc -nostdlib -static counted.s -o counted",
        "gcc -O1 -pthread work.c -o work",
        "gcc -O1 -pthread -static work.c -o static",
        "strip work -o stripped",
    ]
    if shutil.which("aarch64-linux-gnu-gcc"):
        commands += [
            "aarch64-linux-gnu-gcc -nostdlib -static counted-aarch64.s -o counted-aarch64",
            "aarch64-linux-gnu-gcc -O1 -pthread work.c -o work-aarch64",
        ]
    for command in commands:
        subprocess.run(command.split(), cwd=directory, check=True)
    return directory


def traced(
    tmp_path: Path, *words: object, options: tuple[str, ...] = ()
) -> tuple[subprocess.CompletedProcess[str], Trace]:
    """Trace a command, and return what it printed, and the trace; nothing else may be left beside that."""
    place = tmp_path / "traces"
    place.mkdir(exist_ok=True)
    done = run(HUGEALIGN, "trace", "-o", place / "t", *options, "--", *words)
    assert os.listdir(place) == ["t"], done.stderr
    return done, open_trace(str(place / "t"))


def instructions(trace: Trace) -> int:
    return sum(times * row[3] for times, row in zip(executed(trace), trace.block_rows(), strict=True))


def work_blocks(trace: Trace, program: Path) -> int:
    """How often the loop of `work` ran: the most that any block of it did."""
    functions = read_functions(program)
    (index,) = functions.by_name["work"]
    inside = [
        times
        for times, (address, file, _, _) in zip(executed(trace), trace.block_rows(), strict=True)
        if file == trace.description.program and functions.at(address) == index
    ]
    return max(inside, default=0)


@pytest.mark.parametrize("name", ["counted", "counted-aarch64"])
def test_every_instruction_is_counted(name: str, built: Path, tmp_path: Path) -> None:
    if not (built / name).exists() or (name != "counted" and not shutil.which("qemu-aarch64")):
        pytest.skip("no compiler or emulator for aarch64")
    done, trace = traced(tmp_path, built / name)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    assert instructions(trace) == 1 + 2 * 1000 + 3
    assert trace.description.machine == ("aarch64" if "aarch64" in name else "x86_64")


@pytest.mark.parametrize("name", ["work", "static", "work-aarch64"])
def test_blocks_lie_where_the_file_says(name: str, built: Path, tmp_path: Path) -> None:
    if not (built / name).exists():
        pytest.skip("no compiler for aarch64")
    done, trace = traced(tmp_path, built / name, 123456)
    assert (done.returncode, done.stderr) == (0, "")
    functions = read_functions(built / name)
    warm = heat(trace, trace.description.program, functions)
    assert functions.names[warm.index(max(warm))] == "work"
    # One round of the loop is a block of its own, but for the first, which lies in the block before.
    assert work_blocks(trace, built / name) in (123455, 123456)


@pytest.mark.parametrize("link", ["shared", "static"])
def test_calls(link: str, tmp_path: Path) -> None:
    """Counted in the trace as in the source; calls in a library are that file's, and qsort's count for no file."""
    (tmp_path / "calls.c").write_text(_CALLS)
    (tmp_path / "far.c").write_text(_FAR_AWAY)
    far = ["-fPIC", "-shared", "-Wl,-z,lazy", "far.c", "-o", "libfar.so"] if link == "shared" else ["-c", "far.c"]
    for words in (
        ["-O1", "-fno-inline", *far],
        [
            "-O1",
            "calls.c",
            *([str(tmp_path / "libfar.so")] if link == "shared" else ["-static", "far.o"]),
            "-o",
            "calls",
        ],
    ):
        subprocess.run(["gcc", *words], cwd=tmp_path, check=True)
    done, trace = traced(tmp_path, tmp_path / "calls")
    assert (done.returncode, done.stderr) == (0, "")

    def counted(file: int, path: Path) -> dict[tuple[str, str], int]:
        functions = read_functions(path)
        result, uncounted = profile(trace, file, functions)
        assert not uncounted
        calls: dict[tuple[str, str], int] = {}
        for (caller, callee, offset), times in result.arcs.items():
            assert offset is not None
            assert 0 < offset < functions.sizes[caller]
            pair = functions.names[caller], functions.names[callee]
            calls[pair] = calls.get(pair, 0) + times
        return calls

    calls = counted(trace.description.program, tmp_path / "calls")
    wanted = {
        ("main", "twice"): 1000, ("twice", "leaf"): 2000, ("main", "jumps"): 300, ("jumps", "leaf"): 300,
        ("main", "again"): 1,
    }  # fmt: skip
    assert {pair: calls.get(pair) for pair in wanted} == wanted
    assert ("again", "again") not in calls
    assert ("main", "compare") not in calls
    if link == "static":
        assert (calls["main", "far_away"], calls["far_away", "inside"]) == (70, 70)
    else:  # `inside` through the library's own PLT, the first time by way of the dynamic linker
        (file,) = (n for n, item in enumerate(trace.description.files) if item.path.endswith("libfar.so"))
        assert counted(file, tmp_path / "libfar.so")["far_away", "inside"] == 69
        assert not any("far_away" in pair for pair in calls)


def test_a_stripped_program_and_its_libraries(built: Path, tmp_path: Path) -> None:
    done, trace = traced(tmp_path, built / "stripped", 1000)
    assert (done.returncode, done.stderr) == (0, "")
    names = {os.path.basename(file.path) for file in trace.description.files}
    assert {"stripped", "libc.so.6"} <= names
    assert all(file.identity.startswith("build-id:") for file in trace.description.files[1:])


def test_threads_are_streams(built: Path, tmp_path: Path) -> None:
    done, trace = traced(tmp_path, built / "work", "threads")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(trace.streams) == 5
    assert work_blocks(trace, built / "work") in (4 * 99999, 4 * 100000)


def test_children_are_followed(built: Path, tmp_path: Path) -> None:
    _, trace = traced(tmp_path, built / "work", "fork")
    assert len(trace.streams) == 4
    # Each child may have given the loop a number of its own.
    functions = read_functions(built / "work")
    (index,) = functions.by_name["work"]
    total = heat(trace, trace.description.program, functions)[index]
    assert total // 2 in range(3 * 99999, 3 * 100010)  # the loop has two instructions


@pytest.mark.matrix
def test_more_threads_and_processes_than_slots(built: Path, tmp_path: Path) -> None:
    """One after another they share the 2048 slots: threads that end, children that exit, children that exec."""
    _, trace = traced(tmp_path, built / "work", "many")
    assert (trace.description.lost, trace.description.execs) == (0, 2100)
    assert len(trace.streams) == 1 + 3 * 2100


@pytest.mark.parametrize(("what", "status"), [("kill", 137), ("abort", 134)])
def test_a_signal_loses_nothing(what: str, status: int, built: Path, tmp_path: Path) -> None:
    done, trace = traced(tmp_path, built / "work", what)
    assert done.returncode == status
    assert work_blocks(trace, built / "work") in (99999, 100000)


def test_another_program_is_not_recorded(built: Path, tmp_path: Path) -> None:
    done, trace = traced(tmp_path, built / "work", "exec")
    assert (done.returncode, done.stdout) == (0, "other\n")
    assert "t: once, a process executed another program, which was not recorded" in done.stderr
    assert work_blocks(trace, built / "work") in (99999, 100000)
    assert "1 times" in run(HUGEALIGN, "simulate", trace.path).stdout


def test_an_exec_that_fails_is_none(built: Path, tmp_path: Path) -> None:
    done, trace = traced(tmp_path, built / "work", "noexec")
    assert (done.returncode, done.stderr) == (0, "")
    assert work_blocks(trace, built / "work") in (99999, 100000)


def test_code_without_a_file(built: Path, tmp_path: Path) -> None:
    _, trace = traced(tmp_path, built / "work", "jit")
    rows = zip(executed(trace), trace.block_rows(), strict=True)
    assert sum(times for times, (_, file, _, _) in rows if not file) in range(99999, 100100)
    assert "of the blocks lie outside of files (a JIT?)" in run(HUGEALIGN, "simulate", trace.path).stdout


def test_a_program_that_closes_every_descriptor(built: Path, tmp_path: Path) -> None:
    mine = tmp_path / "its own"
    done, trace = traced(tmp_path, built / "work", "close", mine)
    assert (done.returncode, done.stderr) == (0, "")
    assert mine.read_bytes() == b""
    assert work_blocks(trace, built / "work") in (2999999, 3000000)


def test_the_limit(tmp_path: Path) -> None:
    """A shuffled run takes more than the least limit: the recording ends there, the program goes on."""
    script = "import random; r = random.Random(1); print(sum(hash(str(r.random())) & 1 for _ in range(30000)) > 0)"
    python = os.path.realpath("/usr/bin/python3")
    done, trace = traced(tmp_path, python, "-c", script, options=("--limit", "64K"))
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert "t: cut at " in done.stderr
    assert trace.description.cut
    assert os.path.getsize(trace.path) < 1 << 20
    assert "the trace is cut" in run(HUGEALIGN, "simulate", trace.path).stdout


def test_a_daemon_does_not_hold_us(built: Path, tmp_path: Path) -> None:
    try:
        done, trace = traced(tmp_path, built / "work", "daemon")
        assert (done.returncode, done.stderr) == (0, "")
        before = os.path.getsize(trace.path)
        time.sleep(0.5)
        assert os.path.getsize(trace.path) == before
    finally:
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
                if str(built).encode() in line and b"\0daemon\0" in line:
                    os.kill(int(entry), signal.SIGKILL)


def test_a_signal_for_us_is_for_the_command(built: Path, tmp_path: Path) -> None:
    words: list[str | Path] = [HUGEALIGN, "trace", "-o", tmp_path / "t", "--", built / "work", "sleep", "6000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as child:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 143
    assert work_blocks(open_trace(str(tmp_path / "t")), built / "work") > 0


def test_progress_on_a_terminal(built: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words: list[str | Path] = [HUGEALIGN, "trace", "-o", tmp_path / "t", "--", built / "work", "sleep", "200"]
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=theirs, check=True, env=environment())
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"\rhugealign: trace: " in shown
    assert b" blocks, " in shown
    assert shown.endswith(b" \r")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["/nonexistent"], 127, "/nonexistent: command not found"),
        (["no-such-command"], 127, "no-such-command: command not found"),
        (["/etc"], 126, "/etc: is a directory"),
        (["/etc/passwd"], 126, "/etc/passwd: not executable"),
        (["/usr/bin/ldd"], 126, "/usr/bin/ldd: a script; trace what runs it"),
        ([], 2, "trace: no command"),
        (["--limit", "1", "true"], 2, "--limit: less than 64.0 KiB"),
        (["--limit", "x", "true"], 2, "--limit: not a size"),
        (["-o", "/nonexistent/t", "true"], 3, "/nonexistent/t: cannot be written: No such file or directory"),
        (["-o", "/dev/full", "true"], 3, f"/dev/full: {worded('file.special')}"),
    ],
)
def test_what_cannot_be_traced(words: list[str], status: int, message: str, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "trace", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"hugealign: error: {message}")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_no_emulator(built: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("python3", "gcc", "sh", "dirname", "readlink"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    done = run(HUGEALIGN, "trace", "-o", tmp_path / "t", "--", built / "work", "1", PATH=str(tools))
    assert (done.returncode, done.stderr) == (
        3,
        "hugealign: error: qemu-x86_64 not found; on Debian: apt-get install qemu-user\n",
    )


def test_an_emulator_without_plugins(built: Path, tmp_path: Path) -> None:
    """A stand-in for Debian 13's, which is static."""
    emulator = tmp_path / "qemu-x86_64"
    emulator.write_text('#!/bin/sh\necho "qemu-x86_64 version 10.0.13"\necho "-version   display version"\n')
    emulator.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run(HUGEALIGN, "trace", "-o", tmp_path / "t", "--", built / "work", "1", PATH=path)
    assert done.returncode == 3
    assert done.stderr.startswith(f"hugealign: error: {emulator}: was built without plugins")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["qemu-x86_64"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=False).returncode
    ):
        pytest.skip("cannot mount a small tmpfs")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    """The program runs on; there is no trace, and a reason."""
    script = "import random; r = random.Random(1); print(sum(hash(str(r.random())) & 1 for _ in range(30000)) > 0)"
    python = os.path.realpath("/usr/bin/python3")
    done = run(HUGEALIGN, "trace", "-o", small_disk / "t", "--", python, "-c", script)
    assert (done.returncode, done.stdout) == (3, "True\n")
    assert done.stderr == f"hugealign: error: {small_disk}/t: cannot be written: No space left on device\n"
    assert os.listdir(small_disk) == []


def test_an_older_trace_is_replaced_only_by_a_whole_one(built: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("old")
    assert run(HUGEALIGN, "trace", "-o", tmp_path / "t", "/etc/passwd").returncode == 126
    assert (tmp_path / "t").read_text() == "old"
    assert run(HUGEALIGN, "trace", "-v", "-o", tmp_path / "t", built / "counted").stderr.startswith("hugealign: ")
    assert open_trace(str(tmp_path / "t")).description.events


def test_what_a_killed_recorder_left_goes_with_the_next_trace(built: Path, tmp_path: Path) -> None:
    """And what another one is still writing stays."""
    place = tmp_path / "traces"
    place.mkdir()
    words: list[str | Path] = [HUGEALIGN, "trace", "-o", place / "t", "--", built / "work", "sleep", "6000"]
    with contextlib.ExitStack() as stack:
        for killed in (True, False):
            child = stack.enter_context(
                subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(), start_new_session=True)
            )
            stack.callback(os.killpg, child.pid, signal.SIGKILL)
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            if killed:
                (left,) = os.listdir(place)
                child.kill()
        (there,) = os.listdir(place)
        assert there != left
        run(HUGEALIGN, "trace", "-o", place / "other", "--", built / "static", check=True)
        assert set(os.listdir(place)) == {"other", there}


def test_from_trace_to_table(built: Path, tmp_path: Path) -> None:
    _, trace = traced(tmp_path, built / "work", "threads")
    done = run(HUGEALIGN, "simulate", trace.path, "--json", "--cpu", "skylake")
    report = json.loads(done.stdout)
    assert (report["threads"], report["binary"]) == (5, str(built / "work"))
    assert all(row["misses"] >= row["walks"] for row in report["rows"])
