"""Services of a stock Debian on ext4, as their users have them: installed, enabled, upgraded, booted again, undone."""

from typing import Any

import pytest

from tests.kernels import debian, machine, services

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(3 * services.SECONDS)]

#: Those whose text has a window, or can be given one; nginx and redis of Debian are too small.
HUGE = ("mariadb", "postgresql", "jvm")


def whole(found: dict[str, Any]) -> bool:
    return bool(0 < found["windows_huge"] == found["windows_possible"])


@pytest.mark.parametrize("release", services.RELEASES)
def test_enabled_upgraded_booted_undone(release: str) -> None:
    try:
        machine.check_tools()
        debian.update()
        kernel = debian.kernel(services.RELEASES[release])
        image = services.disk(release)
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    log = debian.BUILD / f"services-{release}.log"
    sent = services.boot(kernel, image, log)
    *enabled, upgrade, verified = sent
    for one in enabled:
        assert one["after"].get("answers"), one
        if one["unit"].startswith(HUGE):
            assert (one["status"], one["said"]) == (0, ""), one
            assert one["before"]["windows_huge"] == 0, one
            assert whole(one["after"]), one
        else:  # a library of theirs has a window, or nothing has
            assert (one["status"] == 0) == (one["after"]["windows_possible"] > 0), one
            assert one["said"].count("\n") == (one["status"] != 0), one
    assert upgrade["upgraded"], upgrade
    assert upgrade["restarted"], upgrade
    assert whole(upgrade["after"]), upgrade
    assert verified == {"verify": ""}
    *booted, end = services.boot(kernel, image, log.with_stem(f"{log.stem}-again"))
    for one in booted:
        assert one["booted"].get("answers"), one
        assert one["undone"].get("answers"), one
        if one["unit"].startswith(HUGE):
            assert whole(one["booted"]), one
            assert one["undone"]["windows_huge"] == 0, one
    assert end == {"left": [], "verify": ""}
