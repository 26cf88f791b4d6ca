"""The store of copies, on a real tmpfs that only a child of these tests sees, so that no root is needed."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError, UsageError
from hugealign.io import regular
from hugealign.io.descriptors import using
from hugealign.run import copies, store, store_mount
from hugealign.system import namespace
from tests.unit.apart import M, apart, program


@contextlib.contextmanager
def refused(code: str) -> Iterator[None]:
    with pytest.raises(HugealignError) as error:
        yield
    assert getattr(getattr(error.value, "diagnosis", None), "code", error.value.code) == code


def names(place: Path) -> list[str]:
    """Return what is in the store, except its lock."""
    return sorted(set(os.listdir(place)) - {"lock", "path", "for"})


def gone(place: Path) -> bool:
    return not os.path.ismount(place) and not place.exists()


@apart
def test_a_copy(file: Path, place: Path) -> None:
    staged = store.stage(str(file), str(place))
    assert (staged.path, staged.state, staged.windows, staged.fixed) == (str(file), store.MADE, 1, False)
    assert staged.link == f"{place}/path{file}"
    assert staged.size >= M
    copy = Path(staged.link).resolve()
    assert copy.parent == place
    assert (copy.read_bytes(), copy.stat().st_mode) == (file.read_bytes(), file.stat().st_mode)
    assert place.stat().st_mode & 0o7777 == 0o755
    assert os.statvfs(place).f_flag & os.ST_NODEV
    again = store.stage(str(file), str(place))
    assert (again.state, names(place)) == (store.THERE, [copy.name])
    assert [(c.path, c.identity, c.current, c.fixed) for c in store.entries(str(place))] == [
        (str(file), copy.name, True, False)
    ]
    assert store.entries(str(place))[0].size == copy.stat().st_blocks * 512
    assert (store.shared(str(place)), store.others(str(place))) == ([str(file)], 0)
    (place / "other").mkdir()
    assert store.others(str(place)) == 1
    os.rmdir(place / "other")
    store.drop([str(file)], str(place))
    assert gone(place)
    store.drop([], str(place))
    store.refresh(str(place))
    assert store.entries(str(place)) == []


def test_a_result_is_whole_if_all_windows_are_huge() -> None:
    for windows, huge, whole in ((0, 0, False), (2, 2, True), (2, 1, False)):
        assert store.Staged("/a", store.MADE, windows, huge).whole == whole


@apart
def test_a_file_that_changes(file: Path, place: Path) -> None:
    """Its old copy goes, with the next one or by itself; that of another file stays."""
    other = program(file.with_name("other"))
    first = {Path(store.stage(str(path), str(place)).link).resolve().name for path in (file, other)}
    os.utime(file, ns=(1, 1))
    assert [copy.current for copy in store.entries(str(place))] == [True, False]
    store.stage(str(file), str(place))
    assert len({*names(place)} & first) == 1
    assert len(names(place)) == 2
    file.unlink()
    store.refresh(str(place))
    assert [copy.path for copy in store.entries(str(place))] == [str(other)]
    assert len(names(place)) == 1
    other.unlink()
    store.refresh(str(place))
    assert gone(place)


@apart
def test_links_of_owners(file: Path, place: Path) -> None:
    """A copy stays as long as one leads to it; only *kept* ones stay without."""
    for owner in ("a.service", "b.service", ""):
        staged = store.stage(str(file), str(place), owner=owner)
        assert staged.link == (f"{place}/for/{owner}{file}" if owner else f"{place}/path{file}")
    assert len(store.entries(str(place))) == 1
    store.release("a.service", str(place))
    store.release("c.service", str(place))
    assert os.listdir(place / "for") == ["b.service"]
    os.unlink(f"{place}/path{file}")
    other = program(file.with_name("other"))
    store.stage(str(other), str(place))
    assert len(names(place)) == 2
    os.unlink(f"{place}/for/b.service{file}")
    kept = store.identities([str(file), str(file.with_name("missing"))])
    assert len(kept) == 2
    store.stage(str(other), str(place), kept=kept)
    assert len(names(place)) == 2
    store.stage(str(other), str(place))
    assert len(names(place)) == 1
    store.release("b.service", str(place))
    assert len(names(place)) == 1
    store.stage(str(file), str(place), owner="b.service")
    store.drop([str(other)], str(place))
    assert len(names(place)) == 1
    store.release("b.service", str(place))
    assert gone(place)


@pytest.mark.parametrize("owner", [".", "..", ".a", "a/b", "a\0", "x" * 256])
def test_what_no_owner_is_called(owner: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        store.stage("/bin/sh", str(tmp_path / "store"), owner=owner)
    assert store._tree("/s", "x" * 255) == "/s/for/" + "x" * 255
    assert store._tree("/s", "") == "/s/path"


@apart
def test_what_gets_no_copy(file: Path, place: Path) -> None:
    small = program(file.with_name("small"), size=0x1000)
    assert store.stage(str(small), str(place)).state == store.NO_WINDOW
    assert not place.exists()
    staged = store.stage(str(file), str(place))
    with using(os.open(small, os.O_RDONLY)) as fd, refused("store.readable"):
        store.stage_privately(fd, str(place), fix=False)
    program(file, size=0x1000)
    done = store.stage(str(file), str(place))
    assert done == store.Staged(str(file), store.NO_WINDOW, 0, 0, 0, "", False, done.diagnosis, 0)
    assert not done.whole
    assert done.diagnosis
    assert done.diagnosis.remedy is None or "stage" in done.diagnosis.remedy.argv
    assert not os.path.lexists(staged.link)
    assert gone(place)
    with using(os.open(small, os.O_RDONLY)) as fd:
        private, copy = store.stage_privately(fd, str(place), fix=False)
    assert (private.state, copy, place.exists()) == (store.NO_WINDOW, -1, False)


@apart
def test_what_may_not_be_copied(file: Path, place: Path) -> None:
    link = store.stage(str(file), str(place)).link
    for mode, code in ((0o4755, "copy.privileges"), (0o2755, "copy.privileges"), (0o755, "")):
        file.chmod(mode)
        if code:
            with refused(code):
                store.stage(str(file), str(place))
            assert not os.path.lexists(link)  # no old program starts
        else:
            assert store.stage(str(file), str(place)).state == store.MADE
    file.parent.chmod(0o700)
    with refused("copy.closed-directory"):
        store.stage(str(file), str(place))
    file.parent.chmod(0o755)
    for missing in (file.with_name("missing"), file / "x", "/\0"):
        with refused("file.unreadable"):
            store.stage(str(missing), str(place))


@apart
def test_a_fixed_copy(file: Path, place: Path) -> None:
    """Instead of one without a window."""
    program(file, at=0x1000)
    assert store.stage(str(file), str(place)).state == store.NO_WINDOW
    fixes = copies.Fixes()
    staged = store.stage(str(file), str(place), fix=True, fixes=fixes)
    assert (staged.fixed, staged.windows) == (True, 1)
    assert names(place)[0].endswith(copies.FIXED)
    (entry,) = store.entries(str(place))
    assert (entry.fixed, entry.current) == (True, True)
    with using(os.open(file, os.O_RDONLY)) as fd:
        for kinds, there in (((True, False), True), ((False,), False), ((False, True), True)):
            with store.copy_of(fd, str(place), kinds) as copy:
                assert (copy is not None) == there
            with store.copy_of(fd, str(place)) as copy:
                assert copy is not None
    assert store.stage(str(file), str(place), fix=True).state == store.THERE


@apart
def test_the_copy_of_an_open_file(file: Path, place: Path) -> None:
    with using(os.open(file, os.O_RDONLY)) as fd:
        with store.copy_of(fd, str(place)) as copy:
            assert copy is None
        link = store.stage(str(file), str(place)).link
        with store.copy_of(fd, str(place)) as copy:
            assert copy is not None
            assert os.fstat(copy).st_ino == os.stat(link).st_ino
        Path(link).chmod(0o777)
        with store.copy_of(fd, str(place)) as copy:
            assert copy is None
        Path(link).chmod(0o755)
        place.chmod(0o777)  # a store that others may change
        with store.copy_of(fd, str(place)) as copy:
            assert copy is None
        with store.copy_of(fd, str(file)) as copy:
            assert copy is None
        other = file.with_name("link")
        place.chmod(0o755)
        other.symlink_to(place)
        for path, there in ((place, True), (other, False)):
            with store.copy_of(fd, str(path)) as copy:
                assert (copy is not None) == there


@apart
def test_copies_that_others_may_change_or_that_confer_privileges_are_made_again(file: Path, place: Path) -> None:
    inode = 0
    for mode in (0o4755, 0o2755, 0o775, 0o757, 0o555):
        staged = store.stage(str(file), str(place))
        copy = os.stat(staged.link)
        assert (staged.state, copy.st_mode & 0o7777) == (store.MADE, 0o755)
        assert copy.st_ino != inode
        Path(staged.link).chmod(mode)
        inode = os.stat(staged.link).st_ino
    assert store.stage(str(file), str(place)).state == store.THERE
    Path(staged.link).chmod(0o4755)
    store.refresh(str(place))
    assert gone(place)


@apart
def test_a_mode_that_lets_others_write(file: Path, place: Path) -> None:
    file.chmod(0o777)
    assert os.stat(store.stage(str(file), str(place)).link).st_mode & 0o7777 == 0o755


@apart
def test_a_file_of_another_user(file: Path, place: Path) -> None:
    """Its copy is ours, if all may execute it."""
    if os.geteuid():
        return  # only root has files of others
    for mode, code in ((0o755, ""), *((mode, "copy.owner-may-change") for mode in (0o750, 0o751, 0o754))):
        os.chown(file, 1, 2)
        file.chmod(mode)
        if code:
            with refused(code):
                store.stage(str(file), str(place))
        else:
            info = os.stat(store.stage(str(file), str(place)).link)
            assert (info.st_uid, info.st_gid) == (0, 2)
    os.chown(file, 0, 0)
    link = store.stage(str(file), str(place)).link
    os.chown(link, 1, 0)
    assert store.stage(str(file), str(place)).state == store.MADE


@pytest.mark.parametrize("private", [False, True])
def test_a_copy_is_fixed_once_by_each_version(tmp_path: Path, private: bool) -> None:
    try:
        (tmp_path / "marked").touch()
        os.setxattr(tmp_path / "marked", "trusted.marked", b"")
    except OSError as error:
        pytest.skip(f"only root can mark a copy: {error}")

    @apart
    def test(file: Path, place: Path) -> None:
        unaligned = program(file.with_name("unaligned"), at=0x1000)

        def stage() -> store.Staged:
            if not private:
                return store.stage(str(unaligned), str(place), fix=True)
            with using(os.open(unaligned, os.O_RDONLY)) as fd:
                staged, copy = store.stage_privately(fd, str(place), fix=True)
                os.close(copy)
                return staged

        def of(self: copies.Fixes, fd: int, windows: int) -> object:
            found.append(fd)
            return fixed(self, fd, windows)

        found: list[int] = []
        patched = pytest.MonkeyPatch()
        patched.setattr(copies.Fixes, "of", of)
        made = stage()
        before = len(found)
        there = stage()
        assert len(found) == before
        assert (made.state, there.state) == (store.MADE, store.THERE)
        assert (made.windows, there.windows, there.fixed, made.fixed) == (1, 1, True, True)
        patched.setattr(store, "__version__", "0.9")
        assert stage().state == store.THERE
        assert before < len(found)  # it may have fixed it wrongly
        patched.undo()

    fixed = copies.Fixes.of
    test()


@apart
def test_a_private_store(file: Path, place: Path) -> None:
    file.parent.chmod(0o700)
    with using(os.open(file, os.O_RDONLY)) as fd:
        for state in (store.MADE, store.THERE):
            staged, copy = store.stage_privately(fd, str(place), fix=False)
            with using(copy):
                assert staged.state == state
                assert os.pread(copy, 9, M) == b"\xcc" * 9
                assert not os.get_inheritable(copy)
        assert place.stat().st_mode & 0o7777 == 0o700
        place.chmod(0o710)
        with refused("store.readable"):
            store.stage_privately(fd, str(place), fix=False)
        place.chmod(0o700)
        store.drop([], str(place))
        assert gone(place)
        other = program(file.with_name("small"), size=0x1000)
        with using(store.stage_privately(fd, str(place), fix=False)[1]), using(os.open(other, os.O_RDONLY)) as small:
            assert store.stage_privately(small, str(place), fix=False)[1] == -1
        store.drop([], str(place))
        file.chmod(0o4755)
        with refused("copy.privileges"):
            store.stage_privately(fd, str(place), fix=False)
        file.chmod(0o775)  # only we may enter
        _, copy = store.stage_privately(fd, str(place), fix=False)
        os.close(copy)
        _, copy = store.stage_privately(fd, str(place), fix=False)
        os.close(copy)


@apart
def test_places_where_no_store_can_be(file: Path, place: Path) -> None:
    place.mkdir()
    (place / "file").touch()
    (place / "directory").mkdir()
    with refused("store.not-empty"):
        store.stage(str(file), str(place))
    assert sorted(os.listdir(place)) == ["directory", "file"]
    (place / "file").unlink()
    (place / "link").symlink_to("/")
    with refused("store.not-empty"):
        store.stage(str(file), str(place))
    (place / "link").unlink()
    (place / "path/usr/bin/program").mkdir(parents=True)  # as a container engine does it
    assert store.stage(str(file), str(place)).state == store.MADE
    store.drop([], str(place))
    for options in ("never", "always"):
        place.mkdir()
        namespace.mount_tmpfs(str(place), "mode=0755", huge=options == "always")
        if options == "never":
            with refused("store.other-mount"):
                store.stage(str(file), str(place))
        else:
            place.chmod(0o777)
            with refused("file.others-may-write"):
                store.stage(str(file), str(place))
        namespace.detach(str(place))
        place.rmdir()
    with refused("store.failed"):
        store.stage(str(file), str(file.parent / "no/store"))
    place.symlink_to(file.parent)
    for _ in range(2):
        with refused("store.failed"):
            store.stage(str(file), str(place))
        place.unlink(missing_ok=True)
        os.mkfifo(place)  # which is not opened


@apart
def test_a_store_of_another_program_stays(file: Path, place: Path) -> None:
    place.mkdir()
    namespace._mount("mine", str(place), "tmpfs", 0, "huge=always,mode=0755")
    (place / "data").touch()
    store.stage(str(file), str(place))
    store.drop([], str(place))
    assert (os.path.ismount(place), names(place)) == (True, ["data"])
    (place / "data").unlink()
    store.stage(str(file), str(place))
    assert not os.statvfs(place).f_flag & os.ST_NOSUID
    store.drop([], str(place))
    assert os.path.ismount(place)


@apart
def test_a_mount_of_version_1_0_0_confers_nothing_any_more(file: Path, place: Path) -> None:
    place.mkdir()
    namespace.mount_tmpfs(str(place), "mode=0755")
    assert not os.statvfs(place).f_flag & os.ST_NOSUID
    store.stage(str(file), str(place))
    assert os.statvfs(place).f_flag & os.ST_NOSUID or os.path.exists("/sys/fs/selinux/enforce")


@apart
def test_what_is_in_the_way_of_a_link(file: Path, place: Path) -> None:
    """An empty directory goes; whatever else is there leaves no copy behind."""
    store.stage(str(file), str(place), owner="a")
    link = Path(f"{place}/path{file}")
    link.mkdir(parents=True)
    assert store.stage(str(file), str(place)).state == store.THERE
    other = program(file.with_name("other"))
    (place / f"path{other}/full").mkdir(parents=True)
    with refused("store.failed"):
        store.stage(str(other), str(place))
    assert len(names(place)) == 1
    assert not os.path.lexists(place / "link")


@apart
def test_one_at_a_time(file: Path, place: Path) -> None:
    store.stage(str(file), str(place))
    regular.LOCK_SECONDS = 0.05
    assert (place / "lock").stat().st_mode & 0o777 == 0o600
    with (place / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with refused("store.locked"):
            store.refresh(str(place))
        link = Path(f"{place}/path{file}")
        os.utime(file)
        assert link.is_symlink()
        with refused("store.locked"):
            store.stage(str(file), str(place))
        assert not link.is_symlink()  # it may lead to an old copy
    store.refresh(str(place))
    store.drop([], str(place))
    place.mkdir()
    with using(os.open(place, os.O_RDONLY)) as held_directory:
        fcntl.flock(held_directory, fcntl.LOCK_EX)
        with refused("store.locked"):
            store.stage(str(file), str(place))
        assert not os.path.ismount(place)


def test_a_directory_that_is_another_by_now(tmp_path: Path) -> None:
    place = tmp_path / "store"
    place.mkdir()
    with using(os.open(place, os.O_RDONLY)) as fd:
        assert store_mount.leads_to(str(place), fd)
        assert not store_mount.is_mounted(fd)
        place.rmdir()
        assert not store_mount.leads_to(str(place), fd)
        place.mkdir()
        assert not store_mount.leads_to(str(place), fd)
        (tmp_path / "link").symlink_to(place)
    with using(os.open(place, os.O_RDONLY)) as fd:
        assert not store_mount.leads_to(str(tmp_path / "link"), fd)
    with using(os.open("/proc", os.O_RDONLY)) as fd:
        assert store_mount.is_mounted(fd)


def test_what_cannot_be_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of it; and nothing is said of a directory that another process has removed."""

    def fail(_target: str, _options: str) -> None:
        raise RefusalError("process.no-mount-point")

    monkeypatch.setattr(namespace, "mount_tmpfs", fail)
    place, other = tmp_path / "store", tmp_path / "other"
    for path in (place, other):
        path.mkdir(0o700)
    with using(os.open(other, os.O_RDONLY)) as fd:
        store_mount._mount(fd, str(place), private=True)
        assert place.exists()
    with using(os.open(place, os.O_RDONLY)) as fd, pytest.raises(RefusalError):
        store_mount._mount(fd, str(place), private=True)
    assert not place.exists()


def test_no_link_is_opened_for_a_copy(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("text")
    (tmp_path / "link").symlink_to("copy")
    with using(os.open(tmp_path, os.O_RDONLY)) as fd:
        os.close(store._open(fd, "copy"))
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            store._open(fd, "link")


def test_what_is_no_file(tmp_path: Path) -> None:
    with refused("file.special"), using(os.open("/dev/null", os.O_RDONLY)) as fd:
        store.stage_privately(fd, str(tmp_path / "store"), fix=False)


@apart
def test_a_copy_that_gets_no_name(file: Path, place: Path) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "")

    pytest.MonkeyPatch().setattr(os, "link", link)
    with pytest.raises(HugealignError) as error:
        store.stage(str(file), str(place))
    assert error.value.diagnosis == Diagnosis("copy.failed", "", {"error": "ENOSPC"})  # type: ignore[attr-defined]
    assert gone(place)
