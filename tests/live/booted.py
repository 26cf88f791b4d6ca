"""A systemd that boots: Debian's, in namespaces of its own, on a file system that keeps no huge folios.

No virtual machine: it has the kernel of the tests.  What it mounts, executes and ends is its own; of this machine's
settings and devices it may change none.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.live import filesystems
from tests.live.programs import ROOT
from tests.support import MissingError

#: Makes what systemd wants to find, and becomes it.
_BOOT = r"""
set -e
cd "$1"
mount --make-rprivate /
mount --bind . .
cd "$1"
mkdir -p opt/hugealign old
mount --bind "$2" opt/hugealign
mount -o remount,bind,ro opt/hugealign
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs sysfs sys
mount -o remount,bind,ro sys
mount -t tmpfs -o mode=755,nosuid tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
ln -s /proc/self/fd dev/fd
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t cgroup2 cgroup2 sys/fs/cgroup
pivot_root . old
umount -l old
exec env -i container=hugealign PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=no
"""
#: Units that a test has no use for, and that would not end where there is no hardware.
_MASKED = (
    "systemd-logind.service",
    "systemd-sysctl.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
)
_SECONDS = 60
HUGEALIGN = "/opt/hugealign/bin/hugealign"


class System:
    """The system; *root* is its directory, as seen from here."""

    def __init__(self, root: Path, pid: int) -> None:
        self.root = root
        self._pid = pid

    def run(self, *words: str, seconds: float = _SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a command in it, for so many *seconds* at most."""
        enter = ("nsenter", "--target", str(self._pid), "--all", "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
        return subprocess.run([*enter, *words], check=False, capture_output=True, text=True, timeout=seconds)

    def hugealign(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run our command in it."""
        done = self.run(HUGEALIGN, *words)
        assert "Traceback" not in done.stderr
        return done

    def pid(self, unit: str) -> str:
        """Return the PID of the main process of *unit*, in its own numbers."""
        return self.run("systemctl", "show", "-p", "MainPID", "--value", unit).stdout.strip()

    def write_unit(self, name: str, text: str) -> None:
        """Add a unit."""
        (self.root / "etc/systemd/system" / name).write_text(text, encoding="utf-8")
        assert self.run("systemctl", "daemon-reload").returncode == 0


@contextlib.contextmanager
def booted(directory: Path, packages: tuple[str, ...] = (), suite: str = "bookworm") -> Iterator[System]:
    """Unpack the *suite* of Debian with *packages* into *directory*, if it is not there from last time, and boot it."""
    if not (directory / "etc").exists():
        subprocess.run(["tar", "-xf", debian(packages, suite), "-C", directory], check=True)
        for name in _MASKED:
            (directory / "etc/systemd/system" / name).symlink_to("/dev/null")
    group = _cgroups() / f"hugealign-{os.getpid()}"
    group.mkdir(exist_ok=True)
    enter = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"'
    words = ["sh", "-c", enter, "sh", str(group)]
    words += ["unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child"]
    words += ["sh", "-c", _BOOT, "sh", str(directory), str(ROOT)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            yield System(directory, _up(child))
        finally:
            child.kill()
            child.wait()
            for _ in range(50):
                time.sleep(0.1)
                for inner, _, _ in os.walk(group, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(inner)
                if not group.exists():
                    break


def _cgroups() -> Path:
    """Return where control groups of version 2 are mounted."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        result = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    if not result:
        raise MissingError("no control groups of version 2")
    return Path(result[0])


def _up(child: "subprocess.Popen[bytes]") -> int:
    """Return the PID of its first process once it has booted."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and child.poll() is None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            listed = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text(encoding="ascii")
            pid = int(listed.split()[0])
            words = ["nsenter", "--target", str(pid), "--all", "/bin/systemctl", "is-system-running", "--wait"]
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_SECONDS)
            if done.stdout.strip() in ("running", "degraded"):
                return pid
        time.sleep(0.2)
    child.kill()
    raise MissingError("systemd does not boot in namespaces here")


@contextlib.contextmanager
def booted_below(directory: Path) -> Iterator[System]:
    """Boot as `booted` does, on a btrfs in a file in the new *directory*; skip without root."""
    if os.geteuid():
        raise MissingError("root is needed to boot a system")
    directory.mkdir()
    with filesystems.mounted("btrfs", directory, size=2 << 30) as at, booted(at) as system:
        yield system


def debian(packages: tuple[str, ...], suite: str = "bookworm") -> Path:
    """Return an archive of a Debian with systemd, Python and *packages*; made with mmdebstrap, and kept."""
    names = ["systemd", "systemd-sysv", "dbus", "python3-minimal", "libpython3-stdlib", *packages]
    place = ROOT / "build" / "booted"
    tar = place / f"{'-'.join(['debian', *([] if suite == 'bookworm' else [suite]), *packages])}.tar"
    if not tar.exists():
        place.mkdir(parents=True, exist_ok=True)
        half = tar.with_suffix(f".{os.getpid()}.tar")
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(names)}", suite, str(half)]
        try:
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=900)
        except FileNotFoundError:
            raise MissingError("mmdebstrap is not installed") from None
        if done.returncode:
            raise MissingError(f"mmdebstrap: {done.stderr.strip()[-200:]}")
        half.rename(tar)
    return tar
