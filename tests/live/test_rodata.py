"""Read-only data in huge folios: warmed, staged, looked at, and never taken for text."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.link.bulk import bulk_object
from tests.live import stock as stocks
from tests.live.programs import ROOT, WINDOW, Programs, chill, hugealign
from tests.live.stock import command
from tests.support import HUGEALIGN, SRC, environment, worded

TEXT, DATA = 2, 4  # windows


@pytest.fixture(scope="module")
def linked(programs: Programs) -> Path:
    """A program whose link was asked for text alone; its read-only data have whole windows all the same."""
    path = programs.directory / "constants"
    bulk = bulk_object(programs.directory)
    words = (HUGEALIGN, "gcc", "-fuse-ld=lld", "-B/usr/lib/llvm-19/bin", "-O1", SRC / "constants.c", bulk, "-o", path)
    if subprocess.run(words, check=False, capture_output=True, env=environment(HUGEALIGN_MIN_TEXT="0")).returncode:
        pytest.skip("lld 19 is not installed")
    return path


@pytest.fixture
def cold(linked: Path) -> Path:
    chill(linked)
    return linked


@contextmanager
def running(words: list[Any]) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*map(str, words)], stdin=pipe, stdout=pipe, stderr=pipe, env=environment()) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            child.kill()


def mapped(pid: int, path: Path) -> dict[str, int]:
    """KiB that huge pages map of the file *path* in process *pid*, by permissions; without any reader of ours."""
    found: dict[str, int] = {}
    permissions = ""
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) .*", line):
            permissions = match[1] if line.endswith(f" {path}") else ""
        elif permissions and re.match(r"(File|Shmem)PmdMapped:", line):
            found[permissions] = found.get(permissions, 0) + int(line.split()[1])
    return found


def test_warmed_only_when_asked_for(cold: Path) -> None:
    assert "read-only" not in hugealign("warm", cold).stdout
    with running([cold, "wait"]) as child:
        assert mapped(child.pid, cold) == {"r--p": 0, "r-xp": TEXT * WINDOW >> 10, "rw-p": 0}
    chill(cold)
    done = hugealign("warm", "--rodata", cold)
    assert (done.returncode, done.stdout) == (
        0,
        f"{cold}: {TEXT} of {TEXT} windows huge (4.0 MiB)\n  read-only data: {DATA} of {DATA} windows huge (8.0 MiB)\n"
        if DATA
        else "",
    )
    with running([cold, "wait"]) as child:
        huge = {"r--p": DATA * WINDOW >> 10, "r-xp": TEXT * WINDOW >> 10, "rw-p": 0}
        assert mapped(child.pid, cold) == huge
        done = hugealign("ps", "--rodata", str(child.pid))
        assert done.returncode == 0
        assert f"  read-only data: {DATA} of {DATA} windows are huge (8.0 MiB of " in done.stdout
        schema = json.loads((ROOT / "hugealign/watch/ps-1.schema.json").read_text(encoding="utf-8"))
        found = json.loads(hugealign("ps", "--rodata", "--format", "json", str(child.pid)).stdout)
        jsonschema.validate(found, schema)
        (process,) = found["processes"]
        assert process["windows_huge"] == TEXT  # nothing of it counts as text
        assert process["huge_bytes"] == TEXT * WINDOW
        assert process["rodata"]["windows_huge"] == DATA
        # RELRO is only readable as well by now, and writable it was.
        relro = [m for m in process["rodata"]["mappings"] if m["offset"] >= (TEXT + DATA) * WINDOW]
        assert relro == []
        assert json.loads(hugealign("ps", "--format", "json", str(child.pid)).stdout)["processes"][0]["rodata"] is None


def test_cooled_when_asked_for(cold: Path) -> None:
    assert hugealign("warm", "--rodata", cold).returncode == 0
    done = hugealign("warm", "--undo", cold)
    assert (done.returncode, done.stdout) == (0, f"{cold}: 0 of {TEXT} windows huge (0 B)\n")
    with running([cold, "wait"]) as child:
        assert mapped(child.pid, cold) == {"r--p": DATA * WINDOW >> 10, "r-xp": 0, "rw-p": 0}
        used = hugealign("warm", "--undo", "--rodata", cold)
        assert used.returncode == 1  # what a process maps stays
        assert f"  read-only data: {DATA} of {DATA} windows huge" in used.stdout
    done = hugealign("warm", "--undo", "--rodata", cold)
    assert done.returncode == 0
    assert f"  read-only data: 0 of {DATA} windows huge (0 B)" in done.stdout
    with running([cold, "wait"]) as child:
        assert not any(mapped(child.pid, cold).values())


def test_text_that_is_small_is_not_made_up_for(cold: Path) -> None:
    """All read-only data huge, no text: everybody says that it is not."""
    assert hugealign("warm", "--rodata", cold).returncode == 0
    fd = os.open(cold, os.O_RDONLY)
    with running([cold, "wait"]):
        pass
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    chill(cold)
    done = hugealign("warm", "--check", "--rodata", "--format", "json", cold)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    jsonschema.validate(
        found, json.loads((ROOT / "hugealign/pagecache/warm-1.schema.json").read_text(encoding="utf-8"))
    )
    (file,) = found["files"]
    assert (file["windows_huge"], file["windows"]) == (0, TEXT)
    assert (file["rodata"]["windows_huge"], file["rodata"]["windows"]) == (0, DATA)
    assert file["rodata"]["diagnosis"]["code"] == "cache.not-warmed"


def test_run_in_place(cold: Path) -> None:
    with running([HUGEALIGN, "run", "-v", "--rodata", cold, "wait"]) as child:
        assert mapped(child.pid, cold)["r--p"] == DATA * WINDOW >> 10
        child.kill()
        assert child.stderr
        said = child.stderr.read().decode()
    assert f"{TEXT} of {TEXT} windows huge; read-only data: {DATA} of {DATA} (in-place)" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to mount a file system without huge folios")
def test_staged(linked: Path, stock: Path, programs: Programs) -> None:
    program = stock / "constants"
    shutil.copy(linked, program)
    with running([*command("run", "-v", "--how=stage", "--rodata", "--"), program, "wait"]) as child:
        assert mapped(child.pid, program)["r--p"] == DATA * WINDOW >> 10
    with stocks.store(programs.directory) as place:
        done = hugealign("stage", "--store", place, "--rodata", program)
        assert done.returncode == 0
        assert f"  read-only data: {DATA} of {DATA} windows huge\n" in done.stdout
        found = json.loads(hugealign("stage", "--store", place, "--rodata", "--format", "json", program).stdout)
        jsonschema.validate(found, json.loads((ROOT / "hugealign/run/stage-1.schema.json").read_text(encoding="utf-8")))
        assert found["files"][0]["rodata"] == {"windows": DATA, "windows_huge": DATA}
        assert found["files"][0]["windows"] == TEXT
    program.unlink()


def test_replaced(cold: Path) -> None:
    """A copy takes the place of a file in use if its read-only data alone are not huge."""
    assert hugealign("warm", cold).returncode == 0
    path = cold.with_name("used")
    shutil.copy(cold, path)
    assert hugealign("warm", path).returncode == 0
    with running([path, "wait"]):
        done = hugealign("warm", "--rodata", "--replace", path)
        assert done.returncode == 0, done.stdout
        assert worded("cache.copied") in done.stdout or f"read-only data: {DATA} of {DATA}" in done.stdout
    path.unlink()
