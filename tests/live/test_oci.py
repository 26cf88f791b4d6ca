"""`hugealign oci-hook`: podman and crun start unchanged images, from huge copies; real overlays on ext4.

Hook, store and podman's places are those of the manual: nothing names another one.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.services import oci
from tests.live import filesystems
from tests.live.booted import HUGEALIGN as BOOTED
from tests.live.booted import booted, debian
from tests.live.podman import Podman, huge_kib
from tests.live.programs import NOBODY, ROOT, WINDOW, WINDOWS, Programs, hugealign
from tests.support import HUGEALIGN, need, worded

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"


class Engine(Podman):
    """Podman with overlays at *place*."""

    def __init__(self, place: Path) -> None:
        super().__init__("--root", place / "root", "--runroot", place / "state", "--storage-driver", "overlay")
        self.place, self.store = place, Path(oci.STORE)
        self.started: list[int] = []

    def huge_kib(self, *words: object) -> tuple[str, int]:
        """Start a container; return its name, and the KiB of its first process's text on huge pages."""
        name, pid, _ = self.start(*words)
        self.started.append(pid)
        return name, huge_kib(pid)

    def copies(self) -> list[str]:
        return [name for name in os.listdir(self.store) if name not in ("path", "lock")]


@pytest.fixture(scope="module")
def engine(built: Programs) -> Iterator[Engine]:
    if os.geteuid():
        pytest.skip("root is needed")
    need("podman", "crun")
    work = built.directory / "oci"
    work.mkdir()
    if os.path.exists(oci.STORE):
        pytest.skip("this machine uses the hook")
    # Here podman runs in a mount namespace of its own each time, so the hook finds the store where it would make it.
    store = Path(oci.STORE)
    store.mkdir(exist_ok=True)
    assert hugealign("oci-hook", "--install").returncode == 0
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,mode=0700", "hugealign", store], check=True)
    try:
        with filesystems.mounted("ext4", work, size=4 << 30) as at:
            podman = Engine(at)
            podman.run("import", "--quiet", debian(()), "base")
            name = podman.run("create", "base", "true")
            podman.run("cp", built.good, f"{name}:{SERVER}")
            script = work / "entrypoint"
            script.write_text('#!/bin/sh\nexec "$@"\n')
            script.chmod(0o755)
            podman.run("cp", script, f"{name}:/entrypoint")
            podman.run("commit", "--quiet", name, "server")
            try:
                yield podman
            finally:
                for pid in podman.started:  # podman leaves some of those behind that it runs without control groups
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                podman.run("rm", "--all", "--force", "--time=0")
    finally:
        assert hugealign("oci-hook", "--uninstall").returncode == 0
        subprocess.run(["umount", "--lazy", store], check=False, stderr=subprocess.DEVNULL)
        store.rmdir()


def test_without_the_annotation_nothing_is_done(engine: Engine) -> None:
    _, huge = engine.huge_kib("server", SERVER, "5")
    assert huge == 0
    assert engine.copies() == []


def test_an_image_runs_from_one_copy(engine: Engine) -> None:
    """By the command, behind a script, by a path: always the copy of the layer, which is one."""
    annotated = ("--annotation", "hugealign.text=auto")
    seen = set()
    for words in (
        (*annotated, "server", SERVER, "5"),
        (*annotated, "--user=65534", "--read-only", "server", "/entrypoint", "server", "5"),
        ("--annotation", f"hugealign.text=/bin/no:{SERVER}", "server", SERVER, "5"),
        ("--annotation", "hugealign.text=/usr/local", "server", SERVER, "5"),
    ):
        name, huge = engine.huge_kib(*words)
        assert huge == ALL, words
        pid = engine.run("inspect", "--format", "{{.State.Pid}}", name)
        assert os.readlink(f"/proc/{pid}/exe") == SERVER
        assert engine.run("exec", "--user=0", name, "sh", "-c", f"test -w {SERVER} || echo no") == "no"
        assert len(engine.copies()) == 1
        seen.update(engine.copies())
    assert len(seen) == 1  # not one for each container, of which the last is left
    assert engine.store.stat().st_mode & 0o777 == 0o700
    assert Path("/proc/self/mounts").read_text().count("server") == 0  # nothing of it is mounted here


def test_a_file_that_the_container_changed_gets_a_copy_of_its_own(engine: Engine) -> None:
    name, huge = engine.huge_kib("--annotation", "hugealign.text=auto", "server", SERVER, "5")
    assert huge == ALL
    engine.run("stop", "--time=0", name)
    place = Path(engine.run("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", name))
    (place / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(next(engine.place.glob("root/overlay/*/diff/usr/local/bin/server")), place / "usr/local/bin/server")
    with (place / "usr/local/bin/server").open("ab") as file:
        file.write(b"changed")
    engine.run("start", name)
    time.sleep(1)
    assert engine.run("exec", name, "tail", "-c", "7", "/proc/1/exe") == "changed"


def test_links_lead_nowhere(engine: Engine, tmp_path: Path) -> None:
    """A name in an image is resolved inside of it: what the host has there is neither read nor covered."""
    outside = tmp_path / "outside"
    shutil.copy(HUGEALIGN, outside)
    name = engine.run("create", "server", "true")
    link = tmp_path / "link"
    link.symlink_to(outside)
    engine.run("cp", link, f"{name}:/usr/local/bin/evil")
    engine.run("commit", "--quiet", name, "evil")
    before = engine.copies()
    words = ("--annotation", "hugealign.text=/usr/local/bin/evil:/../../etc/passwd:/proc/self/exe")
    _, huge = engine.huge_kib(*words, "evil", SERVER, "5")
    assert huge == 0
    assert engine.copies() == before


def test_what_the_hook_says_is_in_status(engine: Engine) -> None:
    """podman shows nothing of it."""
    _, huge = engine.huge_kib("--annotation", "hugealign.text=/bin/true", "server", SERVER, "5")
    changes = json.loads(hugealign("status", "--json").stdout)["changes"]
    (facts,) = [change["diagnosis"]["facts"] for change in changes if change["diagnosis"]["code"] == "change.hook"]
    assert (huge, facts["places"], facts["said"].startswith("/bin/true: ")) == (0, "", True)


def codes(*words: str) -> dict[str, dict[str, Any]]:
    """Return the diagnoses in what `ps` or `doctor` prints as JSON, by code."""
    document = json.loads(hugealign(*words, "--json").stdout)
    found = document.get("checks") or document["processes"][0]["diagnoses"]
    return {one["code"]: one for one in (each.get("diagnosis", each) for each in found)}


def test_a_container_whose_engine_had_no_hook(engine: Engine) -> None:
    """`ps` and `doctor` say so, and both commands help: the hook is installed, and the container created anew."""
    words = ("--annotation", "hugealign.text=auto", "server", SERVER, "5")
    assert hugealign("oci-hook", "--uninstall").returncode == 0
    try:
        name, huge = engine.huge_kib(*words)
        pid = engine.run("inspect", "--format", "{{.State.Pid}}", name)
        assert huge == 0
        for asked in (("ps", pid), ("doctor",)):
            assert codes(*asked)["container.no-hook"]["remedy"]["argv"] == ["hugealign", "oci-hook", "--install"]
    finally:
        assert hugealign("oci-hook", "--install").returncode == 0
    assert codes("ps", pid)["container.no-hook"]["remedy"]["kind"] == "create-anew"
    engine.run("rm", "--force", "--time=0", name)
    assert "container.no-hook" not in codes("doctor")
    name, huge = engine.huge_kib(*words)
    assert huge == ALL
    assert not codes("ps", engine.run("inspect", "--format", "{{.State.Pid}}", name))


def test_a_hook_that_leaves_a_program(engine: Engine) -> None:
    """`ps` says what it said: here the annotation names another program."""
    name, huge = engine.huge_kib("--annotation", "hugealign.text=/bin/true", "server", SERVER, "5")
    found = codes("ps", engine.run("inspect", "--format", "{{.State.Pid}}", name))["container.hook-failed"]
    assert (huge, found["facts"]["said"].startswith("/bin/true: ")) == (0, True)


_ELSEWHERE = """
mount -t tmpfs tmpfs /usr/share/containers
mkdir -p /etc/containers
mount -t tmpfs tmpfs /etc/containers
mkdir -p /etc/containers/oci/hooks.d
cp "$0" /etc/containers/oci/hooks.d/mine.json
exec "$@"
"""


def test_a_hook_where_podman_does_not_look(tmp_path: Path) -> None:
    """`doctor` says so, and what it recommends is its end; so does `hooks_dir` in podman's configuration."""
    need("podman")
    prefix = ("unshare", "--mount", "sh", "-ec", _ELSEWHERE, str(ROOT / "examples/containers/hugealign.json"))
    ask = f"{HUGEALIGN} doctor --json {tmp_path}"
    configure = "mkdir /etc/containers/containers.conf.d; cat >/etc/containers/containers.conf.d/a.conf"
    lines = (
        f"{ask}; {HUGEALIGN} oci-hook --install >&2; {ask}",
        f"{ask}; {configure} <<'END'\n[engine]\nhooks_dir = ['/etc/containers/oci/hooks.d']\nEND\n{ask}",
    )
    for line in lines:
        done = subprocess.run([*prefix, "sh", "-c", line], check=False, capture_output=True, text=True)
        before, after = (json.loads(part) for part in done.stdout.replace("}\n{", "}\0{").split("\0"))
        found, gone = (
            {one["diagnosis"]["code"]: one["diagnosis"] for one in part["checks"]} for part in (before, after)
        )
        remedy = found["container.hook-unread"]["remedy"]
        assert remedy["argv"] == ["hugealign", "oci-hook", "--install"]
        assert "container.hook-unread" not in gone


def test_the_hook_of_a_rootless_engine(built: Programs) -> None:
    process = {"args": [str(built.good)], "cwd": "/"}
    config = {"annotations": {"hugealign.text": "auto"}, "process": process, "root": {"path": "/"}}
    (built.directory / "config.json").write_text(json.dumps(config))
    state = json.dumps({"bundle": str(built.directory), "pid": os.getpid()})
    words = [*NOBODY, "unshare", "--user", "--map-root-user", str(HUGEALIGN), "oci-hook"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, input=state)
    assert (done.returncode, done.stderr) == (0, f"hugealign: {built.good}: {worded('container.rootless')}\n")


#: What podman may not do in the namespaces of a test, whatever it runs.
_CONFINED = """
[containers]
cgroups = "disabled"
netns = "none"
default_sysctls = []
default_ulimits = ["nofile=1000:1000", "nproc=1000:1000"]
"""


_AS_USER = """
cd; export XDG_RUNTIME_DIR=/run/user/1000
run="podman run --detach --quiet --cgroups=disabled"
podman import --quiet /srv/debian.tar base
podman build --isolation=chroot --quiet -t server /srv
$run --name hook --annotation hugealign.text=auto server
$run --name volume --mount type=bind,src=/run/hugealign/path/srv/server,dst=%(server)s,readonly server
$run --name root -v /opt/hugealign:/opt/hugealign:ro server %(run)s
$run --name user --user 65534 --read-only --cap-drop=ALL -v /opt/hugealign:/opt/hugealign:ro server %(run)s
for name in hook volume root user; do
  until podman logs $name | grep -q ready; do sleep 0.2; done
  podman inspect --format "$name {{.State.Pid}}" $name
done
"""


def test_what_a_user_with_podman_gets(built: Programs) -> None:
    """With podman 5.4 of Debian 13, in a store of the user's own: the hook says that it cannot, the others help."""
    if os.geteuid():
        pytest.skip("root is needed")
    root = built.directory / "rootless"
    root.mkdir()
    with booted(root, ("podman", "crun", "sudo", "uidmap"), "trixie") as system:
        # A user may mount /proc only where nothing covers a part of it.
        for words in (
            ("mount", "--make-rshared", "/"),
            ("umount", "--lazy", "/proc/sys"),
            ("useradd", "-m", "ada"),
            ("install", "-d", "-o", "ada", "-m", "700", "/run/user/1000"),
            (BOOTED, "oci-hook", "--install"),
        ):
            done = system.run(*words)
            assert done.returncode == 0, done.stderr
        (root / "etc/containers/containers.conf").write_text(_CONFINED)
        shutil.copy(debian(()), root / "srv/debian.tar")
        shutil.copy(built.good, root / "srv/server")
        (root / "srv/Dockerfile").write_text(f'FROM base\nCOPY server {SERVER}\nCMD ["{SERVER}", "5"]\n')
        assert system.hugealign("stage", "/srv/server").returncode == 0
        typed = _AS_USER % {"server": SERVER, "run": f"{BOOTED} run -- {SERVER} 5"}
        done = system.run("su", "ada", "-s", "/bin/sh", "-c", typed, seconds=300)
        pids = dict(line.split() for line in done.stdout.splitlines() if re.fullmatch(r"[a-z]+ [0-9]+", line))
        assert set(pids) == {"hook", "volume", "root", "user"}, done.stderr
        huge = {}
        for name, pid in pids.items():
            lines = system.run("cat", f"/proc/{pid}/smaps").stdout.splitlines()
            huge[name] = sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:"))
        assert huge == {"hook": 0, "volume": ALL, "root": ALL, "user": ALL}
        shown = system.run("su", "ada", "-s", "/bin/sh", "-c", f"{BOOTED} ps {pids['hook']}").stdout
        assert worded("container.hook-failed") in shown
        assert worded("container.rootless") in system.run("journalctl", "-t", "hugealign", "--no-pager").stdout


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_lines_of_the_page(built: Programs, suite: str) -> None:
    """Typed on a Debian that boots, with podman and crun as it has them: 4.3 and 1.8, 5.4 and 1.21."""
    if os.geteuid():
        pytest.skip("root is needed")
    page = (ROOT / "docs/guides/containers.md").read_text(encoding="utf-8")
    (block,) = [block for block in page.split("```") if "oci-hook --install" in block and block.startswith("sh\n")]
    root = built.directory / f"page-{suite}"
    root.mkdir()
    with booted(root, ("podman", "crun", "sudo"), suite) as system:
        (root / "usr/bin/hugealign").symlink_to(BOOTED)
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")  # sudo looks itself up
        (root / "etc/containers/containers.conf").write_text(_CONFINED)
        shutil.copy(debian(()), root / "srv/debian.tar")
        shutil.copy(built.good, root / "srv/server")
        (root / "srv/Dockerfile").write_text(f'FROM base\nCOPY server {SERVER}\nCMD ["{SERVER}", "5"]\n')
        for words in (
            ("import", "--quiet", "/srv/debian.tar", "base"),
            ("build", "--isolation=chroot", "-t", "server", "/srv"),
        ):
            done = system.run("podman", *words, seconds=300)
            assert done.returncode == 0, done.stderr
        typed = block.removeprefix("sh\n").replace("IMAGE", "server")
        assert system.run("sh", "-c", f"{{ {typed}}} >/srv/said 2>&1 </dev/null &").returncode == 0
        for _ in range(100):
            if "ready" in (said := (root / "srv/said").read_text()):
                break
            time.sleep(0.2)
        pid = system.run("podman", "inspect", "--latest", "--format", "{{.State.Pid}}").stdout.strip()
        lines = system.run("cat", f"/proc/{pid}/smaps").stdout.splitlines()
        assert sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:")) == ALL, said
        assert system.hugealign("ps", pid).stdout.startswith(f"server[{pid}]: all 3 windows are huge\n")
