"""What `hugealign enable` writes, as texts."""

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.services import dropins
from hugealign.services.dropins import MARK, ServiceSetup, texts
from hugealign.services.view import Found

SERVICE = f"""{MARK}
[Unit]
Description=Huge text for demo.service
RequiresMountsFor=/run/hugealign /srv/own/usr/sbin /usr/lib
StartLimitIntervalSec=0

[Service]
Type=oneshot
TimeoutStartSec=160
ExecStart=-/bin/rm -rf -- /run/hugealign/for/demo.service
ExecStart=-/usr/bin/hugealign enable --renew --fix --file=/usr/lib/libdemo.so -- demo.service
"""
DROP = f"""{MARK}
[Unit]
Description=Outdated copies of the files of demo.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=-/usr/bin/hugealign stage --outdated
"""
PATH = f"""{MARK}
[Unit]
Description=Changes of the files of demo.service

[Path]
PathChanged=/usr/sbin/100%% demo
"""
DROP_IN = f"""{MARK}
[Unit]
Wants=hugealign-for-demo.service hugealign-watch-demo.path
After=hugealign-for-demo.service

[Service]
BindReadOnlyPaths=-/run/hugealign/for/demo.service/srv/own/usr/sbin/demo:/usr/sbin/demo
Environment=GLIBC_TUNABLES=glibc.elf.thp=1
"""


def same(path: str) -> Found:
    """Return how to cover a file that is at *path* here and in the service."""
    return Found(path, path)


def test_all_files() -> None:
    setup = ServiceSetup(
        "demo.service",
        [Found("/srv/own/usr/sbin/demo", "/usr/sbin/demo")],
        ["/usr/lib/libdemo.so"],
        ["--fix", "--file=/usr/lib/libdemo.so"],
        ["/usr/sbin/100% demo"],
        tunable=True,
        size=1600 << 20,
    )
    assert texts(setup, "/usr/bin/hugealign") == {
        "/etc/systemd/system/hugealign-for-demo.service": SERVICE,
        "/etc/systemd/system/hugealign-watch-demo.service": DROP,
        "/etc/systemd/system/hugealign-watch-demo.path": PATH,
        "/etc/systemd/system/demo.service.d/hugealign.conf": DROP_IN,
    }


def test_in_place_nothing_is_watched() -> None:
    written = texts(ServiceSetup("demo.service", [], ["/usr/sbin/demo"]), "/usr/bin/hugealign")
    assert "TimeoutStartSec=60\n" in next(iter(written.values()))
    assert [path.rpartition("/")[2] for path in written] == ["hugealign-for-demo.service", "hugealign.conf"]
    assert "Wants=hugealign-for-demo.service\n" in written["/etc/systemd/system/demo.service.d/hugealign.conf"]


def test_instance_gets_a_service_that_is_no_instance() -> None:
    service, _, watch, drop_in, _ = dropins.paths("postgresql@15-main.service")
    assert service == "/etc/systemd/system/hugealign-for-postgresql\\x4015-main.service"
    assert watch == "/etc/systemd/system/hugealign-watch-postgresql\\x4015-main.path"
    assert drop_in == "/etc/systemd/system/postgresql@15-main.service.d/hugealign.conf"


def test_names_are_escaped() -> None:
    setup = ServiceSetup("a@b\\x2d.service", [same("/opt/100% $HOME: x")], words=["--file=/opt/100% $HOME: x"])
    service, drop_in = texts(setup, "/usr/bin/hugealign").values()
    assert 'enable --renew "--file=/opt/100%% $$HOME: x" -- a@b\\\\x2d.service\n' in service
    assert "RequiresMountsFor=/run/hugealign /opt\n" in service
    assert dropins.given(service) == ["/opt/100% $HOME: x"]
    assert dropins.given("") == []
    assert '"-/run/hugealign/for/a@b=x2d.service/opt/100%% $HOME\\: x":"/opt/100%% $HOME\\: x"\n' in drop_in


@pytest.mark.parametrize(
    "path", ["/a\nExecStart=/bin/sh", '/a"b', "/a\\b", "/a'b", "relative", "/\x7f", "/ä", "/a;b", "/a#"]
)
def test_names_that_could_mean_more_are_refused(path: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        texts(ServiceSetup("demo.service", [same(path)]), "/usr/bin/hugealign")
    assert (refusal.value.diagnosis.code, refusal.value.diagnosis.facts) == ("service.odd-name", {"file": path})
