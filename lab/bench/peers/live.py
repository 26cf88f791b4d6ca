"""How much of its text a running process has on huge pages, by its own smaps."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import HUGEALIGN, PAGE, environment, run

_RESERVE = Path("/proc/sys/vm/nr_hugepages")
_HUGE = ("FilePmdMapped", "ShmemPmdMapped", "AnonHugePages", "Shared_Hugetlb", "Private_Hugetlb")
_HUGETLB = _HUGE[-2:]


@dataclass(frozen=True, slots=True)
class Live:
    """KiB of a process: *text*, *huge* of it by PMDs, *resident* of the whole process; or *why* they are unknown."""

    text: int = 0
    huge: int = 0
    resident: int = 0
    why: str = ""


def look(path: Path, arguments: tuple[str, ...], directory: Path, warm: bool) -> Live:
    """Return the state of the program when its work is done; first *warm* it by hugealign, or else run it once."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    if warm:
        run(HUGEALIGN, "warm", path, cwd=directory)
    else:
        subprocess.run([path, *arguments], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return _stopped([str(path), *arguments], path, directory, {})


def by_libhugetlbfs(path: Path, arguments: tuple[str, ...], directory: Path) -> Live:
    """Return the same with the text remapped by libhugetlbfs; pages are reserved for that time."""
    if not list(Path("/usr/lib").glob("*/libhugetlbfs.so.0")):
        return Live(why="libhugetlbfs is not installed")
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        return Live(why="not root, or no mount namespaces: hugetlbfs cannot be mounted")
    with _reserved(path.stat().st_size // PAGE + 4) as enough, tempfile.TemporaryDirectory() as place:
        if not enough:
            return Live(why="no memory for so many hugetlb pages")
        variables = {"LD_PRELOAD": "libhugetlbfs.so.0", "HUGETLB_ELFMAP": "R", "HUGETLB_VERBOSE": "0"}
        words = [f"{name}={value}" for name, value in variables.items()]
        script = 'mount -t hugetlbfs none "$0" && exec env "$@"'
        argv = ["unshare", "-m", "sh", "-c", script, place, *words, str(path), *arguments]
        return _stopped(argv, path, directory, {})


@contextlib.contextmanager
def _reserved(pages: int) -> Iterator[bool]:
    before = int(_RESERVE.read_text(encoding="ascii"))
    try:
        _RESERVE.write_text(str(before + pages), encoding="ascii")
        yield int(_RESERVE.read_text(encoding="ascii")) >= before + pages
    finally:
        _RESERVE.write_text(str(before), encoding="ascii")


def _stopped(argv: list[str], path: Path, directory: Path, variables: dict[str, str]) -> Live:
    env = environment(STOP_AT_END="1", **variables)
    process = subprocess.Popen(argv, cwd=directory, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        process.returncode = os.waitstatus_to_exitcode(status)
        return Live(why=f"ended with status {process.returncode}")
    try:
        smaps = Path(f"/proc/{process.pid}/smaps").read_text(encoding="utf-8", errors="replace")
        return read(smaps, str(path))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def read(smaps: str, path: str) -> Live:
    """Return what *smaps* says about the program at *path*.

    Its text is everything executable between its first mapping and its last, or on hugetlb pages: mappings with which
    a tool has replaced text no longer have its name.
    """
    mappings: list[tuple[int, int, str, str, Counter[str]]] = []
    for line in smaps.splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            begin, end = (int(word, 16) for word in words[0].split("-"))
            mappings.append((begin, end, words[1], " ".join(words[5:]), Counter()))
        elif len(words) == 3 and words[2] == "kB":
            mappings[-1][4][words[0][:-1]] = int(words[1])
    own = [mapping for mapping in mappings if mapping[3] == path]
    first, last = min(mapping[0] for mapping in own), max(mapping[1] for mapping in own)
    text = [
        counts
        for begin, end, mode, _, counts in mappings
        if "x" in mode and ((first <= begin and end <= last) or any(counts[name] for name in _HUGETLB))
    ]
    resident = sum(counts["Rss"] + sum(counts[name] for name in _HUGETLB) for *_, counts in mappings)
    mapped = sum(counts["Rss"] + sum(counts[name] for name in _HUGETLB) for counts in text)
    return Live(mapped, sum(counts[name] for counts in text for name in _HUGE), resident)
