"""What a process reads of a security module: AppArmor, SELinux, and none."""

from pathlib import Path

import pytest

from hugealign.system import confinement


@pytest.mark.parametrize(
    ("label", "by_file"),
    [
        ("docker-default (enforce)\n", False),
        ("of a host (complain)\n", False),
        ("unconfined\n", True),
        ("system_u:system_r:container_t:s0:c1,c2\0", True),
        ("", True),
    ],
)
def test_what_is_chosen_by_the_file(tmp_path: Path, label: str, by_file: bool) -> None:
    (tmp_path / "current").write_text(label)
    assert confinement.by_file(str(tmp_path / "current")) is by_file


def test_no_module(tmp_path: Path) -> None:
    assert not confinement.by_file(str(tmp_path / "current"))
