"""A Debian to build in: unpacked once, and covered by a layer for each package, which takes all that is written."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import ROOT

PLACE = ROOT / "build" / "archive"
_SUITE = "bookworm"
_INCLUDE = "debhelper,fakeroot,dpkg-dev,iproute2,python3"

#: Mounts the layer over Debian below $1, and $2 as its /result, and runs /result/build.sh there.  All that is mounted,
#: and all processes, end with it: it has namespaces of its own.
_ENTER = """
mount -t overlay -o "lowerdir=$0,upperdir=$1/upper,workdir=$1/work" overlay "$1/root" || exit 125
mount --bind "$1/result" "$1/root/result" && mount --bind "$2" "$1/root/var/cache/apt/archives" || exit 125
mount -t proc proc "$1/root/proc" && mount -t tmpfs -o mode=755 tmpfs "$1/root/dev" || exit 125
mkdir "$1/root/dev/shm" "$1/root/dev/pts" && mount -t tmpfs -o mode=1777 tmpfs "$1/root/dev/shm" || exit 125
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/root/dev/pts" && ln -s pts/ptmx "$1/root/dev/ptmx" || exit 125
ln -s /proc/self/fd "$1/root/dev/fd"; ln -s fd/0 "$1/root/dev/stdin"; ln -s fd/1 "$1/root/dev/stdout"
ln -s fd/2 "$1/root/dev/stderr"
for node in null zero full random urandom tty; do
    : >"$1/root/dev/$node" && mount --bind "/dev/$node" "$1/root/dev/$node" || exit 125
done
exec chroot "$1/root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    /result/build.sh "$3"
"""


class UnavailableError(Exception):
    """There is no Debian to build in, or no package could be made ready, and why."""


class BusyError(Exception):
    """Another process builds this package."""


def debian() -> Path:
    """Return the directory of the unpacked Debian, which is made where there is none.  Raises UnavailableError."""
    tree = PLACE / _SUITE
    if tree.exists():
        return tree
    PLACE.mkdir(parents=True, exist_ok=True)
    new = PLACE / "new"
    shutil.rmtree(new, ignore_errors=True)
    words = ["mmdebstrap", "--variant=buildd", f"--include={_INCLUDE}", "--aptopt=Acquire::Languages none", _SUITE]
    lines = [f"{kind} http://deb.debian.org/debian {_SUITE} main" for kind in ("deb", "deb-src")]
    done = subprocess.run([*words, new, *lines], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"mmdebstrap: {done.stderr.strip().rpartition(chr(10))[2]}")
    (new / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n", encoding="ascii")  # no service starts
    (new / "usr/sbin/policy-rc.d").chmod(0o755)
    (new / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n", encoding="ascii")  # it is thrown away
    (new / "var/lib/man-db/auto-update").unlink(missing_ok=True)  # no test looks for manual pages there
    for name in ("result", "build"):
        (new / name).mkdir()
    new.rename(tree)
    return tree


@contextmanager
def building(package: str, hugealign: Path, seconds: int) -> Iterator[tuple[int, Path]]:
    """Build *package* twice by build.sh, with hugealign's package at *hugealign*; yield the status and the results.

    What was built is removed afterwards.  Raises BusyError, UnavailableError.
    """
    tree, layer, cache = debian(), PLACE / "layers" / package, PLACE / "packages"
    layer.mkdir(parents=True, exist_ok=True)
    (cache / "partial").mkdir(parents=True, exist_ok=True)
    held = os.open(layer, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(package) from None
        for name in ("upper", "work", "root", "result"):
            shutil.rmtree(layer / name, ignore_errors=True)
            (layer / name).mkdir()
        shutil.copy(Path(__file__).with_name("build.sh"), layer / "result")
        shutil.copy(hugealign, layer / "result" / "hugealign.deb")
        (layer / "upper/etc").mkdir()
        shutil.copy("/etc/resolv.conf", layer / "upper/etc/resolv.conf")
        (layer / "upper/etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="ascii")
        words = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", _ENTER]
        arguments = [str(word) for word in (tree, layer, cache, package)]
        try:
            done = subprocess.run([*words, *arguments], capture_output=True, text=True, check=False, timeout=seconds)
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = 124
        if status == 125:
            raise UnavailableError(done.stderr.strip())
        yield status, layer / "result"
    finally:
        shutil.rmtree(layer, ignore_errors=True)
        os.close(held)
