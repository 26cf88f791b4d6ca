"""Services, containers and pods by the names of their control groups."""

import pytest

from hugealign.process.groups import container, engine, of_user, path, service

ID = "0123456789abcdef" * 4
POD = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("0::/system.slice/mariadb.service\n", "/system.slice/mariadb.service"),
        ("12:memory:/a\n1:name=systemd:/b\n", "/b"),
        ("12:memory:/a\n0::/c\n1:name=systemd:/b\n", "/c"),
        ("1:name=systemd:/b\n0::/\n", "/b"),
        ("0::/\n", "/"),
        ("0::/with:colons\n", "/with:colons"),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_path(text: str, result: str) -> None:
    assert path(text) == result


@pytest.mark.parametrize(
    ("group", "result"),
    [
        ("/system.slice/mariadb.service", "mariadb.service"),
        ("/system.slice/system-postgresql.slice/postgresql@15-main.service", "postgresql@15-main.service"),
        ("/system.slice/docker.service/sub", "docker.service"),
        ("/-.slice/custom.slice/x.service", "x.service"),
        (f"/machine.slice/libpod-{ID}.scope/system.slice/x.service", ""),  # of a container's own manager
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.service", ""),
        ("/system.slice/ba d.service", ""),
        ("/system.slice/$(reboot).service", ""),
        (f"/system.slice/docker-{ID}.scope", ""),
        ("/", ""),
    ],
)
def test_service(group: str, result: str) -> None:
    assert service(f"0::{group}\n") == result


@pytest.mark.parametrize(
    ("group", "result"),
    [
        (f"/system.slice/docker-{ID}.scope", ID[:12]),
        (f"/docker/{ID}", ID[:12]),
        (f"/machine.slice/libpod-{ID}.scope/container", ID[:12]),
        (f"/kubepods/burstable/pod{POD}/{ID}", f"pod {POD}/{ID[:12]}"),
        (
            f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            f"pod {POD}/{ID[:12]}",
        ),
        ("/system.slice/mariadb.service", ""),
        (f"/x/{ID[:-1]}", ""),
        ("/", ""),
    ],
)
def test_container(group: str, result: str) -> None:
    assert container(f"0::{group}\n") == result


@pytest.mark.parametrize(
    ("group", "result"),
    [
        (f"/system.slice/docker-{ID}.scope", "Docker"),
        (f"/docker/{ID}", "Docker"),
        (f"/kubepods.slice/cri-containerd-{ID}.scope", "containerd"),
        (f"/machine.slice/libpod-{ID}.scope", ""),
        ("/system.slice/docker.service", ""),
    ],
)
def test_engines_without_hooks(group: str, result: str) -> None:
    assert engine(f"0::{group}\n") == result
    assert not of_user(f"0::{group}\n")
    assert of_user(f"0::/user.slice/user-1000.slice{group}\n")
