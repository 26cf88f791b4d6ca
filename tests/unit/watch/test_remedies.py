"""What is recommended about a running process: values, and one start for all parts of a program."""

from pathlib import Path

import pytest

from hugealign.diagnosis import render
from hugealign.diagnosis.values import ARGUMENTS, Diagnosis, Remedy
from hugealign.process.smaps import Mapping
from hugealign.services.view import View
from hugealign.system import libraries
from hugealign.watch.parts import CodeKind, CodePart
from hugealign.watch.remedies import Owner, Remedied, Remedies, Start, Unit, together

W = 2 << 20
SERVICE = Start("/usr/sbin/mariadbd", "mariadb.service", inside=False, fix=True)
NOBODY = 1 << 23  # more than a PID can be


def argv(start: Start) -> tuple[str, ...]:
    return start.remedy(0, 3).argv


def test_start_is_a_command_that_a_shell_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert argv(SERVICE) == ("hugealign", "enable", "--now", "--fix", "--libs", "mariadb")
    escaped = SERVICE.changed(service=r"a\x2db.service", fix=False)  # a-b, as systemd-escape(1) writes it
    assert argv(escaped) == ("hugealign", "enable", "--now", r"a\x2db")
    start = SERVICE.changed(service="", fix=False, files=("/lib/a b.so",))
    front = ("hugealign", "run", "--file", "/lib/a b.so", "--")
    assert start.remedy(0, 3) == Remedy("start", (*front, "/usr/sbin/mariadbd"), ARGUMENTS, 0, 3)
    for place in ("elsewhere", "sbin"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mariadbd").write_text("")
        (tmp_path / place / "mariadbd").chmod(0o755)
    here = start.changed(program=str(tmp_path / "sbin/mariadbd"))
    monkeypatch.setenv("PATH", f"{tmp_path}/sbin")
    assert argv(here)[-1] == "mariadbd"
    monkeypatch.setenv("PATH", f"{tmp_path}/elsewhere:{tmp_path}/sbin")
    assert argv(here)[-1] == f"{tmp_path}/sbin/mariadbd"
    inside = SERVICE.changed(inside=True).remedy(0, 3)
    assert (inside.kind, inside.argv) == ("start-inside", ("hugealign", "run", "--fix", "--", "mariadbd"))


def test_many_libraries_of_packages_are_one_directory() -> None:
    names = ("numpy.libs/a.so", "scipy.libs/b.so", "x/c.so")
    libraries = tuple(f"/srv/venv/lib/python3.11/site-packages/{name}" for name in names)
    start = SERVICE.changed(service="", inside=True, fix=True, files=("/lib/d.so", *libraries))
    words = ("--fix", "--file", "/lib/d.so", "--file", "/srv/venv/lib/python3.11/site-packages")
    assert argv(start) == ("hugealign", "run", *words, "--", "mariadbd")
    few = start.changed(files=libraries[:2])
    assert argv(few)[3:7] == ("--file", libraries[0], "--file", libraries[1])


def test_many_libraries_that_a_program_is_linked_with_are_one_option(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = tuple(f"/lib/{name}.so" for name in "abc")
    monkeypatch.setattr(libraries, "resolve", lambda _program: libraries.Libraries(linked, ()))
    start = SERVICE.changed(service="", fix=True, files=("/lib/opened.so", *linked))
    words = ("hugealign", "run", "--fix", "--libs", "--file", "/lib/opened.so", "--", "/usr/sbin/mariadbd")
    assert argv(start) == words
    assert argv(start.changed(files=linked[:2]))[3:7] == ("--file", linked[0], "--file", linked[1])
    assert "--libs" not in argv(start.changed(wrapper="/srv/start"))  # it is that which is linked with others


def test_what_a_service_starts_is_named() -> None:
    start = SERVICE.changed(started=("/usr/lib/app/a b",), files=("/lib/x.so",))
    assert argv(start)[2:] == ("--now", "--fix", "--libs", "--file=/usr/lib/app/a b", "mariadb")
    (first, second) = together([remedied(start), remedied(SERVICE.changed(started=("/srv/b",)))])
    assert first.diagnosis.remedy == second.diagnosis.remedy
    assert "--file=/srv/b" in argv(start.changed(started=("/srv/b",)))


def remedied(start: Start) -> Remedied:
    return Remedied(Diagnosis("cache.small-pages", "/f", {}, start.remedy(0, 3)), start)


def test_parts_of_a_service_have_one_command_in_whatever_order_they_come() -> None:
    libs = SERVICE.changed(fix=False, files=("/lib/a.so",))
    other, inside = SERVICE.changed(service="nginx.service"), libs.changed(inside=True)
    plain = Remedied(Diagnosis("file.replaced", "/f", {}, Remedy("restart")))
    result = together([remedied(SERVICE), plain, *map(remedied, (libs, other, inside))])
    both = SERVICE.changed(files=("/lib/a.so",))
    assert result[1] == plain
    assert [one.diagnosis.remedy and one.diagnosis.remedy.argv for one in (result[0], *result[2:])] == [
        argv(both), argv(both), argv(other), argv(inside)
    ]  # fmt: skip


def test_what_an_earlier_start_made_huge_is_in_the_next_command() -> None:
    """A library is huge by `run --file`; the command for another one names it too, or it would be small again."""
    program = SERVICE.changed(service="", fix=False)
    done, lacking = program.changed(fix=True, files=("/lib/a.so",)), program.changed(files=("/lib/b.so",))
    (result,) = together([remedied(lacking)], [done])
    assert result.diagnosis.remedy
    words = ("--fix", "--file", "/lib/a.so", "--file", "/lib/b.so", "--", "/usr/sbin/mariadbd")
    assert result.diagnosis.remedy.argv == ("hugealign", "run", *words)


PART = CodePart(CodeKind.PROGRAM, "/srv/app", (Mapping(W, 4 * W, 0, "/srv/app", pages=()),))
OWNER = Owner(NOBODY, "/srv/app", "/srv/app", "", "app")


@pytest.mark.parametrize(
    ("code", "facts", "kind", "words"),
    [
        ("process.thp-disabled", {}, "start", "hugealign run -- /srv/app"),
        ("process.text-written", {}, "restart", ""),
        ("process.mapped-small", {}, "restart", ""),
        ("file.replaced", {}, "restart", ""),
        ("copy.outdated", {}, "restart", ""),
        ("copy.in-memory", {}, "restart", ""),
        ("runtime.small-pages", {"runtime": "", "option": ""}, "run", "hugealign adapt app"),
        ("runtime.small-pages", {"runtime": "x", "option": "-x"}, "adapt-or-option", "hugealign adapt app"),
        ("process.text-copied", {}, "run", "hugealign adapt app"),
        ("runtime.no-window", {"runtime": "x", "option": "-x"}, "set-option", ""),
        ("runtime.no-window", {"runtime": "", "option": ""}, None, ""),
        ("program.small-pages", {}, None, ""),
        ("process.not-touched", {}, None, ""),
    ],
)
def test_remedy_of_each_code(code: str, facts: dict[str, int | str], kind: str | None, words: str) -> None:
    result = Remedies().find(OWNER, PART, Diagnosis(code, "/srv/app", facts), 3).diagnosis
    assert (result.code, result.remedy.kind if result.remedy else None) == (code, kind)
    named = " ".join(result.remedy.argv if result.remedy else ())
    assert (named.endswith(words), bool(named)) == (True, bool(words))


def test_a_service_is_restarted_by_its_manager() -> None:
    owner = OWNER.changed(service="a.service")
    result = Remedies().find(owner, PART, Diagnosis("file.replaced", "/srv/app", {}), 3).diagnosis
    assert result.remedy
    assert (result.remedy.kind, render.command(result.remedy).endswith("systemctl restart a.service")) == ("run", True)
    result = Remedies().find(owner, PART, Diagnosis("process.thp-disabled", "/srv/app", {}), 3).diagnosis
    assert result.remedy == Remedy("allow-huge-pages")


def test_a_file_that_cannot_be_reached_is_told_apart() -> None:
    result = Remedies().find(OWNER, PART, Diagnosis("cache.small-pages", "/srv/app", {}), 3)
    assert (result.diagnosis.code, result.diagnosis.remedy, result.start) == ("file.out-of-reach", None, None)


def test_what_starts_before_us_is_told_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hugealign.services.programs.starts_early", lambda name: name == "journal.service")
    path = tmp_path / "app"
    path.write_bytes(b"no program")
    info = path.stat()
    mapping = Mapping(W, 4 * W, 0, str(path), inode=info.st_ino, pages=())
    part = CodePart(CodeKind.PROGRAM, str(path), (mapping,))
    for exe, service, code in (
        ("/srv/app", "journal.service", "service.starts-early"),
        ("/srv/app", "site.service", "file.not-elf"),  # nothing makes such a file huge
        ("/lib/systemd/systemd", "", "service.starts-early"),
    ):
        owner = OWNER.changed(exe=exe, service=service)
        results = Remedies().find(owner, part, Diagnosis("cache.small-pages", str(path), {}), 3).diagnosis
        assert (results.code, results.remedy) == (code, None)


def test_a_service_that_cannot_be_enabled_is_not_recommended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(b"no program")
    mapping = Mapping(W, 4 * W, 0, str(path), inode=path.stat().st_ino, pages=())
    part = CodePart(CodeKind.PROGRAM, str(path), (mapping,))
    for settings, refused, code in (
        ({}, Diagnosis("service.mounts", "a.service", {"mount": "FUSE"}), "service.mounts"),
        ({"ReadOnlyPaths": str(path)}, None, "service.own-mount"),
        ({"TemporaryFileSystem": str(tmp_path)}, None, "service.own-mount"),
    ):
        unit = Unit(refused=refused, seen=View(settings, "/run/hugealign"))
        monkeypatch.setattr(Unit, "of", lambda _, unit=unit: unit)
        owner = OWNER.changed(exe=str(path), service="a.service")
        result = Remedies().find(owner, part, Diagnosis("cache.small-pages", str(path), {}), 3).diagnosis
        assert (result.code, result.remedy, result.subject) == (code, None, str(path))
