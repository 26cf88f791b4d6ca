"""What a new file in the place of another one gets, and when."""

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign.io import copying, mounts, places, replacing
from hugealign.io.copying import ReplaceError
from hugealign.io.descriptors import using
from hugealign.io.mounts import Mount
from hugealign.io.regular import NO_LOCKS, locked, named


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("text")
    path.chmod(0o6755)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_copy_gets_privileges_last(file: Path) -> None:
    seen = []

    def look(copy: int) -> bool:
        seen.append(stat.S_IMODE(os.fstat(copy).st_mode))
        return True

    before = file.stat().st_ino
    assert replacing.replace(str(file), look)
    assert seen == [0o755]
    assert (mode(file), file.stat().st_ino != before, os.listdir(file.parent)) == (0o6755, True, ["file"])


@pytest.mark.parametrize("change", [0o4755, 0o755, 0o777])
def test_a_mode_that_changes_meanwhile_is_not_taken(file: Path, change: int) -> None:
    before = file.stat().st_ino

    def meanwhile(_: int) -> bool:
        file.chmod(change)
        return True

    with pytest.raises(ReplaceError) as error:
        replacing.replace(str(file), meanwhile)
    assert error.value.code == copying.CHANGED
    assert (mode(file), file.stat().st_ino, os.listdir(file.parent)) == (change, before, ["file"])


def test_nothing_confers_what_the_file_does_not_any_more(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_text("text")
    with using(os.open(file, os.O_RDONLY)) as source, using(os.open(copy, os.O_RDWR)) as target:
        info = os.fstat(source)
        copying.copy_attributes(source, target, info)
        assert mode(copy) == 0o755
        file.chmod(0o2755)
        with pytest.raises(ReplaceError):
            copying.copy_privileges(source, target, info)
        assert mode(copy) == 0o755
        copying.copy_privileges(source, target, os.fstat(source))
        assert mode(copy) == 0o2755


def test_a_file_that_had_a_name_confers_nothing_of_another_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without O_TMPFILE: he may have opened it for writing."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_WRONLY)  # EISDIR, as an old kernel
    assert replacing.replace(str(file), lambda _: True)
    assert mode(file) == 0o6755
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    with pytest.raises(ReplaceError) as error:
        replacing.replace(str(file), lambda _: True)
    assert error.value.code == "copy.attributes"
    assert os.listdir(file.parent) == ["file"]


def test_what_is_open_is_shared_and_not_what_has_its_name(file: Path, tmp_path: Path) -> None:
    other, secret = tmp_path / "other", tmp_path / "secret"
    os.link(file, other)
    secret.write_text("secret")
    before = file.stat()
    made = tmp_path / "made"
    made.write_text("made")
    with using(os.open(made, os.O_RDONLY)) as fd:
        made.rename(file)
        file.unlink()
        file.symlink_to(secret)
        with pytest.raises(HugealignError):  # it has no name any more
            replacing.share(fd, named(str(other)), before)
        os.link(secret, made)
        with using(os.open(made, os.O_RDONLY)) as again, pytest.raises(ReplaceError):
            replacing.share(again, named(str(other)), secret.stat())  # another file has the name
    assert other.stat().st_ino == before.st_ino
    assert sorted(os.listdir(tmp_path)) == ["file", "made", "other", "secret"]


def test_a_link_to_it_has_taken_the_name(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(file)
    with using(os.open(file, os.O_RDONLY)) as fd, refused(copying.CHANGED):
        replacing.share(fd, places.real(str(other)), file.stat())
    assert other.is_symlink()


def test_names_of_our_own() -> None:
    """As `remove_leftovers` knows them, and never two of one name."""
    names = {replacing._temporary_name() for _ in range(99)}
    assert len(names) == 99
    assert all(re.fullmatch(replacing._TEMPORARY, name) for name in names)


def test_a_new_file_confers_nothing(file: Path, tmp_path: Path) -> None:
    with using(os.open(file, os.O_RDONLY)) as source, replacing.created(str(tmp_path / "new"), source) as new:
        os.write(new, b"text")
    assert mode(tmp_path / "new") == 0o755
    replacing.write(str(file), b"other")
    assert mode(file) == 0o755


@contextlib.contextmanager
def refused(code: str, **facts: int | str) -> Iterator[None]:
    with pytest.raises(HugealignError) as error:
        yield
    assert error.value.code == code
    assert {name: error.value.facts[name] for name in facts} == facts


@pytest.mark.parametrize("made", ["nothing", "file", "mode", "link", "to nothing"])
def test_what_is_written(made: str, tmp_path: Path) -> None:
    """A file in its place, with the mode of the one before; behind a link, which stays."""
    path, target = tmp_path / "a", tmp_path / "b"
    if made in ("file", "mode"):
        path.write_text("before" * 1000)
        path.chmod(0o640)
    if made == "link":
        target.write_text("before")
    if made in ("link", "to nothing"):
        path.symlink_to(target)
    replacing.write(str(path), b"after", 0o750 if made == "mode" else None)
    umask = os.umask(0)
    os.umask(umask)
    expected = {"file": 0o640, "mode": 0o750 & ~umask}.get(made, 0o666 & ~umask)
    assert path.read_bytes() == b"after"
    assert mode(path) == (0o644 if made == "link" else expected)
    assert path.is_symlink() == (made in ("link", "to nothing"))
    assert set(os.listdir(tmp_path)) <= {"a", "b"}


@pytest.mark.parametrize("name", ["", "directory/", "directory/.", "directory/..", "missing/a"])
def test_what_only_a_directory_can_be_called(name: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(FileNotFoundError if name == "missing/a" else IsADirectoryError):
        replacing.write(f"{tmp_path}/{name}", b"")
    assert os.listdir(tmp_path) == ["directory"]


def test_what_is_no_file_is_written_to() -> None:
    reading, writing = os.pipe()
    with using(reading):
        with using(writing):
            replacing.write(f"/proc/self/fd/{writing}", b"text")
        assert os.read(reading, 9) == b"text"


def test_a_file_is_written_beside(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    path.chmod(0o600)
    with replacing.beside(str(path)) as other:
        assert Path(other).parent == tmp_path
        Path(other).write_text("after")
        assert path.read_text() == "before"
    assert (path.read_text(), mode(path), os.listdir(tmp_path)) == ("after", 0o600, ["a"])
    with pytest.raises(IsADirectoryError), replacing.beside(str(path)) as other:
        (tmp_path / "b").write_bytes(Path(tmp_path).read_bytes())
    assert (path.read_text(), os.listdir(tmp_path)) == ("after", ["a"])


@pytest.mark.parametrize("turned", [True, False])
def test_a_new_file_beside_takes_nothing_of_a_link(turned: bool, tmp_path: Path) -> None:
    """One that takes the name meanwhile leads to a file of another mode."""
    path, other = tmp_path / "a", tmp_path / "b"
    other.touch(0o600)
    before = os.umask(0)
    try:
        with replacing.beside(str(path)):
            if turned:
                path.symlink_to(other)
    finally:
        os.umask(before)
    assert (mode(path), path.is_symlink(), mode(other)) == (0o666, False, 0o600)


def test_what_is_created_is_not_put_in_the_place_of_a_directory(file: Path, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with using(os.open(file, os.O_RDONLY)) as source:
        reading, writing = os.pipe()
        with using(reading), using(writing):
            for path in (f"{tmp_path}/directory", "/dev/null", f"/proc/self/fd/{writing}"):
                with refused("file.special"), replacing.created(path, source):
                    pass
        with refused("file.not-replaced", error="ENOSPC"), replacing.created(str(tmp_path / "new"), source):
            raise OSError(errno.ENOSPC, "")
        with replacing.created(str(file), source) as new:
            os.write(new, b"other")
    assert (file.read_text(), mode(file)) == ("other", 0o755)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]


def test_what_is_not_worthwhile_is_dropped(file: Path) -> None:
    before = file.stat()
    assert not replacing.replace(str(file), lambda _: False)
    assert (file.stat(), os.listdir(file.parent)) == (before, ["file"])


@pytest.mark.parametrize("held", [True, False])
def test_what_fills_it(file: Path, held: bool) -> None:
    """The contents may be others; what belongs to the file stays, and others wait meanwhile."""
    os.utime(file, ns=(5, 7))

    def fill(source: int, target: int, size: int) -> None:
        assert os.pread(source, 9, 0) == b"text"
        with using(os.open(file, os.O_RDONLY)) as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.write(target, b"other")
        assert size == 4

    if held:
        with locked(str(file)) as fd:
            assert replacing.replace(named(str(file)), lambda _: True, fill, fd)
    else:
        assert replacing.replace(str(file), lambda _: True, fill)
    assert (file.read_text(), file.stat().st_mtime_ns, mode(file)) == ("other", 7, 0o6755)


def test_other_names(file: Path) -> None:
    os.link(file, file.with_name("other"))
    with refused("file.not-replaced", names=2):
        replacing.replace(str(file), lambda _: True)
    assert replacing.replace(str(file), lambda _: True, one_name=True)
    assert file.stat().st_ino != file.with_name("other").stat().st_ino
    assert sorted(os.listdir(file.parent)) == ["file", "other"]


#: What happens to the file while the copy is judged, and whether it is noticed.
MEANWHILE: dict[str, list[Callable[[Path], object]]] = {
    "longer": [lambda file: file.write_text("text+")],
    "touched": [lambda file: os.utime(file, ns=(1, 1))],
    "another size, the same time": [lambda file: file.write_text("x"), lambda file: os.utime(file, ns=(9, 9))],
    "a new name": [lambda file: os.link(file, file.with_name("other"))],
    "gone": [Path.unlink],
    "another file": [Path.unlink, lambda file: file.write_text("text")],
    "a link to it": [lambda file: file.rename(file.with_name("a")), lambda file: file.symlink_to(file.with_name("a"))],
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_what_happens_meanwhile_is_noticed(file: Path, name: str) -> None:
    file.chmod(0o755)  # so that nothing else looks

    def judge(_: int) -> bool:
        for change in MEANWHILE[name]:
            change(file)
        after.append(sorted((entry, os.lstat(file.parent / entry).st_ino) for entry in os.listdir(file.parent)))
        return True

    after: list[object] = []
    with refused("file.not-replaced" if name == "gone" else copying.CHANGED):
        replacing.replace(str(file), judge)
    assert sorted((entry, os.lstat(file.parent / entry).st_ino) for entry in os.listdir(file.parent)) == after[0]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_another_file_takes_the_name_at_the_last_moment(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """And still another, while the first one is put back: the newest stays, whatever happens."""
    exchange, left = replacing._exchange, list(range(times))
    before = file.stat().st_ino

    def exchanged(place: int, name: str, other: str) -> None:
        if left:
            fresh = tmp_path / "fresh"
            fresh.write_text(f"upgrade {left.pop(0)}")
            fresh.rename(file)
        exchange(place, name, other)

    monkeypatch.setattr(replacing, "_exchange", exchanged)
    if not times:
        assert replacing.replace(str(file), lambda _: True)
        assert file.stat().st_ino != before
    else:
        with refused(copying.CHANGED):
            replacing.replace(str(file), lambda _: True)
        assert file.read_text() == f"upgrade {times - 1}"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("key", ["st_size", "st_mtime_ns", "st_mode", "st_uid", "st_gid", ""])
def test_the_file_changes_at_the_last_moment(file: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Between the last look and the exchange: it gets its name back."""
    exchange, before = replacing._exchange, file.stat().st_ino
    changes: dict[str, Callable[[], object]] = {
        "st_size": lambda: os.truncate(file, 3),
        "st_mtime_ns": lambda: os.utime(file, ns=(3, 4)),
        "st_mode": lambda: file.chmod(0o700),
        "st_uid": lambda: os.chown(file, 1, -1),
        "st_gid": lambda: os.chown(file, -1, 1),
        "": lambda: None,
    }
    if os.geteuid() and key in ("st_uid", "st_gid"):
        pytest.skip("root alone gives files away")
    file.chmod(0o755)
    os.utime(file, ns=(3, 3))

    def exchanged(place: int, name: str, other: str) -> None:
        if file.stat().st_ino == before:
            changes[key]()
            if key == "st_size":
                os.utime(file, ns=(3, 3))
        exchange(place, name, other)

    monkeypatch.setattr(replacing, "_exchange", exchanged)
    if key:
        with refused(copying.CHANGED):
            replacing.replace(str(file), lambda _: True)
    else:
        assert replacing.replace(str(file), lambda _: True)
    assert (file.stat().st_ino == before) == bool(key)
    assert os.listdir(file.parent) == ["file"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EIO])
def test_a_file_system_that_cannot_exchange(file: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def exchanged(*_: object) -> None:
        raise OSError(number, "")

    monkeypatch.setattr(replacing, "_exchange", exchanged)
    before = file.stat().st_ino
    if number == errno.EIO:
        with refused("file.not-replaced", error="EIO"):
            replacing.replace(str(file), lambda _: True)
    else:
        assert replacing.replace(str(file), lambda _: True)
    assert (file.stat().st_ino == before, os.listdir(file.parent)) == (number == errno.EIO, ["file"])


def test_an_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).write_text(name)
    with using(os.open(tmp_path, os.O_RDONLY)) as place:
        replacing._exchange(place, "a", "b")
        assert ((tmp_path / "a").read_text(), (tmp_path / "b").read_text()) == ("b", "a")
        with pytest.raises(FileNotFoundError):
            replacing._exchange(place, "a", "c")
        monkeypatch.setattr(replacing, "_SYS_RENAMEAT2", {})
        with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
            replacing._exchange(place, "a", "b")


@pytest.mark.parametrize("number", [errno.EISDIR, errno.EOPNOTSUPP, errno.ENOENT, errno.EACCES, errno.EROFS])
def test_where_no_file_is_without_a_name(file: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    open_file = os.open

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, "")
        return open_file(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)
    file.chmod(0o755)
    if number in (errno.EACCES, errno.EROFS):
        with refused("file.not-replaced", error=errno.errorcode[number]):
            replacing.replace(str(file), lambda _: True)
    else:
        assert replacing.replace(str(file), lambda _: os.listdir(file.parent) != ["file"])
        assert not replacing.replace(str(file), lambda _: False)
    assert os.listdir(file.parent) == ["file"]


@pytest.mark.parametrize("number", [*NO_LOCKS, errno.EIO])
def test_where_nothing_can_be_locked(file: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def flock(*_: int) -> None:
        raise OSError(number, "")

    with locked(str(file)) as held:
        monkeypatch.setattr(fcntl, "flock", flock)
        if number == errno.EIO:
            with refused("file.not-replaced", error="EIO"):
                replacing.replace(named(str(file)), lambda _: True, None, held)
        else:
            assert replacing.replace(named(str(file)), lambda _: True, None, held)
    assert os.listdir(file.parent) == ["file"]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_does_not_reach_the_disk(file: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """Of the copy, of its privileges, of its name: only with the last one is the new file there."""
    synced, before = [], file.stat().st_ino

    def fsync(fd: int) -> None:
        synced.append(fd)
        if len(synced) == failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    with refused(copying.NOT_SYNCED if failing == 3 else "file.not-replaced", error="EIO"):
        replacing.replace(str(file), lambda _: True)
    assert (file.stat().st_ino == before, os.listdir(file.parent)) == (failing < 3, ["file"])


def test_leftovers(file: Path) -> None:
    """Of killed runs alone: what one has locked is in use, and what has another name is not a copy of ours."""
    names = [
        ".hugealign-0123456789abcdef",
        ".hugealign-0123456789abcdeF",
        ".hugealign-0",
        "x.hugealign-0123456789abcdef",
    ]
    for name in (*names, ".hugealign-" + "1" * 16):
        file.with_name(name).write_text("")
    file.with_name(".hugealign-" + "2" * 16).mkdir()
    file.with_name(".hugealign-" + "3" * 16).symlink_to(names[1])
    with file.with_name(".hugealign-" + "1" * 16).open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        replacing.remove_leftovers(named(str(file)))
    left = {*os.listdir(file.parent)}
    assert left == {"file", *names[1:], *(".hugealign-" + digit * 16 for digit in "123")}
    replacing.remove_leftovers(named(str(file)))
    assert ".hugealign-" + "1" * 16 not in os.listdir(file.parent)


def test_one_file(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    os.link(file, other)
    assert replacing.same(str(file), str(other))
    assert replacing.same(f"{tmp_path}/none", f"{tmp_path}/./none/")
    assert not replacing.same(str(file), f"{tmp_path}/none")


def test_what_others_keep(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags of chattr(1), fs-verity, a mount: looked up for the file itself."""
    info = file.stat()
    with using(os.open(file, os.O_RDONLY)) as fd:
        replacing.refuse(fd, info, str(file))
        replacing.refuse_write(fd)
        for flag, letter in ((0x10, "i"), (0x20, "a")):
            monkeypatch.setattr(replacing, "flags", lambda _, flag=flag: flag | 0x80000)
            with refused("file.not-replaced", attribute=letter):
                replacing.refuse(fd, info, str(file))
            with refused("file.not-replaced", attribute=letter):
                replacing.refuse_write(fd)
        monkeypatch.setattr(replacing, "flags", lambda _: 0x80040)
        replacing.refuse(fd, info, str(file))
        monkeypatch.setattr(replacing, "sealed", lambda _: True)
        with refused("copy.sealed"):
            replacing.refuse(fd, info, str(file))
        with refused("file.not-replaced", error="EBUSY"):
            replacing.refuse(fd, info, "/proc")
    with using(os.open("/proc/sys", os.O_RDONLY)) as fd:
        monkeypatch.setattr(os, "fstatvfs", lambda _: os.statvfs_result((0,) * 8 + (os.ST_RDONLY, 0)))
        with refused("file.not-replaced", error="EROFS"):
            replacing.refuse_write(fd)


@pytest.mark.parametrize("kind", [b"overlay", b"ext4", b""])
def test_on_an_overlay_a_file_with_other_names_is_not_exchanged(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    """It would then be another file (the overlay's own documentation); so it is looked at once more."""
    os.link(file, file.with_name("other"))
    mount = Mount(b"", b"", b"", b"", kind, b"", b"")
    monkeypatch.setattr(mounts, "of_device", lambda _: mount if kind else None)
    calls: list[str] = []
    exchange = replacing._exchange

    def exchanged(place: int, name: str, other: str) -> None:
        calls.append(name)
        exchange(place, name, other)

    monkeypatch.setattr(replacing, "_exchange", exchanged)
    assert replacing.replace(str(file), lambda _: True, one_name=True)
    assert bool(calls) == (kind != b"overlay")
    assert file.stat().st_nlink == 1
    file.with_name("other").unlink()
    calls.clear()
    assert replacing.replace(str(file), lambda _: True)
    assert calls


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space"),
        (errno.EDQUOT, "no space"),
        (errno.EACCES, "no permission to write to its directory, or to read it"),
        (errno.EPERM, "no permission to write to its directory"),
        (errno.EROFS, "read-only"),
        (errno.EBUSY, "mounted"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_the_reason_is_that_of_the_kernel(file: Path, number: int, words: str) -> None:
    def fill(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(ReplaceError, match=words) as error:
        replacing.replace(str(file), lambda _: True, fill)
    assert error.value.facts["error"] == errno.errorcode[number]
    assert os.listdir(file.parent) == ["file"]
