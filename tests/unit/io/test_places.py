"""Names below an open directory: whatever becomes a link leads nowhere else."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign.io import places
from hugealign.io.descriptors import using
from hugealign.io.places import Directory, Place
from hugealign.io.regular import locked, named, opened


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("named", "elsewhere"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/file").write_text(name)
    return tmp_path


def test_a_directory_that_becomes_a_link_is_not_followed(tree: Path) -> None:
    place = Place(Directory(str(tree / "named")), "sub/file", "shown")
    with opened(place) as fd:
        assert os.read(fd, 99) == b"named"
    assert place.real() == str(tree / "named/sub/file")
    (tree / "named/sub").rename(tree / "named/was")
    (tree / "named/sub").symlink_to(tree / "elsewhere/sub")
    for open_it in (opened, locked):
        with pytest.raises(HugealignError), open_it(place):
            pass
    with pytest.raises(NotADirectoryError):
        place.directory()


def test_a_file_that_becomes_a_link_is_not_followed(tree: Path) -> None:
    place = Place(Directory(str(tree / "named")), "sub/file", "shown")
    (tree / "named/sub/file").unlink()
    (tree / "named/sub/file").symlink_to(tree / "elsewhere/sub/file")
    with pytest.raises(HugealignError) as error, opened(place):
        pass
    assert error.value.code == "file.special"


def test_the_directory_at_the_top_may_be_behind_a_link_and_move(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "named")
    place = Place(Directory(str(tree / "link")), "sub/file", "shown")
    (tree / "link").unlink()
    (tree / "link").symlink_to(tree / "elsewhere")
    (tree / "named").rename(tree / "moved")
    with opened(place) as fd:
        assert os.read(fd, 99) == b"named"


def test_nothing_leads_up(tree: Path) -> None:
    for path in ("..", "sub/../../elsewhere/sub/file"):
        with using(os.open(tree / "named", os.O_PATH)) as top, pytest.raises(OSError, match="cross-device") as error:
            places.beneath(top, path, os.O_PATH)
        assert error.value.errno == errno.EXDEV


def test_what_is_named_is_found_once_through_links(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "named/sub")
    place = named(str(tree / "link/file"))
    (tree / "link").unlink()
    (tree / "link").symlink_to(tree / "elsewhere/sub")
    assert (place.path, place.real()) == (str(tree / "link/file"), str(tree / "named/sub/file"))
    with opened(place) as fd:
        assert os.read(fd, 99) == b"named"


def test_a_link_of_proc_is_not_taken_for_its_text(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc/PID/root, whose text is / whatever the other process has there."""
    real: Callable[..., str] = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: real(path).replace("elsewhere", "named"))
    with pytest.raises(HugealignError) as error:
        named(str(tree / "elsewhere/sub/file"))
    assert error.value.code == "file.changed"


def test_descriptors_are_closed(tree: Path) -> None:
    before = os.listdir("/proc/self/fd")
    place = Place(Directory(str(tree / "named")), "sub/file", "shown")
    place.status()
    place.real()
    with pytest.raises(FileNotFoundError):
        Place(place.top, "sub/none/file", "").status()
    del place
    assert set(os.listdir("/proc/self/fd")) <= set(before)  # those of other tests may go meanwhile
