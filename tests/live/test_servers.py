"""As a new user would: one screen shows what runs from small pages, and its commands remedy each row."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.build.manual import blocks
from tests.live import filesystems, servers
from tests.live.booted import booted
from tests.live.servers import Screen
from tests.support import ROOT

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]


#: Parts that the load is in, whatever else it touches.
_BUSY = {
    ("java", "HotSpot"),
    ("java", "libjvm.so"),
    ("mariadbd", "mariadbd"),
    ("php-fpm8.2", "PHP"),
    ("php-fpm8.2", "php-fpm8.2"),
}


def _name(row: dict[str, Any]) -> tuple[str, str]:
    return os.path.basename(row["program"]), os.path.basename(row["part"])


def _remedy(row: dict[str, Any]) -> dict[str, Any] | None:
    result: dict[str, Any] | None = row["diagnosis"] and row["diagnosis"]["remedy"]
    return result


def test_each_row_is_mended_by_the_command_that_it_names(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    work: Path = tmp_path_factory.mktemp("servers")
    work.chmod(0o755)
    with servers.machine(work) as system:
        steps = list(servers.tour(system))
    screens = [step for step in steps if isinstance(step, Screen)]
    first, last = screens[0].rows, screens[-1].rows
    assert {_name(row) for row in first if _remedy(row)} >= _BUSY
    assert {_name(row) for row in last if row["windows_huge"]} >= _BUSY
    for row in last:
        assert _remedy(row) is None, row
        assert row["windows_huge"] > 0 or row["diagnosis"]["code"] == "process.not-touched", row
    for command, output in (step for step in steps if not isinstance(step, Screen)):
        assert "error" not in output, command


@pytest.mark.parametrize(
    ("document", "suite", "state"),
    [
        ("README.md", "bookworm", "running"),
        ("README.md", "bookworm", "stopped"),
        ("README.md", "trixie", "running"),
        ("README.md", "trixie", "stopped"),
        ("docs/tutorials/finished-server.md", "bookworm", "running"),
    ],
)
def test_a_finished_server_as_it_is_typed(
    tmp_path_factory: pytest.TempPathFactory, document: str, suite: str, state: str
) -> None:
    """On a file system without huge pages, as ext4 is on the distributions that the documents name."""
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    typed = [block.commands for block in blocks(ROOT / document) if block.what == "tests/live/test_servers.py"]
    first, *commands = "".join(typed).splitlines()
    assert first == "apt install mariadb-server"
    work: Path = tmp_path_factory.mktemp("typed")
    work.chmod(0o755)
    with filesystems.mounted("btrfs", work, size=3 << 30) as at, booted(at, ("mariadb-server",), suite) as system:
        servers.done(system, "systemctl", "restart" if state == "running" else "stop", "mariadb")
        script = "\n".join(commands)
        output = servers.done(system, "sh", "-ec", f"PATH=/opt/hugealign/bin:$PATH; {script}")
        assert servers.done(system, "mariadb", "-Ne", "select 6 * 7").strip() == "42"
    if state == "running":  # `top` names the very command that is typed next
        typed_next = next(line.partition("#")[0].strip() for line in commands if " enable " in line)
        assert f"run: {typed_next}\n" in output
    assert re.search(r"^mariadbd\[\d+\]: all \d+ windows are huge$", output, re.MULTILINE)
