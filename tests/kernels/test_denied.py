"""AppArmor and SELinux in Debian's kernel that deny what staging needs: the command runs, and one line says why."""

from typing import Any

import pytest

from tests.kernels import debian, denied, machine
from tests.kernels.claims import WINDOWS
from tests.live.programs import WINDOW
from tests.support import worded

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(3 * machine.SECONDS)]
ALL = WINDOWS["pie"] * WINDOW >> 10


@pytest.fixture(scope="module")
def system() -> machine.Emulated:
    machine.check_tools()
    policies = denied.policies()
    debian.update()
    return machine.disks(policies)


def cases(system: machine.Emulated, module: str) -> dict[str, dict[str, Any]]:
    kernel = debian.kernel("6.1")
    words = f"TASK=denied_guest DENIES={module} security={module}"
    sent = machine.boot(kernel, system, words, debian.BUILD / f"denied-{module}.log")
    return {item["case"]: item for item in sent}


def check_denied(found: dict[str, Any], reason: str) -> None:
    run, stage = found["run"], found["stage"]
    assert (run["status"], run["said"].count("\n"), found["huge_kib"]) == (0, 1, 0), found
    assert "0 of 3 windows huge: " in run["said"]
    assert run["said"].endswith(f"({reason})\n"), found
    assert (stage["status"], stage["said"].count("\n")) == (1, 1), found


def test_apparmor(system: machine.Emulated) -> None:
    result = cases(system, "apparmor")
    for who in ("root", "user"):
        check_denied(result[f"mount denied, {who}"], "EACCES")
        assert result[f"mount denied, {who}"]["context"] == "no-mount (enforce)"
        # A profile that is meant for the path confines the copy as well.
        confined = result[f"confined, {who}"]
        assert (confined["context"], confined["huge_kib"]) == ("confined (enforce)", ALL)
    run = result["copy denied"]["run"]
    assert (run["status"], run["said"].count("\n")) == (0, 1)
    assert run["said"].endswith(f"0 of 3 windows huge: {worded('copy.failed', error='EACCES')}\n")


def test_selinux(system: machine.Emulated) -> None:
    result = cases(system, "selinux")
    assert (result["labelled"]["huge_kib"], result["labelled"]["run"]["said"]) == (ALL, "")
    assert (result["staged"]["status"], result["staged"]["label"].strip("\0")) == (0, "u:r:server")
    for who in ("root", "user"):
        check_denied(result[f"mount denied, {who}"], "EACCES")
