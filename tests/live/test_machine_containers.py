"""`enable --all` and containers of podman: by the hook, or in place where the images' file system keeps huge pages."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import filesystems
from tests.live.booted import HUGEALIGN, System, booted, debian
from tests.live.programs import WINDOW, WINDOWS, Programs
from tests.live.test_machine import _FLAGS, _TOOL, _wait
from tests.support import MissingError, worded

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
TOOL = "/usr/local/bin/tool"
USER = ("--user=65534",)
HOOK = "usr/share/containers/oci/hooks.d/hugealign-all.json"
#: What podman may not do in the namespaces of a test, whatever it runs.
_CONFINED = """
[containers]
netns = "none"
pids_limit = 0
default_sysctls = []
default_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]
"""
_LIST = """
find /etc /usr/share /run/systemd/system /run/hugealign* /var/lib/hugealign | sort
cut -d' ' -f5 /proc/self/mountinfo | sort
"""


class Host:
    """A booted system with podman, an image with the tool, and a container that starts it again and again."""

    def __init__(self, system: System, tool: Path) -> None:
        self.system = system
        (system.root / "etc/containers/containers.conf").write_text(_CONFINED)
        shutil.copy(debian(()), system.root / "srv/debian.tar")
        shutil.copy(tool, system.root / "srv/tool")
        (system.root / "srv/Dockerfile").write_text(f"FROM base\nCOPY tool {TOOL}\n")
        self.podman("import", "--quiet", "/srv/debian.tar", "base")
        self.podman("build", "--isolation=chroot", "-t", "tools", "/srv")

    def podman(self, *words: str) -> str:
        done = self.system.run("podman", *words, seconds=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self, name: str, *options: str, loop: bool = False) -> str:
        """Start a container of the tool; return its name as `enable --all` has it."""
        command = ("sh", "-c", f"while :; do {TOOL}; done") if loop else (TOOL, "wait")
        # The machine may not raise limits, which a filter of devices needs.
        words = ("--detach", "--privileged", "--name", name, *options, "tools", *command)
        return self.podman("run", *words)[:12]

    def pid(self, name: str) -> str:
        return self.podman("inspect", "--format", "{{.State.Pid}}", name)

    def huge(self, name: str) -> int:
        """Return how many windows of the container's first process are huge, once it has touched its text."""
        for _ in range(100):
            if "ready" in self.podman("logs", name):
                break
        lines = self.system.run("cat", f"/proc/{self.pid(name)}/smaps").stdout.splitlines()
        kib = sum(int(line.split()[1]) for line in lines if line.startswith(("FilePmdMapped:", "ShmemPmdMapped:")))
        return kib // (WINDOW >> 10)

    def restarted(self, name: str) -> int:
        self.podman("restart", "--time=0", name)
        return self.huge(name)

    def enable(self, *words: str) -> dict[str, Any]:
        done = self.system.hugealign("enable", "--all", "--json", "--for", "2", *words)
        assert not done.returncode, done.stderr + done.stdout
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def listed(self) -> str:
        """Return the files and mounts once all containers have ended; podman cleans up after them by itself."""
        self.podman("stop", "--all", "--time=0")
        assert _wait(lambda: "/merged " not in self.system.run("cat", "/proc/self/mountinfo").stdout, pause=0.1)
        return self.system.run("sh", "-c", _LIST).stdout

    def left(self, document: dict[str, Any]) -> dict[str, str]:
        return {one["subject"]: one["code"] for one in document["left"]}


def _host(built: Programs, file_system: str, suite: str, flags: tuple[str, ...] = ("pad.o", *_FLAGS)) -> Iterator[Host]:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    (built.directory / "tool.c").write_text(_TOOL)
    words = ("gcc", "-O1", "-o", "tool", "tool.c", "text.o", *flags)
    subprocess.run(words, cwd=built.directory, check=True)
    work = built.directory / f"containers-{file_system}-{suite}-{len(flags)}"
    work.mkdir()
    with (
        filesystems.mounted(file_system, work, size=4 << 30) as at,
        booted(at, ("podman", "crun", "sudo"), suite) as system,
    ):
        yield Host(system, built.directory / "tool")


@pytest.fixture(params=["bookworm", "trixie"])
def hooked(request: pytest.FixtureRequest, built: Programs) -> Iterator[Host]:
    yield from _host(built, "btrfs", request.param)


@pytest.fixture
def unaligned(built: Programs) -> Iterator[Host]:
    yield from _host(built, "btrfs", "bookworm", ("-Wl,-z,max-page-size=0x1000",))


@pytest.fixture
def in_place(built: Programs) -> Iterator[Host]:
    yield from _host(built, "ext4", "bookworm")


def test_containers_by_the_hook(hooked: Host) -> None:
    """With podman 4.3 and 5.4, and crun 1.8 and 1.21."""
    host, system = hooked, hooked.system
    host.start("load", *USER, loop=True)
    host.start("server", *USER)
    rooted = host.start("rooted", loop=True)
    host.start("root")
    host.start("off", *USER, "--annotation=hugealign.text=off")
    before = host.listed()
    host.podman("start", "--all")

    planned = host.enable("--dry-run")
    (part,) = planned["take"]
    assert part["name"].startswith("/var/lib/containers/storage/overlay/")
    assert part["name"].endswith(f"/diff{TOOL}")
    assert (part["how"], part["when"], part["windows"], part["files"]) == ("hook", "container", 3, [part["name"]])
    assert host.left(planned)[rooted] == "policy.may-replace"
    assert not (system.root / HOOK).exists()
    (one,) = host.enable()["held"]
    assert host.huge("server") == 0  # it was not restarted

    _only_what_may_be_covered(host)
    found = json.loads(system.hugealign("ps", "--json", host.pid("server")).stdout)["processes"][0]["mappings"]
    assert [mapping["machine"] for mapping in found if mapping["path"] == TOOL] == [part["name"]]
    shown = system.hugealign("status").stdout
    assert worded("change.machine", parts=1, size=part["memory"]) in shown
    assert f"/diff{TOOL}: hook, 3 windows" in shown
    assert "oci/hooks.d" not in shown  # it is undone with the rest
    assert f"hugealign_all_bytes {part['memory']}\n" in system.hugealign("top", "--format", "prometheus").stdout
    host.podman("restart", "--time=0", "load")
    (again,) = host.enable("--renew")["held"]
    assert again["used"] > one["used"]  # what runs there by now are copies

    system.run("umount", "/run/hugealign-containers")  # as after a boot
    assert host.restarted("server") == WINDOWS
    assert host.podman("run", "--rm", "--privileged", "tools", TOOL) == ""
    (system.root / "var/lib/hugealign/machine.json").rename(system.root / "var/lib/hugealign/gone")
    assert host.restarted("server") == 0  # and it starts
    (system.root / "var/lib/hugealign/gone").rename(system.root / "var/lib/hugealign/machine.json")
    assert not system.hugealign("disable", "--all").returncode
    assert host.restarted("server") == 0
    assert _wait(lambda: host.listed() == before), sorted({*host.listed().splitlines()} ^ {*before.splitlines()})


def _only_what_may_be_covered(host: Host) -> None:
    """No container where root could replace the file, unless that is included; none that declines; no other file."""
    policy = host.system.root / "etc/hugealign.toml"
    assert {name: host.restarted(name) for name in ("server", "root", "off")} == {
        "server": WINDOWS,
        "root": 0,
        "off": 0,
    }
    host.start("closed", "--read-only")
    assert host.huge("closed") == WINDOWS
    policy.write_text(f'include = ["*{TOOL}"]\n')
    assert host.restarted("root") == WINDOWS
    policy.unlink()
    host.podman("stop", "--time=0", "server")
    other = host.system.root / "srv/other"
    shutil.copy(host.system.root / "srv/tool", other)
    with other.open("ab") as file:
        file.write(b"changed")
    host.podman("cp", "/srv/other", f"server:{TOOL}")
    host.podman("start", "server")
    assert host.huge("server") == 0
    host.podman("rm", "--force", "--time=0", "server", "closed")
    host.start("server", *USER)
    assert host.huge("server") == WINDOWS


def test_containers_by_fixed_copies_until_the_image_goes(unaligned: Host) -> None:
    host = unaligned
    host.start("load", *USER, loop=True)
    host.start("server", *USER)
    assert TOOL in "".join(one for one, code in host.left(host.enable()).items() if code == "policy.no-window")
    fixed = host.enable("--fix")
    assert "policy.no-window" not in host.left(fixed).values()
    parts = {one["name"]: one for one in fixed["held"]}  # perhaps libc's also
    (part,) = (one for name, one in parts.items() if name.endswith(TOOL))
    assert (part["how"], part["windows"] > 0) == ("hook", True)
    store = "find /run/hugealign-containers -name '*-fixed' | xargs stat -c '%i %Z'"
    made = host.system.run("sh", "-c", store).stdout
    assert host.restarted("server") == sum(one["windows"] for one in parts.values())
    assert (made.count("\n") >= 1, host.system.run("sh", "-c", store).stdout) == (True, made)  # it was there already
    host.podman("rm", "--all", "--force", "--time=0")
    host.podman("rmi", "tools", "base")
    renewed = host.enable("--renew", "--fix")
    assert (renewed["held"], sorted(renewed["dropped"])) == ([], sorted(parts))
    assert host.system.run("ls", "/run/hugealign-containers", f"/{HOOK}").stdout == ""
    assert not host.system.hugealign("disable", "--all").returncode


def test_containers_in_place(in_place: Host) -> None:
    """Also those where root may write: nothing is mounted over a file."""
    host, system = in_place, in_place.system
    if system.run(HUGEALIGN, "warm", "/srv/tool").returncode:
        raise MissingError("this kernel keeps no huge pages of files on ext4")
    host.start("load", loop=True)
    host.start("server", *USER)
    host.start("root")
    before = host.listed()
    host.podman("start", "load")
    (part,) = host.enable()["held"]
    assert (part["how"], part["name"].endswith(f"/diff{TOOL}")) == ("in-place", True)
    assert not (system.root / HOOK).exists()
    host.podman("stop", "--time=0", "load")
    system.run("systemctl", "restart", "hugealign-hold.service")
    assert (host.restarted("server"), host.restarted("root")) == (WINDOWS, WINDOWS)
    assert not system.hugealign("disable", "--all").returncode
    assert _wait(lambda: host.listed() == before), sorted({*host.listed().splitlines()} ^ {*before.splitlines()})
