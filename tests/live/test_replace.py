"""``hugealign warm --replace``: a copy takes the place of a file, whole or not at all."""

import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hugealign.io import replacing as replace
from tests.live.programs import (
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
from tests.strace import each, faulty, needs_strace
from tests.support import need, refused, worded

ALL = WINDOWS * WINDOW >> 10


@pytest.fixture
def place(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory of its own with a cold copy of the program in it."""
    directory = programs.directory / request.node.name.replace("/", "-")
    directory.mkdir()
    shutil.move(programs.copy("cold"), directory / "good")
    yield directory
    if shutil.which("chattr"):
        subprocess.run(["chattr", "-R", "-i", "-a", directory], check=False, capture_output=True)
    shutil.rmtree(directory)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed")


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_file_in_use_is_replaced_and_the_process_keeps_the_old_one(place: Path) -> None:
    path = place / "good"
    content, old = path.read_bytes(), path.stat().st_ino
    with running(path, "5") as child:
        done = hugealign("warm", "--replace", path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            f"{path}: 3 of 3 windows huge (6.0 MiB)",
            f"  {worded('cache.copied')}",
            f"  {worded('cache.replaced', process=child.pid, name='good')}",
        ]
        assert child.poll() is None
        assert Path(f"/proc/{child.pid}/exe").stat().st_ino == old != path.stat().st_ino
        with running(path, "5") as second:
            assert huge_kib(second.pid, path) == ALL
    assert path.read_bytes() == content
    assert names(place) == ["good"]


def test_what_needs_no_copy_is_not_copied(place: Path) -> None:
    inode = (place / "good").stat().st_ino
    assert hugealign("warm", "--replace", place / "good").stdout.endswith("3 of 3 windows huge (6.0 MiB)\n")
    assert (place / "good").stat().st_ino == inode


@needs_root
def test_everything_but_the_inode_is_kept(place: Path) -> None:
    path = place / "good"
    need("setfacl", "setcap", "chattr")
    path.chmod(0o4751)
    os.chown(path, 1234, 4321)
    path.chmod(0o6751)
    for words in (
        ("setfacl", "-m", "u:1111:rx,g:2222:r", path),
        ("setcap", "cap_net_raw+ep", path),
        ("setfacl", "-d", "-m", "u:3333:rwx", place),  # what is created there gets this ACL
        ("chattr", "+d", path),
    ):
        if subprocess.run(words, check=False, capture_output=True).returncode:
            pytest.skip(f"the file system does not take {words[0]}")
    os.setxattr(path, "user.note", b"\0\xff")
    os.utime(path, ns=(1_000_000_000_123_456_789, 1_111_111_111_987_654_321))
    accessed = path.stat().st_atime_ns
    before = state(path)
    os.utime(path, ns=(accessed, path.stat().st_mtime_ns))
    assert {"system.posix_acl_access", "security.capability", "user.note"} <= before["attributes"].keys()
    assert replace.replace(str(path), lambda _: True)
    assert path.stat().st_atime_ns == accessed
    assert state(path) == before
    plain = place / "plain"
    plain.write_bytes(b"no ACL")
    os.removexattr(plain, "system.posix_acl_access")
    before = state(plain)
    assert replace.replace(str(plain), lambda _: True)
    assert state(plain) == before


def state(path: Path) -> dict[str, Any]:
    """All that must be the same afterwards."""
    info = path.stat()
    return {
        "stat": (info.st_mode, info.st_uid, info.st_gid, info.st_size, info.st_mtime_ns),
        "attributes": {name: os.getxattr(path, name) for name in os.listxattr(path)},
        "flags": subprocess.run(["lsattr", path], check=False, capture_output=True, text=True).stdout.split()[:1],
        "content": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def test_holes_stay_holes(place: Path) -> None:
    path = place / "sparse"
    with path.open("wb") as file:
        file.truncate(64 << 20)
        file.seek(20 << 20)
        file.write(os.urandom(1 << 20))
    content = path.read_bytes()
    assert replace.replace(str(path), lambda _: True)
    assert path.read_bytes() == content
    assert path.stat().st_blocks * 512 < 2 << 20
    path.write_bytes(b"")
    assert replace.replace(str(path), lambda _: True)
    assert path.stat().st_size == 0


def test_symbolic_link_is_followed_and_stays(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub/link").symlink_to("../good")
    old = (place / "good").stat().st_ino
    assert replace.replace(str(place / "sub/link"), lambda _: True)
    assert (place / "sub/link").is_symlink()
    assert (place / "good").stat().st_ino != old


def assert_refused(path: Path, **facts: int | str) -> None:
    before = path.stat()
    with refused("file.not-replaced", **facts):
        replace.replace(str(path), lambda _: True)
    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    assert not [name for name in names(path.parent) if name.startswith(".hugealign")]


def test_hard_links_are_refused(place: Path) -> None:
    os.link(place / "good", place / "second")
    assert_refused(place / "good", names=2)
    with running(place / "good", "5"):
        done = hugealign("warm", "--replace", "--json", place / "good")
    assert done.returncode == 1
    (note,) = json.loads(done.stdout)["files"][0]["notes"]
    assert (note["code"], note["facts"]) == ("file.not-replaced", {"names": 2})


@needs_root
@pytest.mark.parametrize("flag", ["+i", "+a"])
def test_immutable_file_is_refused(place: Path, flag: str) -> None:
    path = place / "good"
    if not shutil.which("chattr") or subprocess.run(["chattr", flag, path], check=False).returncode:
        pytest.skip(f"no chattr {flag} here")
    assert_refused(path, attribute=flag[1:])


@needs_root
def test_place_without_permission_is_refused(place: Path) -> None:
    code = f"""
import sys
from hugealign.io import replacing as replace
from hugealign.io import copying
try:
    replace.replace({str(place / "good")!r}, lambda _: True)
except copying.ReplaceError as error:
    print(error.code, *error.facts.values())
"""

    def as_nobody() -> str:
        words = (*NOBODY, sys.executable, "-c", code)
        return subprocess.run(words, env={"PYTHONPATH": str(ROOT)}, check=False, capture_output=True, text=True).stdout

    before = (place / "good").stat()
    assert as_nobody() == "file.not-replaced EACCES\n"
    place.chmod(0o777)
    assert as_nobody() == "copy.attributes owner EPERM\n"
    os.chown(place / "good", 65534, 4321)
    assert as_nobody() == "copy.attributes owner EPERM\n"
    os.chown(place / "good", 65534, 65534)
    assert shutil.which("setcap")
    subprocess.run(["setcap", "cap_net_raw+ep", place / "good"], check=True)
    assert as_nobody() == "copy.attributes security.capability EPERM\n"
    assert (place / "good").stat().st_ino == before.st_ino
    os.removexattr(place / "good", "security.capability")
    assert as_nobody() == ""
    assert (place / "good").stat().st_ino != before.st_ino
    assert names(place) == ["good"]


def in_mounts(place: Path, script: str, path: str) -> list[str]:
    """What is said of replacing *path* in a mount namespace of its own, after *script* has run in *place*."""
    if subprocess.run(("unshare", "-m", "true"), check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace: root is needed")
    code = f"""
import os
import re
from hugealign.io import replacing as replace
from hugealign.io import copying
old = os.stat({path!r}).st_ino
try:
    print(replace.replace({path!r}, lambda _: True))
except copying.ReplaceError as error:
    print(error.code, *error.facts.values())
print(os.stat({path!r}).st_ino == old, sorted(os.listdir(os.path.dirname({path!r}))))
"""
    words = ("unshare", "-m", "sh", "-ec", f'{script}; exec "$0" -c "$1"', sys.executable, code)
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_file_mounted_over_is_refused(place: Path) -> None:
    (place / "a b\\").touch()
    output = in_mounts(place, "mount --bind good 'a b\\'", f"{place}/a b\\")
    assert output[0] == "file.not-replaced EBUSY"


def test_read_only_file_system_is_refused(place: Path) -> None:
    output = in_mounts(place, "mount --bind . /mnt; mount -o remount,ro,bind /mnt", "/mnt/good")
    assert output == ["file.not-replaced EROFS", "True ['good']"]


def test_no_space_is_refused(place: Path) -> None:
    output = in_mounts(place, "mount -t tmpfs -o size=15M none /mnt; cp good /mnt", "/mnt/good")
    assert output == ["file.not-replaced ENOSPC", "True ['good']"]


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_other_file_systems(place: Path, kind: str) -> None:
    script = "mount -t tmpfs none /mnt"
    if kind == "overlay":
        options = "lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w"
        script += f"; mkdir /mnt/l /mnt/u /mnt/w; cp good /mnt/l; mount -t overlay -o {options} none /mnt"
    output = in_mounts(place, f"{script}; cp -n good /mnt", "/mnt/good")
    assert output == ["True", "False ['good']"]


def test_file_that_changes_meanwhile_is_left_alone(place: Path) -> None:
    path = place / "good"

    def change(how: Callable[[], object]) -> None:
        with refused("file.changed"):
            replace.replace(str(path), lambda _: bool(how()) or True)
        assert names(place) == ["good"]

    def written() -> None:
        with path.open("ab") as file:
            file.write(b"new")

    def renamed() -> None:
        shutil.copy(path, place / "other")
        (place / "other").rename(path)

    change(written)
    assert path.read_bytes().endswith(b"new")
    change(renamed)
    change(lambda: path.chmod(0o700))


@needs_strace
def test_upgrade_at_the_last_moment_stays(place: Path) -> None:
    """The copy has a name, but not yet that of the file, when a package manager renames its own file to it."""
    path, fresh = place / "good", place / "other"
    shutil.copy(path, fresh)
    with fresh.open("ab") as file:
        file.write(b"upgraded")
    code = f"from hugealign.io import replacing\nreplacing.replace({str(path)!r}, lambda _: True)"
    words = [*faulty("linkat", "delay_exit=2000000"), sys.executable, "-c", code]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
        while not any(name.startswith(".hugealign-") for name in names(place)) and child.poll() is None:
            time.sleep(0.01)
        fresh.rename(path)
        assert child.stderr
        assert "another file took its name while it was copied" in child.stderr.read()
    assert path.read_bytes().endswith(b"upgraded")
    assert names(place) == ["good"]


def test_file_system_without_nameless_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stands in for network file systems, which cannot be had here.
    real = os.open

    def without(path: str, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", without)
    path = place / "good"
    old = state(path), path.stat().st_ino
    assert not replace.replace(str(path), lambda _: False)
    assert names(place) == ["good"]
    assert replace.replace(str(path), lambda _: names(place) != ["good"])
    assert state(path) == old[0]
    assert path.stat().st_ino != old[1]
    assert names(place) == ["good"]


def test_leftovers_are_removed_and_nothing_else(place: Path) -> None:
    left, used, alike, fifo = (place / f".hugealign-{word}" for word in ("0" * 16, "1" * 16, "2" * 15, "3" * 16))
    for path in (left, used, alike):
        path.write_bytes(b"half")
    os.mkfifo(fifo)
    code = f"import fcntl, sys; file = open({str(used)!r}); fcntl.flock(file, 1); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        assert replace.replace(str(place / "good"), lambda _: True)
        assert names(place) == [used.name, alike.name, fifo.name, "good"]
        holder.communicate()
    assert replace.replace(str(place / "good"), lambda _: True)
    assert names(place) == [alike.name, fifo.name, "good"]


def test_replace_and_check_exclude_each_other(built: Programs) -> None:
    assert hugealign("warm", "--replace", "--check", built.plain).returncode == 2


_CALLS = ("copy_file_range", "ftruncate", "fsync", "fchown", "fchmod", "utimensat", "linkat", "rename,renameat")


@needs_strace
@pytest.mark.parametrize(
    ("fault", "calls", "numbers"),
    [
        ("error=ENOSPC", ("copy_file_range", "fsync"), (1, 4)),
        ("signal=SIGKILL", ("copy_file_range", "fsync"), (1, 7, 8)),  # the last but one comes after the exchange
        *(
            pytest.param(fault, _CALLS, range(1, 9), marks=pytest.mark.matrix)
            for fault in ("error=ENOSPC", "signal=SIGKILL", "error=EIO", "error=EDQUOT")
        ),
    ],
)
def test_fault_at_each_system_call(place: Path, fault: str, calls: tuple[str, ...], numbers: Sequence[int]) -> None:
    """The file is the old one or the new one, and what is printed says which."""
    path = place / "good"
    content = path.read_bytes()
    seen = set()
    for call, prefix in each(calls, numbers, fault, place / "trace", set()):  # the trial file is also synced
        chill(path)
        old = path.stat()
        words = (*prefix, sys.executable, "-m", "hugealign", "warm", "--replace", str(path))
        with running(path, "5"):
            done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
        new = path.stat()
        assert path.read_bytes() == content
        assert (new.st_mode, new.st_uid, new.st_mtime_ns) == (old.st_mode, old.st_uid, old.st_mtime_ns)
        replaced = new.st_ino != old.st_ino
        seen.add((call, replaced))
        if done.returncode == -signal.SIGKILL:
            assert sum(name.startswith(".hugealign-") for name in names(place)) <= 1
            continue
        assert (worded("cache.copied") in done.stdout) == replaced, done
        assert "Traceback" not in done.stderr
        assert names(place) == ["good", "trace"]
    assert ("copy_file_range", False) in seen
    assert ("fsync", True) in seen
