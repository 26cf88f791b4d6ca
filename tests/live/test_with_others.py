"""A program that hugealign linked and warmed, under other tools: does it run, is its text huge, are names right?

What each test records is a row of docs/measured/with-others.md (tests.live.others).
"""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hugealign.process import naming, processes
from hugealign.process.pagemap import State
from tests.live.programs import ROOT, WINDOWS, Programs, held, hugealign
from tests.support import HUGEALIGN, environment, need

FUNCTIONS = 5000
#: Functions of 1 KiB that BOLT can move: nothing depends on where they are.
_WORK = f"""\
        .macro  function n
        .globl  work\\n
        .type   work\\n, @function
work\\n:
        .cfi_startproc
        mov     %edi, %eax
        .rept   200
        add     $0x12340000 + \\n, %eax
        .endr
        ret
        .cfi_endproc
        .size   work\\n, . - work\\n
        .endm
        .macro  entry n
        .quad   work\\n
        .endm
        .altmacro
        .text
        .set i, 0
        .rept {FUNCTIONS}
        function %i
        .set i, i + 1
        .endr
        .section .data.rel.ro, "aw"
        .globl  table
table:
        .set i, 0
        .rept {FUNCTIONS}
        entry %i
        .set i, i + 1
        .endr
        .section .note.GNU-stack, "", @progbits
"""
_MAIN = f"""\
#include <stdio.h>
#include <time.h>
#include <unistd.h>
extern unsigned (*const table[])(unsigned);
__attribute__((noinline)) unsigned spin_here(long milliseconds) {{
  clock_t end = clock() + milliseconds * (CLOCKS_PER_SEC / 1000);
  unsigned sum;
  do {{
    sum = 0;
    for (int i = 0; i < {FUNCTIONS}; i++) sum = table[i](sum);
  }} while (clock() < end);
  return sum;
}}
int main(int argc, char **argv) {{
  printf("%u\\n", spin_here(argc > 1 ? 0 : 300));
  fflush(stdout);
  if (argc > 1 && write(1, "ready\\n", 6) == 6) pause();
  return 0;
}}
"""
EXPECTED = f"{sum(200 * (0x12340000 + n) for n in range(FUNCTIONS)) % 2**32}\n"

Row = Callable[[str, str, str], None]


@pytest.fixture(scope="module")
def subject(programs: Programs) -> Iterator[Path]:
    directory = programs.directory / "with-others"
    directory.mkdir()
    (directory / "work.s").write_text(_WORK, encoding="ascii")
    (directory / "main.c").write_text(_MAIN, encoding="ascii")
    words: list[str | Path] = [HUGEALIGN, "gcc", "-g", "-O1", "-Wl,-q", "main.c", "work.s", "-o", "subject-x"]
    subprocess.run(words, cwd=directory, env=environment(), check=True)
    assert hugealign("warm", directory / "subject-x").returncode == 0
    with held(directory / "subject-x"):
        yield directory / "subject-x"
    shutil.rmtree(directory)


@pytest.fixture
def row(record_property: Callable[[str, object], None]) -> Row:
    def record(tool: str, huge: str, rest: str) -> None:
        for name, value in (("with", tool), ("huge", huge), ("and", rest)):
            record_property(name, value)

    return record


def output(*words: str | Path, **variables: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | variables)
    return done.stdout


@contextlib.contextmanager
def waiting(*words: str | Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the subject with ``wait`` until it has printed its sum."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=os.environ | variables) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == EXPECTED.encode()
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            child.kill()


def the_one(subject: Path) -> int:
    """Return the process that runs *subject*, not one of the same name that is about to end or of another test run."""
    values = []
    for pid in naming.find(subject.name):
        with contextlib.suppress(processes.GoneError):
            values += [pid] if processes.read(pid).exe == str(subject) else []
    (pid,) = values
    return pid


def all_huge(subject: Path, *words: str | Path, **variables: str) -> None:
    """Assert that *subject*, run with ``wait`` behind *words*, computes what it should on huge pages."""
    with waiting(*words, subject, "wait", **variables):
        pid = the_one(subject)
        try:
            (text,) = processes.read(pid).text()
            assert text.windows() == (State.HUGE,) * WINDOWS
            assert hugealign("ps", str(pid)).returncode == 0
        finally:
            os.kill(pid, signal.SIGKILL)  # it is not always our child


def test_nothing(subject: Path, row: Row) -> None:
    all_huge(subject)
    assert output(subject) == EXPECTED
    row("nothing else", "3 of 3 windows", "the text that the others are compared with")


def test_malloc_hugetlb(subject: Path, row: Row) -> None:
    all_huge(subject, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    row("`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`", "3 of 3 windows", "affects the heap only")


def test_elf_thp(subject: Path, row: Row) -> None:
    tunables = output("/lib64/ld-linux-x86-64.so.2", "--list-tunables")
    if "glibc.elf.thp" not in tunables:
        pytest.skip("this glibc has no glibc.elf.thp")
    all_huge(subject, GLIBC_TUNABLES="glibc.elf.thp=1")
    row("`GLIBC_TUNABLES=glibc.elf.thp=1`", "3 of 3 windows", "finds the segments already aligned")


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_preloaded_malloc(subject: Path, row: Row, library: str) -> None:
    if not list(Path("/usr/lib").glob(f"*/{library}")):
        pytest.skip(f"{library} is not installed")
    all_huge(subject, LD_PRELOAD=library)
    row(f"`LD_PRELOAD={library}`", "3 of 3 windows", "affects the heap only")


def test_no_randomisation(subject: Path, row: Row) -> None:
    need("setarch")
    all_huge(subject, "setarch", "-R")
    row("`setarch -R`", "3 of 3 windows", "the kernel follows `p_align` also without randomisation")


def test_strace(subject: Path, row: Row) -> None:
    need("strace")
    all_huge(subject, "strace", "-f", "-o", "/dev/null")
    row("`strace -f`", "3 of 3 windows", "the same output")


def test_perf(subject: Path, row: Row, tmp_path: Path) -> None:
    need("perf")
    data = tmp_path / "perf.data"
    record = ("perf", "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o")
    try:
        assert output(*record, data, subject) == EXPECTED
    except subprocess.CalledProcessError as error:
        pytest.skip(f"perf cannot record here: {str(error.stderr).strip().splitlines()[-1:]}")
    names = re.findall(r"^\s*[0-9a-f]+ (\S+)", output("perf", "script", "-i", data, "-F", "ip,sym"), re.MULTILINE)
    named = sum(bool(re.fullmatch(r"work\d+|spin_here", name)) for name in names)
    assert len(names) > 100
    assert named > 0.95 * len(names)
    all_huge(subject, *record, tmp_path / "other.data")
    row("`perf record`", "3 of 3 windows", f"{100 * named // len(names)} % of the samples have a function name")


def test_gdb(subject: Path, row: Row) -> None:
    need("gdb")
    look = f"!{sys.executable} -m hugealign ps -v {subject.name}"
    # The first time round not all text has been touched.
    commands = ["break work3000", "ignore 1 1", "run", "bt", look, "info symbol $pc", "delete", "continue"]
    done = subprocess.run(
        ["gdb", "-q", "-batch", *(word for text in commands for word in ("-ex", text)), subject],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    stack = r"#0  .*work3000 \(\) at work\.s:\d+\n#1  \S+ in spin_here \(.*\) at main\.c:\d+\n#2  \S+ in main "
    assert re.search(stack, done), done
    assert "work3000 in section .text" in done
    # work3000 is in the second window; gdb has breakpoints of its own at the program's entry, in the first.
    assert "    ww#\n" in done, done
    assert EXPECTED in done
    row("`gdb`", "1 of 3 windows", "a breakpoint makes its window small; names, lines and stacks are correct")


# Takes valgrind ten seconds.
@pytest.mark.matrix
def test_valgrind(subject: Path, row: Row) -> None:
    need("valgrind")
    assert output("valgrind", "-q", "--error-exitcode=9", subject) == EXPECTED
    row("`valgrind`", "--", "the same output; valgrind runs a translation of the text")


@pytest.mark.matrix
def test_uftrace(row: Row, tmp_path: Path) -> None:
    """If a newer uftrace leaves the constants alone, this fails, and the row can go."""
    need("uftrace")
    source = (
        '#include <unistd.h>\nvoid work(void);\nconst char text[] = "constants\\n";\n'
        "int main(void) { work(); return write(1, text, sizeof text - 1) != 10; }\n"
    )
    (tmp_path / "bulk.s").write_text('.globl work\nwork: ret\n.fill 3000000,1,0x90\n.section .note.GNU-stack,""\n')
    (tmp_path / "main.c").write_text(source)
    patched = ("-O1", "-fpatchable-function-entry=5", tmp_path / "main.c", tmp_path / "bulk.s")
    kept = {}
    for name, compiler in (("plain", ["gcc"]), ("ours", [HUGEALIGN, "gcc"])):
        program = tmp_path / name
        subprocess.run([*compiler, *patched, "-o", program], check=True, env=environment())
        words: list[str | Path] = ["uftrace", "record", "-d", tmp_path / "data", "-P", ".", program]
        done = subprocess.run(words, capture_output=True, check=False)
        kept[name] = b"constants" in done.stdout
    assert kept == {"plain": True, "ours": False}
    row(
        "`uftrace record -P` (0.13)",
        "--",
        "**breaks the program**: if the last page of the text is full, as in programs that hugealign links, uftrace "
        "maps its own page after it, over the constants that follow. It does the same to a plain program whose text "
        "ends within 16 bytes of a page",
    )


def test_systemd_run(subject: Path, row: Row) -> None:
    need("systemd-run")
    if not Path("/run/systemd/system").is_dir():
        pytest.skip("systemd is not running here")
    all_huge(subject, "systemd-run", "--quiet", "--pipe", "--wait")
    row("`systemd-run`", "3 of 3 windows", "the same output")


# Reserves hugetlb pages for a second: not for the default run.
@pytest.mark.matrix
@pytest.mark.parametrize("force", [False, True])
def test_libhugetlbfs(subject: Path, row: Row, tmp_path: Path, force: bool) -> None:
    if not list(Path("/usr/lib").glob("*/libhugetlbfs.so.0")):
        pytest.skip("libhugetlbfs is not installed")
    reserve = Path("/proc/sys/vm/nr_hugepages")
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("not root, or no mount namespaces: hugetlbfs cannot be mounted")
    before = reserve.read_text(encoding="ascii")
    place = tmp_path / "hugetlbfs"
    place.mkdir()
    variables = "LD_PRELOAD=libhugetlbfs.so.0 HUGETLB_ELFMAP=R HUGETLB_VERBOSE=0" + " HUGETLB_FORCE_ELFMAP=yes" * force
    script = f"mount -t hugetlbfs none {place} && exec env {variables} {subject} wait"
    try:
        reserve.write_text(str(int(before) + 8), encoding="ascii")
        if int(reserve.read_text(encoding="ascii")) < int(before) + 8:
            pytest.skip("no memory for 8 hugetlb pages")
        with waiting("unshare", "-m", "sh", "-c", script) as child:
            done = hugealign("ps", "--all", str(child.pid))
    finally:
        reserve.write_text(before, encoding="ascii")
    assert done.returncode == 0
    kind = "file THP" if force else "hugetlb"
    assert re.search(rf"3/3 +100\.0%  {kind}\n", done.stdout), done.stdout
    if force:
        row(
            "libhugetlbfs, `HUGETLB_FORCE_ELFMAP=yes`",
            "3 of 3 windows",
            "refuses the layout and leaves the text as it is",
        )
    else:
        row(
            "libhugetlbfs, `HUGETLB_ELFMAP=R`",
            "3 of 3 windows, hugetlb",
            "treats the program as relinked for it and copies its text into hugetlb pages",
        )


@pytest.mark.matrix
def test_bolt_hugify(subject: Path, row: Row) -> None:
    # Called by its own name: from /usr/bin it looks for its runtime library in the wrong place.
    bolt = Path("/usr/lib/llvm-19/bin/llvm-bolt")
    if not bolt.exists() or not (bolt.parents[1] / "lib" / "libbolt_rt_hugify.a").exists():
        pytest.skip("llvm-bolt 19 or its runtime library is not installed (bolt-19, libbolt-19-dev)")
    result = subject.with_name("subject-bolt")
    subprocess.run([bolt, subject, "-o", result, "-hugify", "-lite=0"], check=True, capture_output=True)
    assert output(result) == EXPECTED

    def windows() -> collections.Counter[State]:
        with waiting(result, "wait") as child:
            done = hugealign("ps", "--json", str(child.pid))  # it leaves out a window that BOLT has left empty
            (seen,) = json.loads(done.stdout)["processes"]
        states: collections.Counter[State] = collections.Counter()
        for run in (run for mapping in seen["mappings"] for run in mapping["windows"]):
            states[State(run["state"])] += run["count"]
        return states

    alone = windows()
    assert alone[State.SMALL]
    assert hugealign("warm", result).returncode == 0
    warmed = windows()
    assert warmed[State.HUGE]
    assert not warmed[State.SMALL]
    row(
        "`llvm-bolt -hugify`",
        f"{alone[State.HUGE]} of {alone[State.HUGE] + alone[State.SMALL]} windows in use",
        f"the same output; `hugealign warm` of the result makes all {warmed[State.HUGE]} in use huge",
    )
