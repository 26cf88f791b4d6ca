"""What happens to warmed text afterwards; docs/measured/staying-huge.md shows the same measurements."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.process import processes
from tests.live import staying
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.support import need

SYSTEMD = ROOT / "examples" / "systemd"


def test_upgrade_leaves_the_old_process_huge_and_the_new_one_small(warmed: Path) -> None:
    with running(warmed, "5") as old:
        staying.upgrade(warmed)
        assert huge_kib(old.pid, warmed) == staying.ALL_KIB
        with running(warmed, "5") as new:
            assert huge_kib(new.pid, warmed) == 0
        assert hugealign("warm", warmed).returncode == 0  # with the old one running
        with running(warmed, "5") as new:
            assert huge_kib(new.pid, warmed) == staying.ALL_KIB
            done = hugealign("ps", warmed.name)
    assert f"[{old.pid}] +1: all 3 windows are huge\n" in done.stdout


def test_processes_share_the_text_and_need_no_page_tables_for_it(warmed: Path) -> None:
    huge = staying.many(warmed)
    chill(warmed)
    small = staying.many(warmed)
    assert huge.huge == staying.PROCESSES * staying.ALL_KIB
    assert small.huge == 0
    saved = small.page_tables - huge.page_tables
    assert saved >= staying.PROCESSES * WINDOWS * 4 * 0.9
    assert huge.proportional < small.proportional + 2 * staying.ALL_KIB  # once, not in every process


def test_children_of_a_server_that_forks(programs: Programs) -> None:
    path = staying.server(programs)
    assert staying.forked(path).huge == 0
    assert hugealign("warm", path).returncode == 0
    assert staying.forked(path).huge == staying.PROCESSES * staying.ALL_KIB


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["file", "anonymous"])
def test_pressure_in_its_control_group(warmed: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    try:
        left = staying.pressure(warmed, kind, mapped=True)
    except OSError as error:
        pytest.skip(f"no control group with a limit of memory can be made here: {error}")
    assert left in range(0, staying.ALL_KIB + 1, WINDOW >> 10)  # whole windows stay or go
    assert hugealign("warm", warmed).returncode == 0  # and can come back
    with running(warmed, "5") as child:
        (text,) = processes.read(child.pid).text()
        assert text.windows_huge == WINDOWS


# Drops the page cache of the whole machine, under the feet of other tests.
@pytest.mark.matrix
def test_drop_caches_takes_only_what_nobody_maps(warmed: Path) -> None:
    if os.geteuid():
        pytest.skip("not root")
    with running(warmed, "5") as child:
        staying.drop_caches()
        assert huge_kib(child.pid, warmed) == staying.ALL_KIB
    staying.drop_caches()
    assert staying.windows_warm(warmed) == 0
    with running(warmed, "5") as child:  # its faults read the text again, in small folios
        assert huge_kib(child.pid, warmed) == 0


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    need("systemd-analyze")
    shutil.copytree(SYSTEMD, tmp_path, dirs_exist_ok=True)
    drop_in = tmp_path / "mariadb.service.d" / "hugealign.conf"
    (tmp_path / "mariadb.service").write_text("[Service]\nExecStart=/usr/sbin/mariadbd\n", encoding="ascii")
    units = sorted(path for path in tmp_path.iterdir() if path.suffix in (".service", ".timer"))
    assert len(units) == 5
    for path in (*units, drop_in):  # neither server nor tool need be installed where the test runs
        text = path.read_text(encoding="ascii")
        path.write_text(re.sub(r"/usr/s?bin/(hugealign|mariadbd)", "/bin/true", text), encoding="ascii")

    def verify() -> subprocess.CompletedProcess[str]:
        words = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        env = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
        return subprocess.run(words, capture_output=True, text=True, check=False, env=env)

    done = verify()
    assert (done.returncode, done.stderr) == (0, "")
    drop_in.write_text("[Service]\nExecStartPre=-relative/path\n", encoding="ascii")
    assert "relative/path" in verify().stderr  # it is read
