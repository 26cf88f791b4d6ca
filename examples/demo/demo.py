"""The main job in one run: build a program of 5 MiB of text three ways, warm it, run it, ask the kernel.

Run by ``make demo``.  Every number in the table is read from the files, or from the kernel's smaps of the running
process; nothing is computed from what ought to be.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from examples.demo.generate import generate
from examples.servers.text import Text, mapped

HUGEALIGN = str(Path(__file__).resolve().parents[2] / "bin" / "hugealign")
ONLY_ALIGNED = "-Wl,-z,max-page-size=0x200000"
ROWS = "|text in whole windows, file|text mapped, process|  of it on 2 MiB pages|file size|  of it on disk".split("|")


def compiled(compiler: Sequence[str], sources: Sequence[Path], directory: Path) -> list[Path]:
    """Compile *sources* into *directory*, as many at a time as there are processors; return the objects."""
    directory.mkdir(parents=True, exist_ok=True)
    objects = [directory / f"{source.stem}.o" for source in sources]
    commands = [
        [*compiler, "-O0", "-c", str(source), "-o", str(target)]
        for source, target in zip(sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(subprocess.run, check=True), commands))
    return objects


def linked(compiler: Sequence[str], objects: Sequence[Path], directory: Path) -> Path:
    """Link *objects* in *directory*; return the program."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([*compiler, *objects, "-o", directory / "program"], check=True)
    return directory / "program"


def run(program: Path) -> Text:
    """Run *program*; return what the kernel maps its text with."""
    with subprocess.Popen([program], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()  # type: ignore[union-attr]
            return mapped(process.pid, program)
        finally:
            process.kill()


def measure(title: str, program: Path) -> tuple[list[str], bool]:
    """Warm *program*, run it, and return a column of the table, and whether all that is mapped is huge."""
    subprocess.run([HUGEALIGN, "warm", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    verify = [HUGEALIGN, "verify", "--json", str(program)]
    result = json.loads(subprocess.run(verify, stdout=subprocess.PIPE, check=False).stdout)["files"][0]["coverage"]
    text, status = run(program), program.stat()
    sizes = (text.end - text.start, text.huge, status.st_size, status.st_blocks * 512)
    whole = f"{100 * result['huge_bytes'] / result['text_bytes']:.1f} %"
    return [title, whole, *(f"{size >> 10} KiB" for size in sizes)], 0 < text.huge == text.end - text.start


def main() -> int:
    """Build, verify, warm, run, and print the table; status 1 if the text is not all huge in the end."""
    began, directory = time.monotonic(), Path(sys.argv[1]).resolve()
    sources = generate(directory / "src")
    print("building with gcc …", flush=True)
    objects = compiled(["gcc"], sources, directory / "plain")
    plain = linked(["gcc"], objects, directory / "plain")
    aligned = linked(["gcc", ONLY_ALIGNED], objects, directory / "aligned")
    print("building with hugealign gcc …", flush=True)
    compiler = [HUGEALIGN, "gcc"]
    padded = linked(compiler, compiled(compiler, sources, directory / "hugealign"), directory / "hugealign")
    print(flush=True)
    for program in (plain, padded):
        subprocess.run([HUGEALIGN, "verify", str(program.relative_to(directory))], cwd=directory, check=False)
    programs = {"gcc": plain, "gcc, max-page 2M": aligned, "hugealign gcc": padded}
    columns, whole = zip(*(measure(title, program) for title, program in programs.items()), strict=True)
    lines = (f"{name:28}" + "".join(f"{column[at]:>17}" for column in columns) for at, name in enumerate(ROWS))
    print("", *lines, "", sep="\n", flush=True)
    if whole[-1]:
        print(f"All text of the program built with hugealign is on 2 MiB pages ({time.monotonic() - began:.0f} s).")
        return 0
    print("The program's text is not all on 2 MiB pages. What stands in the way here:", flush=True)
    subprocess.run([HUGEALIGN, "warm", padded], check=False)
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"demo: {error}")
