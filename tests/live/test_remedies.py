"""Each code of what `warm`, `fix`, `run` and `doctor` find: its situation is made, its remedy followed, and it is gone.

A row makes the situation and asks; where the remedy has a command, that runs as it stands.  Then the same question has
another answer, and there are as many windows as were promised.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hugealign.elf.notes import BuildNote
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
from tests.strace import faulty, needs_strace
from tests.support import diagnoses

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed for most situations")


@dataclass(frozen=True, slots=True)
class Made:
    """A situation: how to ask, what is around the command that asks, and what ends the situation without a command.

    *again* is how to ask afterwards, if otherwise.  *react* plays what the kernel does once the command has run.
    """

    path: Path
    ask: tuple[str | Path, ...]
    prefix: tuple[str, ...] = ()
    end: Callable[[], object] | None = None
    environ: tuple[tuple[str, str], ...] = ()
    again: tuple[str | Path, ...] = ()
    react: Callable[[], object] | None = None


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
def running_with_two_names(programs: Programs) -> Iterator[tuple[Path, Path]]:
    path = held_in_small_pages(programs)
    other = path.with_name("other-name")
    other.hardlink_to(path)
    with running(path, "5"):
        yield path, other


@contextlib.contextmanager
def in_use_with_two_names(programs: Programs) -> Iterator[Made]:
    with running_with_two_names(programs) as (path, other):
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
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
file = mmap.mmap(fd, 0)  # pages that are mapped are not evicted, so the windows stay small
for at in range(0, len(file), 1 << 20):
    os.pwrite(fd, file[at:at + 1], at)
print("ready", flush=True)
time.sleep(600)
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
def no_better_copy(programs: Programs, tmp_path: Path) -> Iterator[Made]:
    with journalled(programs, tmp_path) as made:
        yield Made(made.path, ("warm", "--replace", made.path))


@contextlib.contextmanager
def on_tmpfs(programs: Programs, _: Path) -> Iterator[Made]:
    path = Path(f"/dev/shm/hugealign-remedy-{os.getpid()}")
    path.write_bytes(programs.good.read_bytes())
    try:
        # The kernel does not collapse pages that another processor is still looking at.
        assert any(hugealign("warm", path).returncode == 0 for _ in range(3))
        yield Made(path, ("warm", "--undo", path))
    finally:
        path.unlink()


def without_thp(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.copy("remedy"), ("doctor", programs.directory), NO_THP))


def without_the_right_to_mount(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    prefix = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    return nullcontext(Made(programs.good, ("doctor", programs.directory), prefix))


def without_root_mount(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    """A root that is not a mount point cannot be made private."""
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


def misspelt(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_CHEKC", "warn"),)))


def bad_value(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_CHECK", "no"),)))


def switched_off(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    return nullcontext(Made(programs.good, ("doctor", programs.directory), environ=(("HUGEALIGN_DISABLE", "1"),)))


@contextlib.contextmanager
def full(programs: Programs, tmp_path: Path) -> Iterator[Made]:
    """What is in an archive is unpacked into a directory without the room for it."""
    small = programs.directory / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
    try:
        subprocess.run(["tar", "-cf", tmp_path / "archive", "-C", programs.directory, "good"], check=True)
        environ = (("TMPDIR", str(small)),)
        yield Made(tmp_path / "archive", ("verify", tmp_path / "archive"), environ=environ)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
        small.rmdir()


def foreign(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "foreign"
    data = bytearray(programs.plain.read_bytes())
    struct.pack_into("<H", data, 18, 8)  # e_machine is EM_MIPS
    path.write_bytes(data)
    return nullcontext(Made(path, ("warm", path)))


def more_than_memory(_: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    """A sparse file whose text has two tebibytes."""
    path, size = tmp_path / "endless", 1 << 41
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    path.write_bytes(header + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, WINDOW))
    os.truncate(path, size)
    return nullcontext(Made(path, ("warm", path), again=("warm", "--windows", "1", path)))


def one_window_meant(programs: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    """A program whose note says so, as an order of functions has it."""
    path, note = tmp_path / "one", tmp_path / "note.s"
    data = BuildNote(WINDOW, windows=1).pack()
    note.write_text(f'.section .note.hugealign,"a",@note\n.balign 4\n.byte {",".join(map(str, data))}\n')
    words = "gcc -fuse-ld=bfd main.o text.o pad.o -Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000,-z,separate-code -o"
    subprocess.run([*words.split(), path, note], cwd=programs.directory, check=True)
    return nullcontext(Made(path, ("warm", path), again=("warm", "--windows", "2", path)))


@contextlib.contextmanager
def replaced(programs: Programs, _: Path) -> Iterator[Made]:
    path = held_in_small_pages(programs)
    with running(path, "5") as child:

        def end() -> None:
            child.kill()
            child.wait()

        yield Made(path, ("warm", "--replace", path), end=end)


@contextlib.contextmanager
def not_replaced(programs: Programs, _: Path) -> Iterator[Made]:
    with running_with_two_names(programs) as (path, other):
        yield Made(path, ("warm", "--replace", path), end=other.unlink)


@contextlib.contextmanager
def copied(programs: Programs, _: Path) -> Iterator[Made]:
    """The copy has the name, but the disk did not take that."""
    path = held_in_small_pages(programs)
    with running(path, "5"):
        yield Made(path, ("warm", "--replace", path), faulty("fsync", "error=EIO:when=3"))


#: Becomes a command that is ended as soon as it calls unshare.
_GUARD = """
import ctypes, os, struct, sys
rules = ((0x20, 0, 0, 0), (0x15, 0, 1, 272), (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == libc.prctl(22, 2, program) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


def guarded(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    if os.uname().machine != "x86_64":
        pytest.skip("the number of the system call is that of x86-64")
    return nullcontext(Made(programs.good, ("doctor", programs.directory), (sys.executable, "-c", _GUARD)))


def missing(_: Programs, tmp_path: Path) -> AbstractContextManager[Made]:
    path = tmp_path / "missing"
    return nullcontext(Made(path, ("doctor", path), end=path.touch))


def fine(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    """Nothing is in the way: what there is is said, and nothing recommended."""
    return nullcontext(Made(programs.good, ("doctor", programs.directory)))


def mounted(script: str) -> tuple[str, ...]:
    """Return what starts a command in a mount namespace of its own, after *script*."""
    return "unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh"


def without_huge_pages(programs: Programs, _: Path) -> AbstractContextManager[Made]:
    """As with a kernel that was built without them."""
    prefix = mounted("mount -t tmpfs none /sys/kernel/mm/transparent_hugepage")
    return nullcontext(Made(programs.good, ("doctor", programs.directory), prefix))


@contextlib.contextmanager
def small_tmpfs(programs: Programs) -> Iterator[Path]:
    """A tmpfs that has huge pages only where MADV_COLLAPSE makes them."""
    at = programs.directory / "small-tmpfs"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=never", "none", at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)
        at.rmdir()


@contextlib.contextmanager
def on_a_small_tmpfs(programs: Programs, _: Path) -> Iterator[Made]:
    with small_tmpfs(programs) as at:  # and a kernel before 6.1, without MADV_COLLAPSE
        yield Made(programs.good, ("doctor", at), faulty("madvise", "error=EINVAL"))


@contextlib.contextmanager
def where_files_in_memory_are_small(programs: Programs, tmp_path: Path) -> Iterator[Made]:
    place = tmp_path / "shmem_enabled"
    place.write_text("always within_size advise never [deny] force\n")
    prefix = mounted(f"mount --bind {place} /sys/kernel/mm/transparent_hugepage/shmem_enabled")
    with small_tmpfs(programs) as at:
        yield Made(programs.good, ("doctor", at), (*prefix, *faulty("madvise", "error=EINVAL")))
    assert place.read_text() == "never\n"


@contextlib.contextmanager
def without_free_blocks(programs: Programs, tmp_path: Path) -> Iterator[Made]:
    """The kernel gives no huge page, and says that it has none; the command tells it to make some."""
    blocks, compact = tmp_path / "buddyinfo", tmp_path / "compact_memory"
    line = Path("/proc/buddyinfo").read_text().splitlines()[0].split()
    blocks.write_text(" ".join([*line[:4], "9", *["0"] * (len(line) - 5)]) + "\n")
    compact.touch()

    def compacted() -> None:
        assert compact.read_text() == "1\n"
        blocks.write_text(Path("/proc/buddyinfo").read_text())

    prefix = mounted(f"mount --bind {blocks} /proc/buddyinfo; mount --bind {compact} /proc/sys/vm/compact_memory")
    with small_tmpfs(programs) as at:
        prefix = (*prefix, *faulty("madvise", "error=EAGAIN"))
        yield Made(programs.good, ("doctor", at), prefix, react=compacted)


@contextlib.contextmanager
def not_on_disk(programs: Programs, _: Path) -> Iterator[Made]:
    """Pages that were written, and that no request of ours brings to the disk."""
    path = programs.copy("remedy")
    with path.open("r+b") as file:
        data = file.read()
        file.seek(0)
        file.write(data)
    yield Made(path, ("warm", path), faulty("fsync", "retval=0"))


@contextlib.contextmanager
def refused_by_the_kernel(_: Programs, tmp_path: Path) -> Iterator[Made]:
    """A program whose code has no file, and a kernel that does not collapse it for now."""
    subprocess.run(["gcc", "-O2", "-o", tmp_path / "arena", ROOT / "tests/live/arena.c"], check=True)
    with running("sh", "-c", f"mkfifo {tmp_path}/said; exec {tmp_path}/arena 1 1 <>{tmp_path}/said") as child:
        ask = ("adapt", "--windows", "1", str(child.pid))
        yield Made(tmp_path / "arena", ask, faulty("process_madvise", "error=EBUSY:when=1"))


#: code -> the situation, and the kind of the remedy; None if nothing can be done.
ROWS: dict[str, tuple[Situation, str | None]] = {
    "cache.copied": (copied, None),
    "cache.dirty": (not_on_disk, "prepare"),
    "cache.held": (held, "find-holder"),
    "cache.in-use": (in_use, "stop"),
    "cache.no-gain": (no_better_copy, None),
    "cache.not-warmed": (not_warmed, "run"),
    "cache.open-for-writing": (written, "wait"),
    "cache.replaced": (replaced, None),
    "file-system.huge-pages": (fine, None),
    "file-system.keeps-pages": (on_tmpfs, "copy-elsewhere"),
    "file-system.no-huge-pages": (journalled, "run"),
    "file-system.not-tried": (missing, None),
    "file-system.small-tmpfs": (on_a_small_tmpfs, "run"),
    "file.no-room": (full, None),
    "fix.fixed-already": (fixed_otherwise, "run"),
    "file.not-replaced": (two_names, "one-name"),
    "machine.kernel": (fine, None),
    "machine.no-thp": (without_huge_pages, None),
    "machine.processor": (fine, None),
    "machine.text-costs": (fine, None),
    "machine.thp": (fine, None),
    "memory.few": (more_than_memory, "fewer-windows"),
    "memory.fragmented": (without_free_blocks, "prepare"),
    "memory.free": (fine, None),
    "process.ended": (guarded, None),
    "process.may-mount": (fine, None),
    "process.no-mounts": (without_root_mount, None),
    "process.thp-allowed": (fine, None),
    "process.thp-disabled": (without_thp, "run"),
    "process.would-lose-privileges": (without_the_right_to_mount, None),
    "setting.bad-value": (bad_value, "unset"),
    "setting.disabled": (switched_off, "unset"),
    "setting.unknown": (misspelt, "unset"),
    "text.no-window": (plain, "run"),
    "text.other-processor": (foreign, None),
    "text.small": (shell, None),
    "text.windows-meant": (one_window_meant, None),
    "thp.refused": (refused_by_the_kernel, "retry"),
    "thp.shmem-denied": (where_files_in_memory_are_small, "prepare"),
}


def asked(made: Made, *, again: bool = False) -> list[dict[str, Any]]:
    """Return the diagnoses in the JSON document that answers."""
    names = () if again else tuple(f"{name}={value}" for name, value in made.environ)
    words = made.again if again and made.again else made.ask
    done = hugealign(*words, "--json", prefix=(*made.prefix, "env", *names))
    return list(diagnoses(json.loads(done.stdout)))


def follow(made: Made, results: dict[str, Any], tmp_path: Path) -> int | None:
    """Run the command of a remedy; return how many windows are huge in a process, or in a file that it made."""
    remedy = results["remedy"]
    argv = [str(ROOT / "bin/hugealign") if word == "hugealign" else word for word in remedy["argv"]]
    if remedy["needs"] == "command":
        with running(*made.prefix, *argv, made.path, "5") as child:
            return huge_kib(child.pid, made.path) * 1024 // WINDOW
    out = [str(tmp_path / "out")] if remedy["needs"] == "output" else []
    subprocess.run([*made.prefix, *argv, *out], check=True, capture_output=True, cwd="/")
    return windows_of(Path(out[0])) if out else None


def windows_of(path: Path) -> int:
    """Return how many windows the text of the file at *path* has."""
    seen = json.loads(hugealign("verify", "--json", path).stdout)
    return int(seen["files"][0]["coverage"]["windows"])


@needs_strace
@pytest.mark.parametrize("code", ROWS)
def test_the_remedy_helps(programs: Programs, tmp_path: Path, code: str) -> None:
    tmp_path.chmod(0o755)
    situation, kind = ROWS[code]
    with situation(programs, tmp_path) as made:
        (result,) = [item for item in asked(made) if item["code"] == code]
        remedy = result["remedy"]
        assert (remedy and remedy["kind"]) == kind
        if remedy and remedy["argv"]:
            windows = follow(made, result, tmp_path)
            if windows is not None:
                assert windows == (remedy["after"] or (WINDOWS if remedy["needs"] == "command" else windows))
                assert windows
                return  # another process or another file has them; this one stays as it is
            assert remedy["after"] in (None, windows_of(made.path))
            if made.react:
                made.react()
        elif made.end:
            made.end()
        elif not (made.environ or made.again):
            return  # a person has to link, copy or leave it
        assert code not in [item["code"] for item in asked(made, again=True)]


def test_replacing_is_not_recommended_where_it_is_refused(programs: Programs) -> None:
    with in_use_with_two_names(programs) as made:
        (result,) = asked(made)
        assert (result["code"], result["remedy"]["argv"]) == ("cache.in-use", [])
    chill(made.path)
