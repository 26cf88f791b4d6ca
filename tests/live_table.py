"""Write docs/measured/huge.md: what this machine's kernel does with a program's text, by file system.

Run by ``make docs-live``, as root on a machine with loop devices.  The cells are measured there and then, in a process
that makes no madvise call of its own.
"""

import sys
import tempfile
from pathlib import Path

from tests.live.filesystems import ALL, FILE_SYSTEMS, MODES, WRITERS, Cell, measure, mounted, thp
from tests.live.programs import Programs
from tests.support import MissingError, made_here, page_to_write

_HEAD = """\
# What is huge where

`warm` makes text huge on {able} of {all} file systems, whatever program wrote the file; not on {unable}.

KiB of text on huge pages before → after an ordinary user runs `hugealign warm`, by the program that wrote the file:

| file system | {writers} |
|---|{bars}
"""
_MODES = """
The program has {kib} KiB of text, all of it in whole windows. The cells are the KiB that 2 MiB pages map
(`FilePmdMapped`, `ShmemPmdMapped`) in a process that does not request huge pages.

## By THP mode

The mode is `/sys/kernel/mm/transparent_hugepage/enabled`. cp wrote the file, and root warmed it. In a process with
`prctl(PR_SET_THP_DISABLE)`, every cell of this page is {disabled}.

| file system | {modes} |
|---|{bars}
"""
_HOW = """
## How it was made

`make docs-live` measures and writes this page: {made}.
"""


def row(name: str, cells: list[Cell | None]) -> str:
    """Return a line of a table."""
    shown = [f"{cell.as_written} → {cell.warmed}" if cell else "--" for cell in cells]
    return f"| {name} | {' | '.join(shown)} |\n"


def tables() -> str:
    """Return the page.  Raises MissingError without root."""
    disabled: set[int] = set()

    def cell(at: Path, writer: str, user: str) -> Cell | None:
        try:
            result = measure(programs, at, writer, user)
        except MissingError as error:
            print(error, file=sys.stderr)
            return None
        disabled.add(result.disabled)
        return result

    by_writer, by_mode = "", ""
    able = 0
    unable: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hugealign-table-") as name:
        work = Path(name)
        work.chmod(0o755)
        programs = Programs(work)
        programs.build()
        for system in FILE_SYSTEMS:
            with mounted(system, work) as at:
                cells = [cell(at, writer, "nobody") for writer in WRITERS]
                by_writer += row(system, cells)
                able += (warmed := all(each and each.warmed for each in cells))
                unable += [] if warmed else [system]
                modes = []
                for mode in MODES:
                    with thp(mode):
                        modes.append(cell(at, "cp", "root"))
                by_mode += row(system, modes)
    head = _HEAD.format(
        able=able,
        unable=" or ".join(unable),
        all=len(FILE_SYSTEMS),
        writers=" | ".join(WRITERS),
        bars="---|" * len(WRITERS),
    )
    middle = _MODES.format(
        kib=ALL,
        modes=" | ".join(MODES),
        bars="---|" * len(MODES),
        disabled=" or ".join(map(str, sorted(disabled))),
    )
    return head + by_writer + middle + by_mode + _HOW.format(made=made_here())


def main() -> None:
    """Write the page to the file named."""
    target = page_to_write(__doc__)
    try:
        page = tables()
    except MissingError as error:
        sys.exit(f"live_table: {error}")
    target.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
