"""``hugealign enable`` with a systemd that boots, on a file system that keeps no huge folios; and what it writes."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hugealign.run.copies import Fixes
from hugealign.services import dropins, enable
from hugealign.services.view import Found
from tests.live import filesystems
from tests.live import stock as stocks
from tests.live.booted import System, booted, booted_below
from tests.live.programs import ROOT, Programs, huge_kib, hugealign, running
from tests.strace import each, faulty, needs_strace
from tests.support import advised, need, worded

NAME = "/opt/a b/100% demo"
UNIT = """\
[Unit]
Description=A service
[Service]
ExecStart="/opt/a b/100%% demo" 5
"""


@pytest.fixture(scope="module")
def system(built: Programs) -> Iterator[System]:
    with booted_below(built.directory / "booted") as up:
        yield up


@pytest.fixture
def demo(system: System, built: Programs) -> Iterator[System]:
    """The system with a service that runs ``good``, not enabled."""
    install(system, built, "VERSION1")
    system.write_unit("demo.service", UNIT)
    assert system.run("systemctl", "restart", "demo").returncode == 0
    yield system
    system.hugealign("disable", "demo")
    system.hugealign("status", "--undo", "/run/hugealign")
    system.run("systemctl", "stop", "demo")


def install(system: System, built: Programs, version: str) -> None:
    """Install the program as a package manager does, by renaming; *version* are its last bytes."""
    path = Path(f"{system.root}{NAME}")
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    shutil.copy(built.good, new)
    with new.open("ab") as file:
        file.write(version.encode())
    new.rename(path)


def windows(system: System) -> str:
    """Return what ``ps`` says of the service."""
    return system.hugealign("ps", system.pid("demo")).stdout


def version(system: System) -> str:
    return system.run("tail", "-c", "8", f"/proc/{system.pid('demo')}/exe").stdout


@pytest.mark.matrix
def test_enable_restart_upgrade_undo(demo: System, built: Programs) -> None:
    assert "0 of 3 windows are huge" in windows(demo)
    shown = demo.hugealign("enable", "--dry-run", "demo")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert not (demo.root / "etc/systemd/system/demo.service.d").exists()
    done = demo.hugealign("enable", "demo")
    assert (done.returncode, done.stderr, done.stdout.count("wrote")) == (0, "", 4)
    assert demo.run("systemd-analyze", "verify", "demo.service").stderr == ""
    assert "0 of 3 windows are huge" in windows(demo)  # it runs on as it was
    demo.run("systemctl", "restart", "demo")
    assert "all 3 windows are huge" in windows(demo)
    # An upgrade: the old one runs on, and ps says what to do; the restart starts the new one, huge.
    install(demo, built, "VERSION2")
    assert '"copy.outdated"' in demo.hugealign("ps", "--json", demo.pid("demo")).stdout
    demo.run("systemctl", "restart", "demo")
    assert (version(demo), "all 3 windows are huge" in windows(demo)) == ("VERSION2", True)
    assert demo.hugealign("status").stdout.count(", current") == 1
    # A crash and systemd's own restart.
    demo.run("systemctl", "kill", "--signal=KILL", "demo")
    demo.run("systemctl", "restart", "demo")
    assert "all 3 windows are huge" in windows(demo)
    undone = demo.hugealign("disable", "demo")
    assert (undone.returncode, undone.stdout.count("removed")) == (0, 4)
    names = sorted(name for name in os.listdir(demo.root / "etc/systemd/system") if "demo" in name)
    assert names == ["demo.service"]
    demo.run("systemctl", "restart", "demo")
    assert (version(demo), "0 of 3 windows are huge" in windows(demo)) == ("VERSION2", True)


@pytest.mark.matrix
def test_service_that_only_groups_others_names_them(demo: System) -> None:
    """As postgresql.service does, which runs /bin/true; the servers are postgresql@15-main and the like."""
    demo.write_unit("demos.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")
    demo.write_unit("demo@.service", UNIT.replace("[Service]", "PartOf=demos.service\n[Service]"))
    assert demo.run("systemctl", "restart", "demos", "demo@one").returncode == 0
    try:
        done = demo.run("env", "PYTHONPATH=/opt/hugealign", "python3", "-c", _ASKED, "plan", "demos")
        result = json.loads(done.stdout)
        assert result["code"] == "service.members"
        assert result["remedy"]["argv"] == ["hugealign", "enable", "demo@one.service"]
        # The libraries of /bin/true have windows; they are of no use to the servers.
        done = demo.hugealign("enable", "--fix", "--libs", "demos")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert advised("run", "hugealign", "enable", "--fix", "--libs", "demo@one.service") in done.stderr
        assert demo.hugealign(*result["remedy"]["argv"][1:]).returncode == 0
        demo.run("systemctl", "restart", "demo@one")
        assert "all 3 windows are huge" in demo.hugealign("ps", demo.pid("demo@one")).stdout
    finally:
        demo.hugealign("disable", "demo@one")
        demo.run("systemctl", "stop", "demos", "demo@one")


@pytest.mark.matrix
def test_service_starts_as_before_if_staging_fails(demo: System, built: Programs) -> None:
    """Also after an upgrade: rather small pages than the old program."""
    assert demo.hugealign("enable", "demo").returncode == 0
    demo.run("systemctl", "restart", "demo")
    assert "all 3 windows are huge" in windows(demo)
    install(demo, built, "VERSION3")
    python = demo.root / "usr/bin/python3.11"
    python.rename(python.with_name("away"))
    try:
        demo.run("systemctl", "restart", "demo")
        assert version(demo) == "VERSION3"
    finally:
        python.with_name("away").rename(python)
    assert "0 of 3 windows are huge" in windows(demo)
    demo.run("systemctl", "restart", "demo")
    assert (version(demo), "all 3 windows are huge" in windows(demo)) == ("VERSION3", True)


@pytest.mark.matrix
def test_before_the_start_the_copy_covers_the_file(demo: System, built: Programs) -> None:
    """Why it is a service of its own: in ExecStartPre a new file would never be seen.  Should that change, it shows."""
    demo.hugealign("stage", NAME)
    unit = UNIT + f"ExecStartPre=+/bin/sh -c 'tail -c 8 \"{NAME.replace('%', '%%')}\" >/opt/seen'\n"
    part = NAME.replace("%", "%%")
    demo.write_unit("demo.service", f'{unit}BindReadOnlyPaths="-/run/hugealign/path{part}":"{part}"\n')
    install(demo, built, "VERSION4")
    demo.run("systemctl", "restart", "demo")
    assert (demo.root / "opt/seen").read_text() == "VERSION1"


@pytest.mark.matrix
def test_service_that_would_have_to_wait_for_itself_is_refused(system: System) -> None:
    """At the next boot systemd would leave out the journal, or D-Bus, to break the cycle."""
    done = system.hugealign("enable", "--fix", "--libs", "systemd-journald")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert worded("service.starts-early") in done.stderr
    assert not (system.root / "etc/systemd/system/systemd-journald.service.d").exists()


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_mariadb_of_debian(built: Programs) -> None:
    """As a new user would: install, enable, upgrade by apt, boot again, undo; the package stays as it is."""
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    work = built.directory / "mariadb"
    work.mkdir()
    work.chmod(0o755)

    def checked(system: System, huge: str) -> None:
        assert huge in system.hugealign("ps", "mariadbd").stdout
        assert system.run("mariadb", "-N", "-e", "select 6 * 7").stdout == "42\n"
        assert system.run("dpkg", "--verify", "mariadb-server-core").stdout == ""

    with filesystems.mounted("btrfs", work, size=4 << 30) as at:
        with booted(at, ("mariadb-server",)) as system:
            checked(system, "no window can be huge")
            assert system.hugealign("enable", "--fix", "mariadb").returncode == 0
            assert system.run("systemctl", "restart", "mariadb").returncode == 0
            checked(system, "all 5 windows are huge")
            before = system.pid("mariadb")
            shutil.copy("/etc/resolv.conf", at / "etc/resolv.conf")
            install = "DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --reinstall mariadb-server{,-core}"
            if system.run("bash", "-c", f"apt-get -qq update && {install}").returncode == 0:
                assert system.pid("mariadb") != before  # the package restarts it
            checked(system, "all 5 windows are huge")
            assert "current, fixed" in system.hugealign("status").stdout
        with booted(at) as system:
            checked(system, "all 5 windows are huge")
            assert system.hugealign("disable", "mariadb").returncode == 0
            assert system.run("systemctl", "restart", "mariadb").returncode == 0
            checked(system, "no window can be huge")


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_tools_that_look_for_outdated_processes(built: Programs) -> None:
    """They name an enabled service when they name the plain one: not after its start, but after an upgrade."""
    if os.geteuid():
        pytest.skip("root is needed to boot a system")
    work = built.directory / "tools"
    work.mkdir()
    tools = ("debian-goodies", "lsof", "needrestart", "procps", "psmisc")
    with filesystems.mounted("btrfs", work, size=3 << 30) as at, booted(at, tools) as system:

        def named() -> tuple[list[str], str, int]:
            listed = system.run("needrestart", "-b", "-r", "l").stdout.splitlines()
            units = [line.removeprefix("NEEDRESTART-SVC: ") for line in listed if line.startswith("NEEDRESTART-SVC")]
            deleted = [line for line in system.run("lsof").stdout.splitlines() if line.endswith("(deleted)")]
            found = re.search(r"Found (\d+) processes", system.run("checkrestart").stdout)
            return units, found[1] if found else "", len(deleted)

        install(system, built, "VERSION1")
        for unit in ("plain.service", "demo.service"):
            system.write_unit(unit, UNIT)
        assert system.hugealign("enable", "demo").returncode == 0
        system.run("systemctl", "restart", "plain", "demo")
        assert "all 3 windows are huge" in windows(system)
        assert named() == ([], "0", 0)
        install(system, built, "VERSION2")
        for _ in range(100):
            if "(deleted)" in system.run("readlink", f"/proc/{system.pid('demo')}/exe").stdout:
                break
            time.sleep(0.2)
        assert named() == (["demo.service", "plain.service"], "2", 2)
        system.run("systemctl", "restart", "plain", "demo")
        assert "all 3 windows are huge" in windows(system)
        assert named() == ([], "0", 0)


@pytest.mark.matrix
def test_files_of_others_and_names_that_are_none(demo: System) -> None:
    theirs = demo.root / "etc/systemd/system/demo.service.d/hugealign.conf"
    theirs.parent.mkdir()
    theirs.write_text("[Service]\n")
    for words in (("enable", "demo"), ("disable", "demo")):
        done = demo.hugealign(*words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        path = "/etc/systemd/system/demo.service.d/hugealign.conf"
        assert worded("service.foreign-file", file=path) in done.stderr
    assert theirs.read_text() == "[Service]\n"
    theirs.unlink()
    theirs.parent.rmdir()
    assert worded("service.unknown") in demo.hugealign("enable", "nothing").stderr
    assert worded("service.not-enabled") in demo.hugealign("disable", "demo").stderr


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to mount a directory for units")


@pytest.fixture
def units(tmp_path: Path, stock: Path) -> Path:
    """A directory that stands for /etc/systemd/system, with a service; no manager runs."""
    place = tmp_path / "system"
    place.mkdir()
    (place / "demo.service").write_text(f"[Service]\nExecStart={stock}/good 5\n")
    return place


def offline(units: Path, *words: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run ``hugealign`` with *words* where *units* is /etc/systemd/system, as in the making of an image."""
    return image(units, *prefix, *stocks.module(*words))


def image(units: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run *words* where *units* is /etc/systemd/system and no manager runs."""
    line = f"""
mkdir -p /etc/systemd/system
mount --bind {units} /etc/systemd/system
[ ! -d /run/systemd/system ] || mount -t tmpfs none /run/systemd
exec "$@"
"""
    command = ["unshare", "--mount", "sh", "-ec", line, "sh", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done


#: What `enable` or `disable` refuses, which they say in text only.
_ASKED = """
import json, sys
from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import DiagnosedError
from hugealign.services import enable
what, unit, *files = sys.argv[1:]
options = enable.EnableOptions(files)
try:
    enable.disable(unit) if what == "disable" else getattr(enable, what)(unit, options)
    print("null")
except DiagnosedError as error:
    print(json.dumps(render.document(error.diagnosis.about(unit))))
"""


def written(units: Path) -> list[str]:
    """Return what is below *units* beside the service, by relative path."""
    return sorted(str(p.relative_to(units)) for p in units.rglob("*") if p.is_file() and p.name != "demo.service")


HELPER, DROP_IN = "hugealign-for-demo.service", "demo.service.d/hugealign.conf"
DROP, PATH = "hugealign-watch-demo.service", "hugealign-watch-demo.path"
WRITTEN = [DROP_IN, HELPER, PATH, DROP]


@needs_root
def test_without_a_manager(units: Path, stock: Path) -> None:
    done = offline(units, "enable", "demo")
    assert (done.returncode, done.stderr, written(units)) == (0, "", WRITTEN)
    assert "enable --renew -- demo.service\n" in (units / HELPER).read_text()
    assert f"PathChanged={stock}/good\n" in (units / PATH).read_text()
    assert (
        f"BindReadOnlyPaths=-/run/hugealign/for/demo.service{stock}/good:{stock}/good\n"
        in (units / DROP_IN).read_text()
    )
    again = offline(units, "enable", "demo.service")
    assert (again.returncode, again.stdout, written(units)) == (0, done.stdout, WRITTEN)
    assert offline(units, "disable", "demo").returncode == 0
    assert sorted(os.listdir(units)) == ["demo.service"]
    (units / "script.service").write_text("[Service]\nExecStart=/usr/bin/ldd x\n")
    assert f"script: {worded('service.script')}; " in offline(units, "enable", "script").stderr
    assert offline(units, "enable", "--file", f"{stock}/good", "script").returncode == 0
    missing = offline(units, "enable", "--file", "/no/such", "demo").stderr
    assert missing == f"hugealign: error: demo: {worded('file.unreadable', file='/no/such', error='ENOENT')}\n"
    # What a shell runs, by its path in the script; and again what the unit says at each start.
    script = f"if [ -e /etc/x ]; then A=1; fi; cd /usr && exec {stock}/good $A"
    (units / "shell.service").write_text(f"[Service]\nExecStart=/bin/sh -c '{script}'\n")
    shell = offline(units, "enable", "--dry-run", "shell").stdout
    assert f"{stock}/good:{stock}/good\n" in shell
    assert "enable --renew -- shell.service\n" in shell
    # Of a directory, what has a whole window.
    below = offline(units, "enable", "--dry-run", "--file", str(stock), "script").stdout
    assert f"{stock}/good:{stock}/good\n" in below
    assert f"{stock}/plain" not in below
    odd = stock / "it's"
    odd.hardlink_to(stock / "good")
    try:
        done = offline(units, "enable", "--dry-run", "--file", str(stock), "script")
    finally:
        odd.unlink()
    assert (done.returncode, done.stdout) == (0, below)
    assert done.stderr == f"hugealign: warning: {odd}: {worded('service.odd-name', file=str(odd))}\n"


@needs_root
def test_small_libraries_are_left_and_the_plan_says_what_copies_take(units: Path, stock: Path) -> None:
    """A copy takes whole huge pages, some of them for less text than half of one."""
    need("gcc")
    for name, size in (("small", 300 << 10), ("large", 3 << 19)):
        text = f".text; .globl {name}; .type {name},@function; {name}: ret; .fill {size}, 1, 0x90; "
        (stock / "lib.s").write_text(f'{text} .section .note.GNU-stack,"",%progbits\n')
        words = ["gcc", "-shared", "-Wl,-z,max-page-size=0x1000", f"{stock}/lib.s", "-o", f"{stock}/lib{name}.so"]
        subprocess.run(words, check=True)
    (stock / "needing.c").write_text("void small(void), large(void); int main(void) { small(); large(); return 0; }\n")
    words = [
        "gcc",
        f"{stock}/needing.c",
        "-o",
        f"{stock}/needing",
        f"-L{stock}",
        "-lsmall",
        "-llarge",
        f"-Wl,-rpath,{stock}",
    ]
    subprocess.run(words, check=True)
    shown = offline(units, "enable", "--dry-run", "--fix", "--libs", "--file", f"{stock}/needing", "demo").stdout
    covered = re.findall(rf":{stock}/(\S+)\n", shown)
    assert ("liblarge.so" in covered, "libsmall.so" in covered) == (True, False)
    named = f"--file={stock}/libsmall.so"
    assert f":{stock}/libsmall.so\n" in offline(units, "enable", "--dry-run", "--fix", named, "demo").stdout
    # At a fixed address nothing moves: data beside the text becomes text.
    (stock / "lib.s").write_text(text.replace(str(size), str(5 << 20)) + '.section .note.GNU-stack,"",%progbits\n')
    (stock / "needing.c").write_text("void large(void); int main(void) { large(); return 0; }\n")
    words = [
        "gcc",
        "-no-pie",
        "-Wl,-z,max-page-size=0x1000",
        f"{stock}/needing.c",
        f"{stock}/lib.s",
        "-o",
        f"{stock}/fixed",
    ]
    subprocess.run(words, check=True)
    fixed = offline(units, "enable", "--dry-run", "--fix", "--file", f"{stock}/fixed", "demo").stdout.splitlines()[-1]
    assert re.fullmatch(r"# 2 copies in memory, \d+\.0 MiB in huge pages, \d.* of read-only data executable", fixed)
    done = offline(units, "enable", "demo")
    pages = -(-(stock / "good").stat().st_size // (2 << 20))
    assert done.stdout.splitlines()[-2] == f"1 copy in memory, {2 * pages}.0 MiB in huge pages"


#: What version 1.0.0 wrote.
_FORMER = {
    HELPER: f"{dropins.MARK}\n[Service]\nType=oneshot\nExecStart=-/bin/hugealign stage --owner demo.service -- /x\n",
    DROP_IN: f"{dropins.MARK}\n[Unit]\nWants={HELPER}\n[Service]\nBindReadOnlyPaths=-/run/hugealign/x:/x\n",
}


@needs_root
def test_what_version_1_0_wrote(units: Path) -> None:
    for words, left in ((("disable", "demo"), []), (("enable", "demo"), WRITTEN)):
        (units / DROP_IN).parent.mkdir()
        for name, text in _FORMER.items():
            (units / name).write_text(text)
        assert "demo.service" in offline(units, "status").stdout
        assert (offline(units, *words).returncode, written(units)) == (0, left)
    assert all((units / name).read_text() != text for name, text in _FORMER.items())


#: A hugealign that others may write to.
_WRITABLE = (
    'cp -r "$0" /opt/; mkdir -p /opt/bin; touch /opt/bin/hugealign; chmod 777 /opt/bin /opt/hugealign; exec "$@"'
)
#: A hugealign without its command.
_ALONE = 'cp -r "$0" /opt/; exec "$@"'
#: A manager that does not answer.
_MANAGED = 'mount -t tmpfs none /run; mkdir -p /run/systemd/system; exec "$@"'
#: What is around the question, by code.
_AROUND = {
    "service.manager": _MANAGED,
    "service.no-command": f"mount -t tmpfs none /opt; {_ALONE}",
    "service.untrusted-command": f"mount -t tmpfs none /opt; {_WRITABLE}",
}
#: code -> the service, how to ask, and the kind of the remedy; {good} and {plain} are programs.
REFUSED = {
    "service.foreign-file": ("[Service]\nExecStart={good}\n", "enable", None),
    "service.image": ("[Service]\nRootImage=/srv/image\nExecStart=/good\n", "plan", "advice"),
    "service.manager": ("[Service]\nExecStart={good}\n", "plan", None),
    "service.mounts-unread": ("[Service]\nBindPaths=/srv/%i:/opt\nExecStart={good}\n", "plan", None),
    "service.no-command": ("[Service]\nExecStart={good}\n", "plan", None),
    "service.no-window": ("[Service]\nExecStart={plain} 5\n", "plan", "run"),
    "service.not-enabled": ("[Service]\nExecStart={good}\n", "disable", "look"),
    "service.odd-name": ("[Service]\nExecStart='{good}\"'\n", "plan", None),
    "service.own-mount": ("[Service]\nReadOnlyPaths={good}\nExecStart={good}\n", "plan", "advice"),
    "service.script": ("[Service]\nExecStart=/usr/bin/ldd x\n", "plan", "name-program"),
    "service.start-unread": ("[Service]\nExecStart=%h/server\n", "plan", "name-program"),
    "service.starter": ("[Service]\nExecStart=/bin/sh -c 'cd {stock}; exec ./good'\n", "plan", "name-program"),
    "service.starts-early": ("[Unit]\nDefaultDependencies=no\n[Service]\nExecStart={good}\n", "plan", None),
    "service.unit-file": ("", "plan", None),
    "service.unknown": ("", "plan", None),
    "service.untrusted-command": ("[Service]\nExecStart={good}\n", "plan", None),
}


#: code -> what a person changes in the unit, as advised.
ADVISED = {
    "service.image": ("RootImage=/srv/image", "RootDirectory={stock}"),
    "service.own-mount": ("ReadOnlyPaths={good}", "ReadOnlyPaths={stock}"),
}


@needs_root
@pytest.mark.parametrize("code", REFUSED)
def test_what_a_refusal_recommends_helps(units: Path, stock: Path, code: str) -> None:
    text, what, kind = REFUSED[code]
    unit = "refused.service"
    good = stock / "good"
    if text:
        (units / unit).write_text(text.format(good=good, plain=stock / "plain", stock=stock))
    if code == "service.unit-file":
        (units / unit).mkdir()
    if code == "service.odd-name":
        shutil.copy(good, f'{good}"')
    if code == "service.foreign-file":
        (units / f"{unit}.d").mkdir()
        (units / f"{unit}.d/hugealign.conf").write_text("[Service]\n")

    def asked(*files: str, script: str = _AROUND.get(code, "")) -> dict[str, Any] | None:
        around = ("sh", "-ec", script, f"{ROOT}/hugealign") if script else ()
        paths = ("env", "PYTHONPATH=/opt" if "/opt" in script else f"PYTHONPATH={ROOT}")
        done = image(units, *around, *paths, "/usr/bin/python3", "-P", "-c", _ASKED, what, unit, *files)
        result: dict[str, Any] | None = json.loads(done.stdout)
        return result

    before = sorted(units.rglob("*"))
    result = asked()
    assert result
    assert (result["code"], result["remedy"] and result["remedy"]["kind"]) == (code, kind)
    assert sorted(units.rglob("*")) == before
    if kind == "name-program":
        assert asked(str(good)) is None
    elif kind == "advice":
        old, new = ADVISED[code]
        (units / unit).write_text(text.format(good=good).replace(old.format(good=good), new.format(stock=stock)))
        assert asked() is None
    elif kind:
        assert result["remedy"]["argv"][0] == "hugealign"
        assert offline(units, *result["remedy"]["argv"][1:]).returncode == 0
        if kind != "look":
            assert any(DROP_IN.partition("/")[2] in str(path) for path in units.rglob("*"))
    elif code in _AROUND:
        assert asked(script="") is None


@needs_root
@pytest.mark.parametrize(
    ("lines", "warned"), [("", True), ("User=nobody\n", False), ("CapabilityBoundingSet=cap_chown\n", False)]
)
@pytest.mark.parametrize("own", ["", "ProtectSystem=yes\n"])
def test_a_program_that_can_mount(units: Path, stock: Path, lines: str, warned: bool, own: str) -> None:
    """Only if others could see what it mounts; what was seen to mount is refused (tests/live/kinds.py)."""
    place = stock / "mounting"
    shutil.copy(stock / "good", place)
    with place.open("ab") as file:
        file.write(b"\0mount\0")
    (units / "mounting.service").write_text(f"[Service]\n{lines}{own}ExecStart={place}\n")
    done = offline(units, "enable", "--dry-run", "mounting")
    place.unlink()
    assert done.returncode == 0
    assert (worded("service.may-mount", program=str(place)) in done.stderr) == (warned and not own)


@needs_root
def test_a_wrapper_whose_instances_are_not_known(units: Path) -> None:
    """As Debian's postgresql, in an image: nothing is to be made huge of /bin/true and its libraries."""
    (units / "wrapper.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    assert offline(units, "enable", "--dry-run", "--fix", "--libs", "wrapper").returncode == 0
    (units / "wrapper@.service").write_text("[Unit]\nPartOf=wrapper.service\n[Service]\nExecStart=/usr/bin/ldd %i\n")
    done = offline(units, "enable", "--fix", "--libs", "wrapper")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert worded("service.members", members="wrapper@.service") in done.stderr


#: Plans, with words of the catalogue or with others.
_PLAN = """
import sys
from hugealign.diagnosis import catalogue, render
from hugealign.services import enable
if sys.argv[1] == "reworded":
    row = catalogue.row
    catalogue.row = render.row = lambda code: row(code).changed(sentence="same", fix="same")
    catalogue.REMEDIES.update(dict.fromkeys(catalogue.REMEDIES, "same"))
plan = enable.plan("demo", enable.EnableOptions(sys.argv[2:]))
print(*plan.staged, *plan.warmed, sep="\\n")
"""


@needs_root
@pytest.mark.parametrize("words", ["own", "reworded"])
def test_whether_a_file_is_warmed_follows_from_the_code(
    units: Path, stock: Path, programs: Programs, words: str
) -> None:
    """One file is where no huge pages are kept, the other is only in use: it can be warmed when it is not."""
    path = programs.copy("in-use")
    with running(path, "5"):
        done = image(units, "env", f"PYTHONPATH={ROOT}", "/usr/bin/python3", "-c", _PLAN, words, str(path))
    assert done.stdout.splitlines() == [f"{stock}/good", str(path)]
    path.unlink()


@needs_root
def test_a_service_that_gains_nothing_is_told_nothing(units: Path) -> None:
    (units / "small.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = image(units, "env", f"PYTHONPATH={ROOT}", "/usr/bin/python3", "-c", _ASKED, "plan", "small")
    result = json.loads(done.stdout)
    assert (result["code"], result["remedy"]) == ("service.no-window", None)


@needs_root
@needs_strace
@pytest.mark.parametrize(
    "fault", [*(pytest.param(f"error={name}", marks=pytest.mark.matrix) for name in ("EIO", "ENOSPC")), "signal=KILL"]
)
@pytest.mark.parametrize(
    ("calls", "numbers"),
    [
        (("renameat", "unlink"), (1, 2)),
        pytest.param(
            ("mkdir", "pwrite64", "linkat", "renameat", "unlink", "rmdir", "flock"),
            (1, 2, 3, 4),
            marks=[pytest.mark.matrix, pytest.mark.timeout(3600)],
        ),
    ],
    ids=["some", "all"],
)
def test_enable_that_fails_or_dies(
    units: Path, calls: tuple[str, ...], numbers: tuple[int, ...], fault: str, tmp_path: Path
) -> None:
    """A drop-in is whole, and never without the service that renews its copy; what is left can be undone."""
    hit: set[str] = set()
    for word in ("enable", "disable"):
        for _, prefix in each(calls, numbers, fault, tmp_path / "calls", hit):
            assert offline(units, "enable", "demo").returncode == 0
            whole = {name: (units / name).read_text() for name in WRITTEN}
            if word == "enable":
                assert offline(units, "disable", "demo").returncode == 0
            done = offline(units, word, "demo", prefix=prefix)
            left = [name for name in written(units) if not Path(name).name.startswith(".hugealign-")]
            assert left in ([], [HELPER], [HELPER, DROP], [HELPER, PATH, DROP], WRITTEN), (word, prefix)
            assert all((units / name).read_text() == whole[name] for name in left)
            assert done.stderr.count("\n") <= 1
            if left:
                assert offline(units, "disable", "demo").returncode == 0
    assert hit == set(calls)


@needs_root
@needs_strace
@pytest.mark.parametrize("number", [1, 2])
def test_a_service_stays_enabled_if_that_fails_when_it_is_done_again(units: Path, number: int) -> None:
    assert offline(units, "enable", "demo").returncode == 0
    before = {name: (units / name).read_bytes() for name in WRITTEN}
    done = offline(units, "enable", "--fix", "demo", prefix=faulty("renameat", f"error=EIO:when={number}"))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert {name: (units / name).read_bytes() for name in written(units)} == before


@needs_root
def test_in_place_where_the_file_system_can(programs: Programs, stock: Path) -> None:
    """Also while the service runs, in small pages: the next start can have them huge."""
    cold = programs.copy("cold-service")
    for path, place in ((cold, "warm"), (stock / "good", "stage")):
        with running(path, "5") as child:
            assert huge_kib(child.pid, path) == 0
            assert enable.place_of(str(path), None) == place
    assert enable.place_of(str(stock / "plain"), Fixes()) == "stage"
    assert enable.place_of(str(stock / "plain"), None) == ""
    assert not [name for name in os.listdir(cold.parent) if name.startswith(".")]


def test_systemd_understands_what_is_written(tmp_path: Path, built: Programs) -> None:
    """Every name that is not refused means itself."""
    need("systemd-analyze")
    program = tmp_path / "100% $HOME:x"
    shutil.copy(built.good, program)
    bind = Found(str(program), str(program))
    setup = dropins.ServiceSetup("demo.service", [bind], words=["--fix", f"--file={program}"], watched=[str(program)])
    written = dropins.texts(setup, "/bin/true")
    (tmp_path / "demo.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "demo.service.d").mkdir()
    names = []
    for path, text in written.items():
        place = tmp_path / path.removeprefix(dropins.PLACE + "/")
        place.write_text(text)
        names.append(place)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "demo.service", *names[:3]],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    assert (done.returncode, re.findall(r".*(?:demo|hugealign).*", done.stderr)) == (0, [])


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("enable",), 2, "which UNIT? For the whole machine: --all"),
        (("disable", "--fix", "x"), 2, "no option --fix"),
        (("enable", "../../tmp/x"), 2, "not the name of a service"),
        (("enable", "--dry-run", "no-such-unit"), 1, worded("service.unknown")),
    ],
)
def test_wrong_usage(words: tuple[str, ...], status: int, message: str) -> None:
    done = hugealign(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
