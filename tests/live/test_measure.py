"""``hugealign measure`` on this kernel: real commands, from copies on small and on huge pages.

What takes less time is judged on a quiet machine alone (``matrix``): beside other tests identical copies differ by a
third. The other tests hold the verdict to the interval, and count what does not depend on the load: faults and windows.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign.system import namespace
from tests.documents import check
from tests.live.programs import NO_THP, NOBODY, ROOT, hugealign
from tests.support import need, worded

# Touches argv[1] of its pages of text, sleeps argv[2] milliseconds, and exits with argv[3]; huge text saves its faults.
_SOURCE = """\
#include <stdlib.h>
#include <unistd.h>
__asm__(".text\\n .p2align 12\\n .globl pages\\n pages: .rept 2048\\n ret\\n .p2align 12\\n .endr");
extern char pages[];
int main(int argc, char **argv) {
  long count = argc > 1 ? atol(argv[1]) : 2048;
  for (long page = 0; page < count; page += 16) ((void (*)(void))(pages + page * 4096))();
  if (argc > 2) usleep(1000 * atol(argv[2]));
  return argc > 3 ? atoi(argv[3]) : 0;
}
"""
_SHORT = ("--copies", "2", "--rounds", "3")


@pytest.fixture(scope="module", autouse=True)
def mounts() -> None:
    if refusal := namespace.refusal():
        pytest.skip(refusal.code)


@pytest.fixture(scope="module")
def touches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("measure") / "touches"
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", path], input=_SOURCE, text=True, check=True)
    return path


def measure(*words: object, **options: Any) -> dict[str, Any]:
    """Return what ``measure`` finds; what it says, and its status, follow from the interval."""
    done = hugealign("measure", "--json", *map(str, words), **options)
    assert done.stderr == "", done
    document: dict[str, Any] = check(done.stdout)
    ratios = [side["cpu_of_first"] for side in document["sides"][1:]]
    faster = any(ratio is not None and ratio["high"] < 1 for ratio in ratios)
    assert (document["faster"], done.returncode) == (faster, int(not faster)), done
    return document


def test_faults_of_a_start_are_saved(touches: Path) -> None:
    """128 faults of text become 4."""
    small, huge = measure("--fix", "--rounds", "4", "--", touches)["sides"]
    assert (small["windows"], small["huge"], huge["windows"]) == (huge["huge"], 0, huge["huge"])
    assert small["faults"] - huge["faults"] > 100


def test_a_command_without_text_has_the_same_faults(touches: Path) -> None:
    """It touches 1 of its 2,048 pages."""
    small, huge = measure("--fix", "--rounds", "4", "--", touches, 1)["sides"]
    assert abs(small["faults"] - huge["faults"]) < 5


@pytest.mark.matrix
def test_saved_faults_take_less_time(touches: Path) -> None:
    result = measure("--fix", "--rounds", "8", "--", touches)
    assert result["faster"]
    assert result["sides"][1]["cpu_of_first"]["value"] < 0.95


def test_both_sides_have_the_same_bytes_at_the_same_path(touches: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"sha256sum {touches} >>{out}; readlink -f {touches} >>{out}; {touches} 1"
    measure(*_SHORT, "--fix", "--file", touches, "--", "sh", "-c", script)
    assert len(set(out.read_text().splitlines())) == 2


def test_windows_are_seen_in_the_process(touches: Path) -> None:
    result = measure(*_SHORT, "--fix", "--", touches, 2048, 300)
    small, huge = result["sides"]
    assert (small["huge_seen"], huge["huge_seen"]) == (0, huge["huge"])
    assert huge["huge"] >= 3


def test_another_build_takes_the_place_of_the_program(touches: Path, tmp_path: Path) -> None:
    less = tmp_path / "less"
    source = _SOURCE.replace("page < count", "page < count / 8")
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", less], input=source, text=True, check=True)
    shutil.copy(less, other := tmp_path / "other")
    small, vs = measure("--rounds", "5", "--vs", less, other, "--", touches)["sides"]
    assert (small["name"], vs["name"]) == ("small pages", str(less))
    assert small["faults"] - vs["faults"] > 100  # it touches an eighth of the pages


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["--fix", "--", "{touches}", "1", "0", "7"],
            3,
            "{touches} exited with 7; only a command that succeeds is measured",
        ),
        (
            ["--fix", "--file", "{touches}", "--", "sh", "-c", "kill -9 $$"],
            3,
            "sh was ended by signal 9; only a command",
        ),
        (
            ["--fix", "--file", "{touches}", "--", "sh", "-c", "sleep 99 &"],
            3,
            "sh leaves processes running; measure a server",
        ),
        (["--", "{touches}"], 1, "run: hugealign measure --fix -- COMMAND"),
        (["--fix", "--", "no-such-command"], 127, "no-such-command"),
        (["--copies", "1", "--", "true"], 2, "at least 2 copies"),
        (["--load", "'", "--", "true"], 2, "--load: not a command"),
        ([], 2, "no command"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(
    touches: Path, words: list[str], status: int, message: str
) -> None:
    words = [word.format(touches=touches) for word in words]
    done = hugealign("measure", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1), done
    assert message.format(touches=touches) in done.stderr


def test_a_command_that_reads_gets_no_input(touches: Path) -> None:
    measure(*_SHORT, "--fix", "--file", touches, "--", "sh", "-c", "cat; cat </dev/tty; true")


def test_nothing_is_left_after_a_kill(touches: Path) -> None:
    """Neither processes nor mounts: copies are gone with the process that ran them."""
    before = Path("/proc/mounts").read_text()
    words = [sys.executable, "-m", "hugealign", "measure", "--fix", "--file", str(touches), "--"]
    mark = "987654.125"
    command = [*words, "sh", "-c", f"setsid sleep {mark} & sleep {mark}"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        deadline = time.monotonic() + 30
        while len(_named(mark)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    while _named(mark):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert Path("/proc/mounts").read_text() == before


def _named(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if path.read_bytes().startswith(b"sleep\0" + mark.encode()) else []
        except OSError:
            continue
    return found


def test_a_server_is_measured_by_what_its_load_takes(tmp_path: Path) -> None:
    """The server touches its text for each request; its start does not count."""
    server = tmp_path / "server"
    body = """
  #include <sys/socket.h>
  #include <sys/un.h>
  #include <string.h>
  int main(int argc, char **argv) {
    struct sockaddr_un at = {AF_UNIX};
    strcpy(at.sun_path, argv[1]);
    unlink(argv[1]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (void *)&at, sizeof at) || listen(fd, 9)) return 1;
    for (;;) {
      int one = accept(fd, 0, 0);
      if (!fork()) {
        for (long page = 0; page < 2048; page += 16) ((void (*)(void))(pages + page * 4096))();
        return 0;
      }
      close(one);
      while (waitpid(-1, 0, 0) > 0);
    }
  }
"""
    source = _SOURCE.partition("int main")[0] + "#include <sys/wait.h>\n" + body
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", server], input=source, text=True, check=True)
    client = "import socket, sys; [(s := socket.socket(1)).connect(sys.argv[1]) or s.recv(1) for _ in range(50)]"
    load = f"{sys.executable} -c '{client}' {tmp_path}/socket"
    options = ("--copies", "2", "--rounds", "2", "--fix", "--load", load)
    result = measure(*options, "--", server, tmp_path / "socket")
    small, huge = result["sides"]
    assert small["faults"] - huge["faults"] > 50 * 100
    assert huge["cpu"] < small["cpu"]


@pytest.mark.matrix
def test_an_ordinary_user_measures(touches: Path) -> None:
    if os.geteuid() or subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("not root, or this Python does not run as nobody")
    place = Path("/var/tmp") / f"touches-{os.getpid()}"
    shutil.copy(touches, place)
    try:
        done = hugealign("measure", *_SHORT, "--json", "--fix", "--", str(place), prefix=NOBODY)
        assert done.returncode in (0, 1), done
        assert json.loads(done.stdout)["sides"][1]["huge"] >= 3
    finally:
        place.unlink()


def test_text_that_cannot_be_huge_is_not_measured(touches: Path) -> None:
    done = hugealign("measure", "--fix", "--", touches, prefix=NO_THP)
    assert (done.returncode, done.stdout) == (1, "")
    assert worded("process.thp-disabled") in done.stderr


def test_both_sides_have_the_same_windows(touches: Path) -> None:
    """Those of a library, too, which the kernel places at a window only where its file can be huge."""
    fixed, library = touches.with_name("aligned"), touches.with_name("libpages.so")
    hugealign("fix", touches, "-o", fixed)
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=_SOURCE, text=True, check=True)
    small, huge = measure(*_SHORT, "--file", library, "--", fixed)["sides"]
    assert (small["huge"], small["windows"], huge["huge"]) == (0, huge["windows"], huge["windows"])


def test_without_mounts_the_files_themselves_are_made_huge_and_small(touches: Path) -> None:
    need("setpriv")
    fixed = touches.with_name("fixed")
    hugealign("fix", touches, "-o", fixed)
    if hugealign("warm", fixed).returncode:
        pytest.skip("the file system keeps no huge pages")
    prefix = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    result = measure("--rounds", "4", "--", fixed, prefix=prefix)
    small, huge = result["sides"]
    assert (result["in_place"], huge["huge"], small["huge"]) == (True, huge["windows"], 0)
    assert small["faults"] - huge["faults"] > 100
    assert hugealign("warm", "--check", fixed).returncode == 0  # as it was
    hugealign("warm", "--undo", fixed)
    measure(*_SHORT, "--", fixed, prefix=prefix)
    assert hugealign("warm", "--check", fixed).returncode == 1
    done = hugealign("measure", "--fix", "--", touches, prefix=prefix)
    assert (done.returncode, done.stdout) == (1, "")
