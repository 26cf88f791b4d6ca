"""The results of each kernel, kept in build/kernels/results, and the document that is made of them."""

import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.kernels import built, debian, machine
from tests.kernels.claims import MODES, WINDOW_KIB, WINDOWS, Result
from tests.kernels.debian import BUILD

#: Debian's kernels, and those that are built here.
SERIES = (*debian.SERIES, *built.SERIES)
DIRECTORY = BUILD / "results"
_NAMES = {name: f"hugealign gcc, {name}" for name in WINDOWS} | {"plain": "gcc", "aligned": "gcc, max-page 2M"}


def measure(series: str, system: Path, file_systems: Sequence[str] = machine.FILE_SYSTEMS) -> dict[str, Any]:
    """Boot the kernel of *series* with the disk *system* and return what was measured, and with what.

    Raises Unavailable, RuntimeError.
    """
    found = (built if series in built.SERIES else debian).kernel(series)
    words = f"TASK=guest FILE_SYSTEMS={','.join(file_systems)}"
    sent = machine.boot(found, system, words, BUILD / f"{series}.log")
    option = "CONFIG_READ_ONLY_THP_FOR_FS"
    state = "on" if f"{option}=y" in found.config else "off" if option in found.config else "gone"
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return {"series": series, "date": today, "package": found.package, "read_only_thp": state, "results": sent}


def save(series: str, run: dict[str, Any]) -> None:
    """Keep *run*, from `measure`, or ``{"unavailable": why}``."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / f"{series}.json").write_text(json.dumps(run, indent=1), encoding="ascii")


def forget(series: str) -> None:
    """Remove what was saved of the kernel of *series*."""
    (DIRECTORY / f"{series}.json").unlink(missing_ok=True)


def saved(series: str) -> dict[str, Any] | None:
    """Return what was saved of the kernel of *series*, None if nothing was measured."""
    path = DIRECTORY / f"{series}.json"
    run: dict[str, Any] = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
    return run if "results" in run else None


def load() -> list[dict[str, Any]] | None:
    """Return what was saved of every kernel, in order; None unless each was tried, and one at least could be had."""
    paths = [DIRECTORY / f"{series}.json" for series in SERIES]
    if not all(path.exists() for path in paths):
        return None
    runs = [json.loads(path.read_text(encoding="ascii")) for path in paths]
    return runs if any("results" in run for run in runs) else None


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def by_file_system(runs: Sequence[dict[str, Any]], cell: Callable[[dict[str, Any], str], str]) -> str:
    """Return a table of one row for each of *runs* and one column for each file system."""
    systems = [result["fs"] for result in runs[0]["results"] if "able" in result]
    return table(["kernel", *systems], [[run["series"], *(cell(run, fs) for fs in systems)] for run in runs])


def coverage(runs: Sequence[dict[str, Any]], mode: str) -> str:
    """Return the table of windows of the PIE that are huge after ``cp`` and after ``warm``, with THP in *mode*."""

    def cell(run: dict[str, Any], fs: str) -> str:
        found = _one(run, fs=fs, thp=mode, program="pie")
        return f"{found['before_kib'] // WINDOW_KIB} → {found['after_kib'] // WINDOW_KIB}"

    return by_file_system(runs, cell)


def staged(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows that are huge in a program that `run` has staged."""

    def cell(run: dict[str, Any], fs: str) -> str:
        found = _system(run, fs)["staged"]
        return ", ".join(str(found[who] // WINDOW_KIB) for who in ("root", "user", "upgrade") if who in found)

    return by_file_system(runs, cell)


def read_only(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows of read-only data that are huge after ``cp`` and after ``warm``, and of text then."""

    def cell(run: dict[str, Any], fs: str) -> str:
        found = _system(run, fs).get("read_only")
        if not found:
            return "not measured"
        before, after, text = (found[name] // WINDOW_KIB for name in ("before_kib", "after_kib", "text_kib"))
        return f"{before} → {after}, text {text}"

    return by_file_system(runs, cell)


def zeros(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows of zero data that are huge, by mode of THP: as linked, and aligned."""
    rows = []
    for run in runs:
        cells = {cell["zeros"]: cell for cell in run["results"] if "zeros" in cell}
        kib = [(cells[mode]["zeros-plain"], cells[mode]["zeros-aligned"]) if mode in cells else None for mode in MODES]
        shown = [f"{pair[0] // WINDOW_KIB}, {pair[1] // WINDOW_KIB}" if pair else "not measured" for pair in kib]
        rows.append([run["series"], *shown])
    return table(["kernel", *(f"THP {mode}" for mode in MODES)], rows)


def in_use(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows that ``warm`` makes huge in a process that runs, and in the next one."""

    def cell(run: dict[str, Any], fs: str) -> str:
        found = _system(run, fs)["in_use"]
        return f"{found['running_kib'] // WINDOW_KIB}, {found['next_kib'] // WINDOW_KIB}"

    return by_file_system(runs, cell)


def programs(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of huge windows by program, on the file systems that can have any."""
    rows = []
    for run in runs:
        able = [result["fs"] for result in run["results"] if result.get("able")]
        row = [run["series"]]
        for program in WINDOWS:
            cells = [_one(run, fs=fs, thp="madvise", program=program) for fs in able]
            row.append(" or ".join(str(n) for n in sorted({found["after_kib"] // WINDOW_KIB for found in cells})))
        everywhere = [r["congruent"] for r in run["results"] if r.get("program") == "static-pie"]
        row.append("yes" if all(everywhere) else "not always" if any(everywhere) else "no")
        rows.append(row)
    return table(["kernel", *(_NAMES[program] for program in WINDOWS), "static-pie is aligned"], rows)


def offers(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of what each kernel is and says that it can."""
    rows = []
    for run in runs:
        first = run["results"][0]
        words = [f"`{run['package']}`", run["date"], first["thp"], run["read_only_thp"], first["populate_read"]]
        rows.append([run["series"], *words])
    columns = ["kernel", "package", "tested", "THP by default", "READ_ONLY_THP_FOR_FS", "MADV_POPULATE_READ"]
    return table(columns, rows)


def document(runs: Sequence[dict[str, Any]]) -> str:
    """Return docs/kernels.md for *runs*, from `load`."""
    ran = [run for run in runs if "results" in run]
    modes = [mode for mode in MODES if mode != "madvise"]
    others = [mode for mode in modes if coverage(ran, mode) != coverage(ran, "madvise")]
    same = [f"`{mode}`" for mode in modes if mode not in others]
    parts = [
        f"""\
# Kernels that are tested

Written by `make test-kernels`, not by hand; the days are below. Debian's kernels boot in a virtual machine, in
software emulation. There programs with 5 MiB of text run, linked by GNU ld, and an ordinary user calls `hugealign warm`
and `hugealign ps`, whose claims are checked against `smaps`. Linked by hugealign, the text is three windows.

Kernels called `-thp` are built from Debian's sources with READ_ONLY_THP_FOR_FS, as Fedora and Arch have it.

## Windows on huge pages, by file system

The program is a PIE linked by `hugealign gcc`. `a → b`: a windows of 3 are on huge pages in a process that starts after
`cp`, b in one after `hugealign warm`. THP is `madvise`.{f" {' and '.join(same)} give the same." if same else ""}
""",
        coverage(ran, "madvise"),
        *(f"With THP `{mode}`:\n\n{coverage(ran, mode)}" for mode in others),
        """\
Where it is 0, the page cache has no folios of 2 MiB for that file system, and nothing puts small ones together. ext4
has them since 6.16, XFS since 5.18; btrfs has 256 KiB at most, and only with BTRFS_EXPERIMENTAL (cc38d178ff33). What
puts small ones together, MADV_COLLAPSE, came with 6.1; of files on disks it takes those of kernels with
READ_ONLY_THP_FOR_FS, and since 7.2 those of file systems with folios of 2 MiB. After `cp` a file lies in small folios,
but on a tmpfs that has huge ones. `hugealign run` stages wherever `warm` gives 0 ([below](#staged)).
""",
        """\
## Read-only data

A PIE with 5 MiB of constants beside its text, linked by `hugealign gcc` with `HUGEALIGN_SEGMENTS=text,rodata`: three
windows of each. `a → b, text c`: a windows of constants are huge after `cp`, b after `hugealign warm`, and c of the
text. [rodata.md](rodata.md) says what that is.
""",
        read_only(ran),
        """\
## Data that begin as zeros

A program that writes to 5 MiB of .bss, and asks for nothing. `a, b`: a windows of it are huge as linked, b with
`HUGEALIGN_SEGMENTS=text,data`, which makes it three windows.
""",
        zeros(ran),
        """\
## Staged

The same program, started by `hugealign run --how=stage`. `a, b, c`: a windows are on huge pages if root starts it, b if
an ordinary user does, c if the file is replaced under the running program and root starts the new one.
[stage.md](stage.md) says what that is.
""",
        staged(ran),
        """\
## Warming under a running program

The program ran already when `warm` was called. `a, b`: a windows of that process are huge when it touches its text
again, b of the next process.
""",
        in_use(ran),
        """\
What a process has mapped cannot be read anew; only the kernel can put it together, and where it does not
([below](#madv_collapse)), it stays small, for the next process too. On 6.1 a process goes on with the small pages that
it has. XFS stays small there probably since it reads into folios of some pages, which collapse_file() of 6.1 refuses
(SCAN_PAGE_COMPOUND).
""",
        """\
## How the program is linked

Windows on huge pages after `warm`, on those of the file systems that can have any.
""",
        programs(ran),
        "## MADV_COLLAPSE\n\nWhat the system call says to a window of clean text in use.\n",
        by_file_system(ran, lambda run, fs: str(_system(run, fs)["collapse"])),
        "## The kernels\n\n`gone`: the kernel has no such option any more.\n",
        offers(ran),
    ]
    if missing := [run for run in runs if "unavailable" in run]:
        parts.append("Not run:\n\n" + "".join(f"- {run['series']}: {run['unavailable']}\n" for run in missing))
    return "\n".join(parts)


def _one(run: dict[str, Any], **wanted: str) -> Result:
    return next(r for r in run["results"] if "program" in r and all(r[key] == value for key, value in wanted.items()))


def _system(run: dict[str, Any], fs: str) -> Result:
    return next(result for result in run["results"] if "able" in result and result["fs"] == fs)
