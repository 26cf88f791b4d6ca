"""The main job in one run: build a program of 5 MiB of text three ways, warm it, run it, ask the kernel.

Run by ``make demo``.  Every number in the table is read from the files, or from the kernel's smaps of the running
process; nothing is computed from what ought to be.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from generate import generate

ROOT = Path(__file__).resolve().parents[2]
HUGEALIGN = str(ROOT / "bin" / "hugealign")
ONLY_ALIGNED = "-Wl,-z,max-page-size=0x200000"


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True)


def build(compiler: list[str], sources: list[Path], directory: Path) -> Path:
    """Compile *sources* with *compiler* into *directory*, two at a time, link them, return the program."""
    directory.mkdir(parents=True, exist_ok=True)
    objects = [directory / f"{source.stem}.o" for source in sources]
    jobs: list[subprocess.Popen[bytes]] = []
    for source, target in zip(sources, objects, strict=True):
        jobs.append(subprocess.Popen([*compiler, "-O0", "-c", str(source), "-o", str(target)]))
        if len(jobs) == (os.cpu_count() or 1):
            finish(jobs.pop(0))
    while jobs:
        finish(jobs.pop())
    program = directory / "program"
    subprocess.run([*compiler, *map(str, objects), "-o", str(program)], check=True)
    return program


def finish(job: subprocess.Popen[bytes]) -> None:
    """Wait for *job*; a failure ends the demo."""
    if job.wait():
        sys.exit(f"demo: failed with status {job.returncode}: {job.args!r}")


def relink(program: Path, flag: str, directory: Path) -> Path:
    """Link the objects of *program* again with plain gcc and *flag*."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / "program"
    objects = sorted(map(str, program.parent.glob("*.o")))
    subprocess.run(["gcc", flag, *objects, "-o", str(target)], check=True)
    return target


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """What was measured of one program; sizes in bytes."""

    title: str
    whole: int  # text in whole windows of the file
    text: int
    huge: int  # text that the kernel maps with PMDs in the running process
    mapped: int
    size: int
    on_disk: int


def measure(title: str, program: Path) -> Column:
    """Warm *program*, run it, and return what can be seen of it."""
    warm = [HUGEALIGN, "warm", str(program)]
    subprocess.run(warm, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    verify = [HUGEALIGN, "verify", "--format", "json", str(program)]
    report = json.loads(subprocess.run(verify, stdout=subprocess.PIPE, check=False).stdout)
    coverage = report["files"][0]["coverage"]
    huge, mapped = pmd_mapped(program)
    status = program.stat()
    return Column(
        title, coverage["huge_bytes"], coverage["text_bytes"], huge, mapped, status.st_size, status.st_blocks * 512
    )


def pmd_mapped(program: Path) -> tuple[int, int]:
    """Run *program*; return the bytes of its text that the kernel maps with PMDs, and the size of the mapping."""
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101
        process.stdout.readline()
        huge = mapped = 0
        inside = False
        for line in Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                inside = "x" in words[1] and words[-1] == str(program)
                if inside:
                    start, end = (int(word, 16) for word in words[0].split("-"))
                    mapped += end - start
            elif inside and words[0] in ("FilePmdMapped:", "ShmemPmdMapped:"):
                huge += int(words[1]) << 10
        process.kill()
    return huge, mapped


def table(columns: list[Column]) -> str:
    """Return the measurements as lines of text."""
    rows: list[tuple[str, Callable[[Column], str]]] = [
        ("", lambda c: c.title),
        ("text in whole windows, file", lambda c: f"{100 * c.whole / c.text:.1f} %"),
        ("text mapped, process", lambda c: f"{c.mapped >> 10} KiB"),
        ("  of it on 2 MiB pages", lambda c: f"{c.huge >> 10} KiB"),
        ("file size", lambda c: f"{c.size >> 10} KiB"),
        ("  of it on disk", lambda c: f"{c.on_disk >> 10} KiB"),
    ]
    return "\n".join(f"{name:28}" + "".join(f"{cell(column):>17}" for column in columns) for name, cell in rows)


def main() -> int:
    """Build, verify, warm, run, and print the table; status 1 if the text is not all huge in the end."""
    began = time.monotonic()
    directory = Path(sys.argv[1]).resolve()
    sources = generate(directory / "src")
    say("building with gcc …")
    plain = build(["gcc"], sources, directory / "plain")
    aligned = relink(plain, ONLY_ALIGNED, directory / "aligned")
    say("building with hugealign gcc …")
    padded = build([HUGEALIGN, "gcc"], sources, directory / "hugealign")
    say("")
    for program in (plain, padded):
        subprocess.run([HUGEALIGN, "verify", str(program.relative_to(directory))], cwd=directory, check=False)
    say("")
    columns = [measure("gcc", plain), measure("gcc, max-page 2M", aligned), measure("hugealign gcc", padded)]
    say(table(columns))
    say("")
    if columns[-1].huge == columns[-1].mapped > 0:
        say(f"All text of the program built with hugealign is on 2 MiB pages ({time.monotonic() - began:.0f} s).")
        return 0
    say("The program's text is not all on 2 MiB pages. What stands in the way here:")
    subprocess.run([HUGEALIGN, "warm", str(padded)], check=False)
    return 1


if __name__ == "__main__":
    sys.exit(main())
