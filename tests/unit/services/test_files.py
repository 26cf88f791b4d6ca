"""The files of a service, by the names that lead to them, with programs and libraries of a few bytes."""

import os
import struct
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError
from hugealign.errors import MalformedElfError
from hugealign.process import groups
from hugealign.services import files
from hugealign.services.files import File
from hugealign.services.programs import Service
from hugealign.services.view import Found, View
from hugealign.system import kernel, libraries

NOWHERE = View({}, "/run/hugealign")


def elf(path: Path, soname: str = "", size: int = 1 << 20) -> Path:
    """Write a program, or a library of that name, which says that it has *size* bytes of text."""
    strings = b"\0" + soname.encode() + b"\0"
    dynamic = struct.pack("<8Q", 5, 0x200, 10, len(strings), 14, 1, 0, 0) if soname else bytes(16)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    for kind, flags, at, length in ((1, 4, 0, 0x400), (1, 5, 0x1000, size), (2, 6, 0x100, len(dynamic))):
        header += struct.pack("<IIQQQQQQ", kind, flags, at, at, at, length, length, 0x1000)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytearray(0x400)
    data[: len(header)], data[0x100 : 0x100 + len(dynamic)], data[0x200 : 0x200 + len(strings)] = (
        header,
        dynamic,
        strings,
    )
    path.write_bytes(data)
    os.truncate(path, 0x1000 + size)
    path.chmod(0o755)
    return path


def found(path: Path) -> Found:
    return Found(str(path), str(path))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    elf(tmp_path / "bin/server")
    elf(tmp_path / "bin/sh")
    elf(tmp_path / "lib/libx.so.1.2", "libx.so.1")
    (tmp_path / "lib/libx.so.1").symlink_to("libx.so.1.2")
    elf(tmp_path / "lib/libsmall.so.1", "libsmall.so.1", kernel.huge_page_size() // 2 - 1)
    elf(tmp_path / "lib/libhalf.so.1", "libhalf.so.1", kernel.huge_page_size() // 2)
    (tmp_path / "bin/script").write_text("#!/bin/sh\n")
    (tmp_path / "bin/script").chmod(0o755)
    (tmp_path / "bin/damaged").write_bytes(b"\x7fELF\2\1\1")
    return tmp_path


def listed(tree: Path, service: Service, *paths: str, renewing: bool = False) -> list[tuple[str, bool, bool]]:
    """Return the files by their names below *tree*, whether each is a library, and whether it was given."""
    result = files.programs(service, NOWHERE, [str(tree / path) for path in paths], loaded=False, renewing=renewing)
    assert all(file.found.source == os.path.realpath(file.name) for file in result)
    return [(os.path.relpath(file.name, tree), file.library, file.given) for file in result]


def service(tree: Path, *programs: str, starts: str = "") -> Service:
    directories = (f"{tree}/none", f"{tree}/bin", f"{tree}/lib")
    return Service(
        "a.service", tuple(p.format(tree) for p in programs), path=directories, starts=(starts.format(tree),)
    )


SERVER, SHELL = ("bin/server", False, False), ("bin/sh", False, False)
LIBRARIES = [(f"lib/lib{name}.so.1", True, True) for name in ("half", "small", "x")]


@pytest.mark.parametrize(
    ("programs", "starts", "paths", "expected"),
    [
        (("{}/bin/server",), "", (), [SERVER]),
        (("server",), "", (), [SERVER]),
        (("missing", "{}/bin/missing", "{}/bin/script"), "", (), []),
        (("{}/bin/server", "server"), "", (), [SERVER]),
        (("{}/bin/damaged",), "", (), []),
        # A shell runs what its words name, before itself.
        (("{}/bin/sh",), "{0}/bin/sh -c 'exec {0}/bin/server --x={0}/lib/libx.so.1'", (), [SHELL, SERVER]),
        (("{}/bin/sh",), "sh -c x{0}/bin/server", (), [SHELL]),
        (("{}/bin/server",), "{0}/bin/server {0}/bin/sh", (), [SERVER]),
        (("{}/bin/server",), "", ("lib/libx.so.1",), [("lib/libx.so.1", False, True), SERVER]),
        (("{}/bin/server",), "", ("bin/server",), [("bin/server", False, True)]),
        (("{}/bin/server",), "", ("lib",), [SERVER, *LIBRARIES]),
    ],
)
def test_programs(
    tree: Path, programs: tuple[str, ...], starts: str, paths: tuple[str, ...], expected: list[tuple[str, bool, bool]]
) -> None:
    result = listed(tree, service(tree, *programs, starts=starts), *paths)
    assert sorted(result) == sorted(expected)
    if paths and paths != ("lib",):
        assert result[0][0] == paths[0]


def test_what_is_missing(tree: Path) -> None:
    """What was named is, but for a start of the service; a program of the unit is left out."""
    server = service(tree, "server")
    for name, error in (("bin/missing", DiagnosedError), ("bin/damaged", MalformedElfError)):
        with pytest.raises(error):
            listed(tree, server, name)
        assert listed(tree, server, name, renewing=True) == [SERVER]
    assert listed(tree, server, "bin/script") == [SERVER]


def test_what_the_unit_covers_is_refused(tree: Path) -> None:
    seen = View({"TemporaryFileSystem": f"{tree}/bin"}, "/run/hugealign")
    server = service(tree, "{}/bin/server")
    with pytest.raises(RefusalError):
        files.programs(server, seen, [], loaded=False)
    assert files.programs(server, seen, [], loaded=False, renewing=True) == []


def test_a_running_service() -> None:
    """This process is one: its program is given, so that the helper looks for it again, and mapped libraries."""
    running = Service("a.service", (), pid=os.getpid())
    (program,) = files.programs(running, NOWHERE, [], loaded=False)
    assert program.found.source == os.path.realpath("/proc/self/exe")
    assert (program.library, program.given) == (False, True)
    loaded = files.programs(running, NOWHERE, [], loaded=True)
    assert "libc" in {os.path.basename(file.found.source).partition(".")[0] for file in loaded if file.library}
    assert all(file.given for file in loaded)
    assert not any(files._is_small(file.found.source, NOWHERE) for file in loaded if file.library)


def test_most_programs_of_a_command(tree: Path) -> None:
    names = [str(elf(tree / f"more/{number}")) for number in range(20)]
    result = files._named(service(tree, starts=" ".join(names)), NOWHERE)
    assert result == names[:16]
    (tree / "more/3").chmod(0o644)
    assert files._named(service(tree, starts=" ".join(names[2:5])), NOWHERE) == [names[2], names[4]]
    assert files._named(service(tree, starts=f"{tree}/bin {tree}/bin/none"), NOWHERE) == []


@pytest.mark.parametrize(
    ("name", "starter"), [("/bin/sh", True), ("sudo", True), ("/bin/shh", False), ("/sh/x", False)]
)
def test_programs_that_start_others(name: str, starter: bool) -> None:
    assert files.is_starter(name) == starter
    assert File(name, Found("/x", "/x")).starts_another == starter
    assert File("/x", Found("/x", name)).starts_another == starter


def test_libraries(tree: Path) -> None:
    assert files.is_library(str(tree / "lib/libx.so.1"))
    assert not files.is_library(str(tree / "bin/server"))
    assert not files.is_library(str(tree / "bin/damaged"))
    assert not files.is_library(str(tree / "none"))
    assert files.is_directory(NOWHERE, str(tree / "lib"))
    assert not files.is_directory(NOWHERE, str(tree / "lib/libx.so.1"))
    assert not files.is_directory(NOWHERE, str(tree / "none/x"))
    small, half = (tree / f"lib/lib{name}.so.1" for name in ("small", "half"))
    assert files._is_small(str(small), NOWHERE)
    assert not files._is_small(str(half), NOWHERE)
    assert not files._is_small(str(tree / "none"), NOWHERE)


def test_a_name_that_stays_when_the_version_changes(tree: Path) -> None:
    library, linked = tree / "lib/libx.so.1.2", tree / "lib/libx.so.1"
    assert files._steady(str(library), found(library), NOWHERE) == str(linked)
    linked.unlink()
    assert files._steady(str(library), found(library), NOWHERE) == str(library)
    elf(linked, "libx.so.1")
    assert files._steady(str(library), found(library), NOWHERE) == str(library)
    server = tree / "bin/server"
    assert files._steady(str(server), found(server), NOWHERE) == str(server)


def test_linked_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this interpreter, or of whatever program of the C library's is there: those that its loader takes."""
    shell = os.path.realpath("/bin/sh")
    given = [File("/bin/sh", Found(shell, shell))]
    result = files.with_libraries(given, Service("a.service", ()), NOWHERE)
    assert result[0] == given[0]
    assert any("libc.so" in file.name for file in result[1:])
    assert all(file.library and not file.given for file in result[1:])
    monkeypatch.setattr(files, "_is_small", lambda *_: True)
    assert files.with_libraries(given, Service("a.service", ()), NOWHERE) == given
    seen: list[dict[str, str]] = []

    def resolve(_: str, environment: dict[str, str], __: object) -> object:
        seen.append(dict(environment))
        raise OSError

    monkeypatch.setattr(libraries, "resolve", resolve)
    for text in ("LD_LIBRARY_PATH=/a 'X=b c'", "'unended"):
        assert files.with_libraries(given, Service("a.service", (), environment=text), NOWHERE) == given
    assert seen == [{"LD_LIBRARY_PATH": "/a", "X": "b c"}, {}]


def test_programs_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "of_process", str)
    monkeypatch.setattr(groups, "service", lambda group: "a.service" if group == str(os.getpid()) else "b.service")
    assert files.started_by("a.service", NOWHERE) == [os.readlink("/proc/self/exe")]
    assert files.started_by("c.service", NOWHERE) == []
    hidden = View({"TemporaryFileSystem": "/"}, "/run/hugealign")
    assert files.started_by("a.service", hidden) == []
    monkeypatch.setattr(files, "_MOST_PROGRAMS", 0)
    assert files.started_by("a.service", NOWHERE) == []
