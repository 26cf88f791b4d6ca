"""Unit files read where no manager runs."""

import os
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError
from hugealign.errors import HugealignError, UsageError
from hugealign.process import naming
from hugealign.services import dropins
from hugealign.services import programs as services
from hugealign.system import unitnames


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    first, second = tmp_path / "etc", tmp_path / "lib"
    first.mkdir()
    second.mkdir()
    monkeypatch.setattr(services, "UNIT_DIRECTORIES", (str(first), str(second)))
    monkeypatch.setattr(services, "manager_runs", lambda: False)
    return first, second


def test_programs_of_a_unit_and_its_drop_ins(places: tuple[Path, Path]) -> None:
    first, second = places
    (second / "demo.service").write_text(
        "[Unit]\nExecStart=/no\n[Service]\n# ExecStart=/no\nEnvironment=A=1\n"
        'ExecStart = -"/opt/a b/100%% demo" \\\n  --option\nExecStart=@/bin/second name\n'
    )
    assert services.query("demo").programs == ("/opt/a b/100% demo", "/bin/second")
    assert services.query("demo.service").environment == "A=1"
    (first / "demo.service.d").mkdir()
    (first / "demo.service.d" / "more.conf").write_text("[Service]\nExecStart=\nExecStart=/bin/third\n")
    assert services.query("demo").programs == ("/bin/third",)
    (first / "demo.service").write_text("[Service]\nExecStart=/bin/fourth\n")
    (first / "demo.service.d" / "more.conf").unlink()
    assert services.query("demo").programs == ("/bin/fourth",)


def test_an_alias_is_the_service_itself(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what version 1.0 has enabled by the alias is renewed and undone by it."""
    monkeypatch.setattr(unitnames, "DIRECTORIES", (str(places[0]), str(places[1])))
    monkeypatch.setattr(dropins, "PLACE", str(tmp_path))
    (places[1] / "mariadb.service").write_text("[Service]\nExecStart=/bin/demo\n")
    (places[0] / "mysql.service").symlink_to(places[1] / "mariadb.service")
    assert services.full_name("mysql") == services.query("mysql.service").name == "mariadb.service"
    (tmp_path / "mysql.service.d").mkdir()
    (tmp_path / "mysql.service.d" / "hugealign.conf").write_text("")
    assert services.full_name("mysql") == services.full_name("mysql.service") == "mysql.service"
    assert services.full_name("mariadb") == "mariadb.service"


def test_instance_of_a_template(places: tuple[Path, Path]) -> None:
    (places[1] / "demo@.service").write_text("[Service]\nExecStart=+/bin/demo %i\n")
    (places[0] / "demo@one.service.d").mkdir()
    (places[0] / "demo@one.service.d" / "a.conf").write_text("[Service]\nEnvironment=GLIBC_TUNABLES=x\n")
    result = services.query("demo@one")
    assert (result.name, result.programs, result.environment) == (
        "demo@one.service",
        ("/bin/demo",),
        "GLIBC_TUNABLES=x",
    )


#: Of Debian's postgresql-common.
_WRAPPER = "[Unit]\nDescription=PostgreSQL RDBMS\n[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=on\n"
_CLUSTER = (
    "[Unit]\nDescription=PostgreSQL Cluster %i\nPartOf=postgresql.service\nBefore=postgresql.service\n"
    "[Service]\nType=forking\nExecStart=-/usr/bin/pg_ctlcluster --skip-systemctl-redirect %i start\n"
)


def test_services_that_are_part_of_another(places: tuple[Path, Path]) -> None:
    (places[1] / "postgresql.service").write_text(_WRAPPER)
    assert services.members("postgresql.service") == ()
    (places[1] / "postgresql@.service").write_text(_CLUSTER)
    (places[0] / "postgresql@15-main.service").symlink_to(places[1] / "postgresql@.service")
    (places[0] / "a-directory.service").mkdir()
    (places[0] / "more.service.d").mkdir()
    (places[1] / "more.service").write_text("[Unit]\nPartOf=x.service\nPartOf=y.service postgresql.service\n")
    wanted = ("more.service", "postgresql@.service", "postgresql@15-main.service")
    assert services.members("postgresql.service") == wanted
    (places[0] / "more.service.d/alone.conf").write_text("[Unit]\nPartOf=\n")
    assert services.members("postgresql.service") == wanted[1:]


@pytest.mark.parametrize(
    ("lines", "early"), [("", False), ("DefaultDependencies=no\n", True), ("DefaultDependencies=1\n", False)]
)
def test_services_that_start_before_others_may(places: tuple[Path, Path], lines: str, early: bool) -> None:
    (places[1] / "demo.service").write_text(f"[Unit]\n{lines}[Service]\nExecStart=/bin/demo\n")
    assert services.starts_early("demo.service") == early
    (places[0] / "demo.service.d").mkdir()
    (places[0] / "demo.service.d" / "more.conf").write_text("[Unit]\nDefaultDependencies=yes\n")
    assert not services.starts_early("demo.service")
    assert not services.starts_early("nothing.service")


def test_where_a_program_without_a_directory_is_searched_for(places: tuple[Path, Path]) -> None:
    (places[1] / "demo.service").write_text("[Service]\nExecStart=found it\n")
    found = services.query("demo")
    assert (found.programs, found.path) == (("found",), services.PROGRAM_DIRECTORIES)
    (places[1] / "demo.service").write_text("[Service]\nExecSearchPath=/opt/bin:/srv\nExecStart=found it\n")
    assert services.query("demo").path == ("/opt/bin", "/srv")


def test_settings_that_decide_which_files_it_sees(places: tuple[Path, Path]) -> None:
    unit = places[1] / "demo.service"
    unit.write_text("[Service]\nExecStart=/bin/x\nRootDirectory=/srv\nBindPaths=/a:/b\nBindPaths=/c /d\n")
    settings = services.query("demo").settings
    assert (settings["RootDirectory"], settings["BindPaths"], settings["RootImage"]) == ("/srv", "/a:/b /c /d", "")
    unit.write_text("[Service]\nExecStart=/bin/x\nRootDirectory=/srv/%i\n")
    with pytest.raises(RefusalError) as refusal:
        services.query("demo")
    assert refusal.value.diagnosis.code == "service.mounts-unread"


@pytest.mark.parametrize("line", ["/opt/%n/demo", '"/opt/a\\x20b"', '"unended'])
def test_what_cannot_be_read_is_asked_for(places: tuple[Path, Path], line: str) -> None:
    (places[1] / "demo.service").write_text(f"[Service]\nExecStart={line}\n")
    with pytest.raises(RefusalError) as refusal:
        services.query("demo")
    assert (refusal.value.diagnosis.code, refusal.value.diagnosis.facts) == ("service.start-unread", {"value": line})
    assert services.query("demo", named=True).programs == ()


@pytest.mark.parametrize("unit", ["", "../demo", "a/b", "a b", "x" * 300, "a@b@c", "a\n"])
@pytest.mark.usefixtures("places")
def test_names_of_units(unit: str) -> None:
    with pytest.raises(UsageError):
        services.query(unit)


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manager runs, and what it says of each unit is in the file of that name here."""
    monkeypatch.setattr(services, "manager_runs", lambda: True)
    monkeypatch.setattr(unitnames, "DIRECTORIES", ())
    monkeypatch.setattr(services, "UNIT_DIRECTORIES", (str(tmp_path / "units"),))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(
        f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\nfor unit; do :; done\nexec cat "{tmp_path}/said-$unit"\n'
    )
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


SHOWN = """LoadState=loaded
ExecStartPre={ path=/bin/mkdir ; argv[]=/bin/mkdir -p /x ; ignore_errors=no ; start_time=[n/a] }
ExecStart={ path=/usr/sbin/a ; argv[]=/usr/sbin/a $X ; ignore_errors=yes ; pid=0 }
ExecStart={ path=/usr/sbin/b ; argv[]=/usr/sbin/b ; ignore_errors=no ; pid=0 }
ExecStart={ path=/usr/sbin/a ; argv[]=/usr/sbin/a 2 ; ignore_errors=no ; pid=0 }
MainPID=77
Environment=A=1 "B=2 3"
ConsistsOf=one.service two.socket three@x.service
ExecSearchPath=/opt/bin:/srv/bin
RootDirectory=/srv
BindPaths=/a:/b
BindPaths=/c
"""


def test_what_the_manager_shows(systemctl: Path) -> None:
    (systemctl / "said-demo.service").write_text(SHOWN)
    shown = services.query("demo")
    assert shown.settings["RootDirectory"] == "/srv"
    assert shown.settings["BindPaths"] == "/a:/b /c"
    assert shown.settings["RootImage"] == ""
    assert (shown.name, shown.programs, shown.pid) == ("demo.service", ("/usr/sbin/a", "/usr/sbin/b"), 77)
    assert (shown.environment, shown.members) == ('A=1 "B=2 3"', ("one.service", "three@x.service"))
    assert shown.path == ("/opt/bin", "/srv/bin")
    assert shown.commands == ("/bin/mkdir -p /x", "/usr/sbin/a $X", "/usr/sbin/b", "/usr/sbin/a 2")
    assert shown.starts == shown.commands[1:]
    (systemctl / "said-demo.service").write_text("LoadState=loaded\n")
    bare = services.query("demo")
    assert (bare.programs, bare.pid, bare.path, bare.members) == ((), 0, services.PROGRAM_DIRECTORIES, ())
    call = (systemctl / "calls").read_text().split()
    assert call[:3] == ["--no-pager", "show", "-p"]
    assert call[4:6] == ["--", "demo.service"]
    for state in ("not-found", "masked", ""):
        (systemctl / "said-demo.service").write_text(f"LoadState={state}\n" * bool(state))
        with pytest.raises(RefusalError) as refusal:
            services.query("demo")
        assert refusal.value.diagnosis.code == "service.unknown"
        assert not services.exists("demo")
    (systemctl / "said-demo.service").write_text("LoadState=loaded\nMainPID=x\n")
    with pytest.raises(HugealignError):
        services.query("demo")
    assert services.exists("demo")


def test_a_manager_that_fails(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def facts() -> object:
        with pytest.raises(DiagnosedError) as error:
            services.systemctl("show", "x")
        assert error.value.diagnosis.code == "service.manager"
        return error.value.diagnosis.facts

    command = systemctl / "bin/systemctl"
    command.write_text("#!/bin/sh\necho; echo first >&2; echo second >&2; exit 4\n")
    assert facts() == {"command": "show", "status": 4, "output": "first"}
    command.write_text("#!/bin/sh\nexit 1\n")
    assert facts() == {"command": "show", "status": 1, "output": ""}
    command.write_text("#!/bin/sh\nexec sleep 9\n")
    monkeypatch.setattr(services, "_SECONDS", 0.2)
    assert facts() == {"command": "show", "seconds": 0.2}
    command.unlink()
    monkeypatch.setenv("PATH", str(systemctl))
    assert facts() == {"command": "show", "error": "ENOENT"}


def test_a_restart(systemctl: Path) -> None:
    (systemctl / "said-a.service").touch()
    services.restart("a.service")
    services.restart("a.service", only_running=True)
    assert (systemctl / "calls").read_text() == "--no-pager restart -- a.service\n--no-pager try-restart -- a.service\n"


@pytest.mark.parametrize(
    ("unit", "near", "remedy"),
    [
        ("dem", "demo", ""),
        ("unlike-all-others", "", ""),
        ("99999999", "", "process"),
        ("python-of-these-tests", "", "start"),
    ],
)
def test_a_service_that_does_not_exist(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, unit: str, near: str, remedy: str
) -> None:
    (places[1] / "demo.service").touch()
    (places[1] / "dem@.service").touch()
    monkeypatch.setattr(naming, "named", lambda name, _: [1] if name == "python-of-these-tests" else [])
    with pytest.raises(RefusalError) as refusal:
        services.query(unit)
    diagnosis = refusal.value.diagnosis
    assert (diagnosis.code, diagnosis.facts["near"]) == ("service.unknown", near)
    assert (diagnosis.remedy.kind if diagnosis.remedy else "") == remedy
    assert not services.exists(unit)


def test_names_that_are_too_long(places: tuple[Path, Path]) -> None:
    longest = "x" * (200 - len(".service"))
    (places[1] / f"{longest}.service").write_text("[Service]\nExecStart=/bin/x\n")
    assert services.query(longest).programs == ("/bin/x",)
    with pytest.raises(UsageError):
        services.query(f"{longest}x")
    for unit in ("demo.socket", "demo@"):
        with pytest.raises(RefusalError):
            services.query(unit)


def test_a_unit_that_cannot_be_read(places: tuple[Path, Path]) -> None:
    (places[1] / "demo.service").mkdir()
    with pytest.raises(DiagnosedError) as error:
        services.query("demo")
    assert services.exists("demo")
    assert error.value.diagnosis.facts == {"file": str(places[1] / "demo.service"), "error": "EISDIR"}
    assert services.exists("demo")


@pytest.mark.parametrize(
    ("line", "programs"),
    [
        ("/bin/a b", ("/bin/a",)),
        ("'/bin/a b' c", ("/bin/a b",)),
        ("-@:+!|/bin/a x", ("/bin/a",)),
        ("/bin/%%a", ("/bin/%a",)),
        ("/bin/%a", None),
        ('"/bin/a"x', None),
        ('""', None),
    ],
)
def test_a_command(places: tuple[Path, Path], line: str, programs: tuple[str, ...] | None) -> None:
    (places[1] / "demo.service").write_text(f"[Service]\nExecStart={line}\nPrivateTmp=%%a\n")
    if programs is None:
        with pytest.raises(RefusalError):
            services.query("demo")
        programs = ()
    found = services.query("demo", named=True)
    assert (found.programs, found.starts, found.settings["PrivateTmp"]) == (programs, (line,), "%a")


def test_drop_ins_of_all_directories(places: tuple[Path, Path]) -> None:
    """By their names, the first directory's of one name, and the instance's after the template's."""
    for place, unit, name, value in (
        (places[1], "demo@", "b", "template"),
        (places[1], "demo@x", "a", "first"),
        (places[1], "demo@x", "b", "second"),
        (places[0], "demo@x", "c", "etc"),
        (places[1], "demo@x", "c", "lib"),
    ):
        (place / f"{unit}.service.d").mkdir(exist_ok=True)
        (place / f"{unit}.service.d/{name}.conf").write_text(f"[Service]\nEnvironment={value}\n")
    (places[1] / "demo@.service").write_text("[Service]\nExecStart=/bin/x\nEnvironment=unit\n")
    assert services.query("demo@x").environment.split("\n") == ["unit", "first", "second", "etc"]
    assert services.query("demo@y").environment.split("\n") == ["unit", "template"]
