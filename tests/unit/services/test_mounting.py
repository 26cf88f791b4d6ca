"""Whether a unit says that it mounts for others; what is seen of a running one is in tests/live/kinds.py."""

from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.services import mounting
from hugealign.services.programs import Service


@pytest.mark.parametrize(
    ("command", "mounts"),
    [
        ("/usr/bin/rclone mount remote: /mnt/remote --vfs-cache-mode full", True),
        ("/bin/sh -c 'mount -t tmpfs x /mnt; exec /usr/bin/server'", True),
        ("/usr/sbin/mount.glusterfs /a /b", True),
        ("/usr/bin/sshfs host: /mnt", True),
        ("/usr/bin/server --mount /mnt", False),
        ("/usr/bin/server /etc/mount /mnt-mount", False),
        ("/bin/umount /mnt", False),
        ("/usr/bin/server mountain lion", False),
    ],
)
def test_a_command_that_mounts(command: str, mounts: bool) -> None:
    service = Service("a.service", ("/usr/bin/server",), commands=("/bin/true", command))
    assert mounting.mounted(service) == (command if mounts else "")
    if mounts:
        with pytest.raises(RefusalError):
            mounting.check(service, [])


@pytest.mark.parametrize(
    ("settings", "private"),
    [
        ({"PrivateMounts": "yes"}, True),
        ({"PrivateMounts": "no", "MountFlags": "0", "ProtectSystem": "no"}, False),
        ({"MountFlags": "shared"}, False),
        ({"MountFlags": "slave"}, True),
        ({"BindPaths": "/srv/a:/srv/b:rbind"}, True),
        ({"BindReadOnlyPaths": "-/run/hugealign/for/a.service/usr/bin/x:/usr/bin/x:rbind"}, False),
        ({"RootDirectory": "/srv"}, True),
    ],
)
def test_a_service_with_mounts_of_its_own_hides_none(settings: dict[str, str], private: bool) -> None:
    service = Service("a.service", (), settings=settings, commands=("/bin/mount /x",))
    assert bool(mounting.mounted(service)) != private


@pytest.mark.parametrize(
    ("settings", "contents", "warned"),
    [
        ({}, b"\0mount\0", True),
        ({}, b"\0amount\0", False),
        ({"User": "nobody"}, b"\0mount\0", False),
        ({"User": "nobody"}, b"fusermount3", True),
        ({"CapabilityBoundingSet": "cap_chown"}, b"\0mount\0", False),
        ({"PrivateMounts": "yes"}, b"\0mount\0", False),
    ],
)
def test_a_program_that_could(tmp_path: Path, settings: dict[str, str], contents: bytes, warned: bool) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF" + contents)
    warnings = mounting.check(Service("a.service", (), settings=settings), [str(path)])
    assert [(warning.code, warning.facts) for warning in warnings] == (
        [("service.may-mount", {"program": str(path)})] if warned else []
    )


@pytest.mark.parametrize(
    ("place", "used", "expected"),
    [
        ("/mnt/x", ["/mnt/x"], True),
        ("/mnt/x", ["/mnt/x/file"], True),
        ("/mnt/x", ["/mnt/xy", "/mnt"], False),
        ("/var/lib/docker/overlay2/1/merged", ["/var/lib/docker/network/files/local-kv.db"], True),
        ("/var/lib/docker/overlay2/1/merged", ["/var/lib/dockers"], False),
        ("/run/netns/a", ["/run/netns-b", "/run"], False),
        ("/var/lib", ["/var/lib/x"], True),
    ],
)
def test_whose_mount_it_is(place: str, used: list[str], expected: bool) -> None:
    assert mounting._is_used(place, used) == expected
