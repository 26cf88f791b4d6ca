"""What a new file in the place of another one gets, and when."""

import os
import stat
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign.io import copying, replacing
from hugealign.io.copying import ReplaceError
from hugealign.io.descriptors import using
from hugealign.io.regular import named


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


def test_a_new_file_confers_nothing(file: Path, tmp_path: Path) -> None:
    with using(os.open(file, os.O_RDONLY)) as source, replacing.created(str(tmp_path / "new"), source) as new:
        os.write(new, b"text")
    assert mode(tmp_path / "new") == 0o755
    replacing.write(str(file), b"other")
    assert mode(file) == 0o755
