"""Finding libraries: what ldconfig has found, and programs that are damaged."""

import os
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.machine import libraries

PROGRAM = Path("/bin/true").read_bytes()


@given(st.lists(st.tuples(st.integers(0, min(len(PROGRAM), 8192) - 1), st.integers(0, 255)), max_size=8))
def test_altered_program_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(PROGRAM)
    for place, value in changes:
        data[place] = value
    fd = os.memfd_create("altered")
    try:
        os.write(fd, data)
        image = read_image(fd)
        found = read_dynamic(fd, image)
        assert all("\0" not in name for name in found.needed)
    except HugealignError:
        pass
    finally:
        os.close(fd)


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
        found = libraries._cache(str(path))
        assert found["libb.so"] == ["/lib/libb.so"]
        assert found["liba.so"] == [entries[i][1] for i in (4, 3, 1, 2)]
    whole = cache(entries)
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        assert isinstance(libraries._cache(str(path)), dict)
    assert libraries._cache(str(tmp_path / "none")) == {}
