"""``python -m lab.bench.separated``: `hugealign fix` against hugifyr, on what Debian, PyPI and npm ship.

``--hugifyr PROGRAM`` is hugifyr (github.com/anadav/hugifyr), which is not fetched or built here: its README says how.
Each file of tests/prebuilt/cases.toml and cases.toml does its job as it is, separated, shifted, and as hugifyr makes it
with and without -n.  ``--suites`` runs the test suites of suites.toml; ``--tree nginx-tests=DIRECTORY`` is one that
Debian does not have.  Results are kept in build/prebuilt/separated.json; ``--write FILE`` writes the page of all.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hugealign.elf.coverage import code_size, text_size
from hugealign.elf.image import PF_X, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, Image, read_image
from hugealign.elf.windows import text_windows
from hugealign.errors import HugealignError
from lab.bench.separated import suites
from lab.bench.separated.page import page
from tests.prebuilt.__main__ import BUILD, CASES, Case, Run, SkipError, cases_of, fetched, job
from tests.support import HUGEALIGN

_PAGE = 2 << 20
_BY_HAND = "\n## Before and after 1.0.1\n"
_SECONDS = 600
_SAMPLES = 300  # functions whose names and lines are compared
RESULTS = BUILD / "separated.json"
#: The tools and their options, behind which the old file and the new one are named.
WAYS = {
    "separate": (str(HUGEALIGN), "fix", "--level=separate", "{old}", "-o", "{new}"),
    "shift": (str(HUGEALIGN), "fix", "--level=shift", "{old}", "-o", "{new}"),
    "hugifyr": ("{hugifyr}", "{old}", "{new}"),
    "hugifyr -n": ("{hugifyr}", "-n", "{old}", "{new}"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What one *way* made of one file; sizes are in bytes.

    *refused*: why there is no new file.  *loads*, *same*: whether it does, and does the same job.  *named*: whether
    addresses have the same names and lines, None if the old file has none.
    """

    file: str
    way: str
    text: int = 0
    windows_before: int = 0
    windows: int = 0
    covered: int = 0
    executable: int = 0
    growth: int = 0
    refused: str = ""
    loads: bool = False
    same: bool = False
    named: bool | None = None


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hugifyr", metavar="PROGRAM", help="hugifyr, built as its README says")
    parser.add_argument("--only", metavar="TEXT", help="only files, or suites, with this in their name")
    parser.add_argument("--suites", action="store_true", help="run the test suites; as root")
    parser.add_argument("--tree", metavar="NAME=DIRECTORY", action="append", default=[], help="a suite's tests")
    parser.add_argument("--write", metavar="FILE", help="write the page to FILE")
    args = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"files": {}, "suites": {}}
    wanted = args.only or ""
    if args.suites:
        root = suites.prepared(BUILD / "suites")
        trees = {name: Path(directory) for name, _, directory in (item.partition("=") for item in args.tree)}
        for suite in suites.all_suites():
            if wanted in suite.name:
                kept["suites"][suite.name] = asdict(suites.tried(suite, root, trees))
                _keep(kept, str(kept["suites"][suite.name]))
    elif args.hugifyr:
        for case in (*cases_of(CASES), *cases_of(Path(__file__).with_name("cases.toml"))):
            if wanted in case.name:
                kept["files"][case.name] = [asdict(result) for result in examined(case, args.hugifyr)]
                _keep(kept, "\n".join(map(str, kept["files"][case.name])))
    elif not args.write:
        parser.error("--hugifyr PROGRAM is needed: see the README of github.com/anadav/hugifyr")
    if args.write:
        files = [[Result(**item) for item in results] for results in kept["files"].values()]
        written = Path(args.write)
        old = written.read_text(encoding="utf-8") if written.exists() else ""
        by_hand = "".join(old.partition(_BY_HAND)[1:])  # of another command, lab.bench.separated.refusals
        written.write_text(page(files, list(kept["suites"].values())) + by_hand, encoding="utf-8")
    return 0


def _keep(kept: dict[str, object], message: str) -> None:
    print(message, flush=True)
    RESULTS.write_text(json.dumps(kept, indent=1))


def examined(case: Case, hugifyr: str) -> list[Result]:
    """Return what each way makes of the file of *case*; one result without a way if it cannot be tried."""
    try:
        path = fetched(case)
        before = job(case, path, warm=False)
    except SkipError as error:
        return [Result(case.name, "", refused=str(error))]
    if before.status:
        return [Result(case.name, "", refused=f"its job does not run here: {before.complaint}")]
    kept = path.with_name(f"{path.name}.kept")
    shutil.copy2(path, kept)
    try:
        return [_tried(case, path, kept, way, before, hugifyr) for way in WAYS]
    finally:
        kept.replace(path)


def _tried(case: Case, path: Path, old: Path, way: str, before: Run, hugifyr: str) -> Result:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    words = [word.format(old=old, new=new, hugifyr=hugifyr) for word in WAYS[way]]
    image = read_file(old)
    plain = Result(case.name, way, text_size(image), windows_before=windows(image), covered=covered(image))
    try:
        done = subprocess.run(words, capture_output=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return replace(plain, refused=f"it runs for more than {_SECONDS} s")
    complaints = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    if done.returncode or not new.exists():
        new.unlink(missing_ok=True)
        reason = complaints[0].rpartition(f"{old}: ")[2] if complaints else f"status {done.returncode}"
        return replace(plain, refused=f"killed by signal {-done.returncode}" if done.returncode < 0 else reason)
    new.chmod(old.stat().st_mode & 0o7777)
    grown, named = new.stat().st_size - old.stat().st_size, same_names(old, new)
    try:
        made = read_file(new)
    except HugealignError:
        made = image
    new.replace(path)
    after = job(case, path, warm=False)
    same = (after.status, after.printed) == (before.status, before.printed)
    result = replace(plain, windows=windows(made), covered=covered(made), growth=grown, named=named, same=same)
    return replace(result, executable=executable(made) - executable(image), loads=same or loads(path))


def read_file(path: Path) -> Image:
    """Return the headers of *path*."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_image(fd)
    finally:
        os.close(fd)


def windows(image: Image) -> int:
    """Return how many windows of *image* hold code."""
    return sum((end - start) // _PAGE for _, start, end in text_windows(image, _PAGE))


def covered(image: Image) -> int:
    """Return the bytes of code in whole windows."""
    return sum(code_size(image, start, end) for _, start, end in text_windows(image, _PAGE))


def executable(image: Image) -> int:
    """Return the bytes of sections that hold no code, in segments that are executable."""
    data = [s for s in image.sections if s.sh_flags & SHF_ALLOC and not s.sh_flags & SHF_EXECINSTR]
    return sum(
        max(0, min(s.sh_addr + s.sh_size, p.p_vaddr + p.p_memsz) - max(s.sh_addr, p.p_vaddr))
        for p in image.load_segments
        if p.p_flags & PF_X
        for s in data
        if s.sh_type != SHT_NOBITS
    )


def loads(path: Path) -> bool:
    """Return whether the dynamic linker maps and relocates *path*."""
    words = ["/lib64/ld-linux-x86-64.so.2", str(path)]
    env = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1", "LD_BIND_NOW": "1"}
    return subprocess.run(words, capture_output=True, check=False, env=env).returncode == 0


def same_names(old: Path, new: Path) -> bool | None:
    """Return whether functions have the same names and lines in both files; None if the old file names none."""
    images = read_file(old), read_file(new)
    texts = [next((s.sh_addr for s in image.sections if s.name == ".text"), 0) for image in images]
    if not any(s.name in (".symtab", ".debug_info") for s in images[0].sections):
        return None
    listed = subprocess.run(["nm", "--defined-only", old], capture_output=True, check=False).stdout.decode(
        errors="replace"
    )
    functions = sorted(
        {int(line.split()[0], 16) for line in listed.splitlines() if line.split()[1:2] in (["t"], ["T"])}
    )
    functions = [address for address in functions if address >= texts[0]][:: max(1, len(functions) // _SAMPLES)]
    answers = [
        subprocess.run(
            ["llvm-symbolizer-19", f"--obj={path}"],
            input="\n".join(f"{address - texts[0] + text:#x}" for address in functions).encode(),
            capture_output=True,
            check=False,
        ).stdout
        for path, text in zip((old, new), texts, strict=True)
    ]
    return answers[0] == answers[1] if functions else None


if __name__ == "__main__":
    sys.exit(main())
