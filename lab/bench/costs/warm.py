"""``hugealign warm`` of a program with 200 MiB of text, against ``cat`` of it; neither finds it in the page cache.

Run by ``make bench``, or alone.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from lab.bench.timing import Table, milliseconds
from tests.support import HUGEALIGN

TEXT = 200  # MiB
RUNS = 15


def program_of_much_text(work: Path) -> Path:
    """Link a program of TEXT MiB of text in *work*, made by the assembler."""
    text = f'.text\n.balign 0x200000\n.fill {TEXT} << 18, 4, 0xcccccccc\n.section .note.GNU-stack,"",%progbits\n'
    (work / "text.s").write_text(text, encoding="ascii")
    (work / "main.c").write_text("int main(void) { return 0; }\n", encoding="ascii")
    words = "gcc -fuse-ld=bfd main.c text.s -o much -Wl,-z,max-page-size=0x200000 -Wl,-z,separate-code"
    subprocess.run(words.split(), cwd=work, check=True)
    return work / "much"


def evict(path: Path) -> None:
    """Evict *path* from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def much_text(table: Table, work: Path) -> None:
    """Run both in turn and add a row; it is an error if `warm` does not make every window huge."""
    path = program_of_much_text(work)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        for argv, kept in zip((["cat", str(path)], [str(HUGEALIGN), "warm", str(path)]), times, strict=True):
            evict(path)
            kept.append(milliseconds(argv, work))
    table.show(f"warm, {TEXT} MiB of text; cat", *times)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        much_text(Table(), Path(name))
