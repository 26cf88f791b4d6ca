"""What the texts of /proc/PID/smaps mean: literal texts, no kernel needed."""

import pytest

from hugealign.process.smaps import Mapping, coverage, parse
from hugealign.system import kernel

M = 1 << 20
WINDOW = 2 * M

# Linux 6.18, the text of a warmed PostgreSQL on ext4 and what surrounds it, shortened.
WARM = """\
55d0c0000000-55d0c00c9000 r--p 00000000 fe:00 247026                     /usr/lib/postgresql/postgres
Size:                804 kB
KernelPageSize:        4 kB
Rss:                 512 kB
AnonHugePages:         0 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
THPeligible:           0
VmFlags: rd mr mw me
55d0c0200000-55d0c0800000 r-xp 00200000 fe:00 247026                     /usr/lib/postgresql/postgres
Size:               6144 kB
Rss:                6144 kB
AnonHugePages:         0 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      6144 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
THPeligible:           0
VmFlags: rd ex mr mw me
7ffd3b5fe000-7ffd3b600000 r-xp 00000000 00:00 0                          [vdso]
Size:                  8 kB
Rss:                   4 kB
VmFlags: rd ex mr mw me de
"""


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def one(header: str, *counters: str) -> Mapping:
    (mapping,) = parse([header + "\n", *(line + "\n" for line in counters)])
    return mapping


def test_mappings_of_a_process() -> None:
    data, text, vdso = parse(lines(WARM))
    assert (data.executable, text.executable, vdso.executable) == (False, True, True)
    assert (data.is_file, text.is_file, vdso.is_file) == (True, True, False)
    assert text == Mapping(
        start=0x55D0C0200000,
        end=0x55D0C0800000,
        offset=0x200000,
        path="/usr/lib/postgresql/postgres",
        permissions="r-xp",
        device=(0xFE, 0),
        inode=247026,
        rss=6144 << 10,
        file_pmd=6144 << 10,
    )
    assert data.rss == data.small == 512 << 10
    assert (text.size, text.huge, text.small) == (6 * M, 6 * M, 0)
    assert (text.windows_possible, text.windows_huge, text.how) == (3, 3, "file THP")
    assert (vdso.path, vdso.windows_possible, vdso.how) == ("[vdso]", 0, "")


def test_counters_of_one_mapping_do_not_leak_into_the_next() -> None:
    _, _, vdso = parse(lines(WARM))
    assert (vdso.rss, vdso.file_pmd) == (4 << 10, 0)


@pytest.mark.parametrize(
    ("counter", "how", "small"),
    [
        ("FilePmdMapped", "file THP", 2 * M),
        ("ShmemPmdMapped", "shmem THP", 2 * M),
        ("AnonHugePages", "anon THP", 2 * M),
        ("Private_Hugetlb", "hugetlb", 4 * M),  # not part of Rss
        ("Shared_Hugetlb", "hugetlb", 4 * M),
    ],
)
def test_every_kind_of_huge_page_counts(counter: str, how: str, small: int) -> None:
    mapping = one("400000-a00000 r-xp 00000000 08:01 5   /a", "Rss: 4096 kB", f"{counter}:    2048 kB")
    assert (mapping.huge, mapping.windows_huge, mapping.how) == (2 * M, 1, how)
    assert mapping.small == small


def test_two_kinds_in_one_mapping() -> None:
    mapping = one("400000-a00000 r-xp 0 08:01 5   /a", "AnonHugePages: 2048 kB", "FilePmdMapped: 2048 kB")
    assert (mapping.huge, mapping.how) == (4 * M, "file THP + anon THP")


@pytest.mark.parametrize(
    ("start", "end", "offset", "windows"),
    [
        (0x400000, 0xA00000, 0x200000, 3),
        (0x400000, 0x9FF000, 0x200000, 2),  # the tail
        (0x401000, 0xA00000, 0x201000, 2),  # the head
        (0x401000, 0x5FF000, 0x001000, 0),  # below a window
        (0x5FF000, 0x601000, 0x1FF000, 0),  # around a boundary
        (0x3FF000, 0x601000, 0x1FF000, 1),
        (0x401000, 0xC01000, 0x200000, 0),  # address and offset disagree
        (0x400000, 0xA00000, 0x001000, 0),
        (0x400000, 0x600000, 0x000000, 1),
    ],
)
def test_windows_possible(start: int, end: int, offset: int, windows: int) -> None:
    assert Mapping(start, end, offset, "/a").windows_possible == windows


@pytest.mark.parametrize(("size", "windows"), [(2, 32), (32, 2), (512, 0)])
def test_windows_possible_of_other_sizes(monkeypatch: pytest.MonkeyPatch, size: int, windows: int) -> None:
    monkeypatch.setattr(kernel, "huge_page_size", lambda: size * M)
    assert Mapping(0x10000000, 0x14000000, 0, "/a").windows_possible == windows


def test_anonymous_memory_has_no_offset_to_agree_with() -> None:
    (mapping,) = parse(["600000-a00000 rwxp 00001000 00:00 0 \n", "AnonHugePages: 4096 kB\n"])
    assert (mapping.path, mapping.windows_possible, mapping.windows_huge) == ("", 2, 2)


def test_huge_is_never_more_than_possible() -> None:
    mapping = Mapping(0x400000, 0x600000, 0x1000, "/a", file_pmd=2 * M)
    assert mapping.windows_huge == 0


@pytest.mark.parametrize(
    ("shown", "path", "deleted"),
    [
        ("/opt/my server/bin/db", "/opt/my server/bin/db", False),
        ("/usr/bin/db (deleted)", "/usr/bin/db", True),
        ("/usr/bin/db (deleted) (deleted)", "/usr/bin/db (deleted)", True),
        ("/tmp/two\\012lines", "/tmp/two\nlines", False),
        ("/tmp/carriage\rreturn", "/tmp/carriage\rreturn", False),
        ("/tmp/ends in space ", "/tmp/ends in space ", False),
        ("/tmp/Rss: 4 kB", "/tmp/Rss: 4 kB", False),
        ("/memfd:code (deleted)", "/memfd:code", True),
        ("[anon:JIT: code]", "[anon:JIT: code]", False),
        ("/tmp/\udcff", "/tmp/\udcff", False),
    ],
)
def test_names(shown: str, path: str, deleted: bool) -> None:
    mapping = one(f"400000-600000 r-xp 00000000 08:01 5                          {shown}", "Rss: 8 kB")
    assert (mapping.path, mapping.deleted, mapping.rss) == (path, deleted, 8 << 10)


def test_neighbours_of_one_file_stay_apart() -> None:
    text = "400000-600000 r-xp 00000000 08:01 5   /a\n600000-800000 rwxp 00200000 08:01 5   /a\n"
    assert [m.start for m in parse(lines(text))] == [0x400000, 0x600000]


def test_text_that_breaks_off_anywhere() -> None:
    # The process ended while it was read: what was complete is as it was, and nothing is raised.
    complete = list(parse(lines(WARM)))
    assert list(parse(lines(WARM[: WARM.index("VmFlags: rd ex mr mw me\n")])))[1:] == complete[1:2]
    for cut in range(len(WARM)):
        result = list(parse(lines(WARM[:cut])))
        assert result[:-1] == complete[: max(0, len(result) - 1)]


def test_lines_of_kernels_to_come_are_skipped() -> None:
    header = "400000-600000 r-xp 00000000 08:01 5   /a"
    assert one(header, "FilePmdMapped: many", "NewPmdMapped: 2048 kB", "FilePmdMapped:", "garbage", "").huge == 0


def test_coverage() -> None:
    assert coverage(0, 0) == 0
    assert coverage(3, 4) == 75


def test_advice_against_huge_pages() -> None:
    first, second = parse(
        ["400000-600000 r-xp 0 08:01 5   /a\n", "VmFlags: rd ex nh\n", "600000-800000 r-xp 0 08:01 5   /b\n"]
    )
    assert (first.no_huge, second.no_huge) == (True, False)
