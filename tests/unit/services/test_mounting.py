"""Whether a unit says that it mounts for others; what is seen of a running one is in tests/live/kinds.py."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.errors import HugealignError
from hugealign.process import groups, procfs
from hugealign.services import mounting
from hugealign.services import programs as services
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
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    warnings = mounting.check(Service("a.service", (), settings=settings), [str(path), str(other)])
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


def test_what_a_process_has(tmp_path: Path) -> None:
    """This one: what it has open, its words, whether it may mount, and in which namespace it is."""
    pid = str(os.getpid())
    with (tmp_path / "file").open("w"), open("/dev/null", "rb") as device:
        opened = dict(mounting._open_files(pid))
        assert opened[str(tmp_path / "file")] == 0
        assert opened["/dev/null"] == os.fstat(device.fileno()).st_rdev != 0
    assert list(mounting._open_files("0")) == []
    assert mounting._may_mount(pid) == bool(int(procfs.status(f"/proc/{pid}/status")["CapEff"], 16) & 1 << 21)
    assert not mounting._may_mount("0")
    with subprocess.Popen(["sh", "-c", "sleep 60; :", "/a/../b", "--x=/c/", "host:/d:/e", "relative"]) as child:
        try:
            while b"sleep 60" not in Path(f"/proc/{child.pid}/cmdline").read_bytes():  # its name is known before
                time.sleep(0.01)
            assert set(mounting._words(str(child.pid))) == {"/b", "/c", "/e"}
        finally:
            child.kill()
    assert list(mounting._words("0")) == []
    same = False
    with contextlib.suppress(OSError):  # where process 1 is another user's
        same = os.readlink("/proc/self/ns/mnt") == os.readlink("/proc/1/ns/mnt")
    assert mounting._shares_mounts(os.getpid()) == same
    assert not mounting._shares_mounts(0)


@pytest.mark.parametrize(
    ("capabilities", "may"), [(0, False), (1 << 20, False), (1 << 21, True), (1 << 22, False), ((1 << 40) - 1, True)]
)
def test_cap_sys_admin(monkeypatch: pytest.MonkeyPatch, capabilities: int, may: bool) -> None:
    monkeypatch.setattr(procfs, "status", lambda _: {"CapEff": f"{capabilities:016x}"})
    assert mounting._may_mount("1") == may


MOUNTED = """Where=/mnt/ours
FragmentPath=
SourcePath={table}
ActiveEnterTimestampMonotonic=101

Where=/mnt/described
FragmentPath=/etc/systemd/system/mnt-described.mount
SourcePath=
ActiveEnterTimestampMonotonic=102

Where=/mnt/fstab
FragmentPath=
SourcePath=/etc/fstab
ActiveEnterTimestampMonotonic=103

Where=/mnt/before
SourcePath=
ActiveEnterTimestampMonotonic=100

Where=/mnt/more
SourcePath=
ActiveEnterTimestampMonotonic=104
"""


@pytest.mark.parametrize(
    ("used", "may", "fuse", "started", "expected"),
    [
        (["/mnt/ours/a"], True, False, "100", "/mnt/ours"),
        (["/mnt/more"], True, False, "100", "/mnt/more"),
        (["/mnt/before", "/mnt/fstab", "/mnt/described"], True, False, "100", ""),
        (["/mnt/ours"], False, False, "100", ""),
        (["/mnt/ours"], True, False, "0", ""),
        (["/mnt/ours"], True, False, "", ""),
        (["socket:[1]"], True, False, "100", ""),
        ([], False, True, "100", "FUSE"),
    ],
)
def test_what_a_running_service_mounted(
    monkeypatch: pytest.MonkeyPatch, used: list[str], may: bool, fuse: bool, started: str, expected: str
) -> None:
    shown = {
        "a.service": f"InactiveExitTimestampMonotonic={started}\n",
        "*.mount": MOUNTED.replace("{table}", "/proc/self/mountinfo"),
    }
    monkeypatch.setattr(services, "systemctl", lambda *words: shown[words[-1]])
    monkeypatch.setattr(mounting, "_shares_mounts", lambda pid: pid == 7)
    monkeypatch.setattr(groups, "of_process", str)
    monkeypatch.setattr(groups, "service", lambda pid: "a.service" if pid == str(os.getpid()) else "b.service")
    device = os.makedev(10, 229) if fuse else os.makedev(10, 228)
    monkeypatch.setattr(mounting, "_open_files", lambda _: [*((path, 0) for path in used), ("/dev/x", device)])
    monkeypatch.setattr(mounting, "_may_mount", lambda _: may)
    monkeypatch.setattr(mounting, "_words", lambda _: ["/srv"])
    assert mounting.mounted(Service("a.service", (), pid=7)) == expected
    for service in (Service("a.service", (), pid=8), Service("a.service", ()), Service("c.service", (), pid=7)):
        assert mounting.mounted(service) == ""

    def failed(*_: str) -> str:
        raise HugealignError

    monkeypatch.setattr(services, "systemctl", failed)
    assert mounting.mounted(Service("a.service", (), pid=7)) == ("FUSE" if fuse else "")


@pytest.mark.parametrize("number", ["-1", "x", str(1 << 64)])
def test_a_time_that_is_none(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    monkeypatch.setattr(services, "systemctl", lambda *_: f"InactiveExitTimestampMonotonic={number}\nx\nWhere=/a=b\n")
    assert list(mounting._mounted_since("a.service")) == []
    assert mounting._shown("x", "y") == [{"InactiveExitTimestampMonotonic": number, "Where": "/a=b"}]
