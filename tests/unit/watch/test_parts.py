"""What a process executes, in parts."""

from hugealign.process.pagemap import Region
from hugealign.process.smaps import Mapping, parse
from hugealign.watch.parts import CodeKind, split

W = 2 << 20
MAPS = """\
400000-a00000 r-xp 00200000 08:01 5                          /srv/app
7000000-7300000 r-xp 00000000 08:01 6                        /lib/libbig.so
7400000-7500000 r-xp 00400000 08:01 6                        /lib/libbig.so
8000000-8400000 rwxp 00000000 00:00 0
9000000-a000000 r-xs 08000000 00:01 7                        /dev/zero (deleted)
a000000-a200000 r-xs 00000000 00:01 8                        /memfd:doublemapper (deleted)
b000000-b200000 r-xp 00000000 00:00 0                        [anon:code]
c000000-c200000 r-xp 00000000 08:01 9                        /dev/zero
d000000-d200000 r-xp 00000000 08:01 9                        /srv/gone.so (deleted)
"""


def test_parts() -> None:
    parts = split("/srv/app", list(parse(MAPS.splitlines())))
    assert [(part.kind, part.path, part.text >> 20) for part in parts] == [
        (CodeKind.PROGRAM, "/srv/app", 6),
        (CodeKind.LIBRARY, "/lib/libbig.so", 4),
        (CodeKind.LIBRARY, "/dev/zero", 2),  # a file of that name, which is there
        (CodeKind.LIBRARY, "/srv/gone.so", 2),
        (CodeKind.CODE, "", 24),
    ]
    assert [part.deleted for part in parts] == [False, False, False, True, False]
    assert [part.possible() for part in parts] == [3, 1, 1, 1, 12]


def test_program_that_runs_from_memory_is_no_code_without_a_file() -> None:
    (mapping,) = parse(["400000-a00000 r-xp 00200000 00:01 5    /memfd:mariadbd (deleted)"])
    (part,) = split("/memfd:mariadbd", [mapping])
    assert part.kind == CodeKind.PROGRAM


def test_huge_windows_of_a_part_are_those_of_its_mappings() -> None:
    pages = (Region(W, 2 * W, huge=True, file=False), Region(2 * W, 3 * W, huge=False, file=False))
    (part,) = split("/x", [Mapping(W, 3 * W, 0, "", pages=pages)])
    assert (part.huge(), part.possible()) == (1, 2)
    assert part.touched() == 2
    assert split("/x", [Mapping(W, 4 * W, 0, "", pages=pages)])[0].touched() == 2
    assert split("/x", [Mapping(W, 4 * W, 0, "")])[0].touched() == 3
