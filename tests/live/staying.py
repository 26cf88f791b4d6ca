"""How long warmed text stays huge, and what it saves: measured, for the tests and for docs/measured/staying-huge.md.

python -m tests.live.staying docs/measured/staying-huge.md      # root; writes to /proc/sys/vm/drop_caches
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.live.programs import WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.support import made_here, page_to_write

PROCESSES = 200
ALL_KIB = WINDOWS * WINDOW >> 10
_LIMIT = 96 << 20  # of the control group
_HOG = 256 << 20  # what is read in it
_HEAP = _LIMIT - (7 << 20)  # what is written in it: all but what Python itself needs

_HOGS = {
    "file": """\
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for at in range(int(sys.argv[2])):
    os.pread(fd, 1 << 20, at << 20)
""",
    "anonymous": f"""\
import mmap
open("/proc/self/oom_score_adj", "w").write("1000")  # if anybody must go
room = mmap.mmap(-1, {_HEAP}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(room), 4096):
    room[at] = 1
""",
}

#: Forks PROCESSES children, which touch all text that `good` has touched by then.
_SERVER = """\
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
static int touch(void) {
  int sum = 0;
  for (long at = 0; at < 5L << 20; at += 4096) sum += walk[at];
  return sum;
}
int main(void) {
  int ready[2], sum = touch();
  char byte = 0;
  if (pipe(ready)) return 1;
  for (int i = 0; i < %d; i++)
    if (!fork()) {
      byte = (char)touch();
      if (write(ready[1], &byte, 1) == 1) pause();
      _exit(0);
    }
  for (int i = 0; i < %d; i++)
    if (read(ready[0], &byte, 1) != 1) return 1;
  if (write(1, "ready\\n", 6) == 6) pause();
  return sum;
}
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a number of processes in KiB: page tables, resident memory, and its proportional share."""

    page_tables: int
    resident: int
    proportional: int
    huge: int


def windows_warm(path: Path) -> int:
    """Return how many windows of *path* a new process would get huge."""
    match = re.search(r": (\d+) of \d+ windows huge", hugealign("warm", "--check", path).stdout)
    assert match
    return int(match[1])


def memory(pids: list[int], path: Path) -> Memory:
    """Return what the processes *pids*, which map *path*, take together."""
    sums = dict.fromkeys(("VmPTE", "VmRSS", "Pss"), 0)
    for pid in pids:
        for name in ("status", "smaps_rollup"):
            for line in Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition(":")
                if key in sums:
                    sums[key] += int(value.split()[0])
    return Memory(sums["VmPTE"], sums["VmRSS"], sums["Pss"], sum(huge_kib(pid, path) for pid in pids))


def many(path: Path) -> Memory:
    """Start PROCESSES processes of *path*, let them touch all their text, and return what they take."""
    with contextlib.ExitStack() as stack:
        return memory([stack.enter_context(running(path, "5")).pid for _ in range(PROCESSES)], path)


def forked(path: Path) -> Memory:
    """Start the server *path* and return what its forked children take."""
    with running(path) as server:
        pids = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text(encoding="ascii").split()
        assert len(pids) == PROCESSES
        try:
            return memory(list(map(int, pids)), path)
        finally:
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)


def server(programs: Programs) -> Path:
    """Build the server that forks, with whole windows as ``good`` has them, and warm it."""
    name = "server"
    (programs.directory / f"{name}.c").write_text(_SERVER % (PROCESSES, PROCESSES), encoding="ascii")
    flags = "-Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
    words = f"gcc -O1 -fuse-ld=bfd -o {name} {name}.c text.o pad.o {flags}".split()
    subprocess.run(words, cwd=programs.directory, check=True)
    path = programs.directory / name
    chill(path)
    return path


def drop_caches() -> None:
    """Make the kernel drop the clean page cache that no process maps, on the whole machine; needs root."""
    Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")


@contextlib.contextmanager
def limited() -> Iterator[tuple[str, ...]]:
    """Make a control group of _LIMIT bytes and yield words that run a command in it; OSError where it cannot be."""
    for place, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(place) / f"hugealign-{os.getpid()}"
        if not Path(place, "cgroup.procs").exists():
            continue
        group.mkdir()
        try:
            (group / limit).write_text(str(_LIMIT), encoding="ascii")
            yield ("sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh")
        finally:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            group.rmdir()
        return
    raise FileNotFoundError("no memory control group")


def pressure(path: Path, kind: str, *, mapped: bool) -> int:
    """Return the KiB of warmed *path* that are huge after *kind* of pressure in its control group.

    *kind*: ``file`` reads far more than the group may have, ``anonymous`` writes almost as much.  *mapped*: a
    process has mapped the text meanwhile, in the group, and is idle; otherwise it is requested afterwards.
    """
    big = Path(f"{path}.hog")
    with limited() as inside, contextlib.ExitStack() as stack:
        stack.callback(big.unlink, missing_ok=True)
        with big.open("wb") as file:
            for _ in range(_HOG >> 20):
                file.write(bytes(1 << 20))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        chill(path)
        evict(path)
        script = "import sys; from hugealign.cli import main; sys.exit(main(sys.argv[1:]))"
        subprocess.run([*inside, sys.executable, "-c", script, "warm", path], check=True, stdout=subprocess.DEVNULL)
        child = stack.enter_context(running(*inside, path, "5")) if mapped else None
        done = subprocess.run([*inside, sys.executable, "-c", _HOGS[kind], big, str(_HOG >> 20)], check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        return huge_kib(child.pid, path) if child else windows_warm(path) * WINDOW >> 10


def evict(path: Path) -> None:
    """Take *path* out of the page cache, so that who reads it next is charged for it."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def upgrade(path: Path) -> None:
    """Replace *path* as package managers do: write the new file beside it, then rename."""
    new = path.with_name(f"{path.name}.dpkg-new")
    shutil.copy(path, new)
    chill(new)
    new.replace(path)


def main() -> None:
    """Measure, and write the document that the first argument names."""
    target = page_to_write(__doc__)
    with tempfile.TemporaryDirectory(prefix="hugealign-live-") as name:
        programs = Programs(Path(name))
        programs.build()
        path = programs.copy("good-copy")
        assert hugealign("warm", path).returncode == 0
        rows = []
        with running(path, "5") as child:
            drop_caches()
            rows.append(("`drop_caches` while it runs", huge_kib(child.pid, path)))
        drop_caches()
        rows.append(("`drop_caches` while nothing runs it", windows_warm(path) * WINDOW >> 10))
        for kind, words in (
            ("file", f"{_HOG >> 20} MiB of files read"),
            ("anonymous", f"{_HEAP >> 20} MiB of heap used"),
        ):
            rows += [
                (
                    f"{words} in its control group of {_LIMIT >> 20} MiB, while it runs but is idle",
                    pressure(path, kind, mapped=True),
                ),
                (f"{words} in that group, while nothing runs it", pressure(path, kind, mapped=False)),
            ]
        assert hugealign("warm", path).returncode == 0
        with running(path, "5") as child:
            upgrade(path)
            rows.append(("an upgrade (rename): the running process", huge_kib(child.pid, path)))
        with running(path, "5") as child:
            rows.append(("the same upgrade: a process started afterwards", huge_kib(child.pid, path)))
        forking = server(programs)
        takes = {"small": (many(path), forked(forking))}
        for file in (path, forking):
            assert hugealign("warm", file).returncode == 0
        takes["huge"] = many(path), forked(forking)
    lines = [f"| {words} | {kib} of {ALL_KIB} |" for words, kib in rows]
    costs = [
        f"| {PROCESSES} {what}, {text} | {m.huge // PROCESSES} | {m.page_tables} | {m.resident} | {m.proportional} |"
        for text in takes
        for what, m in zip(("processes", "forked children"), takes[text], strict=True)
    ]
    target.write_text(_document(lines, costs), encoding="utf-8")


def _document(lines: list[str], costs: list[str]) -> str:
    return f"""\
# Staying huge

Text that runs stays huge when files are read and caches dropped, but not when programs use up the memory of its
control group.

KiB of text that PMDs map, in the running process or in one that starts afterwards:

| after | huge, KiB |
|---|--:|
{chr(10).join(lines)}

Reading files evicts text that no process maps. Memory that programs write to can evict whole windows, even those of a
running process if it is idle. The kernel rereads evicted text into small folios. So warm a program before each start,
and after each upgrade before the restart: an upgrade brings a new file, and the old process keeps its own until it
ends. `hugealign enable UNIT` makes systemd do that. `examples/systemd` has a hand-written drop-in for it, and a timer
that rewarms text that has cooled.

## What it saves

Page tables, resident memory and proportional share (PSS) of all processes together, in KiB:

| | huge, each | page tables | RSS | PSS |
|---|--:|--:|--:|--:|
{chr(10).join(costs)}

Each process needs a 4 KiB page table for a window on small pages, and none for a huge one. RSS counts whole windows in
every process. The memory itself exists once, as PSS shows.

## How it was made

Written by `python -m tests.live.staying docs/measured/staying-huge.md` ({made_here()}),
with a program of 5 MiB of text in three windows. `tests/live/test_staying.py` tests the same cases.
"""


if __name__ == "__main__":
    main()
