"""The README's way from ``apt install`` to huge text, in a Debian 12 with nothing else in it; and the Dockerfile.

Debian is unpacked by mmdebstrap below build/prebuilt and entered by chroot, with namespaces of its own: packages, their
scripts and the server are real; kernel and file system are this machine's.  There is no init in it, so the word
``systemctl`` is a stand-in that calls service(8).  The image is built by buildah.  A download of 200 MB each; as root.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prebuilt.__main__ import BUILD
from tests.support import HUGEALIGN, ROOT, run

SECONDS = 1800  # what a download may take
BASE = "localhost/debian:12-slim"

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(3 * SECONDS),
    pytest.mark.skipif(os.geteuid() != 0, reason="root is needed, for chroot"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed"),
]

ENTER = """
mount -t proc proc "$1/proc" && mount -t tmpfs -o mode=755 tmpfs "$1/dev" || exit 1
for node in null zero random urandom; do : >"$1/dev/$node" && mount --bind "/dev/$node" "$1/dev/$node"; done
exec chroot "$1" /usr/bin/env -i PATH=/opt/hugealign/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 sh -e /root/script
"""


def do(*words: object, seconds: int = SECONDS) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=seconds, errors="replace"
    )
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def debian() -> Path:
    """An archive of Debian 12 with its essential packages and apt, made once."""
    archive = BUILD / "debian-12.tar"
    if not archive.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        made = archive.with_name("new.tar")
        words = ["mmdebstrap", "--variant=minbase", "bookworm", str(made)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode:
            pytest.skip(f"Debian 12 cannot be downloaded: {done.stderr.strip().rpartition(chr(10))[2]}")
        made.rename(archive)
    return archive


@pytest.fixture
def work() -> Iterator[Path]:
    """A directory on the disk, which the one for temporary files may not be."""
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="debian-") as directory:
        yield Path(directory)


def checkout(place: Path) -> None:
    """Put what of the checkout runs at *place*."""
    for name in ("bin", "hugealign"):
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


def section(name: str) -> str:
    """Return the commands of a section of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"### {name}\n")[2].partition("\n### ")[0]
    return text.partition("```sh\n")[2].partition("```")[0]


def test_the_readme_from_apt_install_to_huge_text(debian: Path, work: Path) -> None:
    commands = section("2. A finished binary")
    assert commands.startswith("apt install mariadb-server\n")
    do("tar", "-xf", debian, "-C", work)
    checkout(work / "opt" / "hugealign")
    (work / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
    shutil.copy("/etc/resolv.conf", work / "etc/resolv.conf")
    (work / "usr/local/bin/systemctl").write_text('#!/bin/sh\nexec service "$2" "$1"\n')
    (work / "usr/local/bin/systemctl").chmod(0o755)
    before = "apt-get -q update\napt-get -q install --no-install-recommends python3\n"
    after = (
        "mariadb -N -e 'select concat(\"answer \", 6 * 7)'\ndpkg -V mariadb-server-core || true\nservice mariadb stop\n"
    )
    (work / "root/script").write_text(before + commands + after)
    said = do("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", work)
    fixed = re.search(r"^/usr/sbin/mariadbd: 0 -> (\d+) windows of 2\.0 MiB", said, re.MULTILINE)
    assert fixed, said[-3000:]
    windows = fixed[1]
    assert int(windows) >= 4
    assert f"\n/usr/sbin/mariadbd: {windows} of {windows} windows huge (" in said
    assert re.search(rf"^mariadbd\[\d+\]: all {windows} windows are huge$", said, re.MULTILINE)
    assert "\nanswer 42\n" in said
    assert re.search(r"^\?\?5\?+ +/usr/sbin/mariadbd$", said, re.MULTILINE)


@pytest.mark.skipif(not shutil.which("buildah"), reason="buildah is not installed")
def test_the_dockerfile(debian: Path, work: Path) -> None:
    """Built from its text, with the unpacked Debian in the place of the image it names; then run, warm."""
    (work / "context").mkdir()
    checkout(work / "context" / "hugealign")
    shutil.copy(ROOT / "examples" / "fix" / "Dockerfile", work / "context")
    buildah = ("buildah", "--root", work / "storage", "--runroot", work / "run")
    try:
        container = do(*buildah, "from", "scratch").strip()
        do(*buildah, "add", container, debian, "/")
        do(*buildah, "commit", "--rm", container, BASE)
        said = do(*buildah, "bud", "--isolation", "chroot", "--pull-never", "-t", "fixed", work / "context")
        assert "\n/usr/sbin/mariadbd: 0 -> " in said
        container = do(*buildah, "from", "--pull-never", "fixed").strip()
        root = Path(do(*buildah, "mount", container).strip())
        program = root / "usr/sbin/mariadbd"
        assert (program.stat().st_mode & 0o7777, program.stat().st_uid) == (0o755, 0)
        assert not (root / "opt/hugealign").exists()
        done = run(HUGEALIGN, "verify", program)
        assert done.returncode == 0, done.stdout
        os.sync()  # overlayfs does not write back a file of a lower layer at fsync(2) of it (ovl_fsync)
        done = run(HUGEALIGN, "warm", program)
        assert done.returncode == 0, done.stdout
        inside = (*buildah, "run", "--isolation", "chroot", container, "--")
        do(*inside, "sh", "-c", "mkdir -p /run/mysqld && chown mysql: /run/mysqld")
        words = [str(word) for word in (*inside, "mariadbd", "--user=mysql", "--skip-networking")]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                waited = time.monotonic() + 120
                while subprocess.run(
                    [*map(str, inside), "mariadb-admin", "ping"], capture_output=True, check=False
                ).returncode:
                    assert server.poll() is None
                    assert time.monotonic() < waited, "the server does not answer"
                    time.sleep(0.5)
                (process,) = of_program(program)
                assert process["windows_huge"] == process["windows_possible"] >= 4
                assert do(*inside, "mariadb", "-N", "-e", "select 6 * 7").strip() == "42"
                do(*inside, "mariadb-admin", "shutdown")
                server.wait(60)
            finally:
                server.kill()
    finally:
        subprocess.run([*map(str, buildah), "rm", "--all"], capture_output=True, check=False)
        subprocess.run([*map(str, buildah), "rmi", "--all", "--force"], capture_output=True, check=False)


def of_program(program: Path) -> list[dict[str, int]]:
    """Return what `ps` says of the processes that run this very file."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            same = os.path.samefile(f"/proc/{pid}/exe", program)
        except OSError:
            continue
        if same:
            found += json.loads(run(HUGEALIGN, "ps", "--format", "json", pid).stdout)["processes"]
    return found
