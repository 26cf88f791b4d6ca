"""`enable --all` in a systemd that boots: what gains and only that, where files can be huge and where they cannot."""

import json
import os
import re
import shutil
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.manual import blocks
from tests.build.projects import write
from tests.live import filesystems, servers
from tests.live.booted import HUGEALIGN, System, booted
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs
from tests.support import need, run, worded

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
    "busy.service": "[Service]\nExecStart=/usr/bin/python3 -c 'while True: pass'\n",
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


def _machine(built: Programs, file_system: str, name: str, packages: tuple[str, ...] = ()) -> Iterator[Machine]:
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
    with filesystems.mounted(file_system, work, size=4 << 30) as at, booted(at, packages) as system:
        yield Machine(system, built.directory)


@pytest.fixture
def copies(built: Programs) -> Iterator[Machine]:
    yield from _machine(built, "btrfs", "machine-copies")


@pytest.fixture
def in_place(built: Programs) -> Iterator[Machine]:
    yield from _machine(built, "ext4", "machine-in-place")


@pytest.fixture
def fleet(built: Programs) -> Iterator[Machine]:
    packages = ("python3", "rpm", "ansible-core", "cloud-init")
    yield from _machine(built, "btrfs", "machine-fleet", packages)


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
    assert left["busy.service"] == "policy.little-saved"
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


@pytest.mark.matrix
@pytest.mark.timeout(1200)
def test_nothing_is_half_done(copies: Machine) -> None:
    machine, system = copies, copies.system
    before = machine.listed()
    _two_at_once(machine)
    _with_a_disk_that_nobody_writes(machine)
    _full_memory(machine)
    _rolled_back(machine)
    _another_clock(machine)

    enabled = system.hugealign("enable", "--file=/srv/tool", "tools.service")  # by hand: it stays so
    assert not enabled.returncode, enabled.stderr
    assert not system.hugealign("disable", "--all").returncode
    assert worded("change.service") in system.hugealign("status").stdout
    assert not system.hugealign("disable", "tools.service").returncode
    system.run("systemctl", "restart", "tools.service")
    assert _wait(lambda: machine.listed() == before), f"{before}\n{machine.listed()}"

    begun = 0
    for tenths in range(10, 60, 4):
        killed = system.run("timeout", "-s", "KILL", str(tenths / 10), HUGEALIGN, "enable", "--all", "--for", "1")
        undone = system.hugealign("disable", "--all")
        assert (undone.returncode == 0) == (worded("machine.not-enabled") not in undone.stderr)
        begun += killed.returncode == -9 and undone.returncode == 0
        assert _wait(lambda: machine.listed() == before), f"{tenths}:\n{before}\n{machine.listed()}"
    assert begun  # one at least was killed in the middle


def _two_at_once(machine: Machine) -> None:
    look = f"{HUGEALIGN} enable --all --for 2 --json"
    done = machine.system.run("sh", "-c", f"{look} & {look}; echo $?; wait $!; echo $?")
    statuses = [line for line in done.stdout.splitlines() if line.isdecimal()]
    assert (sorted(statuses), done.stdout.count('"machine.busy"')) == (["0", "3"], 1), done.stdout


def _with_a_disk_that_nobody_writes(machine: Machine) -> None:
    """Neither a look nor `disable --all` can write to /etc: what is in force stays, and is known."""
    system, policy = machine.system, machine.system.root / "etc/hugealign.toml"
    policy.write_text('exclude = ["tools.service"]\n')
    system.run("sh", "-c", "mount --bind /etc /etc; mount -o remount,bind,ro /etc")
    before = machine.listed()
    done = system.hugealign("enable", "--all", "--renew", "--for", "2", "--json")
    document = json.loads(done.stdout)
    assert ([one["name"] for one in document["held"]], document["failed"][0]["code"]) == (
        ["tools.service"],
        "service.unit-file",
    )
    assert '"service.unit-file"' in system.hugealign("disable", "--all", "--json").stdout
    assert machine.listed() == before
    assert system.run("systemctl", "is-active", "hugealign-all.timer").stdout == "active\n"
    system.run("umount", "/etc")
    policy.unlink()


def _full_memory(machine: Machine) -> None:
    """Without room for a copy, a service starts as before; with room, its next start has one."""
    system = machine.system
    assert _restarted(machine) == WINDOWS
    used = "$(df -k --output=used /run/hugealign | tail -n 1)"
    full = f"touch /run/hugealign/kept; mount -o remount,size=$(({used} + 1024))k /run/hugealign"
    system.run("sh", "-c", full)  # an empty one would be mounted anew
    machine.put("tool", version="VERSION2" * (4 << 20))  # larger than the copy whose place it could take
    assert _restarted(machine) == 0
    journal = system.run("journalctl", "--unit=hugealign-for-tools").stdout
    assert worded("copy.failed", error="ENOSPC") in journal, journal
    system.run("sh", "-c", "rm /run/hugealign/kept; mount -o remount,size=50% /run/hugealign")
    assert _restarted(machine) == WINDOWS


def _rolled_back(machine: Machine) -> None:
    machine.put("tool", version="VERSION1")
    assert _restarted(machine) == WINDOWS
    assert [one["name"] for one in machine.enable("--renew")["held"]] == ["tools.service"]


def _another_clock(machine: Machine) -> None:
    """The clock jumps forty days ahead and back: what is in use stays."""
    jump = "import runpy, sys, time; now = time.time; time.time = lambda: now() + 40 * 86400; "
    words = f"sys.path[0] = '/opt/hugealign'; sys.argv[1:] = {['enable', '--all', '--renew', '--for', '2']}; "
    script = f"{jump}{words}runpy.run_module('hugealign', run_name='__main__')"
    done = machine.system.run("python3", "-c", script)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "tools.service: copies, 3 windows" in machine.system.hugealign("status").stdout
    assert [one["name"] for one in machine.enable("--renew")["held"]] == ["tools.service"]


def _restarted(machine: Machine) -> int:
    """Return how many windows of the tool are huge for its service, which starts again."""
    assert not machine.system.run("systemctl", "restart", "tools.service").returncode
    return machine.huge("tool", "nsenter", "--target", machine.system.pid("tools.service"), "--mount")


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


_PACKAGE = {
    "control": """\
Source: fleet
Maintainer: Nobody <nobody@fleet.example>
Build-Depends: debhelper-compat (= 13)

Package: fleet
Architecture: all
Depends: hugealign, ${misc:Depends}
Description: the fleet's own
 It has the policy.
""",
    "changelog": """\
fleet (1) unstable; urgency=low

  * First.

 -- Nobody <nobody@fleet.example>  Mon, 23 Nov 2026 10:00:00 +0000
""",
    "rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n",
    "install": "hugealign.toml etc\n",
}
_SPEC = """\
Name: fleet
Version: 1
Release: 1
Summary: The fleet's own
License: none
BuildArch: noarch
{scripts}
%description
It has the policy.
%files
"""
#: Only what the guide names: the other modules are for machines of their own.
_CLOUD = """\
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [package-update-upgrade-install, scripts-user]
"""
_STAGES = ("init --local", "init", "modules --mode config", "modules --mode final")


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_what_a_fleet_types(fleet: Machine, tmp_path: Path) -> None:
    """The page's cloud-init, Ansible and packages, from a repository that has the package; then it is removed."""
    need("dh", "rpmbuild", "dpkg-scanpackages")
    system, root = fleet.system, fleet.system.root
    guide = (ROOT / "docs/guides/machine.md").read_text().partition("## A fleet")[2]
    _, tasks, cloud, postinst, prerm, spec = re.findall(r"(?ms)^```\w+\n(.*?)^```$", guide)[:6]
    run(ROOT / "packaging/deb.sh", tmp_path / "deb", "--build=binary", check=True)
    (root / "srv/repository").mkdir()
    shutil.copy(next((tmp_path / "deb").glob("hugealign_*.deb")), root / "srv/repository")
    listed = run("dpkg-scanpackages", ".", cwd=root / "srv/repository", check=True).stdout
    (root / "srv/repository/Packages").write_text(listed)
    shutil.rmtree(root / "etc/apt/sources.list.d")
    (root / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/repository ./\n")
    before = fleet.listed()

    seed = root / "var/lib/cloud/seed/nocloud"
    seed.mkdir(parents=True)
    (seed / "user-data").write_text(f"#cloud-config\n{cloud}")
    (seed / "meta-data").write_text("instance-id: one\n")
    (root / "etc/cloud/cloud.cfg.d/99_test.cfg").write_text(_CLOUD)
    for stage in _STAGES:
        done = system.run("cloud-init", *stage.split(), seconds=300)
        assert not done.returncode, done.stdout + done.stderr
    assert (root / "etc/hugealign.toml").read_text() == 'max = "2%"\n'
    _is_on(fleet)

    (root / "srv/hugealign.toml").write_text('max = "3%"\n')
    (root / "srv/play.yml").write_text(f"- hosts: localhost\n  tasks:\n{textwrap.indent(tasks, '    ')}")
    play = ("env", "LC_ALL=C.UTF-8", "ansible-playbook", "-c", "local", "-i", "localhost,", "/srv/play.yml")
    for changed in (2, 0):
        done = system.run(*play, seconds=300)
        assert f"changed={changed} " in done.stdout, done.stdout + done.stderr
    _is_on(fleet)

    source = tmp_path / "fleet"
    write(source / "debian", {**_PACKAGE, "postinst": postinst, "prerm": prerm})
    (source / "debian/rules").chmod(0o755)
    (source / "hugealign.toml").write_text('max = "4%"\n')
    run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=source, check=True)
    (tmp_path / "fleet.spec").write_text(_SPEC.format(scripts=spec))
    run("rpmbuild", "-bb", "--define", f"_topdir {tmp_path}/rpm", tmp_path / "fleet.spec", check=True)
    shutil.copy(tmp_path / "fleet_1_all.deb", root / "srv/fleet.deb")
    shutil.copy(next((tmp_path / "rpm").glob("RPMS/*/*.rpm")), root / "srv/fleet.rpm")
    (root / "etc/hugealign.toml").unlink()
    for install, remove in (
        (("dpkg", "-i", "/srv/fleet.deb"), ("dpkg", "-P", "fleet")),
        (("rpm", "-i", "--nodeps", "--force-debian", "/srv/fleet.rpm"), ("rpm", "-e", "--nodeps", "fleet")),
    ):
        _done(system, *install)
        _is_on(fleet)
        _done(system, *remove)

    _done(system, "hugealign", "enable", "--all")
    assert _restarted(fleet) == WINDOWS
    _done(system, "dpkg", "-r", "hugealign")
    assert _restarted(fleet) == 0
    _done(system, "dpkg", "-P", "hugealign")
    left = set(fleet.listed().splitlines()) - set(before.splitlines())
    assert not [line for line in left if "hugealign" in line], left


def _is_on(machine: Machine) -> None:
    """Hold that the machine is on, its service with it, and switch it off."""
    shown = machine.system.run("hugealign", "status").stdout
    assert "tools.service: copies, 3 windows" in shown, shown
    assert machine.system.run("systemctl", "is-active", "hugealign-all.timer").stdout == "active\n"
    _done(machine.system, "hugealign", "disable", "--all")


def _done(system: System, *words: str) -> None:
    """Run a command that must succeed, and may take minutes."""
    done = system.run(*words, seconds=300)
    assert not done.returncode, f"{words}: {done.stdout}{done.stderr}"
