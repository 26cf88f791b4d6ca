"""``hugealign tune``: a small program, built three times, recorded, measured; and builds that go wrong."""

import subprocess
from pathlib import Path

import pytest

from hugealign.measuring.interval import Ratio
from hugealign.measuring.measure import HUGE, SMALL, Measurement, Side
from hugealign.measuring.tune import _fastest
from hugealign.system import namespace
from tests import spread
from tests.live.programs import ROOT, hugealign
from tests.support import need

FUNCTIONS, EVERY = 500, 10  # of 3 KiB each
_MAIN = """\
{declarations}
static unsigned (*const table[])(unsigned) = {{ {names} }};
int main(void) {{
    unsigned sum = 0, count = sizeof table / sizeof *table;
    for (unsigned i = 0; i < 300000; i++) sum = table[i % count](sum);
    return sum == 1;
}}
"""
_MAKEFILE = """\
CFLAGS = -O1 -fno-omit-frame-pointer
server: main.o functions.o
	$(CC) -o $@ $^
	echo >>built
clean:
	rm -f server *.o
"""
BUILD = f"make clean server CC='{ROOT}/bin/hugealign gcc'"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    need("perf")
    if refusal := namespace.refusal():
        pytest.skip(refusal.code)
    (tmp_path / "functions.c").write_text(spread.functions(FUNCTIONS, 3000))
    (tmp_path / "main.c").write_text(spread.caller(_MAIN, range(0, FUNCTIONS, EVERY)))
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    return tmp_path


def tune(server: Path, build: str) -> subprocess.CompletedProcess[str]:
    options = ("--copies", "2", "--rounds", "2", "--place", f"{server}/tuned")
    return hugealign("tune", "--build", f"cd {server} && {build}", *options, "--", f"{server}/server")


def test_the_whole_way_and_on_from_where_it_was(server: Path) -> None:
    done = tune(server, BUILD)
    assert done.returncode in (0, 1), done
    kept = next(line for line in done.stdout.splitlines() if line.startswith("kept: the ")).split()[2]
    assert (kept == "plain") == (done.returncode == 1)
    builds = {name: (server / "tuned" / f"{name}-server").read_bytes() for name in ("plain", "huge", "ordered")}
    assert len(set(builds.values())) == 3
    assert (server / "server").read_bytes() == builds[kept]
    assert (server / "built").read_text() == "\n" * 3
    assert tune(server, BUILD).returncode in (0, 1)
    assert (server / "built").read_text() == "\n" * 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("make clean server", "hugealign made no window of its text; put it in front of the compiler"),
        ("exit 7", "--build: the command exited with 7"),
        (":", "--build: the command did not make"),
        (BUILD.replace("clean ", ""), "the link placed none of its functions; compile everything again"),
    ],
)
def test_a_build_that_is_wrong_is_named(server: Path, build: str, message: str) -> None:
    (server / "server").write_text("before")
    done = tune(server, build)
    assert (done.returncode, done.stdout) == (3, ""), done
    assert message in done.stderr.splitlines()[-1]  # after what the build prints
    if message.startswith("--build"):
        assert (server / "server").read_text() == "before"


def test_an_interrupted_build_gives_the_program_back(server: Path) -> None:
    (server / "server").write_text("before")
    assert tune(server, "kill -INT $PPID && sleep 9").returncode == 130
    assert (server / "server").read_text() == "before"
    assert {path.name for path in server.iterdir()} == {"Makefile", "functions.c", "main.c", "server", "tuned"}


@pytest.mark.parametrize(
    ("huge", "ordered", "kept"),
    [
        (Ratio(0.97, 0.95, 0.99), Ratio(0.9, 0.88, 0.92), "ordered"),
        (Ratio(0.9, 0.88, 0.92), Ratio(0.97, 0.95, 0.99), "huge"),
        (Ratio(0.97, 0.93, 1.01), Ratio(0.98, 0.9, 1.06), "plain"),
        (Ratio(1.2, 1.1, 1.3), Ratio(0.98, 0.97, 0.99), "ordered"),
    ],
)
@pytest.mark.parametrize("windows", [False, True])
def test_what_is_kept_is_faster_for_certain(huge: Ratio, ordered: Ratio, kept: str, windows: bool) -> None:
    first = Side(SMALL, 0, 0, None, 1.0, 1.0, 1.0, 0.0)
    same = (Side(HUGE, 0, 0, None, 1.0, 1.0, 1.0, 0.0, Ratio(0.5, 0.4, 0.6)),) if windows else ()
    builds = (Side(name, 0, 0, None, 1.0, 1.0, 1.0, 0.0, ratio) for name, ratio in (("/h", huge), ("/o", ordered)))
    assert _fastest(Measurement(("x",), (first, *same, *builds), 1, 4, 9, 1)) == kept
