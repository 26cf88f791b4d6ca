"""The units of `enable --all`, as systemd reads them."""

from pathlib import Path

from hugealign.machine import units
from hugealign.services.dropins import PLACE


def test_what_is_written_depends_on_what_is_there() -> None:
    with_packages = units.texts("/opt/hugealign", ["--fix"], ["/var/lib/dpkg/status"], "/var/lib/hugealign")
    without = units.texts("/opt/hugealign", (), (), "/var/lib/hugealign")
    assert {Path(path).name for path in with_packages} == set(units.NAMES)
    assert {Path(path).name for path in without} == set(units.NAMES) - {units.PACKAGES}
    look = with_packages[f"{PLACE}/{units.LOOK}"]
    assert "ExecStart=/opt/hugealign enable --all --renew --fix\n" in look
    starting = [text for text in with_packages.values() if "ExecStart=" in text]
    assert len(starting) == 2
    assert all("\nConditionPathExists=/opt/hugealign\n" in text for text in starting)
    assert all(text.startswith(units.MARK) for text in with_packages.values())
