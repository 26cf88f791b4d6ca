"""What the kernel maps text with, where samples fall, what perf counted."""

import subprocess
from pathlib import Path

import pytest

from examples.servers.steps import Failed
from examples.servers.text import WINDOW, Samples, counts, mapped


def test_text_of_a_process() -> None:
    program = Path("/bin/sh").resolve()
    with subprocess.Popen([program, "-c", "echo; sleep 60"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()  # it runs
            text = mapped(process.pid, program)
            with pytest.raises(Failed, match="maps no text of /bin/other"):
                mapped(process.pid, Path("/bin/other"))
        finally:
            process.kill()
    assert 0 < text.end - text.start < program.stat().st_size
    assert text.huge == 0
    assert str(text) == f"0 of {(text.end - text.start) >> 10} KiB"


def test_samples_by_window() -> None:
    found = Samples(sorted([0, 1, 4096, WINDOW - 1, WINDOW, 3 * WINDOW]))
    assert found.share(WINDOW) == pytest.approx(100 * 4 / 6)
    assert found.share(4 * WINDOW) == 100
    assert found.pages() == 5
    assert Samples([]).share(5) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "12345,,instructions:u,1,100.0,,\n67,,iTLB-load-misses:u,1,100.0,,\n",
            {"instructions": 12345, "iTLB-load-misses": 67},
        ),
        ("12345,,instructions:u,1,100.0,,\n<not supported>,,iTLB-load-misses:u,0,100.0,,\n", None),
        ("<not counted>,,instructions:u,0,100.0,,\n", None),
        ("", None),
        ("# started on Sat\n\n", None),
    ],
)  # fmt: skip
def test_counters(text: str, found: dict[str, int] | None) -> None:
    assert counts(text) == found


SMAPS = """\
55550000-55570000 r--p 00000000 fe:00 12 /srv/bin/server
FilePmdMapped:         0 kB
55600000-55a00000 r-xp 00200000 fe:00 12 /srv/bin/server
Size:               4096 kB
FilePmdMapped:      2048 kB
ShmemPmdMapped:        0 kB
55a00000-55c00000 r-xp 00600000 fe:00 12 /srv/bin/server
ShmemPmdMapped:     2048 kB
VmFlags: rd ex mr mw me
7f000000-7f200000 r-xp 00000000 fe:00 99 /usr/lib/libc.so.6
FilePmdMapped:      2048 kB
"""


def test_huge_text_is_that_of_the_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: SMAPS)
    text = mapped(1, Path("/srv/bin/server"))
    assert (text.start, text.end, text.huge) == (0x55600000, 0x55C00000, 4 << 20)
