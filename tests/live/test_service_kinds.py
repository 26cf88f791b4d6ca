"""All kinds of services (tests/live/kinds.py), plain against enabled, in one system that boots.

Each act is done to all of them at once: what then runs has the same bytes, words, user and environment as the plain
service, from huge pages, and other processes see the same mounts.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import catalogue
from hugealign.system import unitnames
from tests.live import filesystems
from tests.live.booted import System, booted
from tests.live.kinds import KINDS, ROOT_FILES, SAMPLE, Kind
from tests.live.programs import Programs
from tests.support import worded

_FLAGS = ("-fuse-ld=bfd", "-Wl,-T,pad.ld", "-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code")
#: A server that touches all of its text; and a library with such text, and a program that needs it.
_SERVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
int touch(void) {
  int sum = 0;
  for (long at = 0; at < 5 << 20; at += 4096) sum += walk[at];
  return sum;
}
int main(int argc, char **argv) {
  const char *act = argc > 1 ? argv[1] : "", *name = getenv("NOTIFY_SOCKET");
  if (!strcmp(act, "attach")) {
    mkdir(argv[2], 0755);
    mount("kind", argv[2], "tmpfs", 0, "");
  }
  if (!strcmp(act, "notify") && name) {
    struct sockaddr_un to = {AF_UNIX};
    strncpy(to.sun_path, name, sizeof to.sun_path - 1);
    if (*name == '@') *to.sun_path = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    touch();
    sendto(fd, "READY=1", 7, 0, (void *)&to, offsetof(struct sockaddr_un, sun_path) + strlen(name));
  }
  if (!strcmp(act, "fork")) {
    pid_t child = fork();
    if (child) {
      FILE *file = fopen(argv[2], "w");
      fprintf(file, "%d\n", child);
      return fclose(file);
    }
  }
  touch();
  for (;;) pause();
}
"""
_LINKED = r"""
#include <unistd.h>
int touch(void);
int main(void) {
  touch();
  for (;;) pause();
}
"""
#: What runs in each unit, looked up inside the system: of the first process with the mapping.
_LOOK = r"""
import glob, hashlib, json, os, re, subprocess, sys
changing = (
    *("INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE", "GLIBC_TUNABLES", "LISTEN_PID"),
)
IDENTITY = ("Name", "Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
result = {"mounts": sorted(line.split()[4] for line in open("/proc/1/mountinfo") if "/run/hugealign" not in line)}
for unit, mapped in json.load(sys.stdin).items():
    shown = subprocess.run(["systemctl", "show", "-p", "ControlGroup", "--value", unit], capture_output=True, text=True)
    group, found = shown.stdout.strip(), {}
    for pid in open(f"/sys/fs/cgroup{group}/cgroup.procs").read().split() if group else ():
        huge, inside, range_ = 0, False, ""
        try:
            lines = open(f"/proc/{pid}/smaps").read().splitlines()
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                inside = "x" in words[1] and re.search(mapped + "$", line)
                range_ = words[0] if inside and not range_ else range_
            elif inside and words[0] in ("FilePmdMapped:", "ShmemPmdMapped:"):
                huge += int(words[1])
        if any("x" in line.split()[1] and line.endswith("(deleted)") for line in lines if "-" in line.split()[0]):
            result.setdefault("outdated", []).append(unit)
        if range_:
            start, end = (int(part, 16) for part in range_.split("-"))
            data = open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb").read()
            status = dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
            environ = open(f"/proc/{pid}/environ", errors="replace").read().split("\0")
            found = {
                "version": data[-8:].decode(),
                "huge": huge,
                "same": [
                    hashlib.sha256(data[:-8]).hexdigest(),
                    os.readlink(f"/proc/{pid}/exe"),
                    open(f"/proc/{pid}/cmdline").read(),
                    *(status[key] for key in IDENTITY),
                    os.readlink(f"/proc/{pid}/cwd"),
                    sorted(word for word in environ if not word.startswith(changing)),
                    sorted(link for link in map(os.readlink, glob.glob(f"/proc/{pid}/fd/*")) if ":" not in link),
                ],
            }
            break
    result[unit] = found
print(json.dumps(result))
"""
WINDOWS_KIB = 3 * 2048


class Machine:
    """The system with the services of *kinds*, in the state after the last act."""

    def __init__(self, system: System, built: Programs, kinds: tuple[Kind, ...]) -> None:
        self.system, self.built, self.kinds = system, built, kinds
        for kind in kinds:
            self._install(kind)
        assert system.run("systemctl", "daemon-reload").returncode == 0

    def at(self, kind: Kind, path: str = "{d}") -> str:
        return path.format(d=f"/srv/kinds/{kind.name}", n=kind.name)

    def place(self, path: str) -> Path:
        return Path(f"{self.system.root}{path}")

    def put(self, kind: Kind, path: str, version: str, what: str = "server") -> None:
        """Install a version of a program as a package manager does, by renaming."""
        place = self.place(self.at(kind, path))
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name("new")
        shutil.copy(self.built.directory / what, new)
        with new.open("ab") as file:
            file.write(version.encode())
        new.rename(place)

    def link(self, kind: Kind, link: tuple[str, str]) -> None:
        target, path = (self.at(kind, part) for part in link)
        place = self.place(path)
        new = place.with_name("new-link")
        new.symlink_to(target)
        new.rename(place)

    def _install(self, kind: Kind) -> None:
        for path, version in (("server", "VERSION1"), ("v1/server", "VERSION1"), ("v2/server", "VERSION2")):
            self.put(kind, f"{{d}}/{path}", version)
            if kind.rooted:
                self.put(kind, f"{{d}}/root/{path}", version)
        top = "{d}/root" if kind.rooted else "{d}"
        if kind.rooted:
            for name in ROOT_FILES:
                target = self.place(self.at(kind, f"{top}/{name}"))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(f"{self.system.root}/{name}", target)
            for name in ("proc", "sys", "dev", "run", "etc"):
                self.place(self.at(kind, f"{top}/{name}")).mkdir(exist_ok=True)
            self.put(kind, f"{top}/bin/server", "VERSION1")
        if kind.library:
            self.put(kind, f"{top}/{'bin/' if kind.rooted else ''}linked", "LINKED 1", "linked")
            self.put(kind, f"{top}/own/libown.so.1.1", "VERSION1", "libown.so.1.1")
            self.put(kind, f"{top}/own/libown.so.1.2", "VERSION2", "libown.so.1.1")
        self.put(kind, kind.program, "VERSION1", "libown.so.1.1" if kind.library else "server")
        for link in kind.links:
            self.link(kind, link)
        for path, text in kind.extra:
            place = self.place(self.at(kind, path if path.startswith("{") else f"/etc/systemd/system/{path}"))
            place.write_text(self.at(kind, text))
            place.chmod(0o755)
        unit = self.at(kind, kind.unit)
        self.place(f"/etc/systemd/system/{kind.file}").write_text(
            unit if unit.startswith("[") else f"[Service]\n{unit}"
        )

    def restart(self, *kinds: Kind, alone: bool = False) -> None:
        """Restart *kinds*, or all; *alone*: without our helper."""
        units = [kind.service for kind in kinds or self.kinds if not kind.stopped]
        self.system.run("systemctl", "restart", *(["--job-mode=ignore-dependencies"] if alone else []), *units)

    def look(self) -> dict[str, Any]:
        """Return what runs now; the mounts are those that all processes see."""
        asked = json.dumps({kind.service: kind.mapped for kind in self.kinds})
        done = self.system.run("sh", "-c", 'printf %s "$1" | python3 -c "$0"', _LOOK, asked)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def outdated(self) -> set[str]:
        """Return the units with a process that shows a deleted file, as soon as these are all that run."""
        all_units = {kind.service for kind in self.kinds if not kind.stopped}
        end = time.monotonic() + 30
        while (found := set(self.look().get("outdated", ()))) != all_units and time.monotonic() < end:
            time.sleep(0.5)
        return found


def _build(built: Programs) -> None:
    sources = {"server.c": _SERVER, "linked.c": _LINKED}
    for name, text in sources.items():
        (built.directory / name).write_text("#include <stddef.h>\n#include <sys/stat.h>\n" + text)
    for words in (
        ("gcc", "-O1", "-o", "server", "server.c", "text.o", "pad.o", *_FLAGS),
        ("gcc", "-O1", "-fPIC", "-Dmain=unused", "-c", "server.c", "-o", "own.o"),
        ("gcc", "-shared", "-o", "libown.so.1.1", "own.o", "text.o", "pad.o", "-Wl,-soname,libown.so.1", *_FLAGS),
        ("gcc", "-O1", "-fuse-ld=bfd", "-o", "linked", "linked.c", "libown.so.1.1"),
    ):
        subprocess.run(words, cwd=built.directory, check=True)


def _done(machine: Machine) -> dict[str, Any]:
    """Do all acts, and return what was seen after each; the results of `enable` are below ``enabled``."""
    seen: dict[str, Any] = {}
    system = machine.system
    machine.restart()
    seen["plain"] = machine.look()
    running = [kind.service for kind in machine.kinds if not kind.stopped]
    seen["ps"] = system.hugealign("ps", "--json", *running).stdout
    results = {}
    for kind in machine.kinds:
        done = system.hugealign("enable", *(machine.at(kind, word) for word in kind.words), kind.service)
        results[kind.service] = (done.returncode, done.stderr)
    seen["enabled"] = results
    machine.restart()
    seen["start"] = machine.look()
    for kind in machine.kinds:
        for _ in range(6 if kind.loops else 0):
            system.run("systemctl", "kill", "--signal=KILL", kind.service)
            system.run("systemctl", "restart", kind.service)
    for act, version in (("upgrade", "VERSION2"), ("rollback", "VERSION1")):
        for kind in machine.kinds:
            machine.put(kind, kind.program, version, "libown.so.1.1" if kind.library else "server")
        seen[f"before {act}"] = machine.outdated()
        machine.restart()
        seen[act] = machine.look()
    turning = [kind for kind in machine.kinds if kind.turned]
    for kind in turning:
        if kind.turned:
            machine.link(kind, kind.turned)
    machine.restart(*turning, alone=True)
    seen["alone"] = machine.look()
    machine.restart(*turning)
    seen["turned"] = machine.look()
    for kind in machine.kinds:
        if not kind.refused:
            assert system.hugealign("disable", kind.service).returncode == 0
    left = system.run(
        "sh", "-c", "ls /etc/systemd/system /run/systemd/system /run/hugealign; ls -d /*/systemd/system/*.d"
    )
    seen["left"] = [
        line for line in left.stdout.splitlines() if "hugealign-" in line or ("kind" in line and ".d" in line)
    ]
    machine.restart()
    seen["disabled"] = machine.look()
    return seen


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.matrix)])
def acted(request: pytest.FixtureRequest, built: Programs) -> Iterator[tuple[tuple[Kind, ...], dict[str, Any]]]:
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    kinds = tuple(kind for kind in KINDS if request.param == "all" or kind.name in SAMPLE)
    _build(built)
    work = built.directory / f"kinds-{request.param}"
    work.mkdir()
    with filesystems.mounted("btrfs", work, size=4 << 30) as at, booted(at) as system:
        yield kinds, _done(Machine(system, built, kinds))


@pytest.mark.timeout(1800)
def test_each_kind_is_as_the_plain_one(acted: tuple[tuple[Kind, ...], dict[str, Any]]) -> None:
    kinds, seen = acted
    wrong = [line for kind in kinds for line in _wrong(kind, seen)]
    mounts = {act: seen[act]["mounts"] for act in ("plain", "start", "upgrade", "rollback", "turned", "disabled")}
    wrong += [f"mounts after {act}" for act, value in mounts.items() if value != mounts["plain"]]
    wrong += [f"left: {line}" for line in seen["left"]]
    assert not wrong, "\n".join(wrong)


def test_what_mounts_for_others_is_refused(acted: tuple[tuple[Kind, ...], dict[str, Any]]) -> None:
    """And so they see it on, and what they write there goes where it did."""
    _, seen = acted
    status, said = seen["enabled"]["kind-mounting.service"]
    assert (status, worded("service.mounts", mount="/srv/kinds/mounting/mnt") in said) == (1, True)
    for act in ("plain", "start", "upgrade", "disabled"):
        assert "/srv/kinds/mounting/mnt" in seen[act]["mounts"]


def _wrong(kind: Kind, seen: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a row: an act, and what differs."""
    status, said = seen["enabled"][kind.service]
    first = catalogue.row(kind.refused).sentence.partition("{")[0] if kind.refused else ""
    if status != bool(kind.refused) or first not in said:
        yield f"{kind.name}: enable: {status}: {said}"
    if kind.stopped:
        return
    words = rf"hugealign enable --now .*{re.escape(shlex.quote(unitnames.short(kind.service)))}( |$)"
    recommended = re.search(words, seen["ps"].replace("\\\\", "\\"), re.MULTILINE) is not None
    if recommended == bool(kind.refused):
        yield f"{kind.name}: ps {'recommends' if recommended else 'does not recommend'} to enable it"
    plain = seen["plain"][kind.service]
    if not plain or plain["huge"]:
        yield f"{kind.name}: the plain service: {plain}"
        return
    second = "VERSION2" if kind.turned else "VERSION1"
    for act in ("upgrade", "rollback"):
        if kind.service not in seen[f"before {act}"]:
            yield f"{kind.name}: before {act}: no tool can see that it is outdated"
    if kind.service in seen["start"].get("outdated", ()):
        yield f"{kind.name}: it seems to be outdated after its start"
    if kind.turned and not kind.needs_helper and seen["alone"][kind.service].get("version") != "VERSION2":
        yield f"{kind.name}: without our helper: {seen['alone'][kind.service]}"
    versions = {
        "start": "VERSION1",
        "upgrade": "VERSION2",
        "rollback": "VERSION1",
        "turned": second,
        "disabled": second,
    }
    for act, version in versions.items():
        now = seen[act][kind.service]
        huge = 0 if kind.refused or act == "disabled" else WINDOWS_KIB
        if (now.get("version"), now.get("huge")) != (version, huge):
            yield f"{kind.name}: {act}: {now.get('version')} with {now.get('huge')} KiB huge, not {version} with {huge}"
        changed = [pair for pair in zip(now.get("same", ()), plain["same"], strict=False) if pair[0] != pair[1]]
        moved = [pair for pair in changed if kind.turned and act in ("turned", "disabled") and "v2" in str(pair[0])]
        if changed != moved:
            yield f"{kind.name}: {act}: {changed}"
