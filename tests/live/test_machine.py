"""`enable --all` in a systemd that boots: what gains and only that, where files can be huge and where they cannot."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.manual import blocks
from tests.live import filesystems, servers
from tests.live.booted import HUGEALIGN, System, booted
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs
from tests.support import worded

_FLAGS = ("-fuse-ld=bfd", "-Wl,-T,pad.ld", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")
#: Touches all of its text, as a program that starts often does, and ends; or waits.
_TOOL = """\
#include <sys/wait.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
#ifdef SESSIONS
const char calls[] = "\\0pam_open_session";
#endif
int main(int argc, char **argv) {
  int sum = 0;
#ifdef SESSIONS
  if (argc == 1)
    while (fork()) wait(NULL);
#endif
  for (long at = 0; at < 5 << 20; at += 4096) sum += walk[at];
  if (argc > 1 && write(1, "ready\\n", 6) == 6) pause();
  return sum != 0;
}
"""
#: The name of a container, as its control group has it.
_CONTAINER = "0123456789abcdef" * 4
_LOOP = "ExecStart=/bin/sh -c 'while :; do {}; done'\n"
_UNITS = {
    "tools.service": "[Service]\nUser=nobody\n" + _LOOP.format("/srv/tool"),
    "roots.service": "[Service]\nExecStart=/bin/sh /srv/roots.sh\n",
    "outside.service": "[Service]\nSlice=user.slice\n" + _LOOP.format("/srv/outside"),
    "plain.service": "[Service]\nSlice=user.slice\n" + _LOOP.format("/srv/plain"),
    "sessions.service": "[Service]\nExecStart=/srv/sessions\n",
    "contained.service": "[Service]\nDelegate=yes\nExecStart=/bin/sh /srv/contained.sh\n",
    "idle.service": "[Service]\nExecStart=/srv/idle wait\n",
}
_CONTAINED = f"""\
group=/sys/fs/cgroup/docker/{_CONTAINER}
mkdir -p $group
echo $$ >$group/cgroup.procs
exec sh -c "while :; do /srv/contained; done"
"""
#: The programs in /srv, and which of those that are built each is.
_NAMES = {
    **dict.fromkeys(("tool", "roots", "outside", "contained", "idle"), "tool"),
    "plain": "without-windows",
    "sessions": "with-sessions",
}
_LIST = "find /etc /run/systemd/system /run/hugealign /var/lib/hugealign | sort; cat /proc/self/mountinfo | wc -l"


class Machine:
    """The system, with what each act has shown."""

    def __init__(self, system: System, built: Path) -> None:
        self.system, self.built = system, built
        for name, what in _NAMES.items():
            self.put(name, what)
        (system.root / "srv/contained.sh").write_text(_CONTAINED)
        (system.root / "srv/roots.sh").write_text("while :; do /srv/roots; done\n")
        for name, text in _UNITS.items():
            system.write_unit(name, text)
        assert not system.run("systemctl", "start", *_UNITS).returncode
        group = f"/sys/fs/cgroup/docker/{_CONTAINER}/cgroup.procs"
        system.run("sh", "-c", f"until grep -q . {group}; do sleep 0.1; done; sleep 0.5")

    def put(self, name: str, what: str = "tool", version: str = "VERSION1") -> None:
        """Install a version of a program as a package manager does, by renaming."""
        place = self.system.root / "srv" / name
        new = place.with_name("new")
        shutil.copy(self.built / what, new)
        with new.open("ab") as file:
            file.write(version.encode())
        new.rename(place)

    def enable(self, *words: str) -> dict[str, Any]:
        done = self.system.hugealign("enable", "--all", "--json", "--for", "2", *words)
        assert not done.returncode, done.stderr + done.stdout
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def listed(self) -> str:
        return self.system.run("sh", "-c", _LIST).stdout

    def huge(self, name: str, *enter: str) -> int:
        """Return how many windows of a new process of the program are huge."""
        words = ["sh", "-c", f"/srv/{name} wait & sleep 1; cat /proc/$!/smaps; kill $!"]
        shown = self.system.run(*enter, *words).stdout
        lines = [line.split() for line in shown.splitlines()]
        kib = sum(int(line[1]) for line in lines if line[0] in ("FilePmdMapped:", "ShmemPmdMapped:"))
        return kib // (WINDOW >> 10)

    def parts(self, *enter: str, first: str = "") -> list[str | None]:
        """Return of which parts `ps` says that the text of a new process of the tool is; *first* comes before it."""
        words = [
            "sh",
            "-c",
            f"{first}/srv/tool wait & sleep 1; {HUGEALIGN} ps $! >&2; {HUGEALIGN} ps --json $!; kill $!",
        ]
        done = self.system.run(*enter, *words)
        (process,) = json.loads(done.stdout.removeprefix("ready\n"))["processes"]
        parts = [mapping["machine"] for mapping in process["mappings"]]
        assert (", by enable --all\n" in done.stderr) == any(parts), done.stderr
        return parts


def _machine(built: Programs, file_system: str, name: str) -> Iterator[Machine]:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    (built.directory / "tool.c").write_text(_TOOL)
    for what, *flags in (
        ("tool", "pad.o", *_FLAGS),
        ("with-sessions", "-DSESSIONS", "pad.o", *_FLAGS),
        ("without-windows", "-Wl,-z,max-page-size=0x1000"),
    ):
        words = ("gcc", "-O1", "-o", what, "tool.c", "text.o", *flags)
        subprocess.run(words, cwd=built.directory, check=True)
    work = built.directory / name
    work.mkdir()
    with filesystems.mounted(file_system, work, size=4 << 30) as at, booted(at) as system:
        yield Machine(system, built.directory)


@pytest.fixture
def copies(built: Programs) -> Iterator[Machine]:
    yield from _machine(built, "btrfs", "machine-copies")


@pytest.fixture
def in_place(built: Programs) -> Iterator[Machine]:
    yield from _machine(built, "ext4", "machine-in-place")


def _left(document: dict[str, Any]) -> dict[str, str]:
    return {one["subject"]: one["code"] for one in document["left"]}


def _wait(check: Callable[[], bool], pause: float = 0.5) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(pause)
        if check():
            return True
    return False


@pytest.mark.timeout(600)
def test_copies_for_services_that_gain(copies: Machine) -> None:
    machine, system = copies, copies.system
    before = machine.listed()
    planned = machine.enable("--dry-run")
    assert machine.listed() == before
    (part,) = planned["take"]
    assert (part["name"], part["how"], part["files"]) == ("tools.service", "copies", ["/srv/tool"])
    assert (part["windows"], part["when"]) == (WINDOWS, "restart")
    assert 0 < part["saving"]["low"] <= part["saving"]["value"] <= part["saving"]["high"] <= 1
    left = _left(planned)
    assert (left["roots.service"], left["/srv/roots"]) == ("policy.runs-as-root", "policy.no-place")
    assert (left["/srv/outside"], left["/srv/plain"]) == ("policy.no-place", "policy.no-window")
    assert (left["sessions.service"], left[_CONTAINER[:12]]) == ("policy.sessions", "policy.container")
    assert "/srv/idle" not in left  # it starts once, and has nothing to gain any more

    done = machine.enable()
    assert [one["name"] for one in done["held"]] == ["tools.service"]
    system.run("systemctl", "restart", "tools.service")
    inside = ("nsenter", "--target", system.pid("tools.service"), "--mount")
    assert (machine.huge("tool", *inside), machine.huge("tool")) == (WINDOWS, 0)
    joined = "echo $$ >/sys/fs/cgroup/system.slice/tools.service/cgroup.procs; "
    assert (machine.parts(*inside, first=joined), machine.parts()) == (["tools.service"], [None])

    again = machine.enable("--renew")
    assert ([one["name"] for one in again["held"]], again["take"], again["dropped"]) == (["tools.service"], [], [])
    shown = system.hugealign("status").stdout
    assert worded("change.machine", parts=1, size=done["held"][0]["memory"]) in shown
    assert "tools.service: copies, 3 windows" in shown

    (system.root / "etc/hugealign.toml").write_text('least = 1\nexclude = ["tools.service"]\n')
    dropped = machine.enable("--renew")
    assert (dropped["held"], dropped["dropped"]) == ([], ["tools.service"])
    system.run("systemctl", "restart", "tools.service")
    (system.root / "etc/hugealign.toml").write_text('include = ["roots.service"]\n')
    assert sorted(one["name"] for one in machine.enable("--renew")["take"]) == ["roots.service", "tools.service"]
    (system.root / "etc/hugealign.toml").unlink()

    undone = system.hugealign("status", "--undo")
    assert not undone.returncode, undone.stderr
    system.run("systemctl", "restart", "tools.service", "roots.service")
    assert _wait(lambda: machine.listed() == before), f"{before}\n{machine.listed()}"
    again_done = system.hugealign("disable", "--all")
    assert (again_done.returncode, worded("machine.not-enabled") in again_done.stderr) == (1, True)


@pytest.mark.timeout(600)
def test_in_place_for_all_that_start_it(in_place: Machine) -> None:
    machine, system = in_place, in_place.system
    if machine.huge("idle") or not _keeps(machine):
        pytest.skip("this kernel keeps no huge pages of files on ext4")
    system.run("sh", "-c", f"echo 1 >/sys/fs/cgroup/docker/{_CONTAINER}/cgroup.kill")  # the other test is about it
    before = machine.listed()
    planned = machine.enable("--dry-run", "--max", "14M")
    assert sorted((one["how"], one["memory"]) for one in planned["take"]) == [("in-place", WINDOWS * WINDOW)] * 2
    assert list(_left(planned).values()).count("policy.no-room") == 2

    machine.enable()
    system.run("systemctl", "stop", "tools.service", "roots.service", "outside.service", "sessions.service")
    system.run("systemctl", "restart", "hugealign-hold.service")  # as at boot: nothing runs from the files yet
    for name in ("tool", "roots", "outside", "sessions"):
        assert machine.huge(name) == WINDOWS
    assert int(_field(system, "hugealign-hold.service", "Locked")) >= 4 * WINDOWS * WINDOW >> 10

    assert machine.parts() == ["/srv/tool"]
    assert "/srv/tool: in place, 3 of 3 windows huge" in system.hugealign("status").stdout
    machine.put("tool", version="VERSION2")
    system.run("systemctl", "restart", "hugealign-hold.service")
    assert machine.huge("tool") == 0  # another file may take more than was planned for: the next look says
    machine.enable("--renew")
    assert _wait(lambda: machine.huge("tool") == WINDOWS, pause=4)  # while it is looked at, it cannot become huge

    held = machine.system.root / "var/lib/hugealign/machine.json"
    kept = json.loads(held.read_text())
    (system.root / "etc/hugealign.toml").write_text("least = 1\nfixx = true\n")
    done = system.hugealign("enable", "--all", "--renew", "--for", "1")
    assert (done.returncode, "line 2" in done.stderr) == (2, True)
    now = json.loads(held.read_text())
    assert (now["held"], now["failure"]) == (kept["held"], "policy.unknown-key")
    (system.root / "etc/hugealign.toml").unlink()

    look = (HUGEALIGN, "enable", "--all", "--renew", "--for", "1")
    assert worded("machine.busy") in system.run("flock", "/etc/systemd/system", *look).stderr
    held.write_text("{}")
    assert worded("machine.state", file="/var/lib/hugealign/machine.json") in system.run(*look).stderr

    for one in kept["held"]:
        one["used"] -= 8 * 24 * 3600
    held.write_text(json.dumps({**kept, "failure": ""}))
    system.run("systemctl", "stop", "idle.service", "hugealign-hold.service")
    for name in _NAMES:
        os.utime(system.root / "srv" / name, (0, (system.root / "srv" / name).stat().st_mtime))
    assert sorted(machine.enable("--renew")["dropped"]) == [
        *("/srv/outside", "/srv/roots", "/srv/sessions", "/srv/tool")
    ]

    held.write_text("{}")  # what is damaged can be disabled
    assert not system.hugealign("disable", "--all").returncode
    assert _wait(lambda: machine.listed() == before), f"{before}\n{machine.listed()}"


def _keeps(machine: Machine) -> bool:
    system = machine.system
    system.run("systemctl", "stop", "idle.service")
    warmed = system.run(HUGEALIGN, "warm", "/srv/idle").returncode == 0
    system.run("systemctl", "start", "idle.service")
    return warmed


def _field(system: System, unit: str, name: str) -> str:
    shown = system.run("sh", "-c", f"cat /proc/{system.pid(unit)}/smaps").stdout.splitlines()
    return str(sum(int(line.split()[1]) for line in shown if line.startswith(f"{name}:")))


_IN_IMAGE = r"""
set -e
mount --make-rprivate /
mkdir -p "$1/opt/hugealign"
mount --bind "$2" "$1/opt/hugealign"
mount -t proc proc "$1/proc"
exec chroot "$1" "$3" enable --all
"""


@pytest.mark.timeout(600)
def test_switched_on_in_an_image_it_begins_with_the_first_boot(built: Programs) -> None:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    work = built.directory / "machine-image"
    work.mkdir()
    with filesystems.mounted("btrfs", work, size=4 << 30) as at:
        with booted(at):
            pass
        (at / "etc/hugealign.toml").write_text('max = "1%"\n')
        words = ("unshare", "--mount", "sh", "-c", _IN_IMAGE, "sh", str(at), str(ROOT), HUGEALIGN)
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        with booted(at) as system:
            units = ("hugealign-all.timer", "hugealign-all.path", "hugealign-hold.service")
            assert system.run("systemctl", "is-active", *units).stdout.split() == ["active"] * 3
            system.run("systemctl", "start", "hugealign-all.service")  # what the timer starts
            shown = system.run("systemctl", "show", "-p", "Result", "--value", "hugealign-all.service").stdout
            assert shown.strip() == "success"
            assert "last look: " in system.hugealign("status").stdout
            typed = [
                block.commands for block in blocks(ROOT / "README.md") if block.what == "tests/live/test_machine.py"
            ]
            assert (
                servers.done(system, "sh", "-ec", f"PATH=/opt/hugealign/bin:$PATH; {''.join(typed)}").count(" part")
                == 2
            )
            assert not system.hugealign("disable", "--all").returncode
