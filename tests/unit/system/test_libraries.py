"""Finding libraries: what ldconfig has found, and programs that are damaged."""

import struct
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from hugealign.elf.image import Image, read_image
from hugealign.io import regular
from hugealign.system import libraries

PROGRAM = Path("/bin/true").read_bytes()


def cache(entries: list[tuple[str, str]]) -> bytes:
    """The file of ldconfig with these names and paths."""
    strings, table = b"", b""
    start = 48 + 24 * len(entries)
    for name, path in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        table += struct.pack("=iIIIQ", 0x303, key, start + len(strings), 0, 0)
        strings += path.encode() + b"\0"
    return b"glibc-ld.so.cache1.1" + struct.pack("=II20x", len(entries), len(strings)) + table + strings


def test_cache_of_ldconfig(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    entries = [
        ("libb.so", "/lib/libb.so"),
        ("liba.so", "/lib/liba.so"),
        ("liba.so", "/usr/lib/liba.so"),
        ("liba.so", "/lib/glibc-hwcaps/x86-64-v2/liba.so"),
        ("liba.so", "/lib/glibc-hwcaps/x86-64-v3/liba.so"),
    ]
    for before in (b"", b"ld.so-1.7.0\0" + bytes(4)):  # the old format may come first
        path.write_bytes(before + cache(entries))
        result = libraries.ldconfig_cache(str(path))
        assert result["libb.so"] == ["/lib/libb.so"]
        assert result["liba.so"] == [entries[i][1] for i in (4, 3, 1, 2)]
    whole = cache(entries)
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert isinstance(libraries.ldconfig_cache(str(path)), dict)
    assert libraries.ldconfig_cache(str(tmp_path / "none")) == {}


def needing(names: list[str], runpath: str) -> bytes:
    """A program that needs libraries of those *names*, to be looked for in *runpath*."""
    strings, entries = b"\0", []
    for tag, word in [*((1, name) for name in names), (29, runpath)]:
        entries.append((tag, len(strings)))
        strings += word.encode() + b"\0"
    base, at = 0x400000, 64 + 2 * 56
    entries += [(5, base + at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    place = at + len(strings)
    size = place + len(dynamic)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, base, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    return (
        header
        + load
        + struct.pack("<IIQQQQQQ", 2, 4, place, *[base + place] * 2, *[len(dynamic)] * 2, 8)
        + (strings + dynamic)
    )


def test_a_search_path_of_thousands_for_thousands_of_names_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, foreign = tmp_path / "program", tmp_path / "x" / "n0"
    program.write_bytes(needing([f"n{n}" for n in range(4000)], ":".join(["$ORIGIN/x"] * 6000)))
    foreign.parent.mkdir()
    foreign.write_bytes(PROGRAM[:4] + b"\1" + PROGRAM[5:])  # of 32 bits, which is seen after a look into it
    opened: list[str] = []
    read: list[int] = []

    def counted(path: str) -> AbstractContextManager[int]:
        opened.append(path)
        assert len(opened) <= 1 << 17
        return regular.opened(path)

    def reading(fd: int) -> Image:
        read.append(fd)
        return read_image(fd)

    monkeypatch.setattr(libraries, "opened", counted)
    monkeypatch.setattr(libraries, "read_image", reading)
    result = libraries.resolve(str(program), {})
    assert (result.paths, len(result.missing)) == ((), 4000)
    assert len(read) == 2


def test_a_library_is_found_by_its_search_path(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "program").write_bytes(needing(["liba.so", "libb.so"], "$ORIGIN/none:${ORIGIN}/x"))
    (tmp_path / "x" / "liba.so").write_bytes(needing(["libb.so"], ""))
    result = libraries.resolve(str(tmp_path / "program"), {})
    assert result.paths == (str(tmp_path / "x" / "liba.so"),)
    assert result.missing == (("libb.so", str(tmp_path / "program")),)
