"""Archives of ar(1) as links read them: names of each form, sizes that lead astray, and the index."""

import os
from pathlib import Path

import pytest

from hugealign.errors import NumberFormatError
from hugealign.io import ar


def member(name: bytes, data: bytes, size: bytes | None = None) -> bytes:
    header = name.ljust(16) + b"0".ljust(32) + (size or b"%d" % len(data)).ljust(10) + b"`\n"
    return header + data + b"\n" * (len(data) % 2)


LONG = member(b"//", b"a_long_name_of_an_object.o/\nanother.o/\n")
INDEX = member(b"/", (2).to_bytes(4, "big") + (100).to_bytes(4, "big") + (200).to_bytes(4, "big") + b"main\0used\0")
FOUND: dict[str, tuple[bytes, list[bytes]]] = {
    "none": (b"", []),
    "short names": (member(b"a.o/", b"x") + member(b"b.o/", b"yy"), [b"a.o", b"b.o"]),
    "long names": (LONG + member(b"/0", b"x") + member(b"/28", b"y"), [b"a_long_name_of_an_object.o", b"another.o"]),
    "an index": (INDEX + member(b"a.o/", b"x"), [b"a.o"]),
    "a long name that is not there": (member(b"/999", b"x"), [b""]),
    "a header that is cut": (member(b"a.o/", b"x") + member(b"b.o/", b"y")[:40], [b"a.o"]),
    "a member beyond the end": (member(b"a.o/", b"x", b"9999999999"), [b"a.o"]),
}


@pytest.mark.parametrize("kind", FOUND)
def test_members(kind: str, tmp_path: Path) -> None:
    data, names = FOUND[kind]
    (tmp_path / "x.a").write_bytes(ar.MAGIC + data)
    with (tmp_path / "x.a").open("rb") as file:
        result = list(ar.members(file.fileno()))
        assert [name for name, _, _ in result] == names
        for _, offset, size in result if "beyond" not in kind else ():
            assert os.pread(file.fileno(), size, offset).strip(b"xy") == b""


@pytest.mark.parametrize("size", [b"-1", b"+1", b"0x1", b"1_0", b"", b"1 1"])
def test_sizes_that_are_none(size: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.a").write_bytes(ar.MAGIC + member(b"a.o/", b"x", size or b" "))
    with (tmp_path / "x.a").open("rb") as file, pytest.raises(NumberFormatError):
        list(ar.members(file.fileno()))


def test_what_defines_a_name(tmp_path: Path) -> None:
    (tmp_path / "x.a").write_bytes(ar.MAGIC + INDEX)
    (tmp_path / "y.a").write_bytes(ar.MAGIC + member(b"a.o/", b"x"))
    with (tmp_path / "x.a").open("rb") as with_index, (tmp_path / "y.a").open("rb") as without:
        assert ar.members_that_define(with_index.fileno(), {b"used", b"absent"}) == {200}
        assert ar.members_that_define(without.fileno(), {b"used"}) is None


def test_any_other_file_is_one_member(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"other")
    with (tmp_path / "x").open("rb") as file:
        assert list(ar.members(file.fileno())) == [(b"", 0, 5)]
