"""A fresh Debian: unpacked by mmdebstrap, and entered as a root of its own, with its namespaces.

Packages, their scripts and servers are real in it; kernel and file system are this machine's, and there is no init.
Needs root, and a network for what is not below build/prebuilt yet.
"""

import shutil
import socket
import subprocess
from pathlib import Path

from tests.prebuilt.__main__ import BUILD
from tests.support import MissingError

SECONDS = 1800  # what a download may take

#: Enters the directory $1, and runs /root/script there by the shell.  Mounts and processes end with it.
_ENTER = """
mount --bind "$1" "$1" || exit 1  # a root that the mount table knows, as findmnt asks it
mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount -t tmpfs -o mode=755 tmpfs "$1/dev" || exit 1
mkdir "$1/dev/pts" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" || exit 1
mkdir -m 1777 "$1/dev/shm" && ln -s /proc/self/fd "$1/dev/fd" && ln -s pts/ptmx "$1/dev/ptmx" || exit 1
ln -s fd/0 "$1/dev/stdin" && ln -s fd/1 "$1/dev/stdout" && ln -s fd/2 "$1/dev/stderr" || exit 1
for node in null zero full random urandom tty; do
    : >"$1/dev/$node" && mount --bind "/dev/$node" "$1/dev/$node" || exit 1
done
# No chroot: in a mount namespace below one the kernel names files by paths from above it.
cd "$1" && pivot_root . . && umount -l . && exec /usr/bin/env -i \\
    PATH="$2" HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$3" -e /root/script
"""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UnavailableError(MissingError):
    """A release cannot be downloaded, and why."""


def unpacked(release: str, directory: Path) -> None:
    """Unpack a *release*, its essential packages and apt, into *directory*.  Raises UnavailableError."""
    archive = archived(release)
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", directory], check=True)
    (directory / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
    shutil.copy("/etc/resolv.conf", directory / "etc/resolv.conf")
    (directory / "etc/hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")  # sudo looks itself up


def archived(release: str) -> Path:
    """Return the archive of a fresh *release*, which is made once.  Raises UnavailableError."""
    archive = BUILD / f"{release}.tar"
    if not archive.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        made = archive.with_name("new.tar")
        words = ["mmdebstrap", "--variant=minbase", release, str(made)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
        except FileNotFoundError:
            raise UnavailableError(f"{release}: mmdebstrap is not installed; `make test-fresh` installs it") from None
        if done.returncode:
            raise UnavailableError(f"{release}: {done.stderr.strip().rpartition(chr(10))[2]}")
        made.rename(archive)
    return archive


def entering(directory: Path, script: str, path: str = PATH, interpreter: str = "sh") -> list[str]:
    """Return the command that runs *script* in the Debian at *directory*; it ends at the first command that fails."""
    (directory / "root/script").write_text(script, encoding="utf-8")
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh"]
    return [*words, str(directory), path, interpreter]
