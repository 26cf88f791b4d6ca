"""Debuggers, profilers and packagers on a separated program and library: each says what it says of the originals.

docs/measured/debuggers.md has the same as a table.  ``plain`` and ``moved`` have a program, a library and their debug
files, beside them by the name of their debug link and in ``debug`` by build ID.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from hugealign.fixing.separation import debugfile
from tests.link.test_separate import all_sizes, separated, undone
from tests.support import Elf, environment, need, need_compiler, run

__all__ = ["all_sizes"]  # a fixture

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(600)]

LIBRARY = """
#include <stdexcept>
#include <string>
volatile unsigned sum;
extern "C" __attribute__((noinline)) int inner(int n) {
    if (n == 3) throw std::runtime_error("three");
    if (n == 4) *(volatile int *)8 = 1;
    for (long i = 0; n == 2 && i < 300000000; i++) sum += i;
    return n;
}
extern "C" __attribute__((noinline)) int outer(int n) { return inner(n) + 1; }
"""
MAIN = """
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
extern "C" int outer(int);
extern "C" __attribute__((noinline)) int traced(void) {
    void *frames[8];
    int count = backtrace(frames, 8);
    char **names = backtrace_symbols(frames, count);
    for (int i = 0; i < count; i++) std::puts(names[i]);
    return count;
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 0;
    __asm__ volatile("990: nop\\n.pushsection .note.stapsdt, \\"\\", @note\\n.balign 4\\n.long 8, 992f - 991f, 3\\n"
        ".asciz \\"stapsdt\\"\\n991: .quad 990b, _.stapsdt.base, 0\\n"
        ".asciz \\"shop\\"\\n.asciz \\"opened\\"\\n.asciz \\"-4@%0\\"\\n"
        "992: .balign 4\\n.popsection\\n.pushsection .stapsdt.base, \\"aG\\", \\"progbits\\", .stapsdt.base, comdat\\n"
        ".weak _.stapsdt.base\\n.hidden _.stapsdt.base\\n_.stapsdt.base: .space 1\\n.size _.stapsdt.base, 1\\n"
        ".popsection" : : "r"(n));
    if (n == 5) traced();
    if (n == 6) { volatile int *p = (int *)std::malloc(4); p[1] = argc; std::free((void *)p); }
    try { std::printf("%d\\n", outer(n)); } catch (std::exception &e) { std::printf("caught %s\\n", e.what()); }
    return 0;
}
"""
KINDS = "plain", "moved"


def made(place: Path, compiler: Sequence[object], change: Callable[[Path, Path], object], *inputs: object) -> Path:
    """Make a program and a library in *place*: ``whole``, ``plain``, and ``moved``, which *change* makes of that.

    It gets the paths of a file and of the new one, beside which it also puts a debug file.  *inputs* go into both.
    """
    need("objcopy", "strip")
    (place / "library.cc").write_text(LIBRARY)
    (place / "main.cc").write_text(MAIN)
    whole = place / "whole"
    for kind in (*KINDS, "whole"):
        (place / kind).mkdir()
    words = (*compiler, "-g", "-O1", "-fPIC", "-fno-omit-frame-pointer", "-Wl,--build-id", *inputs)
    run(*words, "-shared", "-Wl,-soname,libshop.so", "../library.cc", "-o", "libshop.so", cwd=whole, check=True)
    program = ("-pie", "-rdynamic", "../main.cc", "libshop.so", "-Wl,-rpath,$ORIGIN", "-o", "shop")
    run(*words, *program, cwd=whole, check=True)
    for name in ("libshop.so", "shop"):
        plain, moved = (place / kind / name for kind in KINDS)
        debug = plain.with_name(f"{name}.debug")
        run("objcopy", "--only-keep-debug", whole / name, debug, check=True)
        run("strip", "-g", whole / name, "-o", plain, check=True)
        run("objcopy", f"--add-gnu-debuglink={debug}", plain, check=True)
        change(plain, moved)
        for kind in KINDS:
            identity = build_id(place / kind / name)
            where = place / kind / "debug" / ".build-id" / identity[:2]
            where.mkdir(parents=True, exist_ok=True)
            shutil.copy(place / kind / debug.name, where / f"{identity[2:]}.debug")
    return place


def move(plain: Path, moved: Path) -> None:
    """Separate *plain*, with its debug file."""
    with mock.patch.dict(os.environ, HUGEALIGN_MIN_TEXT="0"):
        separated(plain, moved)
    debugfile.move_debug_file(f"{plain}.debug", str(moved), f"{moved}.debug")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of ``plain`` and ``moved``, and of ``whole``, where the program has its debug information."""
    place = made(tmp_path_factory.mktemp("tools"), ("g++",), move)
    (place / "whole-moved").mkdir()
    with mock.patch.dict(os.environ, HUGEALIGN_MIN_TEXT="0"):
        for name in ("libshop.so", "shop"):
            separated(place / "whole" / name, place / "whole-moved" / name)
    return place


def build_id(path: Path) -> str:
    (result,) = re.findall(r"Build ID: (\w+)", run("readelf", "-n", path, check=True).stdout)
    return str(result)


def masked(text: str, *names: str) -> str:
    """Return *text* without addresses, process numbers and *names* of directories."""
    text = re.sub(
        r"0x[0-9a-fA-F]+|==\d+==|\b(?:process|Process|PID:?) \d+|LWP \d+|'main' \(\d+\)|[0-9a-f]{12,}|\bTID \d+",
        "X",
        text,
    )
    for name in (*names, "whole-moved", "moved", "whole", "plain"):
        text = text.replace(name, "DIR")
    return text


def both(programs: Path, *words: object, kinds: tuple[str, str] = KINDS) -> list[str]:
    """What a command says in the directory of the originals, and in that of the separated files."""
    done = [run(*words, cwd=programs / kind) for kind in kinds]
    return [masked(item.stdout + item.stderr) for item in done]


def test_lldb(programs: Path) -> None:
    need("lldb")
    for kind in KINDS:
        asked = (
            f"settings set target.debug-file-search-paths {programs}/{kind}/debug",
            "target create shop",
            "breakpoint set -f library.cc -l 6",
            "run 3",
            "bt",
            "frame variable",
        )
        reported = run(
            "lldb", "-b", "-x", *(word for item in asked for word in ("-o", item)), cwd=programs / kind
        ).stdout
        assert re.search(r"frame #0: .*inner\(n=3\) at library.cc:6", reported), reported
        assert re.search(r"frame #1: .*outer\(.*library.cc:\d+", reported)
        assert re.search(r"frame #2: .*main\(.*main.cc:\d+", reported)
        assert "(int) n = 3" in reported


def recorded(programs: Path, kind: str, home: Path) -> dict[str, str]:
    """Record the program by perf; what report and annotate say of it."""
    need("perf")
    place, env = programs / kind, environment(HOME=str(home))
    words = ("perf", "record", "-q", "-e", "cpu-clock", "--call-graph", "dwarf,4096", "-F", "300", "-o", "data")
    done = run(*words, "./shop", "2", cwd=place, env=env)
    if done.returncode:
        pytest.skip(f"perf record: {done.stderr.splitlines()[0]}")
    run("perf", "buildid-cache", "--add", "shop", cwd=place, env=env)
    return {
        "report": run("perf", "report", "-i", "data", "--stdio", "-g", "none", cwd=place, env=env).stdout,
        "script": run("perf", "script", "-i", "data", "-F", "ip,sym,srcline", cwd=place, env=env).stdout,
        "annotate": run("perf", "annotate", "-i", "data", "--stdio", "-l", "inner", cwd=place, env=env).stdout,
    }


def test_perf(programs: Path, tmp_path: Path) -> None:
    """Both in one cache of build IDs, side by side: names, lines and annotated code."""
    for kind in (*KINDS, "plain"):
        reported = recorded(programs, kind, tmp_path)
        assert re.search(r"% .*shop .*libshop.so .*\binner$", reported["report"], re.MULTILINE), reported["report"]
        assert {"inner", "outer", "main"} <= set(re.findall(r"\b(inner|outer|main)\b", reported["script"]))
        assert "library.cc:" in reported["script"], reported["script"][:2000]
        assert re.search(r"library.cc:8|sum \+= i", reported["annotate"]), reported["annotate"][:2000]
    identities = {build_id(programs / kind / "libshop.so") for kind in KINDS}
    assert len(identities) == 2
    assert all((tmp_path / ".debug" / ".build-id" / item[:2] / item[2:]).exists() for item in identities)


def test_uprobe(programs: Path) -> None:
    """A uprobe of perf on a function of the library."""
    need("perf")
    for kind in KINDS:
        library = programs / kind / "libshop.so"
        done = run("perf", "probe", "-q", "-f", "-x", library, f"hugealign_test_{kind}=inner")
        if done.returncode:
            pytest.skip(f"perf probe: {done.stderr.strip()}")
        try:
            events = run("perf", "probe", "-l").stdout
            event = re.findall(rf"\S+:hugealign_test_{kind}\w*", events)[0]
            words = ("perf", "record", "-q", "-e", event, "-o", "probed", "./shop", "1")
            run(*words, cwd=programs / kind, check=True)
            assert "shop" in run("perf", "script", "-i", "probed", "-F", "comm,event", cwd=programs / kind).stdout
        finally:
            run("perf", "probe", "-q", "-d", f"*:hugealign_test_{kind}*")


def test_bpftrace(programs: Path) -> None:
    """A uprobe and a static probe."""
    need("bpftrace")
    for kind in KINDS:
        for probe in (f"uprobe:{programs}/{kind}/libshop.so:inner", f"usdt:{programs}/{kind}/shop:shop:opened"):
            words = ("-e", probe + ' { printf("reached %d\\n", arg0); }', "-c", f"{programs}/{kind}/shop 1")
            done = run("bpftrace", *words)
            if "not permitted" in done.stderr or "not supported" in done.stderr.lower():
                pytest.skip(f"bpftrace: {done.stderr.strip()}")
            assert "reached 1\n" in done.stdout, (probe, done)


def test_valgrind(programs: Path) -> None:
    """Valgrind finds separate debug files by build ID only below /usr/lib/debug; in the program they are right."""
    need("valgrind")
    kinds = ("whole", "whole-moved")
    plain, moved = both(programs, "valgrind", "--error-exitcode=9", "./shop", "6", kinds=kinds)
    if "Fatal error at startup" in plain:
        pytest.skip(plain)
    assert re.search(r"Invalid write of size 4\n.*main \(main.cc:\d+\)", plain), plain
    assert moved == plain


def test_uftrace(programs: Path, tmp_path: Path) -> None:
    need("uftrace")
    run(
        "g++",
        "-O1",
        "-fPIE",
        "-pie",
        "-finstrument-functions",
        programs / "library.cc",
        programs / "main.cc",
        "-o",
        tmp_path / "shop",
        check=True,
    )
    separated(tmp_path / "shop", tmp_path / "moved")
    seen = []
    for name in ("shop", "moved"):
        done = run("uftrace", "record", "-d", f"{name}.data", f"./{name}", "1", cwd=tmp_path)
        if done.returncode:
            pytest.skip(f"uftrace: {done.stderr}")
        reported = run("uftrace", "replay", "-d", f"{name}.data", "-f", "none", cwd=tmp_path, check=True).stdout
        seen.append(re.findall(r"\b(\w+)\(\)", reported))
    assert {"main", "outer", "inner"} <= set(seen[0])
    assert seen[1] == seen[0]


def symbol(path: Path, name: str) -> str:
    (line,) = (item for item in run("nm", path, check=True).stdout.splitlines() if item.endswith(f" {name}"))
    return f"0x{int(line.split()[0], 16) + 8:x}"


@pytest.mark.parametrize("tool", ["addr2line", "eu-addr2line", "llvm-symbolizer-19"])
def test_lines_of_addresses(tool: str, programs: Path) -> None:
    """With the debug file beside the library, or named itself."""
    need(tool)
    seen = []
    for kind in KINDS:
        address = symbol(programs / kind / "libshop.so.debug", "inner")
        words = ("--obj=libshop.so.debug",) if tool.startswith("llvm") else ("-f", "-e", "libshop.so.debug")
        seen.append(run(tool, *words, address, cwd=programs / kind, check=True).stdout)
        assert "inner" in seen[-1]
        assert re.search(r"library.cc:\d", seen[-1])
    assert masked(seen[0]) == masked(seen[1])


def test_eu_stack(programs: Path) -> None:
    need("eu-stack", "gdb")
    for kind in KINDS:
        words = ("-ex", "run 4", "-ex", "generate-core-file core")
        run("gdb", "-q", "-nx", "-batch", *words, "shop", cwd=programs / kind)
        words = ("--core=core", "--executable=shop", f"--debuginfo-path={programs}/{kind}/debug", "-s")
        reported = run("eu-stack", *words, cwd=programs / kind).stdout
        assert re.search(r"inner.*\n.*library.cc:7.*\n.*outer.*\n.*library.cc", reported), reported
        with started(programs / kind / "shop", "2") as process:
            reported = run("eu-stack", "-p", process.pid).stdout
        assert re.findall(r"\b(inner|outer|main)\b", reported)[:3] == ["inner", "outer", "main"], reported


@contextmanager
def started(*words: object) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a command meanwhile, once it has started to compute."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, env=environment())
    try:
        while int(Path(f"/proc/{process.pid}/stat").read_text().rsplit(")")[-1].split()[11]) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


def test_exceptions_and_backtraces(programs: Path) -> None:
    """C++ exceptions out of the library, and backtrace(3), which goes by dl_iterate_phdr(3) and dladdr(3)."""
    plain, moved = both(programs, "./shop", "3")
    assert moved == plain == "caught three\n"
    plain, moved = both(programs, "./shop", "5")
    assert re.search(r"shop\(traced\+X\).*\n.*shop\(main\+X\)", plain), plain
    assert moved == plain


def test_debuginfod(programs: Path, tmp_path: Path) -> None:
    """A server gives each debug file by its own build ID, never the one of the other."""
    need("debuginfod", "debuginfod-find")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ("debuginfod", "-d", tmp_path / "index", "-p", str(port), "-F", *(programs / kind for kind in KINDS))
    with started_server(*server) as process:
        url = f"http://127.0.0.1:{port}"
        settings = environment(DEBUGINFOD_URLS=url, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))
        for kind in KINDS:
            identity = build_id(programs / kind / "libshop.so")
            wait_for(f"{url}/buildid/{identity}/debuginfo", process)
            for what, name in (("debuginfo", "libshop.so.debug"), ("executable", "libshop.so")):
                result = run("debuginfod-find", what, identity, env=settings, check=True).stdout.strip()
                assert Path(result).read_bytes() == (programs / kind / name).read_bytes()


@contextmanager
def started_server(*words: object) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Return once a server, which scans its files meanwhile, has what is at *url*."""
    while True:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(url):  # noqa: S310 - of our own server
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)


def test_unstrip(programs: Path, tmp_path: Path) -> None:
    """The program and the moved debug file make one that runs and has lines."""
    need("eu-unstrip", "eu-addr2line")
    for kind in KINDS:
        output = tmp_path / f"{kind}-shop"
        done = run("eu-unstrip", "-o", output, "shop", "shop.debug", cwd=programs / kind)
        assert done.returncode == 0, done
        assert run(output, "1", LD_LIBRARY_PATH=str(programs / kind), check=True).stdout == "2\n"
        reported = run("eu-addr2line", "-fe", output, symbol(output, "main"), check=True).stdout
        assert re.search(r"main\n.*main.cc:\d+", reported)


@pytest.mark.parametrize(
    "tool", ["strip", "strip -g", "eu-strip", "llvm-strip-19", "patchelf --set-rpath $ORIGIN/x:$ORIGIN"]
)
def test_packagers(tool: str, programs: Path, tmp_path: Path) -> None:
    """The program runs afterwards, its text in as many whole windows."""
    words = tool.split()
    need(words[0])
    shutil.copytree(programs / "whole-moved", tmp_path / "there")
    program = tmp_path / "there" / "shop"
    before = [(s["p_vaddr"], s["p_memsz"]) for s in Elf(program).text]
    run(*words, program, check=True)
    assert [(s["p_vaddr"], s["p_memsz"]) for s in Elf(program).text] == before
    assert Elf(program).faults() == []
    assert run(program, "3", check=True).stdout == "caught three\n"


RUST = """
#[inline(never)] fn inner(n: usize) -> usize { let v = vec![1, 2]; v[n] }
#[inline(never)] fn outer(n: usize) -> usize { inner(n) + 1 }
fn main() { println!("{}", outer(std::env::args().count() + 4)); }
"""


@pytest.mark.parametrize("compressed", [False, True])
def test_rust_backtrace(compressed: bool, tmp_path: Path) -> None:
    """The standard library reads the program's own debug information."""
    need("rustc", "objcopy")
    (tmp_path / "main.rs").write_text(RUST)
    path = tmp_path / "program"
    run("rustc", "-g", "-Clink-arg=-fuse-ld=bfd", tmp_path / "main.rs", "-o", path, check=True)
    if compressed:
        run("objcopy", "--compress-debug-sections", path, check=True)
    output, _ = separated(path)
    plain, moved = (run(item, RUST_BACKTRACE="1").stderr for item in (path, output))
    assert re.search(r"main::inner\n +at .*main.rs:2.*\n.*main::outer\n +at .*main.rs:3", plain), plain
    assert masked(moved) == masked(plain)


GO = """
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

//go:noinline
func inner(n int) int {
	sum := 0
	for i := 0; i < n; i++ {
		sum += i ^ sum
	}
	return sum
}

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	fmt.Println(inner(700000000))
	pprof.StopCPUProfile()
}
"""


def test_go(tmp_path: Path) -> None:
    """`go tool addr2line` and `go tool pprof -list` on a program that GNU ld linked."""
    need("go")
    (tmp_path / "main.go").write_text(GO)
    path = tmp_path / "program"
    words = ("go", "build", "-buildmode=pie", "-ldflags=-linkmode=external", "-o", path, "main.go")
    run(*words, cwd=tmp_path, check=True, GOFLAGS="", GO111MODULE="off")
    output, _ = separated(path)
    for item in (path, output):
        address = symbol(item, "main.inner")
        done = subprocess.run(
            ["go", "tool", "addr2line", str(item)],
            input=f"{address}\n",
            text=True,
            capture_output=True,
            check=True,
            env=environment(),
        )
        assert re.search(r"main.inner\n.*main.go:1\d", done.stdout), done
        profile = tmp_path / f"{item.name}.profile"
        run(item, profile, check=True)
        reported = run("go", "tool", "pprof", "-list", "main.inner", item, profile, check=True).stdout
        assert re.search(r"sum \+= i \^ sum", reported), reported


SANITIZED = """
#include <stdlib.h>
__attribute__((noinline)) int inner(int *p, int n) { return p[n]; }
int main(int argc, char **argv) { int *p = malloc(8); return inner(p, argc + 4); }
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_sanitizer(compiler: str, tmp_path: Path) -> None:
    """AddressSanitizer names function and line: by its own reader, or by llvm-symbolizer."""
    need_compiler(compiler)
    (tmp_path / "main.c").write_text(SANITIZED)
    path = tmp_path / "program"
    words = ("-g", "-O1", "-fPIE", "-pie", "-fsanitize=address", tmp_path / "main.c", "-o", path)
    done = run(compiler, *words)
    if done.returncode:
        pytest.skip(f"{compiler}: {done.stderr}")
    output, _ = separated(path)
    symbolizer = "" if compiler == "gcc" else shutil.which("llvm-symbolizer-19") or ""
    plain, moved = (run(item, ASAN_SYMBOLIZER_PATH=symbolizer).stderr for item in (path, output))
    frames = re.findall(r"#\d+ 0x\w+ in (\w+ \S+:\d+)\b", plain)
    assert re.match(r"inner .*main.c:3", frames[0]), plain
    assert re.findall(r"#\d+ 0x\w+ in (\w+ \S+:\d+)\b", moved) == frames


def test_distribution_debug_file(tmp_path: Path) -> None:
    """A separated libc with the moved copy of what libc6-dbg has: gdb steps into it by lines."""
    need("gdb")
    library = Path("/lib/x86_64-linux-gnu/libc.so.6").resolve()
    identity = build_id(library)
    debug = Path(f"/usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug")
    if not debug.exists():
        pytest.skip("no libc6-dbg")
    (tmp_path / "moved").mkdir()
    output, _ = separated(library, tmp_path / "moved" / "libc.so.6")
    assert undone(output).read_bytes() == library.read_bytes()
    new = build_id(output)
    place = tmp_path / "debug" / ".build-id" / new[:2]
    place.mkdir(parents=True)
    debugfile.move_debug_file(str(debug), str(output), str(place / f"{new[2:]}.debug"))
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main(void) { return puts("x") < 0; }\n')
    run("gcc", "-g", tmp_path / "main.c", "-o", tmp_path / "main", check=True)
    asked = ("break main", "run", "break _IO_new_file_xsputn", "continue", "bt", "info sharedlibrary")
    words = [word for item in asked for word in ("-ex", item)]
    first = (
        "-ex",
        f"set debug-file-directory {tmp_path}/debug",
        "-ex",
        f"set environment LD_LIBRARY_PATH {tmp_path}/moved",
    )
    reported = run("gdb", "-q", "-nx", "-batch", *first, *words, tmp_path / "main", cwd=tmp_path).stdout
    assert re.search(
        r"#0 +_IO_new_file_xsputn .* at .*fileops.c:\d+\n(#.*\n)*#\d+ .* main \(\) at .*main.c:2", reported
    ), reported
    assert f"{output}" in reported
