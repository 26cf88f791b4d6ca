"""What `hugealign enable` writes, as texts."""

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.services import dropins
from hugealign.services.dropins import MARK, ServiceSetup, texts

SERVICE = f"""{MARK}
[Unit]
Description=Huge text for demo.service
RequiresMountsFor=/run/hugealign

[Service]
Type=oneshot
TimeoutStartSec=160
ExecStart=-/bin/rm -f -- /run/hugealign/for/demo.service/usr/sbin/demo
ExecStart=-/usr/bin/hugealign stage --fix --owner demo.service -- /usr/sbin/demo
ExecStart=-/usr/bin/hugealign warm -- /usr/lib/libdemo.so
"""
DROP_IN = f"""{MARK}
[Unit]
Wants=hugealign-for-demo.service
After=hugealign-for-demo.service

[Service]
BindReadOnlyPaths=-/run/hugealign/for/demo.service/usr/sbin/demo:/usr/sbin/demo
Environment=GLIBC_TUNABLES=glibc.elf.thp=1
"""


def test_both_files() -> None:
    setup = ServiceSetup(
        "demo.service", ["/usr/sbin/demo"], ["/usr/lib/libdemo.so"], fix=True, tunable=True, size=1600 << 20
    )
    assert texts(setup, "/usr/bin/hugealign") == {
        "/etc/systemd/system/hugealign-for-demo.service": SERVICE,
        "/etc/systemd/system/demo.service.d/hugealign.conf": DROP_IN,
    }


def test_instance_gets_a_service_that_is_no_instance() -> None:
    service, drop_in = dropins.paths("postgresql@15-main.service")
    assert service == "/etc/systemd/system/hugealign-for-postgresql\\x4015-main.service"
    assert drop_in == "/etc/systemd/system/postgresql@15-main.service.d/hugealign.conf"


def test_names_are_escaped() -> None:
    written = texts(ServiceSetup("demo.service", ["/opt/100% $HOME: x"]), "/usr/bin/hugealign")
    service, drop_in = written.values()
    assert 'stage --owner demo.service -- "/opt/100%% $$HOME: x"\n' in service
    assert '"-/run/hugealign/for/demo.service/opt/100%% $HOME\\: x":"/opt/100%% $HOME\\: x"\n' in drop_in


@pytest.mark.parametrize(
    "path", ["/a\nExecStart=/bin/sh", '/a"b', "/a\\b", "/a'b", "relative", "/\x7f", "/ä", "/a;b", "/a#"]
)
def test_names_that_could_mean_more_are_refused(path: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        texts(ServiceSetup("demo.service", [path]), "/usr/bin/hugealign")
    assert (refusal.value.diagnosis.code, refusal.value.diagnosis.facts) == ("service.odd-name", {"file": path})
