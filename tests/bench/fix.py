"""``hugealign fix`` of programs of 1 GiB: in place, and where contents have to move beside ``cp`` of the same file.

Run by ``make bench``, or alone.  Both files are in the page cache and on the disk before they are measured.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from tests.bench.timing import HEADER, alone, compare
from tests.link.bulk import bulk_object
from tests.support import HUGEALIGN, LLVM, ROOT

SIZE = 1 << 30  # bytes of debug information


def programs(work: Path) -> tuple[Path, Path]:
    """Link two programs of SIZE in *work*, the second with contents that a fix has to move."""
    (work / "main.c").write_text(
        "unsigned big_sum(void); int main(void) { return big_sum() == 0; }\n", encoding="ascii"
    )
    bulk = bulk_object(work)
    block = os.urandom(1 << 20)
    with (work / "debug").open("wb") as stream:
        for _ in range(SIZE >> 20):
            stream.write(block)
    made = []
    for name, flags in (("bfd", ("-fuse-ld=bfd",)), ("lld", ("-fuse-ld=lld", f"-B{LLVM['lld19']}"))):
        words = ["gcc", *flags, "-Wl,-z,max-page-size=0x1000", "main.c", str(bulk), "-o", f"{name}.small"]
        subprocess.run(words, cwd=work, check=True)
        command = ["objcopy", "--add-section", ".debug_large=debug", f"{name}.small", name]
        subprocess.run(command, cwd=work, check=True)
        made.append(work / name)
    (work / "debug").unlink()
    os.sync()
    return made[0], made[1]


def large_programs() -> None:
    """Print what fixing them costs."""
    build = ROOT / "build"  # on a disk, which a directory for temporary files may not be
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-fix-", dir=build) as name:
        work = Path(name)
        bfd, lld = programs(work)
        fix = [str(HUGEALIGN), "fix"]
        both = f"{HUGEALIGN} fix --in-place {bfd} && {HUGEALIGN} fix --in-place --undo {bfd}"
        alone("fix and undo 1 GiB in place", ["sh", "-c", both], 10, work)
        out = str(work / "out")
        for title, program in (("move", lld), ("stay", bfd)):
            plain = ["sh", "-c", f"cp --sparse=always {program} copy && sync copy"]
            compare(f"fix -o, contents {title}; cp, sync", plain, [*fix, str(program), "-o", out], 5, work)


if __name__ == "__main__":
    print(HEADER)
    large_programs()
