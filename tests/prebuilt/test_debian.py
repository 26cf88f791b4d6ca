"""docs/guides/fix.md as it is typed, from ``apt install`` to huge text, in a fresh Debian; and Dockerfiles.

There is no init in it, so the word ``systemctl`` is a stand-in that calls service(8).  Images are built by buildah.
A download of 200 MB each; as root.
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
from typing import Any

import pytest

from hugealign.diagnosis import catalogue
from tests import debian
from tests.build.manual import blocks
from tests.build.projects import program, write
from tests.prebuilt.__main__ import BUILD
from tests.support import HUGEALIGN, ROOT, Elf, need, run

BASES = ("localhost/debian:12", "localhost/debian:12-slim")
ANSWER = "mariadb -N -e 'select concat(\"answer \", 6 * 7)'\n"
_TEXT = '.globl f\nf: .fill 3 << 20, 1, 0x90\nxor %eax, %eax\nret\n.section .note.GNU-stack,"",@progbits\n'
OVER = "service mariadb stop\nhugealign fix --undo /usr/sbin/mariadbd\n"  # as it was

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(3 * debian.SECONDS),
    pytest.mark.skipif(os.geteuid() != 0, reason="root is needed, for chroot"),
    pytest.mark.skipif(not shutil.which("mmdebstrap"), reason="mmdebstrap is not installed"),
]


def do(*words: object, seconds: int = debian.SECONDS) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=seconds, errors="replace"
    )
    assert done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture
def work() -> Iterator[Path]:
    """A directory on the disk, which the one for temporary files may not be."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="debian-") as directory:
        yield Path(directory)


def checkout(place: Path) -> None:
    """Put what of the checkout runs at *place*."""
    for name in ("bin", "hugealign"):
        shutil.copytree(ROOT / name, place / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_what_is_typed_from_apt_install_to_huge_text(release: str, work: Path) -> None:
    debian.archived(release)
    debian.unpacked(release, work)
    checkout(work / "opt" / "hugealign")
    (work / "usr/local/bin/systemctl").write_text('#!/bin/sh\nexec service "$2" "$1"\n')
    (work / "usr/local/bin/systemctl").chmod(0o755)
    looked, commands, diverted = (block.commands for block in blocks(ROOT / "docs/guides/fix.md"))
    assert commands.startswith("apt install mariadb-server\n")
    script = (
        "apt-get -q update\napt-get -q install --no-install-recommends python3\n",
        commands,
        ANSWER,
        "dpkg -V mariadb-server-core || true\n",
        OVER,
        looked,  # ends with --undo
        diverted,
        "hugealign verify /usr/sbin/mariadbd\nservice mariadb start\n",
        ANSWER,
        "service mariadb stop\n",
    )
    output = do(*debian.entering(work, "".join(script), f"/opt/hugealign/bin:{debian.PATH}"))
    fixed = re.search(r"^/usr/sbin/mariadbd: 0 -> (\d+) windows of 2\.0 MiB", output, re.MULTILINE)
    assert fixed, output[-3000:]
    windows = fixed[1]
    assert int(windows) >= 4
    assert f"\n/usr/sbin/mariadbd: {windows} of {windows} windows huge (" in output
    assert output.count("\nanswer 42\n") == 2
    assert re.search(rf"^mariadbd\[\d+\]: all {windows} windows are huge$", output, re.MULTILINE)
    assert re.search(rf"\n/usr/sbin/mariadbd: ok .* in {windows} windows\n(?:.*\n)*answer 42\n", output)
    assert re.search(r"^\?\?5\?+ +/usr/sbin/mariadbd$", output, re.MULTILINE)


#: A file whose debug information is compressed by zstd, which Python 3.11 cannot read by itself.
_COMPRESSED = "gcc -g -Wl,-z,separate-code m.c m.s -o m; llvm-objcopy-19 --compress-debug-sections=zstd m"
#: Python for a Debian that has none of ours.
_BUILD_PYTHON = """
apt-get -q install --no-install-recommends gcc libc6-dev make xz-utils zlib1g-dev libffi-dev
sed -n 's/^deb \\([^ ]*\\) bullseye main$/deb-src \\1 bookworm main/p' /etc/apt/sources.list >/root/list
mv /root/list /etc/apt/sources.list.d/source.list
apt-get -q update
cd /root && apt-get -q source --download-only python3.11 && tar -xf python3.11_*.orig.tar.*
cd Python-3.11.* && ./configure -q --without-ensurepip && make -s -j2 && make -s install
"""


def asked(root: Path, *steps: str) -> list[dict[str, Any]]:
    """Run the *steps* in a fresh Debian; return what those that begin with ``hugealign`` print."""
    script = "".join(
        f"{step} >/{at}.json 2>/{at}.err || true\n" if "hugealign" in step else f"{step}\n"
        for at, step in enumerate(steps)
    )
    do(*debian.entering(root, script, f"/opt/hugealign/bin:{debian.PATH}"))
    answers = [at for at, step in enumerate(steps) if "hugealign" in step]
    for at in answers:
        assert (root / f"{at}.json").stat().st_size, (root / f"{at}.err").read_text()
    return [json.loads((root / f"{at}.json").read_text()) for at in answers]


def installing(kind: str) -> str:
    """Return the command that the sentence of a remedy has for Debian."""
    named = re.search(r"Debian: (apt install [a-z0-9-]+)", catalogue.REMEDIES[kind])
    assert named
    return named[1]


def test_what_fix_misses_until_it_is_installed(work: Path) -> None:
    need("llvm-objcopy-19")
    write(work / "made", {"m.c": "int f(void); int main(void) { return f(); }", "m.s": _TEXT})
    do("sh", "-ec", f"cd {work}/made; {_COMPRESSED}")
    debian.archived("bookworm")
    root = work / "root"
    debian.unpacked("bookworm", root)
    checkout(root / "opt/hugealign")
    shutil.copy(work / "made/m", root / "m")
    fix = "hugealign fix --level=separate --json /m -o /fixed"
    python = "apt-get -q update; apt-get -q install --no-install-recommends python3"
    refused, fixed = asked(root, python, fix, installing("install-zstd"), fix)
    (error,) = refused["errors"]
    assert (error["diagnosis"]["code"], error["diagnosis"]["remedy"]["argv"]) == ("fix.no-zstd", [])
    assert fixed["errors"] == []
    assert [file["plan"]["windows"] for file in fixed["files"]] == [2]


def test_a_loader_that_ignores_the_alignment_of_libraries(work: Path) -> None:
    for release, expected in (("bullseye", ["glibc 2.31"]), ("bookworm", [])):
        debian.archived(release)
        root = work / release
        debian.unpacked(release, root)
        checkout(root / "opt/hugealign")
        python = _BUILD_PYTHON if release == "bullseye" else "apt-get -q install --no-install-recommends python3"
        (result,) = asked(root, "apt-get -q update", python, "hugealign doctor --json")
        loaders = [check["diagnosis"] for check in result["checks"] if check["diagnosis"]["code"] == "machine.loader"]
        assert [item["facts"]["loader"] for item in loaders] == expected
        assert not any(item["remedy"] for item in loaders)


@pytest.fixture
def buildah(work: Path) -> Iterator[tuple[str, ...]]:
    """The words of a buildah whose storage is below *work*, and has the images of Debian 12 under their names."""
    need("buildah")
    words = ("buildah", "--root", str(work / "storage"), "--runroot", str(work / "run"))
    try:
        container = do(*words, "from", "scratch").strip()
        do(*words, "add", container, debian.archived("bookworm"), "/")
        for name in BASES:
            do(*words, "commit", container, name)
        yield words
    finally:
        subprocess.run([*words, "rm", "--all"], capture_output=True, check=False)
        subprocess.run([*words, "rmi", "--all", "--force"], capture_output=True, check=False)


def test_the_dockerfile(buildah: tuple[str, ...], work: Path) -> None:
    """Built from its text; then run, warm."""
    (work / "context").mkdir()
    checkout(work / "context" / "hugealign")
    shutil.copy(ROOT / "examples" / "fix" / "Dockerfile", work / "context")
    output = do(*buildah, "bud", "--isolation", "chroot", "--pull-never", "-t", "fixed", work / "context")
    assert "\n/usr/sbin/mariadbd: 0 -> " in output
    container = do(*buildah, "from", "--pull-never", "fixed").strip()
    root = Path(do(*buildah, "mount", container).strip())
    mariadbd = root / "usr/sbin/mariadbd"
    assert (mariadbd.stat().st_mode & 0o7777, mariadbd.stat().st_uid) == (0o755, 0)
    assert not (root / "opt/hugealign").exists()
    done = run(HUGEALIGN, "verify", mariadbd)
    assert done.returncode == 0, done.stdout
    os.sync()  # overlayfs does not write back a file of a lower layer at fsync(2) of it (ovl_fsync)
    done = run(HUGEALIGN, "warm", mariadbd)
    assert done.returncode == 0, done.stdout
    inside = (*buildah, "run", "--isolation", "chroot", container, "--")
    do(*inside, "sh", "-c", "mkdir -p /run/mysqld && chown mysql: /run/mysqld")
    words = [*inside, "mariadbd", "--user=mysql", "--skip-networking"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            waited = time.monotonic() + 120
            while subprocess.run([*inside, "mariadb-admin", "ping"], capture_output=True, check=False).returncode:
                assert server.poll() is None
                assert time.monotonic() < waited, "the server does not answer"
                time.sleep(0.5)
            (process,) = of_program(mariadbd)
            assert process["windows_huge"] == process["windows_possible"] >= 4
            assert do(*inside, "mariadb", "-N", "-e", "select 6 * 7").strip() == "42"
            do(*inside, "mariadb-admin", "shutdown")
            server.wait(60)
        finally:
            server.kill()


@pytest.mark.parametrize("ordered", [False, True])
def test_the_dockerfile_of_two_stages(ordered: bool, buildah: tuple[str, ...], work: Path) -> None:
    """That of docs/guides/packages.md: the last stage has the program, and nothing of hugealign."""
    context = program(work / "context")
    text = (ROOT / "docs/guides/packages.md").read_text(encoding="utf-8")
    whole, with_order = re.findall(r"(?ms)^```dockerfile\n(.*?)^```$", text)
    if ordered:
        whole = re.sub(r"(?m)^RUN make .*\n", lambda _: with_order, whole)
    makefile = "server: main.c bulk.s\n\t$(CC) main.c bulk.s -o $@\n"
    write(context, {"Dockerfile": whole, "Makefile": makefile, "server.order": "# hugealign.order/1\nmain\n"})
    do(ROOT / "packaging/deb.sh", work / "deb")
    shutil.copy(next((work / "deb").glob("hugealign_*.deb")), context)
    output = do(*buildah, "bud", "--isolation", "chroot", "--pull-never", "-t", "server", context)
    assert "\n/src/server: ok  100 % of " in output
    container = do(*buildah, "from", "--pull-never", "server").strip()
    root = Path(do(*buildah, "mount", container).strip())
    assert not (root / "usr/bin/hugealign").exists()
    server = Elf(root / "usr/bin/server")
    assert server.faults() == []
    if ordered:
        address = re.search(r"(?m)^(\w+) T main$", run("nm", root / "usr/bin/server", check=True).stdout)
        assert address
        assert int(address[1], 16) - server.text[0]["p_vaddr"] < 4096
    do(*buildah, "run", "--isolation", "chroot", container, "--", "server")


def of_program(program: Path) -> list[dict[str, int]]:
    """Return what `ps` says of the processes that run this very file."""
    result = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            same = os.path.samefile(f"/proc/{pid}/exe", program)
        except OSError:
            continue
        if same:
            result += json.loads(run(HUGEALIGN, "ps", "--json", pid).stdout)["processes"]
    return result
