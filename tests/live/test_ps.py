"""``hugealign ps`` on this kernel: what it says of real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import render
from hugealign.diagnosis.values import Remedy
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.support import worded


def bytes_read(pid: int) -> int:
    """Return how much a process has read by system calls."""
    return int(Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()[1])


def row(output: str, mapping: str) -> list[str]:
    """The cells of the line of the table for *mapping*."""
    (line,) = (line for line in output.splitlines() if f"  {mapping}  " in line)
    return [cell for cell in line.split("  ") if cell]


def test_warmed_program(warmed: Path) -> None:
    with running(warmed, "5") as child:
        assert huge_kib(child.pid, warmed) == WINDOWS * WINDOW >> 10  # what the next lines are measured against
        done = hugealign("ps", str(child.pid))
        assert (done.returncode, done.stderr) == (0, "")
        how = "huge pages (file)" if "(file)" in done.stdout else "huge pages (tmpfs)"
        cells = [cell.strip() for cell in row(done.stdout, str(warmed))][1:]
        assert cells == [str(warmed), "6.0 MiB", "3/3", "100.0%", how]
        assert done.stdout.startswith(f"{warmed.name}[{child.pid}]: all 3 windows are huge\n")
        assert "libc" not in done.stdout


def test_output_of_the_command_is_not_in_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report"
    for words, begin in ((["--json"], "{"), ([], "sleep["), (["--watch", "0.1"], "sleep[")):
        done = hugealign("ps", *words, "-o", report, "--", "sh", "-c", "echo of the command; exec sleep 1")
        assert (done.stdout, done.stderr) == ("of the command\n", "")
        assert report.read_text().startswith(begin)
        assert report.read_text().count("PID  MAPPING") <= 1  # replaced by each look
        report.unlink()


def test_by_name(warmed: Path) -> None:
    with running(warmed, "5") as one, running(warmed, "5") as other:
        done = hugealign("ps", warmed.name)
        assert done.returncode == 0
        assert f"{warmed.name}[{min(one.pid, other.pid)}] +1: all 3 windows are huge\n" in done.stdout


def test_by_long_name(programs: Programs) -> None:
    path = programs.copy("a-name-that-comm-cannot-hold")
    with running(path, "5") as child:
        assert f"[{child.pid}]" in hugealign("ps", path.name).stdout
        assert f"[{child.pid}]" in hugealign("ps", path.name[:15]).stdout
        assert hugealign("ps", path.name[:16]).returncode == 3
    path.unlink()


def test_libraries(warmed: Path) -> None:
    with running(warmed, "5") as child:
        done = hugealign("ps", "--all", str(child.pid))
        assert done.returncode == 0  # what cannot be huge is not counted against the program
        (line,) = (line for line in done.stdout.splitlines() if "libc" in line)
        assert line.split()[-4:] == ["--", "no", "whole", "window"]


def test_coverage(warmed: Path) -> None:
    chill(warmed)
    assert hugealign("warm", "--windows", "1", warmed).returncode == 0
    with running(warmed, "5") as child:
        pid = str(child.pid)
        done = hugealign("ps", "--min-coverage", "33", pid)
        assert done.returncode == 0
        assert row(done.stdout, str(warmed))[-2].strip() == "33.3%"
        assert hugealign("ps", "--min-coverage", "34%", pid).returncode == 1
        assert hugealign("ps", pid).returncode == 1


def test_deleted_program(warmed: Path) -> None:
    with running(warmed, "5") as child:
        warmed.unlink()
        done = hugealign("ps", str(child.pid))
        assert done.returncode == 0
        assert row(done.stdout, str(warmed))[-3].strip() == "3/3"


def test_json(warmed: Path) -> None:
    with running(warmed, "5") as child:
        done = hugealign("ps", "--json", str(child.pid), "4194304999")
        document: dict[str, Any] = json.loads(done.stdout)
        huge = huge_kib(child.pid, warmed) << 10
    assert done.returncode == 3
    assert document["schema"] == "hugealign.ps/1"
    assert document["page_size"] == WINDOW
    (error,) = document["errors"]
    assert (error["target"], error["message"], error["diagnosis"]["code"]) == ("4194304999", None, "process.gone")
    (process,) = document["processes"]
    assert (process["pid"], process["name"], process["program"]) == (child.pid, warmed.name, str(warmed))
    assert (process["met"], process["diagnoses"], process["deleted"]) == (True, [], False)
    (mapping,) = process["mappings"]
    assert mapping["huge_bytes"] == process["huge_bytes"] == huge
    assert mapping["end"] - mapping["start"] == mapping["text_bytes"] == WINDOWS * WINDOW
    assert mapping["windows_huge"] == mapping["windows_possible"] == WINDOWS


def test_process_that_is_gone() -> None:
    with subprocess.Popen(["true"]) as child:
        while Path(f"/proc/{child.pid}/stat").read_text(encoding="utf-8").split()[2] != "Z":
            time.sleep(0.01)
        zombie = hugealign("ps", str(child.pid))
    gone = hugealign("ps", str(child.pid))
    for done in (zombie, gone):
        expected = f"hugealign: error: {child.pid}: {worded('process.gone')}\n"
        assert (done.returncode, done.stderr) == (3, expected)


def test_name_of_no_process() -> None:
    done = hugealign("ps", "no such\x1bprogram")
    expected = f"hugealign: error: no such\\x1bprogram: {worded('process.unknown-name')}\n"
    assert (done.returncode, done.stderr) == (3, expected)


def test_hostile_name(programs: Programs) -> None:
    path = programs.copy("x\x1b]0;\r\ny")
    with running(path, "5") as child:
        done = hugealign("ps", str(child.pid))
    path.unlink()
    assert f"{programs.directory}/x\\x1b]0;\\r\\ny" in done.stdout
    assert done.stdout.startswith(f"x\\x1b]0;\\r\\ny[{child.pid}]: ")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["1", "--", "true"],
        ["--min-coverage", "101", "1"],
        ["--watch", "1", "--wait", "1", "1"],
        ["--watch", "-1", "1"],
        ["--watch", "0", "1"],
        ["--wait", "x", "1"],
        ["--watch", "1"],
    ],
)
def test_usage(words: list[str]) -> None:
    assert hugealign("ps", *words).returncode == 2


def test_command_runs_to_its_end(warmed: Path) -> None:
    # The options after -- are the command's own.
    done = hugealign("ps", "--", "timeout", "--foreground", "--preserve-status", "-s", "KILL", "0.3", warmed, "5")
    assert done.stdout.startswith("ready\n")  # the table follows what the command writes
    assert done.returncode == 1  # timeout itself is a small program
    assert "/timeout " in done.stdout


def test_last_look_counts(warmed: Path) -> None:
    # One process is two programs: first the shell, then ours.
    done = hugealign("ps", "--", "sh", "-c", f"sleep 0.1; exec timeout -s KILL 0.1 {warmed} 5")
    assert "/timeout " in done.stdout
    done = hugealign("ps", "--wait", "9", "--", "sh", "-c", f"sleep 0.1; exec {warmed} 5")
    assert f"{warmed.name}[" in done.stdout
    assert done.returncode == 0


def test_command_is_ended_when_enough_is_huge(warmed: Path) -> None:
    done = hugealign("ps", "--wait", "9", "--", warmed, "5")
    assert done.returncode == 0
    assert done.stdout.startswith("ready\n")
    assert "all 3 windows are huge\n" in done.stdout
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["pgrep", "-x", warmed.name], check=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_command_and_the_table_is_printed(warmed: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-m", "hugealign", "ps", "--", str(warmed), "5"]

    def as_in_the_foreground() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background of a script ignores it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one of nohup that

    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=as_in_the_foreground,  # noqa: PLW1509
    ) as ps:
        assert ps.stdout
        assert ps.stdout.readline() == "ready\n"
        (child,) = Path(f"/proc/{ps.pid}/task/{ps.pid}/children").read_text(encoding="ascii").split()
        enough = bytes_read(ps.pid) + 2 * len(Path(f"/proc/{child}/smaps").read_bytes())
        while bytes_read(ps.pid) < enough:  # until one look began after the program was ready
            time.sleep(0.01)
        if number == signal.SIGINT:  # as the terminal does it: to the whole group
            os.killpg(ps.pid, number)
        else:
            ps.send_signal(number)
        try:
            ps.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ps.pid, signal.SIGKILL)  # should the command be left
        output = ps.stdout.read()
    assert ps.returncode == 0
    assert "all 3 windows are huge\n" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root without a capability")
def test_root_of_a_container_is_not_sent_to_root(warmed: Path) -> None:
    fewer = ("setpriv", "--bounding-set=-sys_ptrace,-perfmon,-sys_admin")
    with running(warmed, "5") as child:
        ps, adapt = (hugealign(word, str(child.pid), prefix=fewer) for word in ("ps", "adapt"))
    expected = f"{child.pid}: {worded('process.forbidden', capability='CAP_SYS_PTRACE')}"
    assert (ps.returncode, ps.stderr) == (3, f"hugealign: error: {expected}\n")
    assert render.remedy(Remedy("as-root")) not in adapt.stdout + adapt.stderr


def test_command_that_cannot_run(tmp_path: Path) -> None:
    missing, data = tmp_path / "missing", tmp_path / "data"
    data.touch()
    for path, error in ((missing, "ENOENT"), (data, "EACCES")):
        done = hugealign("ps", "--", path)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"hugealign: error: {path}: {worded('program.not-started', error=error)}\n"
