"""The limits of control groups, of either version."""

import os
from pathlib import Path

import pytest

from hugealign.io import mounts
from hugealign.system import memory


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
    mountinfo: str,
    cgroup: str,
    files: dict[str, str],
    expected: int | None,
) -> None:
    for name, value in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
        (tmp_path / name).with_name("memory.failcnt").write_text("2\n")
    groups = memory.groups_of(mounts.parse(os.fsencode(mountinfo.format(tmp_path))), cgroup.splitlines())
    assert memory.limit(groups) == expected
    assert memory.limit_hits(groups) in {2 * len(files), 0}


@pytest.mark.parametrize(
    ("files", "room"),
    [
        (
            {
                "memory.max": "1000",
                "memory.current": "900",
                "memory.stat": "anon 5\nactive_file 100\ninactive_file 200",
            },
            400,
        ),
        ({"memory.max": "1000", "memory.current": "1100", "memory.stat": "inactive_file 50"}, 0),
        ({"memory.max": "max", "memory.current": "900"}, None),
        ({"memory.max": "1000"}, None),
        (
            {
                "memory.limit_in_bytes": "1000",
                "memory.usage_in_bytes": "700",
                "memory.stat": "active_file 1\ntotal_active_file 10\ntotal_inactive_file 20",
            },
            330,
        ),
    ],
)
def test_room(tmp_path: Path, files: dict[str, str], room: int | None) -> None:
    for name, value in files.items():
        (tmp_path / name).write_text(f"{value}\n")
    assert memory.room([str(tmp_path)]) == room


@pytest.mark.parametrize(
    ("files", "hits"),
    [
        ({"memory.events": "low 1\nhigh 2\nmax 3\noom 4"}, 3),
        ({"memory.failcnt": "5"}, 5),
        ({"memory.events": "low 1"}, 0),
        ({}, 0),
    ],
)
def test_how_often_the_limit_was_met(tmp_path: Path, files: dict[str, str], hits: int) -> None:
    for name, value in files.items():
        (tmp_path / name).write_text(f"{value}\n")
    assert memory.limit_hits([str(tmp_path)]) == hits
