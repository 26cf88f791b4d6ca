"""`verify` over many files, against tools that read the same headers: readelf, and Debian's checksec."""

import os
import shutil
from pathlib import Path

from lab.bench.timing import Table, milliseconds
from tests.support import HUGEALIGN

SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec")
MANY, FEW, SMALL = 1500, 10, 60_000


def system_files(count: int) -> list[str]:
    """Return *count* programs and libraries of this system, in the order of discovery."""
    result: list[str] = []
    for top in SYSTEM:
        for directory, directories, names in os.walk(top):
            directories.sort()
            for name in sorted(names):
                path = Path(directory, name)
                if not path.is_symlink() and path.is_file() and is_program(path):
                    result.append(str(path))
                    if len(result) == count:
                        return result
    return result


def small_files(top: Path) -> Path:
    """Make a tree of SMALL files that are not programs, like source trees and documents; return it."""
    for number in range(SMALL // 100):
        directory = top / f"{number}"
        directory.mkdir(parents=True)
        for name in range(100):
            (directory / f"{name}.txt").write_text("neither a program nor an archive\n" * 100)
    return top


def is_program(path: Path) -> bool:
    """Whether the file is an ELF file of type EXEC or DYN."""
    with path.open("rb") as stream:
        head = stream.read(18)
    return head[:4] == b"\x7fELF" and head[16:17] in (b"\2", b"\3")


def many_files(table: Table, work: Path) -> None:
    """Add the cost of checking many files."""
    files = system_files(MANY)
    verify = [str(HUGEALIGN), "verify", "-q", "--fail-on", "never"]
    title = f"verify {len(files)} files"
    table.compare(f"{title} (readelf -lW)", ["readelf", "-lW", *files], [*verify, *files], 5, work)
    for jobs in ("2", "auto"):
        table.compare(f"{title} -j{jobs} (-j1)", [*verify, *files], [*verify, "-j", jobs, *files], 5, work)
    few = work / "few"
    few.mkdir()
    for number, file in enumerate(files[:: len(files) // FEW][:FEW]):
        shutil.copy(file, few / f"{number}")
    if shutil.which("checksec"):
        words = ["checksec", "--format=csv", f"--dir={few}"]
        table.compare(f"verify {FEW} files (checksec)", words, [*verify, "-r", str(few)], 3, work)
    else:
        print("checksec: not installed (apt install checksec); not measured")
    tree = small_files(work / "tree")
    for what, trees, runs in ((f"{SMALL} files", [str(tree)], 5), ("/usr/bin, /usr/lib", ["/usr/bin", "/usr/lib"], 3)):
        read = ["sh", "-c", 'find "$@" -type f -print0 | xargs -0 head -qc4', "-", *trees]
        table.compare(f"verify -r of {what} (head -c4)", read, [*verify, "-r", "--allow-empty", *trees], runs, work)
    with (work / "sparse").open("wb") as stream:
        stream.write(Path(files[0]).read_bytes())
        stream.truncate(1 << 30)
    words = [*verify, str(work / "sparse")]
    table.alone("verify of 1 GiB, sparse", [milliseconds(words, work) for _ in range(10)])
