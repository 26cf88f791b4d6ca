"""Each code of what `warm`, `fix`, `run` and `doctor` find: its situation is made, its remedy followed, and it is gone.

A row makes the situation and asks; where the remedy has a command, that runs as it stands.  Then the same question has
another answer, and there are as many windows as were promised.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis import catalogue
from tests.live.programs import (
    NO_THP,
    NOBODY,
    ROOT,
    WINDOW,
    WINDOWS,
    Programs,
    chill,
    huge_kib,
    hugealign,
    running,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed for most situations")
AREAS = ("cache", "copy", "file", "file-system", "fix", "machine", "memory", "process", "program", "service", "setting",
         "text", "thp")  # fmt: skip

_STATE = "only states a fact"
_ELSEWHERE = "no remedy; the situation: tests/unit/fixing, tests/link/test_fix.py"
_STAGED = "no remedy; the situation: tests/live/test_stage.py, test_store.py"
_SERVICE = "needs a systemd that boots: tests/live/test_enable.py"
#: Why a code has no row below.
WITHOUT: dict[str, str] = {
    "cache.copied": _STATE,
    "cache.dirty": "pages stay dirty after fsync only on a failing disk",
    "cache.not-replaced": "a note of warm --replace: tests/live/test_replace.py",
    "cache.replaced": "a note of warm --replace: tests/live/test_replace.py",
    "file-system.small-tmpfs": "MADV_COLLAPSE makes files of any tmpfs huge here; before Linux 6.1 it did not",
    "file.packed": "upx is not installed",
    "fix.section-torn": "needs patchelf --page-size: tests/link/test_fix.py",
    "memory.few": "tests/live/test_bad_input.py raises the limit, and takes fewer windows",
    "memory.fragmented": "memory cannot be fragmented so far at will",
    "process.ended": "needs a seccomp filter that kills: tests/live/test_containers.py",
    "process.no-mount-point": "a system without /tmp, /run and /mnt",
    "thp.no-collapse": "a kernel before 6.1: tests/kernels",
    "thp.partial": "nothing here makes the kernel refuse some windows only",
    "thp.refused": "nothing here makes MADV_COLLAPSE fail for a reason that cannot be seen",
    "thp.shmem-denied": "shmem_enabled counts for the whole machine, so for what runs beside the tests",
    "text.other-processor": "nothing to do; tests/link/test_fix.py has the files",
    "text.relocations": "compile with -fPIC: tests/link/test_fix.py",
    "file-system.huge-pages": _STATE,
    "machine.kernel": _STATE,
    "machine.loader": _STATE,
    "machine.no-thp": "a kernel without them",
    "machine.processor": _STATE,
    "machine.thp": _STATE,
    "memory.free": _STATE,
    "memory.limit": "where the limit is met varies: tests/live/test_bad_input.py searches for it",
    "process.may-mount": _STATE,
    "process.thp-allowed": _STATE,
}


@dataclass(frozen=True, slots=True)
class Made:
    """A situation: how to ask, what is around the command that asks, and what ends the situation without a command."""

    path: Path
    ask: tuple[str | Path, ...]
    prefix: tuple[str, ...] = ()
    end: Callable[[], object] | None = None
    environ: tuple[tuple[str, str], ...] = ()


Situation = Callable[[Programs, Path], AbstractContextManager[Made]]


def not_warmed(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    path = programs.copy("remedy")
    return nullcontext(Made(path, ("warm", "--check", path)))


def held_in_small_pages(programs: Programs) -> Path:
    """A program whose pages stay as they are while a process maps them."""
    path = programs.copy("remedy")
    with running(path, "5"):
        if hugealign("warm", path).returncode == 0:
            pytest.skip("MADV_COLLAPSE works on files here: a running program is no obstacle")
    chill(path)
    return path


@contextlib.contextmanager
def in_use(programs: Programs, _: Path) -> Iterator[Made]:
    path = held_in_small_pages(programs)
    with running(path, "5"):
        yield Made(path, ("warm", path))


@contextlib.contextmanager
def in_use_with_two_names(programs: Programs) -> Iterator[Made]:
    path = held_in_small_pages(programs)
    other = path.with_name("other-name")
    other.hardlink_to(path)
    with running(path, "5"):
        yield Made(path, ("warm", path))
    other.unlink()


@contextlib.contextmanager
def held(programs: Programs, _: Path) -> Iterator[Made]:
    path = held_in_small_pages(programs)
    os.chown(path, 65534, 65534)  # cachestat is for owners
    with running(path, "5") as child:

        def end() -> None:
            child.kill()
            child.wait()

        yield Made(path, ("warm", path), NOBODY, end)


_WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
pages = [(os.pread(fd, 4096, at), at) for at in range(0, os.fstat(fd).st_size, 1 << 20)]
print("ready", flush=True)
while True:
    for page, at in pages:
        os.pwrite(fd, page, at)
"""


@contextlib.contextmanager
def written(programs: Programs, _: Path) -> Iterator[Made]:
    path = programs.copy("remedy")
    with running(sys.executable, "-c", _WRITER, path) as child:

        def end() -> None:
            child.kill()
            child.wait()

        yield Made(path, ("warm", path), end=end)


@contextlib.contextmanager
def journalled(programs: Programs, tmp_path: Path) -> Iterator[Made]:
    """Files whose data are journalled have no large folios (ext4_should_enable_large_folio in fs/ext4/inode.c)."""
    image, at = tmp_path / "image", programs.directory / "journalled"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    at.mkdir()
    try:
        for words in (("mkfs.ext4", "-qF", image), ("mount", "-o", "loop,data=journal", image, at)):
            if subprocess.run(words, check=False, capture_output=True).returncode:
                pytest.skip(f"{words[0]} does not work here")
        try:
            path = at / "good"
            path.write_bytes(programs.good.read_bytes())
            path.chmod(0o755)
            os.sync()
            with running(path, "5"):  # stopping it would gain nothing
                yield Made(path, ("warm", path))
        finally:
            subprocess.run(["umount", "--lazy", at], check=True)
    finally:
        at.rmdir()


@contextlib.contextmanager
def on_tmpfs(programs: Programs, _: Path) -> Iterator[Made]:
    path = Path(f"/dev/shm/hugealign-remedy-{os.getpid()}")
    path.write_bytes(programs.good.read_bytes())
    try:
        assert hugealign("warm", path).returncode == 0
        yield Made(path, ("warm", "--undo", path))
    finally:
        path.unlink()


def without_thp(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.copy("remedy"), ("doctor", programs.directory), NO_THP))


def without_the_right_to_mount(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    prefix = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    return nullcontext(Made(programs.good, ("doctor", programs.directory), prefix))


def without_root_mount(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    """A root that is no mount point cannot be made private."""
    places = [p for p in ("/usr", "/bin", "/lib", "/lib64", "/proc", "/sys", sys.prefix, str(ROOT)) if Path(p).exists()]
    binds = "; ".join(f"mkdir -p $top{p}; mount --rbind {p} $top{p}" for p in places)
    script = f'top=$(mktemp -d); {binds}; chroot "$top" "$@"'
    return nullcontext(Made(programs.good, ("doctor", "/usr"), ("unshare", "-m", "sh", "-c", script, "sh")))


def plain(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "plain"
    path.write_bytes(programs.plain.read_bytes())
    path.chmod(0o755)
    return nullcontext(Made(path, ("warm", path)))


def shell(_: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "true"
    path.write_bytes(Path("/bin/true").read_bytes())
    return nullcontext(Made(path, ("warm", path)))


def fixed_otherwise(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "fixed"
    path.write_bytes(programs.plain.read_bytes())
    assert hugealign("fix", "--in-place", "--level=align", path).returncode == 0
    return nullcontext(Made(path, ("fix", "--in-place", path)))


def two_names(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "named"
    words = "gcc -fuse-ld=bfd -no-pie main.o text.o -Wl,-z,max-page-size=0x1000 -Wl,--section-start=.text=0x701000 -o"
    subprocess.run([*words.split(), path], cwd=programs.directory, check=True)
    path.with_name("twice").hardlink_to(path)
    return nullcontext(Made(path, ("fix", "--in-place", path)))


def core(_: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "core"
    data = bytearray(Path("/bin/true").read_bytes())
    data[16] = 4  # ET_CORE
    path.write_bytes(data)
    return nullcontext(Made(path, ("fix", "--in-place", path)))


def appended(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "appended"
    path.write_bytes(programs.plain.read_bytes() + b"archive")
    return nullcontext(Made(path, ("fix", "--in-place", path)))


def misspelt(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_CHEKC", "warn"),)))


def bad_value(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_CHECK", "no"),)))


def switched_off(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_DISABLE", "1"),)))


def missing(_: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "missing"
    return nullcontext(Made(path, ("doctor", path), end=path.touch))


#: code -> the situation, and the kind of the remedy; None if nothing can be done.
ROWS: dict[str, tuple[Situation, str | None]] = {
    "cache.held": (held, "find-holder"),
    "cache.in-use": (in_use, "stop"),
    "cache.not-warmed": (not_warmed, "run"),
    "cache.open-for-writing": (written, "wait"),
    "file-system.keeps-pages": (on_tmpfs, "copy-elsewhere"),
    "file-system.no-huge-pages": (journalled, "run"),
    "file-system.not-tried": (missing, None),
    "file.appended": (appended, "relink"),
    "file.core": (core, None),
    "fix.fixed-already": (fixed_otherwise, "run"),
    "fix.no-copy": (two_names, "other-file"),
    "process.no-mounts": (without_root_mount, None),
    "process.thp-disabled": (without_thp, "run"),
    "process.would-lose-privileges": (without_the_right_to_mount, None),
    "setting.bad-value": (bad_value, "unset"),
    "setting.disabled": (switched_off, "unset"),
    "setting.unknown": (misspelt, "unset"),
    "text.no-window": (plain, "run"),
    "text.small": (shell, None),
}


def asked(made: Made, environ: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    """Return the diagnoses in the JSON document that answers."""
    names = tuple(f"{name}={value}" for name, value in environ)
    done = hugealign(*made.ask, "--json", prefix=(*made.prefix, "env", *names))
    return list(diagnoses(json.loads(done.stdout)))


def diagnoses(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        if "code" in document and "remedy" in document:
            yield document
        document = list(document.values())
    for part in document if isinstance(document, list) else ():
        yield from diagnoses(part)


def follow(made: Made, found: dict[str, Any], tmp_path: Path) -> int | None:
    """Run the command of a remedy; return how many windows are huge in a process, or in a file that it made."""
    remedy = found["remedy"]
    argv = [str(ROOT / "bin/hugealign") if word == "hugealign" else word for word in remedy["argv"]]
    if remedy["needs"] == "command":
        with running(*made.prefix, *argv, made.path, "5") as child:
            return huge_kib(child.pid, made.path) * 1024 // WINDOW
    out = [str(tmp_path / "out")] if remedy["needs"] == "output" else []
    subprocess.run([*made.prefix, *argv, *out], check=True, capture_output=True, cwd="/")
    return windows_of(Path(out[0])) if out else None


def windows_of(path: Path) -> int:
    """Return how many windows the text of the file at *path* has."""
    seen = json.loads(hugealign("verify", "--format=json", path).stdout)
    return int(seen["files"][0]["coverage"]["windows"])


@pytest.mark.parametrize("code", ROWS)
def test_the_remedy_helps(programs: Programs, tmp_path: Path, code: str) -> None:
    tmp_path.chmod(0o755)
    situation, kind = ROWS[code]
    with situation(programs, tmp_path) as made:
        (found,) = [one for one in asked(made, made.environ) if one["code"] == code]
        remedy = found["remedy"]
        assert (remedy and remedy["kind"]) == kind
        if remedy and remedy["argv"]:
            windows = follow(made, found, tmp_path)
            if windows is not None:
                assert windows == (remedy["after"] or (WINDOWS if remedy["needs"] == "command" else windows))
                assert windows
                return  # another process or another file has them; this one stays as it is
            assert remedy["after"] in (None, windows_of(made.path))
        elif made.end:
            made.end()
        elif not made.environ:
            return  # a person has to link, copy or leave it
        assert code not in [one["code"] for one in asked(made, ())]


def test_replacing_is_not_recommended_where_it_is_refused(programs: Programs) -> None:
    with in_use_with_two_names(programs) as made:
        (found,) = asked(made, ())
        assert (found["code"], found["remedy"]["argv"]) == ("cache.in-use", [])
    chill(made.path)


def test_every_code_has_a_row_or_a_reason() -> None:
    codes = {code for code in catalogue.codes() if code.partition(".")[0] in AREAS}
    prefixes = {"copy": _STAGED, "service": _SERVICE, "fix": _ELSEWHERE, "file": _ELSEWHERE, "text": _ELSEWHERE,
                "program": _STAGED, "process": _STAGED}  # fmt: skip
    unlisted = {code for code in codes - ROWS.keys() - WITHOUT.keys() if code.partition(".")[0] not in prefixes}
    assert not unlisted
    assert not (ROWS.keys() | WITHOUT.keys()) - codes
    assert not ROWS.keys() & WITHOUT.keys()
