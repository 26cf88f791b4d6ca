"""Services of a stock Debian on ext4, as their users have them: installed, enabled, upgraded, booted again, undone."""

from typing import Any

import pytest

from tests.kernels import debian, machine, services

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(3 * services.SECONDS)]

#: Those whose text has a window, or can be given one; nginx and redis of Debian are too small.
HUGE = ("mariadb", "postgresql", "jvm")


def whole(found: dict[str, Any]) -> bool:
    """Whether all windows are huge, and those of current copies."""
    outdated = any(diagnosis["code"] == "copy.outdated" for diagnosis in found["diagnoses"])
    return not outdated and bool(0 < found["windows_huge"] == found["windows_possible"])


@pytest.mark.parametrize("release", services.RELEASES)
def test_enabled_upgraded_booted_undone(release: str) -> None:
    machine.check_tools()
    debian.update()
    kernel = debian.kernel(services.RELEASES[release])
    image = services.disk(release)
    log = debian.BUILD / f"services-{release}.log"
    sent = services.boot(kernel, image, log)
    *enabled, upgrade, verified = sent
    for item in enabled:
        assert item["after"].get("answers"), item
        if item["unit"].startswith(HUGE):
            assert (item["status"], item["said"]) == (0, ""), item
            assert item["before"]["windows_huge"] == 0, item
            assert whole(item["after"]), item
        else:  # a library of theirs has a window, or nothing has
            assert (item["status"] == 0) == (item["after"]["windows_possible"] > 0), item
            assert item["said"].count("\n") == (item["status"] != 0), item
    assert upgrade["upgraded"], upgrade
    assert upgrade["restarted"], upgrade
    assert whole(upgrade["after"]), upgrade
    assert verified == {"verify": ""}
    *booted, end = services.boot(kernel, image, log.with_stem(f"{log.stem}-again"))
    for item in booted:
        assert item["booted"].get("answers"), item
        assert item["undone"].get("answers"), item
        if item["unit"].startswith(HUGE):
            assert whole(item["booted"]), item
            assert item["undone"]["windows_huge"] == 0, item
    assert end == {"left": [], "verify": ""}


@pytest.mark.parametrize("release", services.RELEASES)
def test_the_whole_machine(release: str) -> None:
    """Installed, README's two commands, booted, upgraded, undone."""
    machine.check_tools()
    debian.update()
    kernel = debian.kernel(services.RELEASES[release])
    image = services.disk(release, "machine")
    log = debian.BUILD / f"machine-{release}.log"
    installed, typed = services.boot(kernel, image, log)
    assert installed["installed"] == 0, installed
    assert (typed["status"], typed["printed"].count(" parts, ")) == (0, 2), typed
    assert not any(one["kib"] for one in typed["before"].values()), typed
    booted, upgraded, shown, undone, state = services.boot(kernel, image, log.with_stem(f"{log.stem}-again"))
    for found in (*booted["booted"].values(), upgraded["after"]):
        assert found["answers"], found
        assert whole(found), found
        assert found["kib"] >= found["windows_huge"] << 11, found
    assert (upgraded["upgraded"], shown["verify"]) == (0, ""), upgraded
    assert "mariadb.service: copies, " in shown["shown"], shown
    assert undone["status"] == 0, undone
    assert not any(one["kib"] for one in undone["undone"].values()), undone
    assert state == {"added": [], "gone": []}
