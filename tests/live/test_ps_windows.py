"""``hugealign ps`` window by window: against smaps, and with reasons that the kernel itself gives."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.process import pagemap as pagemap_module
from hugealign.process import processes
from hugealign.process.pagemap import State
from tests.documents import check
from tests.live.programs import NOBODY, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.support import advised, worded


@pytest.fixture
def cold(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    try:
        fd = os.open("/proc/self/pagemap", os.O_RDONLY)
        pagemap_module.scan(fd, 4096, 8192)
    except OSError as error:
        pytest.skip(f"no PAGEMAP_SCAN here: {error}")
    os.close(fd)
    path = programs.copy(f"w{abs(hash(request.node.name)) % 10**6}")
    yield path
    path.unlink(missing_ok=True)


def warm(path: Path, *words: str) -> None:
    assert hugealign("warm", *words, path).returncode == 0


def document(*words: str) -> dict[str, Any]:
    result: dict[str, Any] = check(hugealign("ps", "--json", *words).stdout)
    return result


def windows(pid: int) -> list[tuple[str, int, str | None]]:
    (process,) = document(str(pid))["processes"]
    (mapping,) = process["mappings"]
    assert mapping["windows_source"] == "pagemap_scan"
    assert sum(run["count"] for run in mapping["windows"]) == mapping["windows_possible"] == WINDOWS
    return [(run["state"], run["count"], run["code"]) for run in mapping["windows"]]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_windows_agree_with_smaps_where_some_are_huge(cold: Path, count: int) -> None:
    warm(cold, "--windows", str(count))
    with running(cold, "5") as child:
        assert huge_kib(child.pid, cold) == count * WINDOW >> 10
        (text,) = processes.read(child.pid).text()
        assert text.windows() == (State.HUGE,) * count + (State.SMALL,) * (WINDOWS - count)


def test_strip_and_list(cold: Path) -> None:
    warm(cold, "--windows", "1")
    with running(cold, "3") as child:
        done = hugealign("ps", "-v", str(child.pid))
        (text,) = processes.read(child.pid).text()
    assert done.returncode == 1
    small = worded("cache.small-pages")
    places = [f"{at:#x}-{at + WINDOW:#x}" for at in range(text.start, text.end, WINDOW)]
    reasons = ["huge", small, small]
    assert done.stdout.splitlines()[-6:-1] == [
        f"  {cold} at {text.start:#x}:",
        "    #.-",
        *(f"    {place}  1 window    {reason}" for place, reason in zip(places, reasons, strict=True)),
    ]
    start = advised("start", "hugealign", "run", "--", cold, needs="arguments", before=1, after=3)
    assert f"  {small}\n  {start}\n" in done.stdout


def test_windows_that_are_not_warmed_can_be_while_it_runs(cold: Path) -> None:
    warm(cold, "--windows", "1")
    with running(cold, "3") as child:
        assert windows(child.pid)[2] == ("untouched", 1, "cache.small-pages")
        hugealign("warm", cold)  # as it says
        assert windows(child.pid)[2] == ("untouched", 1, "process.not-touched")


def test_looking_makes_nothing_huge(cold: Path) -> None:
    with running(cold, "3") as child:
        assert windows(child.pid)[0][0] == "small"
        assert huge_kib(child.pid, cold) == 0
    assert hugealign("warm", "--check", cold).returncode == 1


def test_head_and_tail_are_named(cold: Path) -> None:
    with running(cold.parent / "fixed", "5") as child:
        done = hugealign("ps", "-v", str(child.pid))
        (mapping,) = document(str(child.pid))["processes"][0]["mappings"]
    assert mapping["head_bytes"] + mapping["tail_bytes"] == (
        mapping["text_bytes"] - mapping["windows_possible"] * WINDOW
    )
    assert ("  head of " in done.stdout, "  tail of " in done.stdout) == (
        bool(mapping["head_bytes"]),
        bool(mapping["tail_bytes"]),
    )


def test_ordinary_user_sees_windows_of_a_process_of_that_user(cold: Path) -> None:
    if os.geteuid() or subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("not root, or this Python does not run as nobody")
    warm(cold, "--windows", "2")
    with running(*NOBODY, cold, "5") as child:
        done = hugealign("ps", "-v", str(child.pid), prefix=NOBODY)
    assert (done.returncode, done.stderr) == (1, "")
    assert "    ##.\n" in done.stdout


def test_json_of_libraries_anonymous_text_and_errors_follows_the_schema(cold: Path) -> None:
    with running(cold, "5") as child:
        result = document("--all", str(child.pid), str(os.getpid()), "4194304999")
    assert len(result["processes"]) == 2
    assert len(result["errors"]) == 1


def test_replaced_file_is_the_reason_only_where_pages_are_small(cold: Path) -> None:
    warm(cold, "--windows", "1")
    with running(cold, "5") as child:
        new = cold.with_name("upgrade")
        new.write_bytes(cold.read_bytes())
        new.chmod(0o755)
        new.replace(cold)
        result = windows(child.pid)
        warm(cold)
        assert windows(child.pid) == result  # the new file's pages are not this process's
    assert result == [
        ("huge", 1, None),
        ("small", 2, "file.replaced"),
    ]
    chill(cold)
