"""What becomes huge on which file system, written by what, warmed by whom, under which THP mode.

The short test of each file system runs by default; `make test-live` runs all cells.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.filesystems import (
    ALL,
    FILE_SYSTEMS,
    MODES,
    THP,
    USERS,
    WRITERS,
    Cell,
    kernel,
    measure,
    mounted,
    thp,
)
from tests.live.programs import Programs
from tests.support import worded

#: KiB that are huge in a process once the file is warm, whoever wrote it, whoever warmed it, under any THP mode.
WARMED = dict.fromkeys(FILE_SYSTEMS, ALL) | {"btrfs": 0}
#: KiB that are huge without warming, by writer; 0 where nothing is said.  Linux 6.18: no promise of other kernels.
#: A write of at least a window's size makes huge folios in one go; cp and install write 128 KiB or more at a time.
AS_WRITTEN = {
    "ext4": {"dd bs=8M": ALL},
    "xfs": {"dd bs=8M": ALL},
    "tmpfs huge=always": dict.fromkeys(WRITERS, ALL),
    "tmpfs huge=within_size": {"dd bs=8M": ALL},
    "overlay on ext4": {"dd bs=8M": ALL},
}
#: Where a file grows by writes that may or may not end in a window, and so is huge in part, differently each time.
UNSETTLED = {("tmpfs huge=within_size", "cp"), ("tmpfs huge=within_size", "install")}
#: The first kernel with large folios there.
SINCE = {"ext4": (6, 16), "overlay on ext4": (6, 16), "xfs": (5, 18)}


@pytest.fixture(params=FILE_SYSTEMS)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    name: str = request.param
    if kernel() < SINCE.get(name, (6, 1)):  # tmpfs: MADV_COLLAPSE
        pytest.skip(f"{name} has no huge folios before Linux {SINCE.get(name, (6, 1))}")
    if name == "btrfs" and kernel() > (6, 18):
        pytest.skip("nobody has looked at btrfs on this kernel yet")
    with tempfile.TemporaryDirectory(prefix="hugealign-mounts-") as work:
        Path(work).chmod(0o755)
        with mounted(name, Path(work)) as at:
            # What a write makes huge also depends on free memory in pieces of that size.
            Path("/proc/sys/vm/compact_memory").write_text("1", encoding="ascii")
            yield name, at


def check(name: str, writer: str, cell: Cell, what: object) -> None:
    assert cell.warmed == WARMED[name], (what, cell.said)
    assert cell.status == (0 if WARMED[name] else 1), what
    assert cell.disabled == 0, what
    if kernel() == (6, 18) and (name, writer) not in UNSETTLED:
        assert cell.as_written == AS_WRITTEN.get(name, {}).get(writer, 0), what
    if not WARMED[name]:
        assert f"{worded('file-system.no-huge-pages', file_system=name)}" in cell.said


def test_short(programs: Programs, place: tuple[str, Path]) -> None:
    name, at = place
    for writer in ("cp", "dd bs=8M"):
        check(name, writer, measure(programs, at, writer, "nobody"), writer)


@pytest.mark.matrix
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("mode", MODES)
def test_every_writer(programs: Programs, place: tuple[str, Path], mode: str, user: str) -> None:
    name, at = place
    with thp(mode):
        for writer in WRITERS:
            check(name, writer, measure(programs, at, writer, user), (writer, mode, user))


@pytest.mark.parametrize("mode", MODES)
def test_thp_mode_does_not_matter_where_the_programs_lie(programs: Programs, mode: str) -> None:
    at = programs.directory / f"thp-{mode}"
    at.mkdir()
    before = THP.read_text(encoding="ascii")
    with thp(mode):
        assert f"[{mode}]" in THP.read_text(encoding="ascii")
        cell = measure(programs, at, "cp", "nobody")
    assert (cell.warmed, cell.disabled) == (ALL, 0)
    assert THP.read_text(encoding="ascii") == before
