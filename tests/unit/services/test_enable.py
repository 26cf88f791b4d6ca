"""What `enable` writes and undoes, and what a start finds: with units and a store that only these tests see."""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hugealign.diagnosis import documents
from hugealign.diagnosis.refusal import DiagnosedError
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError, UsageError
from hugealign.io import replacing
from hugealign.pagecache import warming
from hugealign.pagecache.warm import CachedText
from hugealign.run import copies, store
from hugealign.services import dropins, enable, files
from hugealign.services import programs as services
from hugealign.services.enable import EnableOptions
from hugealign.services.files import File
from hugealign.services.programs import Service
from hugealign.services.view import Found, View
from hugealign.system import namespace
from tests.unit.apart import M, Test, apart, program


@contextlib.contextmanager
def refused(code: str, **facts: object) -> Iterator[None]:
    with pytest.raises(HugealignError) as error:
        yield
    diagnosis = error.value.diagnosis  # type: ignore[attr-defined]
    assert diagnosis.code == code
    assert {name: diagnosis.facts[name] for name in facts} == facts


PATCHED = pytest.MonkeyPatch()  # in children alone


def system(directory: Path) -> Path:
    """Let units and the store be in *directory*, on a file system without huge pages; return where units are."""
    namespace.mount_tmpfs("/run", "mode=0755")
    namespace._mount("none", str(directory), "ramfs", 0, "mode=0755")
    program(directory / "program")
    place = directory / "system"
    place.mkdir()
    found = str(directory / "run/{}.d/hugealign-found.conf")
    PATCHED.setattr(dropins, "PLACE", str(place))
    PATCHED.setattr(services, "UNIT_DIRECTORIES", (str(place),))
    PATCHED.setattr(services, "manager_runs", lambda: False)
    PATCHED.setattr(dropins, "found_since", found.format)
    return place


def with_units(test: Test) -> Callable[[], None]:
    """Run *test* apart, with a program and where units are."""

    @functools.wraps(test)
    def run(file: Path, _: Path) -> None:
        test(file, system(file.parent))

    return apart(run)


def unit(place: Path, *lines: str, name: str = "demo.service") -> None:
    (place / name).write_text("\n".join(("[Service]", *lines, "")))


def written(place: Path) -> set[str]:
    """Return the files below *place* that are ours, by name."""
    return {path.name for path in place.rglob("hugealign*") if path.is_file()}


HELPER, DROP_IN = "hugealign-for-demo.service", "hugealign.conf"
WATCHED = {HELPER, DROP_IN, "hugealign-watch-demo.path", "hugealign-watch-demo.service"}


@with_units
def test_enabled_and_disabled(file: Path, place: Path) -> None:
    unit(place, f"ExecStart={file}")
    with refused("service.not-enabled"):
        enable.disable("demo")
    plan = enable.plan("demo", EnableOptions())
    assert (plan.name, plan.staged, plan.warmed, plan.left) == ("demo.service", [str(file)], [], [])
    assert (plan.memory, plan.executable) == (3 * M, 0)
    assert written(place) == set()
    assert enable.enable("demo", EnableOptions()) == plan
    assert written(place) == WATCHED
    for path, text in plan.texts.items():
        assert Path(path).read_text() == text
        assert os.stat(path).st_mode & 0o777 == 0o644
    helper = (place / HELPER).read_text()
    assert " enable --renew -- demo.service\n" in helper
    assert "TimeoutStartSec=60\n" in helper
    assert f"PathChanged={file}\n" in (place / "hugealign-watch-demo.path").read_text()
    assert "GLIBC_TUNABLES" not in (place / "demo.service.d" / DROP_IN).read_text()
    enable.renew("demo", EnableOptions())
    assert store.entries()
    paths = enable.disable("demo")
    assert {os.path.basename(path) for path in paths} == WATCHED
    assert written(place) == set()
    assert sorted(os.listdir(place)) == ["demo.service"]
    assert store.entries() == []


@with_units
def test_what_is_no_longer_watched(file: Path, place: Path) -> None:
    """With files in place of copies, the units of the watch go; a file of others in a drop-in's directory stays."""
    unit(place, f"ExecStart={file}")
    enable.enable("demo", EnableOptions())
    (place / "demo.service.d/other.conf").touch()
    PATCHED.setattr(enable, "place_of", lambda *_: "warm")
    done = enable.enable("demo", EnableOptions())
    assert (done.staged, done.warmed, done.memory) == ([], [str(file)], 0)
    assert written(place) == {HELPER, DROP_IN}
    enable.disable("demo")
    assert sorted(os.listdir(place)) == ["demo.service", "demo.service.d"]


@with_units
def test_files_of_others(file: Path, place: Path) -> None:
    """Are neither replaced nor removed, and nothing else is."""
    unit(place, f"ExecStart={file}")
    (place / HELPER).write_text("# mine\n")
    for attempt in (lambda: enable.enable("demo", EnableOptions()), lambda: enable.disable("demo")):
        with refused("service.foreign-file", file=str(place / HELPER)):
            attempt()
        assert written(place) == {HELPER}
    (place / HELPER).unlink()
    (place / HELPER).mkdir()
    with refused("service.unit-file", error="EISDIR"):
        enable.enable("demo", EnableOptions())
    assert enable._ours(str(place / "none")) is None


@with_units
def test_what_fails_leaves_what_was(file: Path, place: Path) -> None:
    unit(place, f"ExecStart={file}")
    write = enable._write
    for number in range(1, 5):
        for before in (False, True):
            if before:
                enable.enable("demo", EnableOptions())
                (place / HELPER).write_text(f"{dropins.MARK}\nold\n")
            texts = {path.name: path.read_text() for path in place.rglob("hugealign*")}
            left = [number]

            def failing(path: str, text: str, left: list[int] = left) -> None:
                left[0] -= 1
                if not left[0]:
                    raise DiagnosedError("service.unit-file", file=path, error="EIO")
                write(path, text)

            PATCHED.setattr(enable, "_write", failing)
            with refused("service.unit-file", error="EIO"):
                enable.enable("demo", EnableOptions())
            PATCHED.setattr(enable, "_write", write)
            assert {path.name: path.read_text() for path in place.rglob("hugealign*")} == texts
            if before:
                enable.disable("demo")
    assert sorted(os.listdir(place)) == ["demo.service"]


@with_units
def test_what_cannot_be_put_back_is_removed(file: Path, place: Path) -> None:
    unit(place, f"ExecStart={file}")
    enable.enable("demo", EnableOptions())
    before = {path: enable._ours(path) for path in dropins.paths("demo.service")}

    def write(*_: object) -> None:
        raise OSError(5, "")

    PATCHED.setattr(replacing, "write", write)
    enable._put_back(before, [str(place / HELPER)])
    assert written(place) == set()


@with_units
def test_what_a_start_finds(file: Path, place: Path) -> None:
    """The program as it is then, through links that turned since; what the drop-in does not cover yet is added."""
    link, other = file.with_name("current"), program(file.with_name("v2"))
    link.symlink_to("program")
    unit(place, f"ExecStart={link}")
    with refused("service.not-enabled"):
        enable.renew("demo", EnableOptions())
    enable.enable("demo", EnableOptions())
    found = file.parent / "run/demo.service.d/hugealign-found.conf"
    done = enable.renew("demo", EnableOptions())
    assert (done.staged, done.warmed, done.failed, found.exists()) == ([str(file)], [], [], False)
    link.unlink()
    link.symlink_to("v2")
    done = enable.renew("demo", EnableOptions())
    assert (done.staged, done.failed) == ([str(other)], [])
    assert f"/v2:{other}\n" in found.read_text()
    before = found.stat().st_ino
    enable.renew("demo", EnableOptions())
    assert found.stat().st_ino == before
    other.chmod(0o4755)
    done = enable.renew("demo", EnableOptions())
    assert (done.staged, [why.code for why in done.failed]) == ([], ["copy.privileges"])
    other.unlink()
    done = enable.renew("demo", EnableOptions())
    assert (done.staged, done.failed) == ([], [])
    program(file, size=0x1000)
    link.unlink()
    link.symlink_to("program")
    done = enable.renew("demo", EnableOptions())
    assert (done.staged, done.warmed) == ([], [])


@with_units
def test_a_start_with_other_files(file: Path, place: Path) -> None:
    """Those of --file, and what can be huge in place; a mount of the unit's own cannot hold a copy."""
    other = program(file.with_name("other"))
    unit(place, f"ExecStart={file}")
    options = EnableOptions(files=(str(other),))
    enable.enable("demo", options)
    done = enable.renew("demo", options)
    assert sorted(done.staged) == sorted([str(other), str(file)])
    assert len(store.entries()) == 2
    PATCHED.setattr(enable, "place_of", lambda *_: "warm")
    third = program(file.with_name("third"))
    done = enable.renew("demo", EnableOptions(files=(str(other), str(third))))
    assert (sorted(done.staged), done.warmed) == (sorted([str(other), str(file)]), [str(third)])
    PATCHED.setattr(enable, "place_of", lambda *_: "")
    assert enable.renew("demo", EnableOptions(files=(str(third),))).warmed == []
    unit(place, f"ExecStart={file}", f"BindReadOnlyPaths={other}:{file}")
    assert enable.renew("demo", EnableOptions()).staged == []


@with_units
def test_a_bound_of_memory(file: Path, place: Path) -> None:
    """The program first, then what has the most windows for its memory, as far as it fits; at each start the same."""
    one, three = program(file.with_name("one")), program(file.with_name("three"), size=3 * M)  # 1 of 3, 3 of 5
    unit(place, f"ExecStart={file}")

    def linked(found: list[File], *_: object) -> list[File]:
        return [*found, *(File(name, Found(name, name), library=True) for name in map(str, (one, three)))]

    PATCHED.setattr(files, "with_libraries", linked)
    for most, staged, memory, left in (
        (None, [file, one, three], 11 * M, []),
        (11 * M, [file, one, three], 11 * M, []),
        (11 * M - 1, [file, three], 8 * M, [{"size": 3 * M, "room": 3 * M - 1}]),
        (7 * M, [file, one], 6 * M, [{"size": 5 * M, "room": 4 * M}]),
        (3 * M, [file], 3 * M, [{"size": 5 * M, "room": 0}, {"size": 3 * M, "room": 0}]),
    ):
        options = EnableOptions(libs=True, max=most)
        plan = enable.enable("demo", options)
        assert (plan.staged, plan.memory) == ([*map(str, staged)], memory), most
        assert [diagnosis.facts for diagnosis in plan.left] == left
        assert {diagnosis.code for diagnosis in plan.left} <= {"policy.no-room"}
        done = enable.renew("demo", options)
        assert (sorted(done.staged), done.failed) == (sorted(map(str, staged)), plan.left)
    assert f" enable --renew --libs --max={3 * M} -- demo.service\n" in (place / HELPER).read_text()
    program(file, size=2 * M)  # an upgrade, which no longer fits
    done = enable.renew("demo", EnableOptions(max=3 * M))
    assert ([diagnosis.code for diagnosis in done.failed], done.staged) == (["policy.no-room"], [])
    with refused("policy.no-room"):
        enable.plan("demo", EnableOptions(max=M))


@with_units
def test_what_is_not_enabled(file: Path, place: Path) -> None:
    small = program(file.with_name("small"), size=0x1000)
    unshifted = program(file.with_name("unshifted"), at=0x1000)
    (file.parent / "script").write_text("#!/bin/sh\n")
    (file.parent / "sh").symlink_to("program")
    cases: list[tuple[str, tuple[str, ...], Remedy | None, EnableOptions]] = [
        ("service.script", (f"ExecStart={file.parent}/script",), Remedy("name-program"), EnableOptions()),
        ("service.script", (), Remedy("name-program"), EnableOptions()),
        ("service.no-window", (f"ExecStart={small}",), None, EnableOptions()),
        (
            "service.no-window",
            (f"ExecStart={unshifted}",),
            Remedy("run", ("hugealign", "enable", "--fix", "demo.service")),
            EnableOptions(),
        ),
        ("service.starter", (f"ExecStart={file.parent}/sh -c x",), Remedy("name-program"), EnableOptions()),
        ("service.own-mount", (f"ExecStart={file}", f"ReadOnlyPaths={file}"), None, EnableOptions()),
        ("service.starts-early", (f"ExecStart={file}", "[Unit]", "DefaultDependencies=no"), None, EnableOptions()),
        ("service.mounts", (f"ExecStart={file}", "ExecStartPre=/bin/mount /x"), None, EnableOptions()),
        ("file.unreadable", (f"ExecStart={file}",), None, EnableOptions(files=("/none",))),
    ]
    for code, lines, remedy, options in cases:
        unit(place, *lines)
        with pytest.raises(HugealignError) as error:
            enable.plan("demo", options)
        diagnosis = error.value.diagnosis  # type: ignore[attr-defined]
        assert diagnosis.code == code, (lines, diagnosis)
        assert remedy is None or diagnosis.remedy == remedy, diagnosis
    unit(place, f"ExecStart={unshifted}")
    plan = enable.plan("demo", EnableOptions(fix=True))
    assert (plan.staged, plan.memory) == ([str(unshifted)], 3 * M)
    assert " enable --renew --fix -- demo.service\n" in plan.texts[str(place / HELPER)]
    with refused("service.unknown"):
        enable.plan("other", EnableOptions())
    with pytest.raises(UsageError):
        enable.plan("a/b", EnableOptions())


@with_units
def test_a_service_that_groups_others(file: Path, place: Path) -> None:
    small = program(file.with_name("small"), size=0x1000)
    for lines in ((), (f"ExecStart={small}",)):
        unit(place, *lines)
        unit(place, f"ExecStart={file}", "[Unit]", "PartOf=demo.service", name="part@.service")
        for name, remedy in (
            ("part@.service", None),
            ("part@1.service", ("hugealign", "enable", "--libs", "part@1.service")),
        ):
            unit(place, f"ExecStart={file}", "[Unit]", "PartOf=demo.service", name=name)
            with pytest.raises(HugealignError) as error:
                enable.plan("demo", EnableOptions(libs=True))
            diagnosis = error.value.diagnosis  # type: ignore[attr-defined]
            assert diagnosis.code == "service.members"
            assert (diagnosis.remedy and diagnosis.remedy.argv) == remedy
        (place / "part@1.service").unlink()


@with_units
def test_libraries(file: Path, place: Path) -> None:
    """Those that its programs are linked with, and none but those if the program itself has no window."""
    library = str(program(file.with_name("library")))
    small = program(file.with_name("small"), size=0x1000)

    def linked(found: list[File], *_: object) -> list[File]:
        return [*found, File(library, Found(library, library), library=True)]

    PATCHED.setattr(files, "with_libraries", linked)
    for name in (file, small):
        unit(place, f"ExecStart={name}")
        staged = [str(name)] if name == file else []
        plan = enable.plan("demo", EnableOptions(libs=True))
        assert (plan.staged, plan.memory) == ([*staged, library], 3 * M * (len(staged) + 1))
        assert " enable --renew --libs -- demo.service\n" in plan.texts[str(place / HELPER)]
    unit(place, f"ExecStart={file}")
    enable.enable("demo", EnableOptions(libs=True))
    assert enable.renew("demo", EnableOptions(libs=True)).staged == [str(file), library]
    assert enable.renew("demo", EnableOptions()).staged == [str(file)]


@with_units
def test_directories(file: Path, place: Path) -> None:
    """Of the files below one, those that no unit can name are left, and said."""
    plugins = file.parent / "plugins"
    plugins.mkdir()
    for name in ("a.so", "b.so", "odd;name"):
        program(plugins / name)
    unit(place, f"ExecStart={file}")
    plan = enable.plan("demo", EnableOptions(files=(str(plugins),)))
    assert sorted(plan.staged) == sorted([str(file), str(plugins / "a.so"), str(plugins / "b.so")])
    assert [(left.code, left.subject) for left in plan.left] == [("service.odd-name", str(plugins / "odd;name"))]
    watched = plan.texts[str(place / "hugealign-watch-demo.path")]
    assert f"PathChanged={file}\n" in watched
    with refused("service.odd-name", file=str(plugins / "odd;name")):
        enable.plan("demo", EnableOptions(files=(str(plugins / "odd;name"),)))


@pytest.mark.parametrize(
    ("names", "watched"),
    [
        ([], []),
        (["/a/x"], ["/a/x"]),
        (["/a/x", "/b/1", "/b/2"], ["/a/x", "/b/1", "/b/2"]),
        (["/a/x", "/b/1", "/b/2", "/b/3"], ["/a/x", "/b"]),
        (["/b/1", "/b/2", "/a/x", "/b/3"], ["/b", "/a/x"]),
        (["/a/x", *(f"/{n}/1" for n in range(9))], ["/a/x", *(f"/{n}/1" for n in range(7))]),
        (["/a/x;", "/b/y"], ["/b/y"]),
        (["/z/x", "/b/1", "/b/2"], ["/z/x", "/b/1", "/b/2"]),
    ],
)
def test_what_is_watched(names: list[str], watched: list[str]) -> None:
    assert enable._watched(names) == watched


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (EnableOptions(), []),
        (EnableOptions(fix=True), ["--fix"]),
        (EnableOptions(libs=True), ["--libs"]),
        (EnableOptions(("/a",), libs=True, fix=True), ["--fix", "--libs", "--file=/a"]),
        (EnableOptions(fix=True, max=512 << 20, now=True), ["--now", "--fix", "--max=536870912"]),
    ],
)
def test_the_command_again(options: EnableOptions, words: list[str]) -> None:
    assert enable._words(options, "a", "b") == ("hugealign", "enable", *words, "a", "b")


SERVER, LIBRARY, ODD, BOUND = (Found(name, name) for name in ("/srv/server", "/lib/a.so", "/lib/a;b", "/srv/bound"))


@pytest.mark.parametrize(
    ("file", "place", "kept", "code"),
    [
        (File("/srv/server", SERVER), "stage", True, ""),
        (File("/srv/server", SERVER), "warm", True, ""),
        (File("/srv/server", SERVER), "", False, ""),
        (File("/srv/bound", BOUND), "warm", True, ""),
        (File("/srv/bound", BOUND), "stage", False, "service.own-mount"),
        (File("/srv/bound", BOUND, library=True), "stage", False, ""),
        (File("/srv/bound", BOUND), "", False, ""),
        (File("/lib/a;b", ODD), "stage", True, ""),  # refused when it is written
        (File("/lib/a;b", ODD), "", False, ""),
    ],
)
def test_what_can_be_covered(file: File, place: str, kept: bool, code: str) -> None:
    seen = View({"ReadOnlyPaths": "/srv/bound"}, "/run/hugealign")
    with refused(code) if code else contextlib.nullcontext():
        assert enable._coverable([file], {file.found.source: place}, seen, EnableOptions()) == ([file] * kept, [])


def test_the_command_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That beside the package, or the one that is found; root starts none that others may change."""
    package = tmp_path / "top/hugealign"
    package.mkdir(parents=True)
    monkeypatch.setattr(enable, "PACKAGE", str(package))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    with refused("service.no-command"):
        enable.command()
    (tmp_path / "elsewhere").mkdir()
    for place in ("elsewhere", "top/bin"):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "hugealign").touch(mode=0o755)
        assert enable.command() == str(tmp_path / place / "hugealign")
    for directory in ("top/bin", "top/hugealign"):
        (tmp_path / directory).chmod(0o777)
        with refused("service.untrusted-command", directory=str(tmp_path / directory)):
            enable.command()
        (tmp_path / directory).chmod(0o755)


def test_the_document() -> None:
    made = enable.Report([enable.Changed("a\n.service", ["/x", "/y"])], documents.failed([("b", UsageError("no"))]))
    document = json.loads(documents.text(made))
    assert document["units"] == [{"unit": "a\\n.service", "files": ["/x", "/y"]}]
    assert len(document["errors"]) == 1


@pytest.mark.parametrize(
    ("code", "trial", "could"),
    [
        ("", 1, False),
        ("file-system.no-huge-pages", 1, False),
        ("cache.in-use", 1, True),
        ("cache.in-use", 0, False),
        ("cache.in-use", OSError(), False),
    ],
)
def test_a_file_that_is_in_use(code: str, trial: object, could: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file beside it says whether it could be huge in place."""

    def tried(directory: str) -> object:
        assert directory == "/usr/bin"
        if isinstance(trial, OSError):
            raise trial
        return trial

    monkeypatch.setattr(warming, "trial", tried)
    done = CachedText("/usr/bin/x", [0], warming.Warmth((False,)), diagnosis=Diagnosis(code, "", {}) if code else None)
    assert enable._could_be_warm("/usr/bin/x", done) == could


@apart
def test_where_a_file_can_be_huge(file: Path, place: Path) -> None:
    """In place where its file system keeps huge pages, in a copy elsewhere, and in neither if it has no window."""
    namespace._mount("none", str(file.parent), "ramfs", 0, "mode=0755")
    program(file)
    assert enable.place_of(str(file), None) == "stage"
    unshifted = program(file.with_name("unshifted"), at=0x1000)
    assert enable.place_of(str(unshifted), None) == ""
    assert enable.place_of(str(unshifted), copies.Fixes()) == "stage"
    assert not enable._could("/none", copies.Fixes())
    assert enable._could(str(file), copies.Fixes())
    assert enable.costs([str(file), str(unshifted)], None) == (3 * M, 0)
    memory, executable = enable.costs([str(file), str(unshifted)], copies.Fixes())
    assert (memory, executable) == (6 * M, 0)
    place.mkdir()
    namespace.mount_tmpfs(str(place), "mode=0755")
    assert enable.place_of(str(program(place / "program")), None) in ("warm", "stage")
    assert files.is_library(str(file)) is False
    assert Service("a", ()).pid == 0
