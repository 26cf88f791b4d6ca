"""`hugealign run` under a limit of memory in control groups of version 2, as Docker's `--memory` on today's Debian."""

import pytest

from tests.kernels import debian, machine
from tests.kernels.claims import WINDOWS
from tests.kernels.limited_guest import LIMITS
from tests.live.programs import WINDOW
from tests.support import worded

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(machine.SECONDS + 300)]


def test_a_copy_leaves_three_quarters() -> None:
    """A program that would fill a group with its copy runs as it is, and is not killed; else the copy is huge."""
    machine.check_tools()
    debian.update()
    log = debian.BUILD / "limited-6.1.log"
    small, large = machine.boot(debian.kernel("6.1"), machine.disks(), "TASK=limited_guest", log)
    assert [result["limit"] for result in (small, large)] == list(LIMITS)
    assert (small["huge_kib"], small["killed"]) == (0, 0), small
    assert worded("copy.no-room", size=1, room=1).partition(" 1 B")[0] in small["said"], small
    assert (large["huge_kib"], large["killed"], large["said"]) == (WINDOWS["pie"] * WINDOW >> 10, 0, ""), large
