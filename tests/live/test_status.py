"""``hugealign status``: a system with everything that hugealign changes, what each undo leaves, and what all leave."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import render
from hugealign.diagnosis.values import Remedy
from tests.documents import check
from tests.live.booted import HUGEALIGN, System, booted_below
from tests.live.programs import ROOT, Programs, hugealign, running
from tests.live.stock import USER
from tests.live.stock import module as module_words
from tests.strace import faulty, happened, needs_strace
from tests.support import worded

CONFIGURATION = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.huge]
  runtime_type = "io.containerd.runc.v2"
  base_runtime_spec = "/etc/containerd/hugealign.json"
"""


@pytest.fixture(scope="module")
def system(built: Programs) -> Iterator[System]:
    with booted_below(built.directory / "booted-status") as up:
        for name in ("good", "plain"):
            shutil.copy(built.directory / name, up.root / "opt" / name)
        yield up


def ours(system: System, *words: str) -> subprocess.CompletedProcess[str]:
    """Run our command in *system*, where root keeps its journal in the usual place."""
    done = system.run("env", "-u", "XDG_STATE_HOME", "-u", "XDG_CACHE_HOME", "HOME=/root", HUGEALIGN, *words)
    assert "Traceback" not in done.stderr
    return done


def status(system: System, *words: str) -> dict[str, Any]:
    result: dict[str, Any] = check(ours(system, "status", "--json", *words).stdout)
    assert result["errors"] == []
    return result


def listed(system: System) -> set[tuple[str, str]]:
    """Return code and subject of what is listed."""
    return {key(change) for change in status(system)["changes"]}


def key(change: dict[str, Any]) -> tuple[str, str]:
    return change["diagnosis"]["code"], change["diagnosis"]["subject"]


def put(system: System, path: str, text: str) -> None:
    place = Path(f"{system.root}{path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


UNITS = "/etc/systemd/system"
HOOK = "/etc/containers/oci/hooks.d/hugealign.json"
CONTAINERD = "/etc/containerd/config.toml"
EXAMPLES = {
    f"{UNITS}/hugealign-warm.timer": "systemd/hugealign-warm.timer",
    f"{UNITS}/hugealign-warm.service": "systemd/hugealign-warm.service",
    f"{UNITS}/hugealign-stage.service": "systemd/hugealign-stage.service",
    f"{UNITS}/mariadb.service.d/hugealign.conf": "systemd/mariadb.service.d/hugealign.conf",
    "/etc/apt/apt.conf.d/80hugealign": "fix/80hugealign",
    "/usr/local/sbin/hugealign-refix": "fix/hugealign-refix.sh",
}
ROWS = [
    ("change.service", ["demo.service"]),
    ("change.hook", [HOOK]),
    ("change.runtime", [CONTAINERD]),
    ("change.example", list(EXAMPLES)),
    ("change.store", ["/run/hugealign", "/run/a store"]),
    ("change.fixed", ["/opt/fixed"]),
    ("change.cache", ["/root/.cache/hugealign"]),
]
ALL = {(code, subject) for code, subjects in ROWS for subject in subjects}


@pytest.fixture
def changed(system: System) -> System:
    """The system, with everything changed that hugealign changes there."""
    system.write_unit("demo.service", "[Service]\nExecStart=/opt/good 5\n")
    shutil.copy(f"{system.root}/opt/plain", f"{system.root}/opt/fixed")
    hook = json.loads((ROOT / "examples/containers/hugealign.json").read_text(encoding="utf-8"))
    put(system, HOOK, json.dumps(hook))
    put(system, CONTAINERD, CONFIGURATION)
    put(system, "/etc/containerd/hugealign.json", json.dumps({"hooks": {"createRuntime": [hook["hook"]]}}))
    for path, example in EXAMPLES.items():
        put(system, path, (ROOT / "examples" / example).read_text(encoding="utf-8"))
    put(system, "/root/.cache/hugealign/exttsp-0123.so", "")
    for words in (
        ("enable", "demo"),
        ("stage", "--store", "/run/a store", "/opt/good"),
        ("fix", "--in-place", "/opt/fixed"),
    ):
        done = ours(system, *words)
        assert (done.returncode, done.stderr) == (0, "")
    assert system.run("systemctl", "daemon-reload").returncode == 0
    assert system.run("systemctl", "enable", "--now", "hugealign-warm.timer").returncode == 0
    assert system.run("systemctl", "restart", "demo").returncode == 0
    return system


def nothing_is_left(system: System) -> None:
    assert listed(system) == set()
    assert ours(system, "status").stdout == "nothing to undo: no change by hugealign is left on this machine\n"
    assert " hugealign " not in system.run("cat", "/proc/self/mountinfo").stdout
    here = system.run("find", "/run", "/etc", "/var/lib", "/usr/local", "/root", "-name", "*hugealign*").stdout.split()
    assert here == ["/etc/containerd/hugealign.json"]
    assert system.run("systemctl", "list-units", "--all", "--no-legend", "hugealign*").stdout == ""
    assert Path(f"{system.root}/opt/fixed").read_bytes() == Path(f"{system.root}/opt/plain").read_bytes()


@pytest.mark.matrix
def test_all_is_undone_and_what_is_left_is_named(changed: System) -> None:
    assert listed(changed) == ALL
    pid = changed.pid("demo")
    done = ours(changed, "status", "--undo")
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.count(": undone\n") == len(ALL) - 1
    assert "  now: systemctl restart demo.service\n" in done.stdout
    assert f"  left: {render.remedy(Remedy('remove-runtime'), {'runtime': 'huge'})}\n" in done.stdout
    assert listed(changed) == {("change.runtime", CONTAINERD)}
    assert changed.pid("demo") == pid
    assert "all 3 windows are huge" in changed.hugealign("ps", pid).stdout  # it keeps its copy
    put(changed, CONTAINERD, "version = 2\n")
    nothing_is_left(changed)
    assert ours(changed, "status", "--undo").returncode == 0
    changed.run("systemctl", "restart", "demo")
    assert "0 of 3 windows are huge" in changed.hugealign("ps", changed.pid("demo")).stdout


@pytest.mark.matrix
def test_each_command_that_is_listed_undoes_its_change(changed: System) -> None:
    left = set(ALL)
    for change in status(changed)["changes"]:
        remedy = change["diagnosis"]["remedy"]
        argv = remedy["argv"]
        if key(change) not in left:
            continue
        if not argv:
            assert (key(change), remedy["kind"]) == (("change.runtime", CONTAINERD), "remove-runtime")
            put(changed, CONTAINERD, "version = 2\n")
        else:
            done = ours(changed, *argv[1:]) if argv[0] == "hugealign" else changed.run(*argv)
            assert done.returncode == 0, done
        left -= {key(change)}
        if change["diagnosis"]["code"] == "change.service":  # its copy was the only one
            left -= {("change.store", "/run/hugealign")}
        assert listed(changed) == left
    changed.run("systemctl", "daemon-reload")
    nothing_is_left(changed)


@pytest.mark.matrix
def test_what_is_not_ours_is_not_listed_and_stays(changed: System) -> None:
    foreign = {
        "/etc/containers/oci/hooks.d/other.json": '{"hook": {"path": "/usr/bin/other", "args": ["hugealign"]}}',
        "/etc/containers/oci/hooks.d/broken.json": "[" * 9000,
        f"{UNITS}/hugealign-for-other.service": "[Service]\n",
        f"{UNITS}/other.service.d/hugealign.conf": "[Service]\n",
        f"{UNITS}/hugealign-adapt.service": "[Service]\nExecStart=/usr/bin/hugealign adapt x\n",
    }
    for path, text in foreign.items():
        put(changed, path, text)
    try:
        assert listed(changed) == ALL
        put(changed, CONTAINERD, "a = " + "[" * 9000)
        assert ours(changed, "status", "--undo").returncode == 0
        for path, text in foreign.items():
            assert Path(f"{changed.root}{path}").read_text(encoding="utf-8") == text
    finally:
        for path in foreign:
            Path(f"{changed.root}{path}").unlink()
    (changed.root / f"{UNITS[1:]}/other.service.d").rmdir()
    nothing_is_left(changed)


@pytest.mark.matrix
def test_what_cannot_be_undone_is_named_and_stays(changed: System) -> None:
    path = Path(f"{changed.root}/opt/fixed")
    with path.open("r+b") as file:  # as another tool changes it: its headers are no longer those that fix wrote
        file.seek(0x40)
        file.write(b"\xff")
    assert changed.run("sh", "-c", "echo mine >'/run/a store/mine'").returncode == 0
    result = status(changed, "--undo")
    failed = {key(change): change["failure"] for change in result["changes"] if not change["undone"]}
    assert set(failed) == {
        ("change.fixed", "/opt/fixed"),
        ("change.store", "/run/a store"),
        ("change.runtime", CONTAINERD),
    }
    assert failed["change.runtime", CONTAINERD] is None
    assert failed["change.fixed", "/opt/fixed"]["diagnosis"]["code"] == "fix.changed-since"
    why = failed["change.store", "/run/a store"]["diagnosis"]
    assert (why["code"], why["facts"]) == ("store.not-removed", {"others": 1})
    assert listed(changed) == set(failed)
    assert changed.run("cat", "/run/a store/mine").stdout == "mine\n"
    path.unlink()
    put(changed, CONTAINERD, "version = 2\n")
    assert changed.run("rm", "/run/a store/mine").returncode == 0
    assert ours(changed, "status", "--undo").returncode == 0
    shutil.copy(f"{changed.root}/opt/plain", path)
    nothing_is_left(changed)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the journal is, of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "hugealign"


def files(*prefix: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return code and facts of the files that are listed as fixed or replaced."""
    result = check(hugealign("status", "--json", prefix=prefix).stdout)
    changes = [change["diagnosis"] for change in result["changes"]]
    codes = ("change.fixed", "change.replaced")
    return {change["subject"]: (change["code"], change["facts"]) for change in changes if change["code"] in codes}


@pytest.mark.parametrize("end", ["undone", pytest.param("removed", marks=pytest.mark.matrix), "another"])
def test_a_file_is_listed_as_long_as_it_is_fixed(built: Programs, state: Path, tmp_path: Path, end: str) -> None:
    path = tmp_path / "a b"
    shutil.copy(built.plain, path)
    for words in (("--dry-run", path), ("-o", tmp_path / "out", path), ("--in-place", path)):
        assert files() == {}
        assert hugealign("fix", *words).returncode == 0
    assert files() == {str(path): ("change.fixed", {"level": "separate"})}
    assert f"{path}: {worded('change.fixed', level='separate')}, 20" in hugealign("status").stdout
    assert f"\n  undo: hugealign fix --undo '{path}'\n" in hugealign("status").stdout
    if end == "undone":
        assert hugealign("fix", "--undo", path).returncode == 0
    else:
        path.unlink()
    if end == "another":
        path.write_text("another")
    assert files() == {}
    assert not state.exists()


@needs_strace
def test_a_note_whose_change_was_never_made_is_taken_out(built: Programs, state: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    shutil.copy(built.plain, path)
    prefix = faulty("linkat", "signal=KILL:when=1", tmp_path / "calls")
    subprocess.run([*prefix, *module_words("fix", "--in-place", path)], check=False, capture_output=True)
    assert happened(tmp_path / "calls")
    assert str(path) in (state / "journal").read_text()
    assert files() == {}
    assert not state.exists()


def test_a_file_that_a_warm_copy_replaced(programs: Programs, state: Path) -> None:
    path = programs.copy("replaced")
    with running(path, "5"):
        assert hugealign("warm", "--replace", path).returncode == 0
    assert files() == {str(path): ("change.replaced", {"windows": 3, "windows_huge": 3})}
    assert f"\n  undo: hugealign warm --undo {path}\n" in hugealign("status").stdout
    assert hugealign("warm", "--undo", path).returncode == 0
    assert files() == {}
    assert not state.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become another user")
def test_a_user_has_a_journal_of_their_own(built: Programs, state: Path) -> None:
    theirs = built.directory / "theirs"
    theirs.mkdir()
    path = theirs / "plain"
    shutil.copy(built.plain, path)
    for place in (theirs, path):
        os.chown(place, 65534, 65534)
    prefix = (*USER, f"XDG_STATE_HOME={theirs}")
    done = hugealign("fix", "--in-place", path, prefix=prefix)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(*prefix) == {str(path): ("change.fixed", {"level": "separate"})}
    assert files() == {}
    assert not state.exists()
    # Root does not believe what others can write, and changes the file all the same.
    assert hugealign("fix", "--undo", path, prefix=prefix).returncode == 0
    done = hugealign("fix", "--in-place", path, prefix=("env", f"XDG_STATE_HOME={theirs}"))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "(others-may-write)" in done.stderr
    shutil.rmtree(theirs)


def test_a_full_journal(built: Programs, state: Path, tmp_path: Path) -> None:
    """The file is fixed all the same, and what the warning names makes room (machine.no-journal)."""
    code = "machine.no-journal"
    state.mkdir(mode=0o700)
    with (state / "journal").open("wb") as file:
        file.truncate(4 << 20)
    for name, warned in (("first", True), ("second", False)):
        path = tmp_path / name
        shutil.copy(built.plain, path)
        done = hugealign("fix", "--in-place", path)
        assert done.returncode == 0
        assert path.read_bytes() != built.plain.read_bytes()
        assert (done.stderr.count("\n"), "EFBIG" in done.stderr) == (int(warned), warned)
        if warned:
            assert "; run: hugealign status\n" in done.stderr
            assert f"{code} (warning)" in hugealign("explain", code).stdout
            hugealign("status")
    assert list(files()) == [str(tmp_path / "second")]
