"""`hugealign warm --wait`: khugepaged makes text huge where no process can, in kernels with READ_ONLY_THP_FOR_FS."""

from typing import Any

import pytest

from tests.kernels import built, debian, machine
from tests.kernels.claims import WINDOWS
from tests.live.programs import WINDOW

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(built.SECONDS + machine.SECONDS + 300)]
ALL = {"windows_huge": WINDOWS["pie"], "next_kib": WINDOWS["pie"] * WINDOW >> 10}
NONE = {"windows_huge": 0, "next_kib": 0}


@pytest.fixture(scope="module")
def system() -> machine.Emulated:
    machine.check_tools()
    debian.update()
    return machine.disks()


def sent(system: machine.Emulated, series: str) -> list[dict[str, Any]]:
    kernel = built.kernel(series)
    return machine.boot(kernel, system, "TASK=waiting_guest", debian.BUILD / f"waiting-{series}.log")


def test_khugepaged_makes_it_huge(system: machine.Emulated) -> None:
    """As from Linux 5.14 to 6.0: in a kernel that has MADV_COLLAPSE, and says that it has not."""
    for result in sent(system, "6.1-thp"):
        assert result["warm"] == (ALL if result["fs"] == "xfs" else NONE), result  # XFS reads ahead in huge folios
        assert result["wait"] == ALL, result


def test_before_linux_5_14_only_programs_themselves(system: machine.Emulated) -> None:
    """There khugepaged wants VM_DENYWRITE, which only execve gives (until eb6ecbed0aa2), so a helper does not help."""
    for result in sent(system, built.BEFORE_COLLAPSE):
        assert (result["warm"], result["wait"]) == (NONE, NONE), result
