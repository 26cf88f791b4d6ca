"""Programs for the tests on this kernel, linked by hand: not by the wrapper that other tests are about."""

import contextlib
import mmap
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WINDOW = 2 << 20
WINDOWS = 3

# The text ends in the middle of the third window; the pad makes that window whole.
_TEXT = """\
        .text
        .globl  walk
        .hidden walk
walk:   .fill   5 * %d, 1, 0
        .section .note.GNU-stack,"",%%progbits
"""
TEXT = _TEXT % (WINDOW // 2)
_PAD = """\
        .section .hugealign.pad,"ax",%progbits
        .byte   0
        .section .note.GNU-stack,"",%progbits
"""
_SCRIPT = """\
SECTIONS { .hugealign.pad : { KEEP(*(.hugealign.pad)) . = ALIGN(CONSTANT(MAXPAGESIZE)); } } INSERT AFTER .fini;
"""
# With an argument it touches a page of every 4 KiB of text (or of the first N MiB) and waits.
_MAIN = """\
#include <stdlib.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
int main(int argc, char **argv) {
  int sum = 0;
  long end = argc > 1 ? atof(argv[1]) * (1 << 20) : 0;
  for (long at = 0; at < end; at += 4096) sum += walk[at];
  if (argc > 1 && write(1, "ready\\n", 6) == 6) pause();
  return sum;
}
"""
# Can the file system of argv[1] hold it in huge folios at all?  Independent of the code under test.
_PROBE = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  long page = WINDOW, kib = 0, huge = 0;
  char line[4096];
  int fd = open(argv[argc - 1], O_RDONLY);
  char *room = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *at = (char *)(((uintptr_t)room + page - 1) & -(uintptr_t)page);
  if (fsync(fd) || posix_fadvise(fd, 0, page, POSIX_FADV_DONTNEED)) return 2;
  if (mmap(at, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != at) return 2;
  madvise(at, page, MADV_RANDOM);
  madvise(at, page, MADV_HUGEPAGE);
  (void)*(volatile char *)at;
  madvise(at, page, 25 /* MADV_COLLAPSE */);
  (void)*(volatile char *)at;
  FILE *smaps = fopen("/proc/self/smaps", "r");
  while (fgets(line, sizeof line, smaps))
    if (sscanf(line, "FilePmdMapped: %ld", &kib) == 1 || sscanf(line, "ShmemPmdMapped: %ld", &kib) == 1) huge += kib;
  return huge != page >> 10;
}
"""


def write_sources(directory: Path, window: int = WINDOW) -> None:
    """Write main.c, text.s and probe.c for huge pages of *window* bytes."""
    sources = {"text.s": _TEXT % (window // 2), "main.c": _MAIN, "probe.c": _PROBE.replace("WINDOW", str(window))}
    for name, text in sources.items():
        (directory / name).write_text(text, encoding="ascii")


class Programs:
    """The directory with the programs and ``probe``.

    ``good`` has three whole windows, ``plain`` none, ``fixed`` one: an address that nothing moves.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.good = directory / "good"
        self.fixed = directory / "fixed"
        self.plain = directory / "plain"

    def build(self) -> None:
        write_sources(self.directory)
        for name, text in {"pad.s": _PAD, "pad.ld": _SCRIPT}.items():
            (self.directory / name).write_text(text, encoding="ascii")
        flags = "-Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
        for command in (
            "gcc -c -O1 main.c text.s pad.s",
            "gcc -o probe probe.c",
            "gcc -fuse-ld=bfd -o plain main.o text.o -Wl,-z,max-page-size=0x1000",
            "gcc -fuse-ld=bfd -no-pie -o fixed main.o text.o -Wl,-z,max-page-size=0x1000",
            f"gcc -fuse-ld=bfd -o good main.o text.o pad.o {flags}",
        ):
            subprocess.run(command.split(), cwd=self.directory, check=True)

    def copy(self, name: str) -> Path:
        """Return a fresh copy of ``good``, in the page cache in small pages."""
        path = self.directory / name
        shutil.copy(self.good, path)
        chill(path)
        return path


def chill(path: Path) -> None:
    """Bring *path* into the page cache in small folios; it becomes a new file."""
    new = path.with_name("new")
    shutil.copy(path, new)  # on tmpfs this alone does it; elsewhere the kernel may write in huge folios
    new.replace(path)
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for offset in range(0, os.fstat(fd).st_size, 4096):
        os.pread(fd, 1, offset)
    os.close(fd)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep the folios of *path*, which is warm, while several tests use them.

    The kernel takes pages first that no process maps, and DAMON (``mm/damon``), where a machine runs it, may take them
    after a minute even if there is memory.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ):
        yield


def huge_kib(pid: int, path: Path) -> int:
    """Return the KiB of the text of *path* that PMDs map in process *pid*; reads smaps in its own way."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = "x" in words[1] and str(path) in line
        elif inside and words[0] in ("FilePmdMapped:", "ShmemPmdMapped:"):
            total += int(words[1])
    return total


#: A library that touches all of its text, which text.o has.
TOUCHED = """\
extern const volatile char walk[] __attribute__((visibility("hidden")));
int touch(void) { int sum = 0; for (long at = 0; at < 5 << 20; at += 4096) sum += walk[at]; return sum; }
"""
#: What runs a command as an ordinary user.
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
#: Runs a command with huge pages disabled: prctl(PR_SET_THP_DISABLE) outlives exec.
NO_THP = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])",
)


def hugealign(*words: str | Path, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run ``hugealign`` with *words* as people would; a traceback is a failure."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "hugealign", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "Traceback" not in done.stderr
    return done


@contextlib.contextmanager
def running(*words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a copy of ``good`` or ``plain`` with *words* until it has touched its text."""
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
