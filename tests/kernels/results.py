"""The results of each kernel, kept in build/kernels/results, and the document that is made of them."""

import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.kernels import built, debian, machine
from tests.kernels.claims import MODES, WINDOWS, Result
from tests.kernels.debian import BUILD

#: Debian's kernels, and those that are built here.
SERIES = (*debian.SERIES, *built.SERIES)
DIRECTORY = BUILD / "results"
_NAMES = {name: f"hugealign gcc, {name}" for name in WINDOWS} | {"plain": "gcc", "aligned": "gcc, max-page-size"}


def measure(
    series: str,
    emulated: machine.Emulated,
    file_systems: Sequence[str] = machine.FILE_SYSTEMS,
    kernel: debian.Kernel | None = None,
) -> dict[str, Any]:
    """Boot *kernel*, or that of *series*, on *emulated*, and return what was measured, and with what.

    Raises Unavailable, RuntimeError.
    """
    values = kernel or (built if series in built.SERIES else debian).kernel(series)
    words = f"TASK=guest FILE_SYSTEMS={','.join(file_systems)}{' FEW=1' * bool(kernel)}"
    sent = machine.boot(values, emulated, words, BUILD / f"{series}.log")
    option = "CONFIG_READ_ONLY_THP_FOR_FS"
    state = "on" if f"{option}=y" in values.config else "off" if option in values.config else "gone"
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return {"series": series, "date": today, "package": values.package, "read_only_thp": state, "results": sent}


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


def window_kib(run: dict[str, Any]) -> int:
    """Return the size of the windows of *run* in KiB."""
    return int(run["results"][0]["window"]) >> 10


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
        values = _one(run, fs=fs, thp=mode, program="pie")
        return f"{values['before_kib'] // window_kib(run)} → {values['after_kib'] // window_kib(run)}"

    return by_file_system(runs, cell)


def staged(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows that are huge in a program that `run` has staged."""

    def cell(run: dict[str, Any], fs: str) -> str:
        values = _system(run, fs)["staged"]
        return ", ".join(str(values[who] // window_kib(run)) for who in ("root", "user", "upgrade") if who in values)

    return by_file_system(runs, cell)


def in_use(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of windows that ``warm`` makes huge in a process that runs, and in the next one."""

    def cell(run: dict[str, Any], fs: str) -> str:
        values = _system(run, fs)["in_use"]
        return f"{values['running_kib'] // window_kib(run)}, {values['next_kib'] // window_kib(run)}"

    return by_file_system(runs, cell)


def programs(runs: Sequence[dict[str, Any]]) -> str:
    """Return the table of huge windows by program, on the file systems that can have any."""
    rows = []
    for run in runs:
        able = [result["fs"] for result in run["results"] if result.get("able")]
        row = [run["series"]]
        measured = [cell for cell in run["results"] if cell.get("thp") == "madvise" and cell.get("fs") in able]
        for program in WINDOWS:
            cells = [cell for cell in measured if cell.get("program") == program]
            row.append(
                " or ".join(str(n) for n in sorted({values["after_kib"] // window_kib(run) for values in cells}))
            )
        everywhere = [r["congruent"] for r in run["results"] if r.get("program") == "static-pie"]
        row.append(("yes" if all(everywhere) else "not always" if any(everywhere) else "no") if everywhere else "")
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
    """Return docs/measured/kernels.md for *runs*, from `load`."""
    ran = [run for run in runs if "results" in run]
    modes = [mode for mode in MODES if mode != "madvise"]
    others = [mode for mode in modes if coverage(ran, mode) != coverage(ran, "madvise")]
    same = [f"`{mode}`" for mode in modes if mode not in others]
    parts = [
        f"""\
# Kernels that are tested

On x86-64, text becomes huge on every tested kernel and file system: in place or, if `warm` gives 0, in a staged copy.
With pages of 64 KiB one of three links got any, and s390x was not measured.

The program is a PIE linked by `hugealign gcc`. `a → b`: of 3 windows, a are on huge pages in a process that starts
after `cp`, and b in one that starts after `hugealign warm`. The kernels called `-thp` are built from Debian's sources
with READ_ONLY_THP_FOR_FS, which Fedora and Arch enable. THP is `madvise`.
{f"{' and '.join(same)} give the same.{chr(10)}" if same else ""}""",
        coverage(ran, "madvise"),
        *(f"With THP `{mode}`:\n\n{coverage(ran, mode)}" for mode in others),
        """\
A 0 after `warm` means that the page cache has no 2 MiB folios for that file system, and nothing puts small folios
together. ext4 has 2 MiB folios since 6.16, XFS since 5.18; btrfs has 256 KiB at most, and only with
BTRFS_EXPERIMENTAL (cc38d178ff33). MADV_COLLAPSE, which puts small folios together, came with 6.1. For a file on disk
it needs a kernel with READ_ONLY_THP_FOR_FS or, since 7.2, a file system with 2 MiB folios. After `cp`, a file is in
small folios, except on a tmpfs that has huge ones. `hugealign run` stages the program wherever `warm` gives 0
([below](#staged)).
""",
        """\
## Staged

`hugealign run --how=stage` starts the same PIE. `a, b, c`: a windows are on huge pages if root starts it, b if an
ordinary user does, and c if the file is replaced under the running program and root starts the new one.
[Staged copies](../explanation/staged-copies.md) explains staging.
""",
        staged(ran),
        """\
## Warming under a running program

The program is already running when `warm` is called. `a, b`: a windows of that process are huge once it touches its
text again, and b windows of the next process.
""",
        in_use(ran),
        """\
`warm` cannot reread text that a process has mapped; only the kernel can put it together. Where the kernel does not
([below](#madv_collapse)), the text stays small, also for the next process. On 6.1 a running process keeps its small
pages. XFS stays small there, probably because it reads into folios of several pages, which 6.1's collapse_file()
refuses (SCAN_PAGE_COMPOUND).
""",
        """\
## How the program is linked

Windows on huge pages after `warm`, on the file systems that can have any.
""",
        programs(ran),
        "## MADV_COLLAPSE\n\nWhat the system call returns for a window of clean text in use.\n",
        by_file_system(ran, lambda run, fs: str(_system(run, fs)["collapse"])),
        """\
## How it was made

Written by `make test-kernels`, not by hand. Debian's kernels boot in a virtual machine, in software emulation. They run
programs with 5 MiB of text, linked by GNU ld. An ordinary user calls `hugealign warm` and `hugealign ps`, and the test
checks their claims against `smaps`. If hugealign links the program, its text is three windows.

`gone`: the kernel no longer has this option.
""",
        offers(ran),
    ]
    if missing := [run for run in runs if "unavailable" in run]:
        parts.append("Not run:\n\n" + "".join(f"- {run['series']}: {run['unavailable']}\n" for run in missing))
    return "\n".join(parts)


def _one(run: dict[str, Any], **wanted: str) -> Result:
    return next(r for r in run["results"] if "program" in r and all(r[key] == value for key, value in wanted.items()))


def _system(run: dict[str, Any], fs: str) -> Result:
    return next(result for result in run["results"] if "able" in result and result["fs"] == fs)
