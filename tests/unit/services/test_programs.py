"""Unit files read where no manager runs."""

from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.errors import UsageError
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
    assert services.look("demo").programs == ("/opt/a b/100% demo", "/bin/second")
    assert services.look("demo.service").environment == "A=1"
    (first / "demo.service.d").mkdir()
    (first / "demo.service.d" / "more.conf").write_text("[Service]\nExecStart=\nExecStart=/bin/third\n")
    assert services.look("demo").programs == ("/bin/third",)
    (first / "demo.service").write_text("[Service]\nExecStart=/bin/fourth\n")
    (first / "demo.service.d" / "more.conf").unlink()
    assert services.look("demo").programs == ("/bin/fourth",)


def test_an_alias_is_the_service_itself(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what version 1.0 has enabled by the alias is renewed and undone by it."""
    monkeypatch.setattr(unitnames, "DIRECTORIES", (str(places[0]), str(places[1])))
    monkeypatch.setattr(dropins, "PLACE", str(tmp_path))
    (places[1] / "mariadb.service").write_text("[Service]\nExecStart=/bin/demo\n")
    (places[0] / "mysql.service").symlink_to(places[1] / "mariadb.service")
    assert services.full_name("mysql") == services.look("mysql.service").name == "mariadb.service"
    (tmp_path / "mysql.service.d").mkdir()
    (tmp_path / "mysql.service.d" / "hugealign.conf").write_text("")
    assert services.full_name("mysql") == services.full_name("mysql.service") == "mysql.service"
    assert services.full_name("mariadb") == "mariadb.service"


def test_instance_of_a_template(places: tuple[Path, Path]) -> None:
    (places[1] / "demo@.service").write_text("[Service]\nExecStart=+/bin/demo %i\n")
    (places[0] / "demo@one.service.d").mkdir()
    (places[0] / "demo@one.service.d" / "a.conf").write_text("[Service]\nEnvironment=GLIBC_TUNABLES=x\n")
    result = services.look("demo@one")
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
    found = services.look("demo")
    assert (found.programs, found.path) == (("found",), services.PROGRAM_DIRECTORIES)
    (places[1] / "demo.service").write_text("[Service]\nExecSearchPath=/opt/bin:/srv\nExecStart=found it\n")
    assert services.look("demo").path == ("/opt/bin", "/srv")


def test_settings_that_decide_which_files_it_sees(places: tuple[Path, Path]) -> None:
    unit = places[1] / "demo.service"
    unit.write_text("[Service]\nExecStart=/bin/x\nRootDirectory=/srv\nBindPaths=/a:/b\nBindPaths=/c /d\n")
    settings = services.look("demo").settings
    assert (settings["RootDirectory"], settings["BindPaths"], settings["RootImage"]) == ("/srv", "/a:/b /c /d", "")
    unit.write_text("[Service]\nExecStart=/bin/x\nRootDirectory=/srv/%i\n")
    with pytest.raises(RefusalError) as refusal:
        services.look("demo")
    assert refusal.value.diagnosis.code == "service.mounts-unread"


@pytest.mark.parametrize("line", ["/opt/%n/demo", '"/opt/a\\x20b"', '"unended'])
def test_what_cannot_be_read_is_asked_for(places: tuple[Path, Path], line: str) -> None:
    (places[1] / "demo.service").write_text(f"[Service]\nExecStart={line}\n")
    with pytest.raises(RefusalError) as refusal:
        services.look("demo")
    assert (refusal.value.diagnosis.code, refusal.value.diagnosis.facts) == ("service.start-unread", {"value": line})
    assert services.look("demo", named=True).programs == ()


@pytest.mark.parametrize("unit", ["", "../demo", "a/b", "a b", "x" * 300, "a@b@c", "a\n"])
@pytest.mark.usefixtures("places")
def test_names_of_units(unit: str) -> None:
    with pytest.raises(UsageError):
        services.look(unit)
