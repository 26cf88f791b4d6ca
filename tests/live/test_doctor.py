"""`hugealign doctor` on this kernel: does it say what is so, and does it leave nothing behind?"""

import json
import os
import platform
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hugealign.system import cpuid
from hugealign.system import this_processor as processor
from tests.live.programs import NO_THP, NOBODY, ROOT, Programs, hugealign

SCHEMA = json.loads((ROOT / "hugealign" / "doctor" / "doctor-1.schema.json").read_text())
LAUNCHER = ROOT / "bin" / "hugealign"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(parsed, SCHEMA)
    assert done.stderr == ""
    return parsed


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {finding["id"]: finding for finding in document(done)["findings"]}


def test_a_file_system_that_can(programs: Programs) -> None:
    # The fixture has found out independently that it can.
    done = hugealign("doctor", "--format", "json", programs.directory)
    found = findings(done)
    assert found["place.folios"]["status"] == "ok"
    assert found["place.folios"]["data"] | {"path": "", "file_system": ""} == {
        "path": "",
        "file_system": "",
        "windows": 2,
        "huge": 2,
    }
    assert done.returncode == (1 if any(f["status"] == "obstacle" for f in found.values()) else 0)


def test_what_other_programs_say_too(programs: Programs) -> None:
    found = findings(hugealign("doctor", "--format", "json", programs.directory))
    assert os.uname().release in found["kernel.release"]["message"]
    compiler = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    assert f"gcc {compiler}" in found["tools.compilers"]["message"]
    libc = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=True).stdout
    assert found["loader.glibc"]["data"]["version"] == libc.split()[1]
    mount = subprocess.run(
        ["findmnt", "-n", "-o", "FSTYPE", "-T", programs.directory], capture_output=True, text=True, check=True
    ).stdout
    assert found["place.folios"]["data"]["file_system"] == mount.strip()


def test_text_has_a_mark_for_each_line_and_fits_json(programs: Programs) -> None:
    text = hugealign("doctor", programs.directory).stdout.splitlines()
    marked = [line for line in text if line[1:2] == " " and line[0] != " "]
    assert len(marked) == len(findings(hugealign("doctor", "--format", "json", programs.directory)))
    assert text[-1].split(",")[0].endswith("in the way of huge text")


@needs_root
def test_a_file_system_that_cannot(tmp_path: Path) -> None:
    # ramfs pages are small and never leave memory.
    script = 'mount -t ramfs none "$1" && "$2" doctor "$1"; status=$?; ls -A "$1"; exit $status'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, LAUNCHER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    number = next(n for n, line in enumerate(lines) if f"{tmp_path}: ramfs: 0 of 2 windows" in line)
    assert lines[number].startswith("✗ place")
    assert lines[number + 1].strip().startswith("fix: hugealign run -- COMMAND")
    assert lines[-1].endswith("in the way of huge text")  # nothing that `ls` found comes after it


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    hugealign("doctor", tmp_path)
    assert list(tmp_path.iterdir()) == []
    child = subprocess.Popen([LAUNCHER, "doctor", tmp_path], stdout=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert list(tmp_path.iterdir()) == []


def test_thp_disabled_by_a_parent_and_the_mend(programs: Programs) -> None:
    done = hugealign("doctor", programs.directory, prefix=NO_THP)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    number = next(n for n, line in enumerate(lines) if "PR_SET_THP_DISABLE" in line)
    assert lines[number].startswith("✗ thp")
    # The mend is run for real, in that same parent.
    mend = lines[number + 1].partition("fix: ")[2].replace("PROGRAM", f"{LAUNCHER} doctor {programs.directory}")
    mended = subprocess.run([*NO_THP, "sh", "-c", mend], capture_output=True, text=True, check=False)
    assert "✓ thp     huge pages are not switched off" in mended.stdout


@needs_root
@pytest.mark.parametrize(("hidden", "status"), [("/sys", {0}), ("/proc", {3})])
def test_without(hidden: str, status: set[int], programs: Programs) -> None:
    script = 'mount -t tmpfs none "$1" && exec "$2" doctor --format json "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", hidden, LAUNCHER, programs.directory],
        capture_output=True,
        text=True,
        check=False,
    )
    found = findings(done)
    assert done.returncode in status
    assert found["place.folios"]["status"] == ("unknown" if hidden == "/proc" else "ok")


@needs_root
def test_an_ordinary_user_where_it_may_not_write(programs: Programs, tmp_path: Path) -> None:
    script = '"$1" doctor --format json /usr "$2"'
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [*NOBODY, "sh", "-c", script, "sh", LAUNCHER, programs.directory],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    places = [f for f in document(done)["findings"] if f["id"] == "place.folios"]
    # /usr and the temporary directory are one file system, or it cannot be tried.
    assert [f["status"] for f in places if f["data"]["path"] != "/usr"] == ["ok"]
    same = os.stat("/usr").st_dev in {os.stat(place).st_dev for place in ("/tmp", "/var/tmp")}
    assert ("tried in" in places[0]["message"]) == same


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/no/such", "No such file or directory"), ("/proc", "cannot write there"), ("a\nb", r"a\nb: could not be tried")],
)
def test_a_path_that_cannot_be_tried(path: str, reason: str) -> None:
    done = hugealign("doctor", path)
    assert done.returncode == 3
    assert reason in next(line for line in done.stdout.splitlines() if line.startswith("? place"))


def test_wrong_usage() -> None:
    assert hugealign("doctor", "--fomat").returncode == 2


@pytest.mark.parametrize(
    ("redirection", "said"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_output_that_goes_nowhere(redirection: str, said: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$1" doctor /tmp {redirection}', "sh", LAUNCHER], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: standard output: cannot be written: {said}\n"


def test_tools_that_hang_or_babble(tmp_path: Path) -> None:
    scripts = {"gcc": "exec sleep 1000", "ld": "exec yes", "clang": "kill -9 $$", "cc": "printf '\\033[31m 7.1'"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [LAUNCHER, "doctor", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    found = findings(done)
    assert "cc 7.1" in found["tools.compilers"]["message"]
    assert "gcc" not in found["tools.compilers"]["data"]
    assert "\\x1b" in found["tools.compilers"]["data"]["cc"]
    assert found["tools.linkers"]["data"]["ld"] == "y"


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
    assert who.guest == ("hypervisor" in fields["flags"].split())
    assert processor.look().how == "CPUID"
