"""What the hook of a container engine reads, looks up and covers, on a real overlay that only these tests see."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis.refusal import DiagnosedError
from hugealign.io.descriptors import using
from hugealign.run import copies
from hugealign.services import oci
from hugealign.services.oci import Bound, Container
from hugealign.system import hooks, namespace
from tests.unit.apart import M, apart, program

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def described(place: Path, state: object, config: object = None) -> bytes:
    if config is not None:
        (place / "config.json").write_text(json.dumps(config))
    return json.dumps(state).encode() if not isinstance(state, bytes) else state


CONFIG: dict[str, Any] = {
    "annotations": {"hugealign.text": "auto"},
    "root": {"path": "rootfs"},
    "process": {"args": ["server", "--x"], "env": ["A=B", "PATH=/a:/b", "PATH=/c"], "cwd": "/srv"},
}
REST = ("server", "--x"), "/a:/b", "/srv"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, Container(7, "{}/rootfs", *REST)),
        ({"annotations": {"hugealign.text": ""}}, None),
        ({"annotations": {"hugealign.text": "off"}}, None),
        ({"annotations": {"hugealign.text": 1}}, None),
        ({"annotations": {}}, None),
        ({"annotations": None}, None),
        ({"annotations": {"hugealign.text": "/a:/b"}}, Container(7, "{}/rootfs", *REST, programs=("/a", "/b"))),
        ({"annotations": {"hugealign.text": "/a", "hugealign.fix": "true"}},
         Container(7, "{}/rootfs", *REST, programs=("/a",), fix=True)),
        ({"annotations": {"hugealign.text": "/a", "hugealign.fix": "yes"}},
         Container(7, "{}/rootfs", *REST, programs=("/a",))),
        ({"annotations": {"hugealign.text": ":".join("a" * 17)}},
         Container(7, "{}/rootfs", *REST, programs=("a",) * 16)),
        ({"annotations": {"hugealign.text": "server:b"}},
         Container(7, "{}/rootfs", *REST, programs=("server", "b"))),
        ({"root": {"path": "/abs"}}, Container(7, "/abs", *REST)),
        ({"process": {}}, Container(7, "{}/rootfs", (), PATH, "/")),
        ({"process": {"args": ["a"] * 17, "cwd": 1}}, Container(7, "{}/rootfs", ("a",) * 16, PATH, "/")),
        ({"process": {"args": [1, "a", None], "env": "PATH=/x"}}, Container(7, "{}/rootfs", ("a",), PATH, "/")),
    ],
)  # fmt: skip
def test_what_an_engine_requests(change: dict[str, Any], wanted: Container | None, tmp_path: Path) -> None:
    state = described(tmp_path, {"bundle": str(tmp_path), "pid": 7}, CONFIG | change)
    result = oci.container(state)
    assert repr(result) == repr(wanted).replace("{}", str(tmp_path))


def test_an_annotation_of_the_state(tmp_path: Path) -> None:
    """That of the configuration counts."""
    state = {"bundle": str(tmp_path), "pid": 7, "annotations": {"hugealign.text": "/a"}}
    both = oci.container(described(tmp_path, state, CONFIG))
    assert both
    assert both.programs == ()
    one = oci.container(described(tmp_path, state, CONFIG | {"annotations": {}}))
    assert one
    assert one.programs == ("/a",)


@pytest.mark.parametrize(
    ("state", "config", "part"),
    [
        (b"{", CONFIG, "state"),
        (b"[]", CONFIG, "state"),
        (b"[" * 100_000, CONFIG, "state"),
        (b'{"pid": 7}', CONFIG, "bundle"),
        ({"bundle": ""}, CONFIG, "bundle"),
        ({"bundle": 1}, CONFIG, "bundle"),
        ({"bundle": "a\0"}, CONFIG, "bundle"),
        *(({"pid": pid}, CONFIG, "pid") for pid in (None, "7", 7.0, True, 0, -1, 1 << 22)),
        ({"pid": (1 << 22) - 1}, {}, ""),
        ({"pid": 1}, {}, ""),
        ({}, [], "config.json"),
        ({}, None, "config.json"),
        ({}, CONFIG | {"root": {}}, "path"),
        ({}, CONFIG | {"root": []}, "path"),
    ],
)
def test_what_no_engine_describes(state: Any, config: Any, part: str, tmp_path: Path) -> None:
    given = state if isinstance(state, bytes) else {"bundle": str(tmp_path), "pid": 7} | state
    with contextlib.ExitStack() as stack:
        error = stack.enter_context(pytest.raises(DiagnosedError)) if part else None
        assert oci.container(described(tmp_path, given, config)) is None
    assert not error or (error.value.diagnosis.code, error.value.diagnosis.facts["part"]) == (
        "container.description",
        part,
    )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    """A root directory with programs, scripts, and links that lead out of it."""
    tree = tmp_path / "root"
    for name in ("bin", "usr/bin", "srv"):
        (tree / name).mkdir(parents=True)
    for name in ("bin/sh", "usr/bin/server", "srv/local"):
        (tree / name).write_bytes(b"\x7fELF" + bytes(300))
        (tree / name).chmod(0o755)
    for name, text in (("bin/script", "#! /bin/sh -e\n"), ("bin/plain", "text"), ("bin/empty", "")):
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)
    for name in ("bin/both", "usr/bin/both"):
        (tree / name).write_bytes(b"\x7fELF")
        (tree / name).chmod(0o755)
    (tree / "bin/unexecutable").write_bytes(b"\x7fELF")
    (tree / "usr/bin/unexecutable").write_bytes(b"\x7fELF")
    (tree / "usr/bin/unexecutable").chmod(0o100 | 0o644)
    (tree / "bin/others").write_bytes(b"\x7fELF")
    (tree / "bin/others").chmod(0o645)  # which the others may execute
    (tree / "bin/outside").symlink_to("/../../../../../bin/sh")
    with using(os.open(tree, os.O_PATH | os.O_DIRECTORY)) as fd:
        yield fd


@pytest.mark.parametrize(
    ("words", "programs"),
    [
        (["sh"], ["/bin/sh"]),
        (["server"], ["/usr/bin/server"]),
        (["script", "server"], ["/bin/sh", "/usr/bin/server"]),
        (["-sh", "", "sh"], ["/bin/sh"]),
        (["plain", "empty", "missing", "server"], ["/usr/bin/server"]),
        (["unexecutable"], ["/usr/bin/unexecutable"]),
        (["others"], ["/bin/others"]),
        (["both"], ["/bin/both"]),  # the first on PATH
        (["./local"], ["/srv/./local"]),
        (["../bin/sh"], ["/srv/../bin/sh"]),
        (["/srv/local"], ["/srv/local"]),
        (["local"], []),
        (["outside"], ["/bin/outside"]),
        (["a\0b", "sh"], ["/bin/sh"]),
    ],
)
def test_programs_of_a_command(root: int, words: list[str], programs: list[str]) -> None:
    wanted = Container(1, "/", tuple(words), "/bin:/usr/bin", "/srv")
    assert list(oci._commands(root, wanted)) == programs


@pytest.mark.parametrize("size", [0, 1])
def test_a_state_is_read_from_standard_input(size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"x" * size)
    with (tmp_path / "state").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert oci.read_state() == b"x" * size


def test_where_the_hook_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where podman looks; our others go, and no other one."""
    first, last = tmp_path / "first", tmp_path / "last"
    last.mkdir()
    monkeypatch.setattr(hooks, "DEFAULT", str(first))
    monkeypatch.setattr(hooks, "forget", lambda: forgotten.append(1))
    monkeypatch.setattr(
        hooks, "files", lambda: [str(p) for d in (first, last) if d.exists() for p in sorted(d.iterdir())]
    )
    forgotten: list[int] = []
    for places, path in (([], first), ([str(last)], last), ([str(first), str(last)], first), ([], first)):
        monkeypatch.setattr(hooks, "looked_in", lambda places=places: places)
        (last / "other.json").write_text("{}")
        assert oci.install("/usr/bin/hugealign") == f"{path}/hugealign.json"
        assert (path / "hugealign.json").stat().st_mode & 0o777 == 0o644 & ~_umask()
        assert path.stat().st_mode & 0o777 == 0o755 & ~_umask() or path == last
        document = json.loads((path / "hugealign.json").read_text())
        assert document["hook"] == {"path": "/usr/bin/hugealign", "args": ["hugealign", "oci-hook"], "timeout": 60}
        assert document["when"] == {"annotations": {r"^hugealign\.text$": "."}}
        found = [p for p in hooks.files() if p.endswith("hugealign.json")]
        assert found == [f"{path}/hugealign.json"]
    assert len(forgotten) == 4
    assert oci.uninstall() == [f"{first}/hugealign.json"]
    assert list(hooks.files()) == [f"{last}/other.json"]


def test_where_the_hook_for_all_containers_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where podman looks, and nowhere else; directories that were made for it go with it, unless others use them."""
    first, last = tmp_path / "share/oci/first", tmp_path / "last"
    last.mkdir()
    monkeypatch.setattr(hooks, "DEFAULT", str(first))
    monkeypatch.setattr(hooks, "OTHER", str(last))
    places = [str(first)]
    monkeypatch.setattr(hooks, "looked_in", lambda: places)
    made = oci.missing()
    assert made == tuple(map(str, (first.parents[1], first.parent, first)))
    oci.cover_all("/usr/bin/hugealign", "/state", fix=False)
    assert hooks.of_machine() == [f"{first}/hugealign-all.json"]
    assert (first / "hugealign-all.json").read_text() == oci.machine_hook("/usr/bin/hugealign", "/state", fix=False)
    assert (first / "hugealign-all.json").stat().st_mode & 0o777 == 0o644 & ~_umask()
    assert oci.missing() == ()
    places = [str(last)]  # it is configured otherwise by now
    oci.cover_all("/usr/bin/hugealign", "/state", fix=True)
    assert hooks.of_machine() == [f"{last}/hugealign-all.json"]
    (first.parent / "other").write_text("")
    assert oci.remove_empty(made) == tuple(map(str, (first.parents[1], first.parent)))
    (first.parent / "other").unlink()
    assert oci.remove_empty(made) == ()
    assert not first.parents[1].exists()
    assert oci.cover_none() == [f"{last}/hugealign-all.json"]
    assert oci.cover_none() == []
    first.parents[1].write_text("")
    places = [str(first)]
    with pytest.raises(DiagnosedError) as error:
        oci.cover_all("/usr/bin/hugealign", "/state", fix=True)
    facts = {"file": f"{first}/hugealign-all.json", "error": "ENOTDIR"}
    assert (error.value.diagnosis.code, error.value.diagnosis.facts) == ("service.unit-file", facts)
    (last / "hugealign-all.json").mkdir()
    with pytest.raises(DiagnosedError) as error:
        oci.cover_none()
    assert error.value.diagnosis.facts == {"file": f"{last}/hugealign-all.json", "error": "EISDIR"}


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


@apart
def test_programs_are_covered_by_the_copy_of_their_layer(file: Path, place: Path) -> None:
    lower, upper, work, root = (file.parent / name for name in ("lower", "upper", "work", "root"))
    namespace._mount("none", str(file.parent), "tmpfs", 0, "mode=0755")
    for directory in (lower / "bin", lower / "more", upper, work, root):
        directory.mkdir(parents=True)
    for name in ("bin/server", "more/first", "changed"):
        program(lower / name)
    program(lower / "small", size=0x1000)
    program(lower / "bin/suid").chmod(0o4755)
    # Relative, as podman's are, to the directory above that of the mount.
    container = file.parent / "containers/1"
    container.mkdir(parents=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    namespace._mount("overlay", str(root), "overlay", 0, options)
    before = (root / "bin/server").stat()
    wanted = Container(os.getpid(), str(root), ("/bin/server",))
    assert list(oci.bind(wanted, str(place))) == [Bound("/bin/server", 1)]
    made = set(os.listdir(place)) - {"lock", "path"}
    after = (root / "bin/server").stat()
    assert (after.st_dev, after.st_size) == (place.stat().st_dev, before.st_size)
    assert os.statvfs(root / "bin/server").f_flag & os.ST_RDONLY
    info = (lower / "bin/server").stat()
    assert made == {copies.identity(info, fixed=False)}
    assert place.stat().st_mode & 0o777 == 0o700
    with (root / "changed").open("ab") as changed:  # copied up
        changed.write(b"x")
    names = ("/changed", "/more", "/small", "/missing", "/bin/suid", "/../../etc/passwd")
    result = {bound.path: bound for bound in oci.bind(Container(os.getpid(), str(root), programs=names), str(place))}
    assert {path: bound.windows for path, bound in result.items()} == {
        "/changed": 1,
        "/more/first": 1,
        "/small": 0,
        "/missing": 0,
        "/bin/suid": 0,
        "/../../etc/passwd": 0,
    }
    codes = {path: bound.diagnosis.code for path, bound in result.items() if bound.diagnosis}
    assert codes == {
        "/small": "text.no-window",
        "/missing": "file.unreadable",
        "/bin/suid": "copy.privileges",
        "/../../etc/passwd": "file.unreadable",
    }
    small = result["/small"].diagnosis
    assert small
    assert small.facts["page_size"] == M
    assert copies.identity((upper / "changed").stat(), fixed=False) in os.listdir(place)
    # By the words of a command, nothing is said of a program without windows.
    assert list(oci.bind(Container(os.getpid(), str(root), ("/small",)), str(place))) == []


@apart
def test_only_what_the_machine_has_chosen_is_covered(file: Path, place: Path) -> None:
    """A file of the image in the state that was seen: none that the container has changed, linked or removed."""
    lower, upper, work, root = (file.parent / name for name in ("lower", "upper", "work", "root"))
    namespace._mount("none", str(file.parent), "tmpfs", 0, "mode=0755")
    for directory in (lower / "bin", upper, work, root):
        directory.mkdir(parents=True)
    names = ("good", "changed", "linked", "removed", "newer")
    (lower / "own").mkdir()
    program(lower / "own/theirs").parent.chmod(0o777)
    if not os.geteuid():  # only root gives a directory away
        os.chown((lower / "own"), 1, 1)
        (lower / "own").chmod(0o755)
    (lower / "open").mkdir()
    program(lower / "open/theirs").parent.chmod(0o777)
    for name in names:
        program(lower / "bin" / name)
    program(file.parent / "outside")
    namespace._mount("overlay", str(root), "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}")
    states = {
        str(lower / "bin" / name): (copies.identity((lower / "bin" / name).stat(), fixed=False),) for name in names
    }
    program(lower / "bin/newer", size=2 * M)
    with (root / "bin/changed").open("ab") as changed:
        changed.write(b"x")
    for name in ("linked", "removed"):
        (root / "bin" / name).unlink()
    (root / "bin/linked").symlink_to("good")
    files = {**states, str(file.parent / "outside"): states[str(lower / "bin/good")]}
    wanted = Container(os.getpid(), str(root), is_steady=True)
    theirs = {
        str(path): (copies.identity(path.stat(), fixed=False),)
        for path in (lower / "own/theirs", lower / "open/theirs")
    }
    for one in (wanted, replace(wanted, is_steady=False)):
        assert list(oci.cover(one, theirs, place=str(place))) == []
    assert list(oci.cover(replace(wanted, is_steady=False), states, place=str(place))) == []
    for path, seen in files.items():
        oci.prepare(path, seen, fix=False, place=str(place))
    unchanged = {copies.identity((lower / "bin" / name).stat(), fixed=False) for name in names if name != "newer"}
    assert {name for name in os.listdir(place) if copies.is_identity(name)} == unchanged
    oci.forget([*files], str(place))
    assert not place.exists()
    found = {bound.path: bound for bound in oci.cover(wanted, files, place=str(place))}
    assert {path: bound.windows for path, bound in found.items()} == {
        "/bin/good": 1,
        "/bin/changed": 0,
        "/bin/linked": 0,
        "/bin/removed": 0,
        "/bin/newer": 0,
    }
    good = copies.identity((lower / "bin/good").stat(), fixed=False)
    assert [name for name in os.listdir(place) if copies.is_identity(name)] == [good]
    assert (root / "bin/good").stat().st_dev == place.stat().st_dev
    assert list(oci.inodes((good,), str(place))) == [(root / "bin/good").stat().st_ino]
    assert {code.code for bound in found.values() if (code := bound.diagnosis)} == {"file.unreadable"}  # it is removed
    steady = replace(wanted, is_steady=False)
    assert [bound.windows for bound in oci.cover(steady, theirs, [*theirs], str(place))] == [1, 1]


@pytest.mark.parametrize(
    ("change", "taken", "steady"),
    [
        ({"annotations": {}}, True, False),
        ({"annotations": {"hugealign.text": "off"}}, False, False),
        ({"annotations": {"hugealign.text": "auto"}}, False, False),
        ({"annotations": {}, "root": {"path": "r", "readonly": True}}, True, True),
        ({"annotations": {}, "process": {"user": {"uid": 7}}}, True, True),
    ],
)
def test_a_container_that_requests_nothing(change: dict[str, Any], taken: bool, steady: bool, tmp_path: Path) -> None:
    state = described(tmp_path, {"bundle": str(tmp_path), "pid": 7}, CONFIG | change)
    silent = oci.container(state, silent=True)
    assert (silent is not None) == taken
    assert not silent or (silent.programs, silent.is_steady) == ((), steady)


@apart
def test_what_is_another_file_by_now_is_not_covered(file: Path, place: Path) -> None:
    root = file.parent / "root"
    root.mkdir()
    program(root / "server")
    other = program(root / "other")
    attach = oci._attach

    def attached(pid: int, top: str, path: str, target: int, made: int) -> None:
        other.rename(root / "server")
        attach(pid, top, path, target, made)

    patched = pytest.MonkeyPatch()
    patched.setattr(oci, "_attach", attached)
    wanted = Container(os.getpid(), str(root), programs=("/server",))
    (bound,) = oci.bind(wanted, str(place))
    assert bound.diagnosis
    assert bound.diagnosis.code == "file.changed"
    assert (root / "server").stat().st_dev == root.stat().st_dev
    patched.setattr(oci, "_attach", lambda *_: os._exit(9))
    (bound,) = oci.bind(wanted, str(place))
    assert bound.diagnosis
    assert bound.diagnosis.code == "process.ended"
    patched.setattr(oci, "_attach", attach)
    (bound,) = oci.bind(Container((1 << 22) - 1, str(root), programs=("/server",)), str(place))
    assert bound.diagnosis
    with pytest.raises(FileNotFoundError):
        list(oci.bind(Container(1, str(root / "none"), ("server",)), str(place)))
