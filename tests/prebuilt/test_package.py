"""The Debian packages in fresh Debian releases: installed by apt, used for the main job, and purged without a trace.

mmdebstrap makes each of them; a download of 150 MB; as root or as an ordinary user with user namespaces.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT, environment, run

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed"),
    pytest.mark.skipif(not shutil.which("dh_python3"), reason="dh-python is not installed"),
]

STEPS = (
    "find / -xdev | sort >/root/before",
    "apt-get -q install -y --no-install-recommends /tmp/hugealign.deb /tmp/hugealign-lab.deb",
    'test -n "$(find /usr/lib/hugealign -name "*.pyc")"',
    "man -w hugealign hugealign-gcc hugealign-verify hugealign-order",
    "sh /tmp/main-job",
    "echo 'int main(void) { return 0; }' >/tmp/m.c; gcc /tmp/m.c -o /tmp/m; echo 'main 1' >/tmp/list",
    "hugealign draw-map /tmp/list -b /tmp/m | grep '</svg>'",
    ". /etc/os-release",
    # Debian 13's QEMU has no plugins.
    'test "$VERSION_ID" != 12 || hugealign trace -o /tmp/ls.trace -- ls /',
    """test "$VERSION_ID" != 12 || hugealign simulate /tmp/ls.trace --cpu skylake | grep '^all-4k'""",
    "rm -r /root/.cache/hugealign  # the user's, as status says",
    "apt-get -q purge -y hugealign hugealign-lab",
    "find / -xdev | sort >/root/after",
    'comm -13 /root/before /root/after | grep -v "^/usr/share/python3/debpython" | grep hugealign && exit 1; true',
    "test ! -e /usr/lib/hugealign; echo 'nothing is left'",
)


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_installed_used_and_purged(release: str, tmp_path: Path) -> None:
    run(ROOT / "packaging/deb.sh", tmp_path / "out", check=True)
    for name in ("hugealign", "hugealign-lab"):
        shutil.copy(next((tmp_path / "out").glob(f"{name}_*.deb")), tmp_path / f"{name}.deb")
    files = f"{tmp_path}/hugealign.deb {tmp_path}/hugealign-lab.deb {ROOT}/packaging/debian/tests/main-job"
    hooks = [f"copy-in {files} /tmp"]
    (tmp_path / "steps").write_text("set -eux\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\n" + "\n".join(STEPS) + "\n")
    hooks += [f"copy-in {tmp_path}/steps /tmp", 'chroot "$1" sh /tmp/steps']
    words = ["mmdebstrap", "--quiet", "--variant=apt", "--include=gcc,libc6-dev,make,man-db"]
    words += [f"--customize-hook={hook}" for hook in hooks]
    ours = {name: value for name, value in environment().items() if not name.startswith("XDG_")}  # by other tests
    done = subprocess.run(
        [*words, release, "-"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ours,
        check=False, timeout=1700,
    )  # fmt: skip
    if "download" in done.stderr and "set -eux" not in done.stderr and "+ " not in done.stderr:
        pytest.skip(f"Debian cannot be downloaded: {done.stderr.strip().rpartition(chr(10))[2]}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "main job: done" in done.stderr
    assert "nothing is left" in done.stderr
