"""`hugealign doctor` on this kernel: does it say what is so, and does it leave nothing behind?"""

import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign.errors import HugealignError
from hugealign.system import cpuid, textcosts
from hugealign.system import this_processor as processor
from tests.documents import check
from tests.live.programs import NO_THP, NOBODY, ROOT, Programs, hugealign
from tests.support import worded

LAUNCHER = ROOT / "bin" / "hugealign"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = check(done.stdout)
    assert done.stderr == ""
    return parsed


def checks(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [{"status": item["status"], **item["diagnosis"]} for item in document(done)["checks"]]


def by_code(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {item["code"]: item for item in checks(done)}


def test_a_file_system_that_can(programs: Programs) -> None:
    # The fixture has found out independently that it can.
    done = hugealign("doctor", "--json", programs.directory)
    result = by_code(done)
    assert result["file-system.huge-pages"]["status"] == "ok"
    assert result["machine.kernel"]["facts"]["release"] == os.uname().release
    mount = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE", "-T", programs.directory], capture_output=True, text=True, check=True
    ).stdout
    assert result["file-system.huge-pages"]["facts"]["file_system"] == mount.strip()
    assert done.returncode == (1 if any(item["status"] == "obstacle" for item in result.values()) else 0)


#: States that are as they should be, or that cannot be changed.
STATES = {
    "file-system.huge-pages", "machine.kernel", "machine.loader", "machine.processor", "machine.text-costs",
    "machine.thp",
    "memory.free", "process.may-mount", "process.thp-allowed",
}  # fmt: skip


@needs_root
def test_a_state_needs_no_remedy(programs: Programs) -> None:
    result = by_code(hugealign("doctor", "--json", programs.directory))
    states = {code: item for code, item in result.items() if code in STATES}
    assert {"file-system.huge-pages", "machine.kernel", "machine.processor", "machine.thp"} <= states.keys()
    assert {item["remedy"] and item["remedy"]["kind"] for item in states.values()} == {None}


def test_programs_that_are_missing(programs: Programs, tmp_path: Path) -> None:
    def found() -> set[str]:
        words = [sys.executable, "-m", "hugealign", "doctor", "--json", str(programs.directory)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path)}
        done = by_code(subprocess.run(words, capture_output=True, text=True, check=False, env=env))
        lacking = {"machine.no-compiler", "machine.no-perf"} & done.keys()
        assert all(done[code]["status"] == "note" and done[code]["remedy"]["message"] for code in lacking)
        return lacking

    assert found() == {"machine.no-compiler", "machine.no-perf"}
    (tmp_path / "perf").symlink_to("/bin/true")
    assert found() == {"machine.no-compiler"}
    (tmp_path / "gcc").symlink_to("/bin/true")
    assert found() == set()


#: Refuses unshare(2), as Docker's default filter does, and becomes a command.
_FILTERED = """
import ctypes, os, struct, sys
number = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
load, equal, ret = 0x20, 0x15, 0x06
lines = ((load, 0, 0, 0), (equal, 0, 1, number), (ret, 0, 0, 0x00050001), (ret, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(lines), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_filter_of_system_calls(programs: Programs) -> None:
    around = (sys.executable, "-c", _FILTERED)
    result = by_code(hugealign("doctor", "--json", programs.directory, prefix=around))
    assert (result["process.filtered"]["status"], result["process.filtered"]["remedy"]) == ("note", None)
    assert {"process.no-mounts", "process.would-lose-privileges"} & result.keys()
    assert "process.filtered" not in by_code(hugealign("doctor", "--json", programs.directory))


def test_text_has_a_mark_for_each_line_and_fits_json(programs: Programs) -> None:
    text = hugealign("doctor", programs.directory).stdout.splitlines()
    marked = [line for line in text if line[1:2] == " " and line[0] != " "]
    assert len(marked) == len(checks(hugealign("doctor", "--json", programs.directory)))
    assert text[-1].split(",")[0].endswith(" huge text")


@needs_root
def test_a_file_system_that_cannot(tmp_path: Path) -> None:
    # ramfs pages are small and never leave memory.
    script = 'mount -t ramfs none "$1" && "$2" doctor "$1"; status=$?; ls -A "$1"; exit $status'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, LAUNCHER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    why = worded("file-system.no-huge-pages", file_system="ramfs")
    number = next(n for n, line in enumerate(lines) if f"{tmp_path}: {why}" in line)
    assert lines[number].startswith("✗ file-system")
    assert lines[number + 1].strip() == "run: hugealign run -- COMMAND"
    assert lines[-1].endswith(" huge text")  # nothing that `ls` found comes after it


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    hugealign("doctor", tmp_path)
    assert list(tmp_path.iterdir()) == []
    child = subprocess.Popen([LAUNCHER, "doctor", tmp_path], stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert list(tmp_path.iterdir()) == []


@needs_root
@pytest.mark.parametrize(("hidden", "status"), [("/sys", {0}), ("/proc", {3})])
def test_without(hidden: str, status: set[int], programs: Programs) -> None:
    script = 'mount -t tmpfs none "$1" && exec "$2" doctor --json "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", hidden, LAUNCHER, programs.directory],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in status
    result = by_code(done)
    assert ("file-system.not-tried" if hidden == "/proc" else "file-system.huge-pages") in result


@needs_root
def test_an_ordinary_user_where_it_may_not_write(programs: Programs, tmp_path: Path) -> None:
    script = '"$1" doctor --json /usr "$2"'
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [*NOBODY, "sh", "-c", script, "sh", LAUNCHER, programs.directory],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    places = {item["subject"]: item for item in checks(done) if item["subject"]}
    # /usr and the temporary directory are one file system, or it cannot be tried.
    assert places[str(programs.directory)]["status"] == "ok"
    same = os.stat("/usr").st_dev in {os.stat(place).st_dev for place in ("/tmp", "/var/tmp")}
    assert bool(places["/usr"]["facts"].get("tried_in")) == same


@pytest.mark.parametrize(("path", "error"), [("/no/such", "ENOENT"), ("/proc", "ENOENT"), ("a\nb", "ENOENT")])
def test_a_path_that_cannot_be_tried(path: str, error: str) -> None:
    done = hugealign("doctor", "--json", path)
    assert done.returncode == 3
    (item,) = [item for item in checks(done) if item["status"] == "unknown"]
    assert (item["code"], item["facts"], item["subject"]) == (
        "file-system.not-tried", {"error": error}, path.replace("\n", "\\n"),
    )  # fmt: skip


def test_wrong_usage() -> None:
    assert hugealign("doctor", "--fomat").returncode == 2


@pytest.mark.parametrize(
    ("redirection", "message"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_output_that_goes_nowhere(redirection: str, message: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$1" doctor /tmp {redirection}', "sh", LAUNCHER], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: standard output: cannot be written: {message}\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUID is an instruction of x86")
def test_cpuid_agrees_with_the_kernel() -> None:
    fields = dict(re.findall(r"^(.+?)\s*: (.*)$", Path("/proc/cpuinfo").read_text().partition("\n\n")[0], re.MULTILINE))
    who = cpuid.identity(processor.executed())
    assert (who.vendor, who.family, who.model) == (
        fields["vendor_id"],
        int(fields["cpu family"]),
        int(fields["model"]),
    )
    assert who.brand == " ".join(fields["model name"].split())
    assert processor.read().tlbs is not None


def test_what_text_costs_is_measured_once(programs: Programs, tmp_path: Path) -> None:
    """It is plausible, of this boot, kept for the next command, and a table with -v."""
    prefix, began = ("env", f"XDG_CACHE_HOME={tmp_path}"), time.monotonic()
    costs = by_code(hugealign("doctor", "--json", programs.directory, prefix=prefix))["machine.text-costs"]
    low, high = map(float, str(costs["facts"]["fault"]).split(" to "))
    assert 0.1 < low <= high < 500
    assert time.monotonic() - began < 30
    (kept,) = (tmp_path / "hugealign").glob("textcosts-*.json")
    written = kept.stat().st_mtime_ns
    done = hugealign("doctor", "-v", programs.directory, prefix=prefix)
    assert "ns for a jump to the next of" in done.stdout
    assert kept.stat().st_mtime_ns == written
    kept.write_text("{}")
    hugealign("doctor", programs.directory, prefix=prefix)
    assert "fault" in kept.read_text()


def test_uncertain_costs_are_measured_again_but_better_than_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    textcosts.of_this_machine()
    (kept,) = (tmp_path / "hugealign").glob("textcosts-*.json")
    kept.write_text(kept.read_text().replace('"certain": true', '"certain": false'))
    os.utime(kept, (0, 0))
    known = textcosts.cached()
    assert known
    assert not known.certain
    textcosts.of_this_machine()
    (again,) = (tmp_path / "hugealign").glob("textcosts-*.json")
    assert again.stat().st_mtime > 0


def test_half_a_curve_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No point would mean that nothing costs time."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(textcosts, "_DEADLINE", 0.0)
    with pytest.raises(HugealignError, match="too slow"):
        textcosts.of_this_machine()
    assert textcosts.cached() is None


def test_without_huge_pages_no_cost_is_measured(programs: Programs, tmp_path: Path) -> None:
    """Small pages against small ones would show that huge text saves nothing."""
    prefix = ("env", f"XDG_CACHE_HOME={tmp_path}", *NO_THP)
    assert "machine.text-costs" not in by_code(hugealign("doctor", "--json", programs.directory, prefix=prefix))
    assert not list((tmp_path / "hugealign").glob("textcosts-*.json"))
