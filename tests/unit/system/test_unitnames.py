"""Names of units as people type them."""

from pathlib import Path

import pytest

from hugealign.system import unitnames


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(unitnames, "DIRECTORIES", (str(tmp_path / "etc"), str(tmp_path / "lib")))
    (tmp_path / "etc").mkdir()
    (tmp_path / "lib").mkdir()
    return tmp_path


def test_aliases(place: Path) -> None:
    (place / "lib/mariadb.service").write_text("")
    (place / "lib/clusters@.service").write_text("")
    (place / "etc/mysql.service").symlink_to(place / "lib/mariadb.service")
    (place / "etc/clusters@15-main.service").symlink_to(place / "lib/clusters@.service")
    (place / "etc/masked.service").symlink_to("/dev/null")
    assert unitnames.service("mysql") == unitnames.service("mysql.service") == "mariadb.service"
    assert unitnames.service("clusters@15-main") == "clusters@15-main.service"
    assert unitnames.service("masked") == "masked.service"
    assert unitnames.service("mariadb") == "mariadb.service"
    assert unitnames.service("../lib/mariadb") == "../lib/mariadb.service"  # not a name, and looked up nowhere
    (place / "lib/mysql.service").symlink_to(place / "lib/clusters@.service")
    (place / "etc/mysql.service").unlink()
    (place / "etc/mysql.service").write_text("")  # the first place wins
    assert unitnames.service("mysql") == "mysql.service"


def test_units_that_are_not_services(place: Path) -> None:
    (place / "lib/ssh.service").write_text("")
    socket = unitnames.refusal("ssh.socket")
    assert socket
    assert (socket.code, socket.facts) == ("service.other-unit", {"kind": "socket", "near": "ssh.service"})
    timer = unitnames.refusal("apt-daily.timer")
    assert timer
    assert timer.facts == {"kind": "timer", "near": ""}
    for template in ("getty@", "getty@.service"):
        refused = unitnames.refusal(template)
        assert refused
        assert (refused.code, refused.facts["example"]) == ("service.template", "getty@NAME")
    for name in ("ssh", "ssh.service", "getty@tty1", "php8.2-fpm", ".socket", "a.b"):
        assert unitnames.refusal(name) is None, name
    (place / "lib/getty@.service").write_text("")
    assert [unitnames.exists(name) for name in ("ssh", "ssh.service", "getty@tty1", "a")] == [True, True, True, False]
    assert not unitnames.exists("../lib/ssh")
    assert [unitnames.short(name) for name in ("a.service", "a.socket.service")] == ["a", "a.socket.service"]
