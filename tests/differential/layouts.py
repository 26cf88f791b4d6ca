"""Generated layouts of ELF files: what hugealign says of them, held against the kernel's own smaps.

    python -m tests.differential.layouts --seed 1 --count 5000

Each file is written to ext4 (or what --directory is on) and to a tmpfs with huge=always, brought into huge folios,
started (a library: opened by dlopen), and its smaps are read.  `verify`, `warm`, `ps`, `fix` and `run` must agree with
them.  Prints each difference that nothing explains, with its seed; status 1 if there is one.  Needs root, gcc, as.
"""

import argparse
import contextlib
import ctypes
import mmap
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import hugealign
from hugealign.diagnosis import catalogue, render
from hugealign.elf.fixrecord import Piece
from hugealign.errors import HugealignError
from tests.differential.elffile import FIXED, LIBRARY, PAGE, WINDOW, Layout, Part, R, W, X, assembled, generate, write

ROOT = Path(__file__).resolve().parents[2]
_HOST = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char wanted[4096];
static int touch(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (strcmp(info->dlpi_name, wanted)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        unsigned long end = info->dlpi_addr + p->p_vaddr + p->p_filesz;
        unsigned long at = (info->dlpi_addr + p->p_vaddr) & -4096ul;
        for (; at < end; at += 4096) (void)*(volatile char *)at;
    }
    return 1;
}
int main(int argc, char **argv) {
    strcpy(wanted, argv[1]);
    if (argc < 2 || !dlopen(wanted, RTLD_NOW)) return puts(dlerror()), 3;
    if (!dl_iterate_phdr(touch, 0)) return 4;
    write(1, ".", 1);
    for (;;) pause();
}
"""
_MADV_POPULATE_READ = 22


@dataclass(frozen=True, slots=True)
class Vma:
    start: int
    end: int
    offset: int
    pmd: int  # bytes

    def windows(self) -> list[int]:
        """The offsets in the file of the windows that the mapping has."""
        if (self.start - self.offset) % WINDOW:
            return []
        first = -(-self.start // WINDOW) * WINDOW
        return [at - self.start + self.offset for at in range(first, self.end - WINDOW + 1, WINDOW)]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the kernel shows of one run: *code* windows with code are huge; *partial*: it mapped only some windows.

    *huge* has the offset of each mapping, and how many of its bytes are huge.
    """

    started: bool
    code: int = 0
    bytes: int = 0
    partial: bool = False
    ps: int = 0
    ps_bytes: int = 0
    huge: tuple[tuple[int, int], ...] = ()
    what: str = ""


class Differ:
    """The tools and the places of a run."""

    def __init__(self, directory: Path, tmpfs: Path) -> None:
        self.places = {"disk": directory, "tmpfs": tmpfs}
        self.program = assembled()
        source, self.host = directory / "host.c", directory / "host"
        source.write_text(_HOST, encoding="ascii")
        subprocess.run(["gcc", "-O1", "-fPIE", "-pie", source, "-o", self.host, "-ldl"], check=True)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        self.libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
        self.libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self.libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self.counts: Counter[str] = Counter()

    def keeps_huge_folios(self) -> bool:
        """Whether the file systems of all places give a program at fixed addresses its windows."""
        text = Part(R | X, 0x400000, WINDOW, 2 * WINDOW, 2 * WINDOW, WINDOW, code=[(0x400000, 0x400000 + 2 * WINDOW)])
        parts = [Part(R, 0x3FF000, 0, PAGE, PAGE, PAGE), text]
        layout = Layout(FIXED, [*parts, Part(R | W, 0xA00000, 3 * WINDOW, 0x2000, 0x2000, PAGE)], sections=True)
        for place in self.places.values():
            path = place / "probe"
            write(layout, path, self.program)
            self.warm(path)
            result = self.look(layout, path, [str(path)]).code
            path.unlink()
            if result != 2:
                return False
        return True

    def warm(self, path: Path) -> None:
        """Bring all of the file at *path* into huge folios, without hugealign."""
        with path.open("rb") as file:
            fd, size = file.fileno(), path.stat().st_size
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            room = size + 2 * WINDOW
            base = self.libc.mmap(None, room, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            at = -(-base // WINDOW) * WINDOW
            self.libc.mmap(at, size, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE | 0x10, fd, 0)
            whole = size // WINDOW * WINDOW
            self.libc.madvise(at, size, mmap.MADV_HUGEPAGE)
            for place in range(at, at + whole, WINDOW):
                self.libc.madvise(place, PAGE, _MADV_POPULATE_READ)
            self.libc.munmap(base, room)

    @contextlib.contextmanager
    def started(self, command: list[str]) -> Iterator[tuple[int, bool]]:
        """Start *command*; yield its PID, and whether it has touched its text."""
        try:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError:
            yield 0, False
            return
        try:
            assert child.stdout
            ready = select.select([child.stdout], [], [], 20)[0]
            yield child.pid, bool(ready) and child.stdout.read(1) == b"."
        finally:
            child.kill()
            child.wait()
            if child.stdout:
                child.stdout.close()

    def look(self, layout: Layout, path: Path, command: list[str], pieces: Sequence[Piece] = ()) -> Seen:
        """Start *command*, and look at the mappings of *path*: of *layout*, with contents moved as *pieces* say."""
        with self.started(command) as (pid, touched):
            if not touched:
                return Seen(started=False)
            vmas = list(_vmas(pid, path))
            code, partial = 0, False
            for vma in vmas:
                windows = [at for at in vma.windows() if not _cleared(layout, vma, at)]
                if vma.pmd == len(windows) * WINDOW:
                    code += sum(_holds_code(layout, offset, pieces) for offset in windows)
                else:
                    partial = True
            options = hugealign.PsOptions(all=layout.kind == LIBRARY)
            (verdict,) = hugealign.processes([str(pid)], options).verdicts
            mine = [m for m in verdict.mappings if m.path == str(path)]
            return Seen(
                started=True,
                code=code,
                bytes=sum(vma.pmd for vma in vmas),
                partial=partial,
                ps=sum(m.windows_huge for m in mine),
                ps_bytes=sum(m.huge for m in mine),
                huge=tuple((vma.offset, vma.pmd) for vma in vmas),
                what="".join(
                    f"\n    {v.start:#x}-{v.end:#x} at {v.offset:#x}: {v.pmd // WINDOW} of {len(v.windows())}"
                    for v in vmas
                ),
            )

    def case(self, seed: str, number: int, run: bool) -> list[str]:
        """Return the differences of one layout."""
        layout = generate(random.Random(f"{seed}/{number}"))
        result = []
        for name, place in self.places.items():
            path = place / f"layout-{number}"
            try:
                write(layout, path, self.program)
                result += [f"{seed}/{number} on {name}: {line}" for line in self._judge(layout, path, run)]
            finally:
                for made in place.glob(f"layout-{number}*"):
                    made.unlink()
        return [f"{line}\n{layout}" for line in result]

    def _judge(self, layout: Layout, path: Path, run: bool) -> Iterator[str]:
        command = [str(self.host), str(path)] if layout.kind == LIBRARY else [str(path)]
        self.warm(path)
        seen = self.look(layout, path, command)
        yield from self._verified(layout, path, seen, command)
        yield from self._fixed(layout, path, seen, command)
        if run and layout.kind != LIBRARY:
            yield from self._run(path, seen)

    def _verified(self, layout: Layout, path: Path, seen: Seen, command: list[str]) -> Iterator[str]:
        report = hugealign.verify(str(path)).files[0]
        rules = {diagnosis.code for diagnosis in report.diagnoses}
        claimed = report.coverage.windows if report.coverage else 0
        self.counts["started" if seen.started else "refused"] += 1
        self.counts[f"{layout.kind}: {claimed} windows"] += 1
        if not seen.started:
            if report.verdict == "ok" and not report.small:
                yield f"verify: ok, {claimed} windows; it does not start"
            return
        if seen.ps_bytes != seen.bytes or (not seen.partial and seen.ps != seen.code):
            yield f"ps: {seen.ps} windows, {seen.ps_bytes} bytes; smaps: {seen.code}, {seen.bytes}{seen.what}"
        if seen.partial and not layout.textrel:
            self.counts["partial"] += 1
        warmed = hugealign.warm(str(path), hugealign.WarmOptions(check=True))
        known = claimed == seen.code or "HA027" in rules
        if known and len(warmed.offsets) == seen.code != warmed.huge:  # evicted since: memory is short
            self.warm(path)
            warmed = hugealign.warm(str(path), hugealign.WarmOptions(check=True))
        if known and not seen.partial and (len(warmed.offsets), warmed.huge) != (seen.code, seen.code):
            yield f"warm: {warmed.huge} of {len(warmed.offsets)} windows; smaps: {seen.code}{seen.what}"
        if claimed == seen.code and not seen.partial:
            if report.verdict == "ok" and not report.small and not seen.code and "HA027" not in rules:
                yield "verify: ok, and no window is huge"
            return
        # The loader has written to some windows; verify asks HA010 of aligned text alone.
        if claimed >= seen.code and ("HA010" in rules or layout.textrel):
            self.counts["explained: the loader writes to the text"] += 1
        elif claimed < seen.code and "HA023" in rules and {"HA001", "HA005"} & rules:
            # verify leaves out what two segments claim, whichever is mapped last; it asks HA005 of aligned text alone.
            self.counts["explained: segments are mapped over each other"] += 1
        elif claimed < seen.code and "HA027" in rules:
            self.counts["explained: placed by its offset"] += 1
        elif claimed < seen.code and self._differs(layout, path, command, seen):
            self.counts["explained: on the grid by chance"] += 1
        else:
            self.warm(path)
            repeated = self.look(layout, path, command)
            if repeated.partial or repeated.code != claimed:
                yield f"verify: {claimed} windows, {sorted(rules)}; smaps: {repeated.code}{repeated.what}"

    def _differs(self, layout: Layout, path: Path, command: list[str], seen: Seen) -> bool:
        """Whether another run has other windows: of those that are aligned to 1 MiB, each second one is on the grid."""
        return any(self.look(layout, path, command).huge != seen.huge for _ in range(16))

    def _fixed(self, layout: Layout, path: Path, before: Seen, command: list[str]) -> Iterator[str]:
        new = path.with_name(f"{path.name}-fixed")
        try:
            done = hugealign.fix(str(path), hugealign.FixOptions(output=str(new)))
        except HugealignError as error:
            if error.exit_status != 1:
                yield f"fix: {error}"
            return
        if done.plan is None or not done.plan.edits:
            return
        self.counts["fixed"] += 1
        self.warm(new)
        after = self.look(layout, new, [*command[:-1], str(new)], done.plan.pieces)
        report = hugealign.verify(str(new)).files[0]
        claimed = report.coverage.windows if report.coverage else 0
        if after.started != before.started:
            yield f"fix: started {before.started}, fixed {after.started}"
        if not after.started:
            return
        if after.partial or not done.plan.windows == claimed == after.ps:
            yield f"fix: {done.plan.windows} windows, verify {claimed}, ps {after.ps}{after.what}"
        if after.code < before.code and self.look(layout, path, command).code == before.code:
            yield f"fix: {before.code} windows become {after.code}{before.what}{after.what}"
        if report.verdict != "ok":
            kept = {d.code for d in hugealign.verify(str(path)).files[0].diagnoses}
            new_rules = {d.code for d in report.diagnoses if catalogue.row(d.code).severity == "error"} - kept
            if new_rules or {"HA001", "HA003", "HA004"} & {d.code for d in report.diagnoses}:
                yield f"fix: verify finds {[render.sentence(d) for d in report.diagnoses]}"

    def _run(self, path: Path, before: Seen) -> Iterator[str]:
        if not before.started:
            return
        with self.started([str(ROOT / "bin/hugealign"), "run", "--fix", "--", str(path)]) as (pid, touched):
            if not touched:
                yield "run --fix: it does not start"
                return
            self.counts["run"] += 1
            huge = sum(vma.pmd for vma in _vmas(pid, None))
            (verdict,) = hugealign.processes([str(pid)]).verdicts
            report = hugealign.verify(str(path)).files[0]
            written = any(diagnosis.code == "HA010" for diagnosis in report.diagnoses)  # by the loader
            lost = report.coverage and report.coverage.windows and not huge and not written
            if huge < verdict.huge or lost:
                yield f"run --fix: {huge} bytes huge, before {before.bytes}; ps {verdict.huge}"


def _vmas(pid: int, path: Path | None) -> Iterator[Vma]:
    """Yield the executable mappings of the file at *path*, or of any file, in the smaps of *pid*."""
    current: tuple[int, int, int] | None = None
    pmd = 0
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as lines:
        for line in [*lines, "0-0 ---p 0 0:0 0"]:
            words = line.split()
            if not words[0].endswith(":"):
                if current:
                    yield Vma(*current, pmd)
                start, end = (int(word, 16) for word in words[0].split("-"))
                of_file = len(words) > 5 and (words[5] == str(path) if path else words[5].startswith("/"))
                current = (start, end, int(words[2], 16)) if "x" in words[1] and of_file else None
                pmd = 0
            elif words[0] in ("FilePmdMapped:", "ShmemPmdMapped:"):
                pmd += int(words[1]) << 10


def _cleared(layout: Layout, vma: Vma, offset: int) -> bool:
    """Whether the loader clears a part of a page of the window at *offset*, behind which *vma* has more memory."""
    return any(
        p.memory > p.size and (p.address + p.size) % PAGE and offset <= p.offset + p.size < offset + WINDOW
        for p in layout.texts
        if p.offset // PAGE * PAGE == vma.offset
    )


def _holds_code(layout: Layout, offset: int, pieces: Sequence[Piece]) -> bool:
    """Whether the window at *offset* of the file whose contents moved as *pieces* say holds code."""

    def place(at: int) -> int:
        return at + next((p.target - p.source for p in pieces if p.source <= at < p.source + p.size), 0)

    return any(
        place(low - p.address + p.offset) < offset + WINDOW and offset < place(low - p.address + p.offset) + high - low
        for p in layout.texts
        for low, high in layout.code()
        if p.address <= low < p.address + p.size
    )


@contextlib.contextmanager
def places(directory: Path | None = None) -> Iterator[Differ]:
    """Yield a `Differ` with a directory on disk and a tmpfs of its own; raises OSError without root."""
    with contextlib.ExitStack() as stack:
        disk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="layouts-", dir=directory or "/var/tmp")))
        tmpfs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="layouts-")))
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "huge=always,size=512m", "tmpfs", tmpfs], check=False
        ).returncode:
            raise PermissionError("a tmpfs cannot be mounted: root is needed")
        stack.callback(lambda: subprocess.run(["umount", tmpfs], check=False))
        yield Differ(disk, tmpfs)


def missing() -> str:
    """Return what keeps the command from running here, empty if nothing does."""
    if os.geteuid():
        return "root is needed to mount a tmpfs with huge=always"
    absent = [tool for tool in ("gcc", "as", "objcopy", "mount") if not shutil.which(tool)]
    return f"{', '.join(absent)} missing" if absent else ""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--only", type=int, help="this layout alone")
    parser.add_argument("--directory", type=Path, help="on which file system besides tmpfs (default: that of /var/tmp)")
    options = parser.parse_args(words)
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    bad = 0
    with places(options.directory) as differ:
        for number in range(options.count) if options.only is None else [options.only]:
            for line in differ.case(options.seed, number, run=number % 50 == 0 or options.only is not None):
                bad += 1
                print(line, flush=True)
        for name, count in sorted(differ.counts.items()):
            print(f"{count:7,}  {name}")
    print(f"{bad} differences that nothing explains")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
