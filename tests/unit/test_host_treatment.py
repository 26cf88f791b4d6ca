"""What `warm` and `cool` say of a file: pure functions."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from hugealign.machine import libraries, memory
from hugealign.pagecache.measure import CacheState
from hugealign.pagecache.obstacles import Obstacle
from hugealign.pagecache.treatment import Treatment, document, ranges, shortened
from hugealign.pagecache.warming import Outcome

W = 2 << 20


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([], ""),
        ([0], "0x0-0x200000"),
        ([W, 2 * W, 4 * W], "0x200000-0x600000, 0x800000-0xa00000"),
        (range(0, 11 * W, 2 * W), "0x0-0x200000, 0x400000-0x600000, 0x800000-0xa00000, 0xc00000-0xe00000 and 2 more"),
    ],
)  # fmt: skip
def test_ranges(offsets: list[int], text: str) -> None:
    assert ranges(offsets, W) == text


def test_lines() -> None:
    obstacle = Obstacle("in-use", "in use by process 7 (x)", "stop it")
    part = Treatment("a\nb", W, [0, W, 2 * W], Outcome((True, False, False)), obstacle, note="a note")
    assert part.lines == [
        "a\\nb: 1 of 3 windows huge (2.0 MiB)",
        "  a note",
        "  in use by process 7 (x); stop it",
        "  not huge: file offsets 0x200000-0x600000",
    ]
    assert Treatment("f", W, [0], Outcome((True,))).lines == ["f: 1 of 1 windows huge (2.0 MiB)"]
    assert shortened(["a", "b"]) == "a, b"


def test_document() -> None:
    obstacle = Obstacle("fragmented", "why", "mend")
    treatments = [
        Treatment("a\x1b", W, [W, 2 * W], Outcome((True, False), ("readahead",), CacheState(1, 0, 0)), obstacle),
        Treatment("b", W, [0], Outcome((True,)), library=True, replaced=True),
    ]
    found = document(treatments, [("lib\n", "a")], [("c", "message")], W)
    assert found["schema"] == "hugealign.warm/1"
    assert found["huge_bytes"] == 2 * W
    assert found["files"][0] == {
        "path": "a\\x1b", "library": False, "replaced": False, "windows": 2, "windows_huge": 1, "huge_bytes": W,
        "small_offsets": [2 * W], "methods": ["readahead"],
        "reason": {"code": "fragmented", "text": "why", "mend": "mend"},
    }  # fmt: skip
    assert found["files"][1]["reason"] is None
    assert found["libraries_missing"] == [{"name": "lib\\n", "needed_by": "a"}]
    assert found["errors"] == [{"target": "c", "message": "message"}]
    assert json.loads(json.dumps(found)) == found


PROGRAM = Path("/bin/true").read_bytes()


@given(st.lists(st.tuples(st.integers(0, min(len(PROGRAM), 8192) - 1), st.integers(0, 255)), max_size=8))
def test_altered_program_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    import os

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


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "files", "expected"),
    [
        ("30 1 0:1 / {} rw - cgroup2 none rw", "0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "4096"}, 4096),
        ("30 1 0:1 / {} rw - cgroup2 none rw", "0::/a", {"a/memory.max": "max"}, None),
        ("30 1 0:1 /pod {} rw - cgroup2 none rw", "0::/pod/a", {"a/memory.max": "8192"}, 8192),
        (
            "30 1 0:1 / {} rw - cgroup cgroup rw,memory",
            "5:memory:/a\n0::/",
            {"a/memory.limit_in_bytes": "12288"},
            12288,
        ),
        ("30 1 0:1 / {} rw - cgroup cgroup rw,cpu", "5:cpu:/a", {"a/memory.limit_in_bytes": "12288"}, None),
        (
            "30 1 0:1 / {} rw - cgroup cgroup rw,memory",
            "5:memory:/",
            {"memory.limit_in_bytes": "9223372036854771712"},
            None,
        ),
    ],
)
def test_memory_limit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mountinfo: str,
    cgroup: str,
    files: dict[str, str],
    expected: int | None,
) -> None:
    for name, value in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
        (tmp_path / name).with_name("memory.failcnt").write_text("2\n")
    fake = {"/proc/self/mountinfo": [mountinfo.format(tmp_path)], "/proc/self/cgroup": cgroup.splitlines()}
    real = memory._lines
    monkeypatch.setattr(memory, "_lines", lambda path: fake.get(path) or real(path))
    assert memory.limit() == expected
    assert memory.limit_hits() in {2 * len(files), 0}
