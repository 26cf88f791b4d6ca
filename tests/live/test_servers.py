"""The whole of it, as a new user would: one screen shows what runs from small pages, and its commands mend each row."""

import os
from pathlib import Path

import pytest

from tests.live import servers
from tests.live.filesystems import MissingError
from tests.live.servers import Screen

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(1800)]


def test_each_row_is_mended_by_the_command_that_it_names(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    work: Path = tmp_path_factory.mktemp("servers")
    work.chmod(0o755)
    try:
        with servers.machine(work) as system:
            steps = list(servers.tour(system))
    except MissingError as error:
        pytest.skip(str(error))
    screens = [step for step in steps if isinstance(step, Screen)]
    first, last = screens[0].rows, screens[-1].rows
    small = {(os.path.basename(row["program"]), os.path.basename(row["part"])) for row in first if row["action"]}
    assert small >= {
        ("java", "HotSpot code"),
        ("java", "libjvm.so"),
        ("mariadbd", "mariadbd"),
        ("php-fpm8.2", "PHP code"),
        ("php-fpm8.2", "php-fpm8.2"),
    }
    for row in last:
        assert row["action"] is None, row
        assert row["windows_huge"] > 0, row
    for command, said in (step for step in steps if not isinstance(step, Screen)):
        assert "error" not in said, command
